"""The blocks of an unscheduled program as the analysis of nests sees them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from autosched.errors import SpaceError
from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, Var, int_value
from autosched.ir.functor import expr_children, free_vars, stmt_children, walk, walk_expr
from autosched.ir.host import is_move
from autosched.ir.patterns import choice_of, has_loads, loads_in, update_of
from autosched.ir.stmt import Block, BlockRealize, BufferStore, For, PrimFunc, Stmt
from autosched.target import Target

WRITTEN_OUT = 16  # steps of a reduction with differences, at most, that become stages
LANES = 2  # the last dimensions of every packed tensor: rows of the batch and lanes, or lanes out and in


class BorderError(SpaceError):
    """A window takes in a constant, around a tensor, that no load pads with and that cannot be left out."""


class NotPackedError(SpaceError):
    """A stage is not element by element in the machine's layout; for a program in a layout of its own that says little."""


@dataclass(frozen=True)
class Site:
    """A block with its loops.

    Args:
        block: it.
        realize: where it stands.
        loops: around it, outermost first.
    """

    block: Block
    realize: BlockRealize
    loops: tuple[For, ...]

    @property
    def store(self) -> BufferStore:
        """Its only statement."""
        assert isinstance(self.block.body, BufferStore)
        return self.block.body

    @property
    def steps(self) -> int:
        """Iterations of the block."""
        return prod(int_value(iv.dom.extent) or 1 for iv in self.block.iter_vars)

    @property
    def stored(self) -> int:
        """Elements that the block stores."""
        return prod(int_value(iv.dom.extent) or 1 for iv in self.block.iter_vars if iv.kind == "spatial")


def sites_of(func: PrimFunc) -> list[Site]:
    """The blocks below the root, in program order.

    Raises:
        SpaceError: a block that holds others, or is not one store.
    """
    found: list[Site] = []

    def visit(stmt: Stmt, loops: tuple[For, ...]) -> None:
        if isinstance(stmt, BlockRealize) and stmt.block.name != "root":
            if any(isinstance(s, BlockRealize) for s in walk(stmt.block.body)):
                raise SpaceError(f"block {stmt.block.name!r} contains blocks; a space starts from an unscheduled program", "form")
            if not isinstance(stmt.block.body, BufferStore):
                raise SpaceError(
                    f"block {stmt.block.name!r} is not a single store; a space cannot tile it: give each tensor that it stores a "
                    "block, with what a sum begins with in T.init() and conditions as T.if_then_else", "form")
            found.append(Site(stmt.block, stmt, loops))
            return
        if isinstance(stmt, BufferStore):
            raise SpaceError(
                f"{stmt.buffer.name} is stored outside of a block; a space tiles blocks: put it into one, with an iterator for "
                f"each loop, as in with T.block({stmt.buffer.name!r}): v = T.axis.spatial(16, i)", "form")
        for child in stmt_children(stmt):
            visit(child, (*loops, stmt) if isinstance(stmt, For) else loops)

    visit(func.body, ())
    return found


