"""What kind of site a store is, and its value as an expression that the ALU could compute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autosched.errors import LoweringError
from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Var, bits, wrap
from autosched.ir.patterns import choice_of, has_loads
from autosched.ir.scopes import ACC, DRAM, SRAM_SCOPES
from autosched.lower.affine import Lin, constraints
from autosched.lower.tree import Access, Site

if TYPE_CHECKING:
    from autosched.lower.tree import Builder

SHIFTS = range(32)  # by a constant


def no_shift(block: str, count: int) -> str:
    """What is said of a block that shifts by a constant that the ALU does not."""
    return f"block {block} shifts by {count}; 0 to 31 have a meaning"


def no_difference(block: str) -> str:
    """What is said of a block that takes an element away, of which no step has made a sum."""
    return (f"block {block} subtracts a tensor; the ALU has ADD, MIN, MAX and SHR, and no negation: push_negation, negate_sum "
            "and negate_by_doubling write it as a sum")


@dataclass(frozen=True, eq=False, slots=True)
class Leaf:
    """A load from the accumulator."""

    access: Access


@dataclass(frozen=True, slots=True)
class Imm:
    """A constant."""

    value: int


@dataclass(frozen=True, eq=False, slots=True)
class Op:
    """``a op b`` with op one of add, min, max, shr (a negative amount shifts left), mul."""

    op: str
    a: Node
    b: Node


Node = Leaf | Imm | Op
COMMUTATIVE = frozenset({"add", "min", "max", "mul"})


def leaves(node: Node) -> Iterator[Leaf]:
    """All loads of an expression, left to right."""
    if isinstance(node, Leaf):
        yield node
    elif isinstance(node, Op):
        yield from leaves(node.a)
        yield from leaves(node.b)


def classify(builder: Builder, write: Access, value: Expr, name: str) -> Site:
    """The site of ``write = value``.

    Raises:
        LoweringError: the target has no instruction for it; the message says why and what to schedule instead.
    """
    target, source = write.buffer, value
    if target.scope not in (*SRAM_SCOPES, DRAM):
        known = ", ".join(SRAM_SCOPES)
        raise LoweringError("scope", f"block {name} writes {target.name} in {target.scope}; VTA has {known} and global")
    if target.scope == DRAM:
        return _store(builder, write, source, name)
    loaded = _dram_load(builder, source)
    if loaded is not None:
        load, pads = loaded
        kind = source.dtype if isinstance(source, Cast) else None
        _check_load(target.dtype, load.buffer.dtype, kind, write, load, name)
        return Site("load", name, write, [load], pads=pads)
    if target.scope != ACC:
        if isinstance(value, IntImm) and value.value == 0:
            return Site("load", name, write, [], pads=[Lin(None, -1)])
        raise LoweringError(
            "pattern", f"block {name} computes into {target.name} in {target.scope}; only a load from DRAM can fill it"
        )
    if target.dtype not in ("int32", "int8"):
        raise LoweringError("dtype", f"{target.name} is {target.dtype}; the accumulator holds int32")
    node = convert(builder, value, name)
    if target.dtype == "int8":
        # Lanes stay 32 bits wide; whoever reads an int8 buffer other than STORE extends the sign again.
        node = node.a if isinstance(node, Op) and node.op == "sext8" else node
    return Site("alu", name, write, [leaf.access for leaf in leaves(node)], value=node)


def _check_load(dst: str, src: str, cast: str | None, write: Access, load: Access, name: str) -> None:
    if bits(dst) != bits(src) and not (write.buffer.scope == ACC and dst == "int32" and src == "int8"):
        raise LoweringError(
            "dtype", f"block {name} loads {src} {load.buffer.name} into {dst} {write.buffer.name}; DMA does not convert"
        )
    if cast is not None and cast != dst:
        raise LoweringError("dtype", f"block {name} converts to {cast} while it loads; DMA does not convert")


def _dram_load(builder: Builder, value: Expr) -> tuple[Access, list[Lin]] | None:
    """The DRAM element that ``value`` is, and under which conditions (0 otherwise); None for anything else."""
    if isinstance(value, Cast):
        return _dram_load(builder, value.value)
    if isinstance(value, BufferLoad):
        access = builder.access(value.buffer, value.indices)
        return (access, []) if access.buffer.scope == DRAM else None
    choice = choice_of(value)
    if choice is None:
        return None
    condition, yes, no = choice
    inner = _dram_load(builder, yes)
    if inner is None:
        return None
    if not (isinstance(no, IntImm) and no.value == 0):
        raise LoweringError("pad", f"{inner[0].buffer.name} is padded with something else than 0; the DMA pads with 0")
    return inner[0], [*constraints(condition, builder.env), *inner[1]]


def _store(builder: Builder, write: Access, value: Expr, name: str) -> Site:
    target = write.buffer
    if target.dtype != "int8":
        raise LoweringError(
            "dtype", f"{target.name} is {target.dtype} in DRAM and block {name} writes it; STORE narrows to int8, "
            "so wider results stay in the accumulator",
        )
    source = value.value if isinstance(value, Cast) else value
    if isinstance(source, BufferLoad):
        access = builder.access(source.buffer, source.indices)
        if access.buffer.scope == ACC:
            return Site("store", name, write, [access])
        where = "DRAM" if access.buffer.scope == DRAM else access.buffer.scope
        raise LoweringError("scope", f"block {name} stores from {access.buffer.name} in {where}; STORE reads {ACC} only, "
                            f"so place {access.buffer.name} there with set_scope or cache_read")
    raise LoweringError(
        "pattern", f"block {name} computes while it writes {target.name} to DRAM; compute into {ACC} first "
        f"(cache_write), then store",
    )


_BINARY = {"+": "add", "min": "min", "max": "max"}


def convert(builder: Builder, value: Expr, name: str) -> Node:
    """An expression of accumulator loads and constants in the ALU's operations.

    Raises:
        LoweringError: an operation or an operand that the ALU does not have.
    """
    if isinstance(value, IntImm):
        return Imm(wrap(value.value, "int32"))
    if isinstance(value, BufferLoad):
        access = builder.access(value.buffer, value.indices)
        if access.buffer.scope != ACC:
            hint = "tensorize the block with vta.gemm" if access.buffer.scope in SRAM_SCOPES else "cache_read it there"
            raise LoweringError("scope", f"block {name} computes with {access.buffer.name} in {access.buffer.scope}; "
                                f"the ALU reads {ACC} only: {hint}")
        leaf = Leaf(access)
        return Op("sext8", leaf, Imm(24)) if access.buffer.dtype == "int8" else leaf
    if isinstance(value, Cast):
        inner = convert(builder, value.value, name)
        width, source = bits(value.dtype), bits(value.value.dtype)
        if not value.dtype.startswith("int") or width not in (8, 16, 32):
            raise LoweringError("dtype", f"block {name} converts to {value.dtype}; the ALU computes int32")
        if width >= source:
            return inner
        return _constant(Op("sext8", inner, Imm(32 - width)))
    if isinstance(value, Call) and value.op in ("shift_right", "shift_left"):
        a, b = convert(builder, value.args[0], name), convert(builder, value.args[1], name)
        if isinstance(b, Imm):
            if b.value not in SHIFTS:
                raise LoweringError("alu", no_shift(name, b.value))
            return Op("shr", a, Imm(b.value if value.op == "shift_right" else -b.value))
        if value.op == "shift_left":
            raise LoweringError("alu", f"block {name} shifts left by a tensor; VTA has no negation to express it")
        return Op("shr", a, b)
    if isinstance(value, BinOp) and value.dtype in ("int8", "int16") and value.op in ("min", "max"):
        # Operands come with their signs extended: the smaller or larger of them needs no more.
        return _constant(Op(value.op, convert(builder, value.a, name), convert(builder, value.b, name)))
    if isinstance(value, BinOp) and value.dtype == "int32":
        a, b = convert(builder, value.a, name), convert(builder, value.b, name)
        if value.op in _BINARY:
            return _constant(Op(_BINARY[value.op], a, b))
        if value.op == "-":
            if isinstance(b, Imm):
                return Op("add", a, Imm(wrap(-b.value, "int32")))
            raise LoweringError("alu", no_difference(name))
        if value.op == "*":
            return _product(a, b)
        if value.op == "//" and isinstance(b, Imm) and b.value > 0 and b.value & (b.value - 1) == 0:
            return Op("shr", a, Imm(b.value.bit_length() - 1))
    choice = choice_of(value)
    if choice is not None:
        by = "data" if has_loads(choice[0]) else "the place of an element"
        raise LoweringError("alu", f"block {name} chooses by {by}; the ALU has no choice but minimum and maximum: limits that "
                                   "differ from place to place are tensors, as in T.max(T.min(x, upper[..]), lower[..])")
    from autosched.ir.printer import expr_text

    if isinstance(value, Var):
        raise LoweringError("alu", f"block {name} computes with the number of an iteration, which the ALU does not know: what "
                                   "depends on the place is a tensor, as in x[..] + place[..]")
    divides = isinstance(value, BinOp) and value.op in ("//", "/", "truncdiv", "%", "truncmod")
    instead = "; it shifts instead of dividing: x // 8 is x >> 3, and x // 10 about (x * 205) >> 11" if divides else ""
    raise LoweringError("alu", f"block {name}: the ALU cannot compute {expr_text(value)}{instead}")


def _constant(node: Op) -> Op:
    """A constant goes to the right of a commutative operation."""
    if isinstance(node.a, Imm) and node.op in COMMUTATIVE:
        return Op(node.op, node.b, node.a)
    return node


def _product(a: Node, b: Node) -> Node:
    if isinstance(a, Imm):
        a, b = b, a
    if isinstance(b, Imm) and b.value > 0 and b.value & (b.value - 1) == 0:
        return Op("shr", a, Imm(-(b.value.bit_length() - 1)))
    return Op("mul", a, b)