def match_gemm(block: Block, target: Target) -> tuple[BufferLoad, BufferLoad] | None:
    """The (inp, wgt) operands where ``block`` is the target's GEMM on its innermost lanes, else None.

    The form is ``C[.., i, j] += cast(A[.., i, k]) * cast(B[.., j, k])`` with i, j, k of the intrinsic's extents.
    """
    body = block.body
    if block.init is None or not isinstance(body, BufferStore) or len(body.indices) < 2:
        return None
    value = body.value
    if not (isinstance(value, BinOp) and value.op == "+"):
        return None
    own, product = value.a, value.b
    if not (isinstance(own, BufferLoad) and own.buffer is body.buffer and own.indices == body.indices):
        own, product = product, own
    if not (isinstance(own, BufferLoad) and own.buffer is body.buffer and own.indices == body.indices):
        return None
    if not (isinstance(product, BinOp) and product.op == "*"):
        return None
    loads = [x.value if isinstance(x, Cast) else x for x in (product.a, product.b)]
    extents = {iv.var: int_value(iv.dom.extent) for iv in block.iter_vars}
    kinds = {iv.var: iv.kind for iv in block.iter_vars}
    i, j = body.indices[-2:]
    config = target.config
    for inp, wgt in (loads, loads[::-1]):
        if not (isinstance(inp, BufferLoad) and isinstance(wgt, BufferLoad)):
            return None
        k = inp.indices[-1]
        if not (isinstance(j, Var) and isinstance(k, Var) and kinds.get(k) == "reduce"):
            continue
        # A row that is the only one may be written as index 0.
        rows = extents.get(i) if isinstance(i, Var) else 1 if int_value(i) == 0 else None
        lanes = (rows, extents.get(j), extents.get(k))
        if lanes != (config.batch, config.block_out, config.block_in):
            continue
        if inp.indices[-2:] == (i, k) and wgt.indices[-2:] == (j, k) and inp.dtype == wgt.dtype == "int8":
            return inp, wgt
    return None


def alu_ops(value: Expr) -> tuple[int, int]:
    """(immediate, tensor) ALU operations that an element of an expression costs at least.

    Not counted is what no instruction is needed for: arithmetic of indices, operations on constants alone, and those that
    change nothing (a shift by 0, an addition of 0, a product with 1).
    """
    imm = tensor = 0

    def visit(node: Expr) -> bool:
        """Counts what is below; whether the node depends on a tensor."""
        nonlocal imm, tensor
        if isinstance(node, BufferLoad):
            return True
        parts = expr_children(node)
        loaded = [visit(x) for x in parts]
        if isinstance(node, BinOp) or (isinstance(node, Call) and node.op in ("shift_right", "shift_left")):
            op = node.op
            constants = [int_value(x) for x in parts]
            neutral = 1 if op in ("*", "//") else 0
            if all(loaded):
                tensor += 1
            elif any(loaded) and not (neutral in constants and op not in ("min", "max")):
                imm += 1
        return any(loaded)

    visit(value)
    return imm, tensor


def heads_of(value: Expr) -> list[list[BufferLoad]]:
    """Of every chain of operations that a value is made by, what it may begin with: one of two where these can change places.

    A chain works in one place; an operation on two of them is part of either.
    """
    value = value.value if isinstance(value, Cast) else value
    if isinstance(value, BufferLoad):
        return [[value]]
    found = []
    for e in walk_expr(value):
        if not (isinstance(e, BinOp) or (isinstance(e, Call) and e.op in ("shift_right", "shift_left"))) or not has_loads(e):
            continue
        sides = [x.value if isinstance(x, Cast) else x for x in expr_children(e)]
        if not any(_works(x) for x in sides):
            heads = sides if e.op in ("+", "*", "min", "max") else sides[:1]
            found.append([x for x in heads if isinstance(x, BufferLoad)])
    return found


def aside(value: Expr) -> int:
    """How many places besides its own a value needs while it is worked out, at most.

    One for every operation whose second side is an operation as well, where the sides cannot change places or both are. And one
    where what then is left reads an element twice, as ``a + (a << 1)`` does and ``(a >> 1) + (a >> 2)`` does not: it cannot work
    in that one's place.
    """
    loads = _in_line(value)
    return int(len(loads) > len(set(loads))) + _second_chains(value)


def ahead(site: Site) -> int:
    """How many values of its own an ALU reduction works out ahead of every step, each in a place for each step; else 0."""
    term = term_of(site) if site.block.init is not None else None
    choice = None if term is None else choice_of(term)
    term = term if choice is None else choice[1]
    return 0 if term is None or not _works(term) else 1 + _second_chains(term)


def _second_chains(value: Expr) -> int:
    """Operations whose second side is one as well, where the sides cannot change places or both are."""
    return sum(_apart(e) for e in walk_expr(value))


def _apart(e: Expr) -> bool:
    """Whether the second side of an operation is worked out ahead of it, in a place of its own."""
    return isinstance(e, BinOp) and _works(e.b) and (e.op == "-" or _works(e.a))


def _in_line(value: Expr) -> list[BufferLoad]:
    """What a value loads but for what is worked out ahead of it, in places of their own."""
    if isinstance(value, BufferLoad):
        return [value]
    if isinstance(value, BinOp):
        return [*_in_line(value.a), *([] if _apart(value) else _in_line(value.b))]
    return [load for child in expr_children(value) for load in _in_line(child)]


def _works(e: Expr) -> bool:
    """Whether the ALU makes a value, and does not find it."""
    e = e.value if isinstance(e, Cast) else e
    return isinstance(e, BinOp | Call) and has_loads(e)


def loads_of(site: Site) -> list[BufferLoad]:
    """What a block's value loads of other buffers."""
    return [e for e in walk_expr(site.store.value) if isinstance(e, BufferLoad) and e.buffer is not site.store.buffer]


def starts_of(site: Site) -> list[BufferLoad]:
    """What the initial value of a sum loads."""
    if not isinstance(site.block.init, BufferStore):
        return []
    return loads_in(site.block.init.value)


def reads_of(site: Site) -> list[BufferLoad]:
    """All that a block loads of other buffers, the initial value of a sum last."""
    return [*loads_of(site), *starts_of(site)]


def is_copy(site: Site, matches: dict[str, tuple[BufferLoad, BufferLoad]]) -> bool:
    """Whether a block only moves (and pads with zeros) a DRAM tensor into the operand of the GEMM."""
    operands = {x.buffer for pair in matches.values() for x in pair}
    if site.store.buffer not in operands:
        return False
    choice = choice_of(site.store.value)
    # A load brings whole elements, or zeros in place of them.
    if (choice is not None and int_value(choice[2]) != 0) or cuts_inside(site.store):
        return False
    moved = site.store.value if choice is None else choice[1]
    return isinstance(moved, BufferLoad) and moved.indices[-1] == site.store.indices[-1]


def cuts_inside(store: BufferStore) -> bool:
    """Whether a condition lets some lanes of an element be stored as they are, and not the others, or lanes come from several.

    Args:
        store: of a block, in elements of the machine.
    """
    choice, lanes = choice_of(store.value), free_vars(store.indices[-1])
    if choice is not None and any(v in lanes for v in free_vars(choice[0])):
        return True
    apart = [x for x in loads_in(store.value) if x.indices[-1] == store.indices[-1]]  # in other orders lanes are no load's
    return any(v in lanes for x in apart for i in x.indices[:-1] for v in free_vars(i))


def factor_of(anchor: Site) -> BufferLoad:
    """The int8 operand of a sum of products that comes first."""
    return next(e for e in walk_expr(anchor.store.value) if isinstance(e, BufferLoad) and e.dtype == "int8")


def term_of(site: Site) -> Expr | None:
    """What a reduction of the ALU takes in at each step (``C = C op term``, ``op`` one of +, min, max); None for any other."""
    update = update_of(site.store)
    return None if update is None else update[1]


def is_guarded(value: Expr | None) -> bool:
    """Whether a value is a constant where a condition does not hold."""
    return isinstance(value, Call) and value.op == "if_then_else" and int_value(value.args[2]) is not None

def repeats_of(block: Block) -> dict[int, int]:
    """How often a copy has the elements of its source side by side, by the copy's dimension; of those once alone nothing.

    Args:
        block: any.
    """
    store, found = block.body, dict[int, int]()
    if not isinstance(store, BufferStore) or not is_move(store.value):
        return found
    for index in (i for x in walk_expr(store.value) if isinstance(x, BufferLoad) for i in x.indices):
        for e in walk_expr(index):
            each = int_value(e.b) if isinstance(e, BinOp) and e.op == "//" else None
            own = [d for d, i in enumerate(store.indices) if isinstance(i, Var) and {i} == set(free_vars(e))]
            if each is not None and each > 1 and len(own) == 1:
                found[own[0]] = each
    return found
