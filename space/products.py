"""What a program multiplies that the machine does not, in the words of the program, and what to write instead."""

from __future__ import annotations

from autosched.errors import SpaceError, together
from autosched.ir.expr import COMPARISON, BinOp, BufferLoad, Call, Cast, Expr, int_value, is_float, is_int
from autosched.ir.functor import walk, walk_expr
from autosched.ir.host import is_move
from autosched.ir.patterns import has_loads, loads_in, operands
from autosched.ir.print_expr import expr_text
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, PrimFunc
from autosched.lower.classify import SHIFTS, no_shift
from autosched.schedule.primitives.reductions.planes import WIDE

LONG = 80  # characters of a factor that is written out


def why_no_product(func: PrimFunc) -> str | None:
    """Why the machine does not compute a product of a program, and what to write instead; None where it has all of them.

    Args:
        func: the program as the user wrote it.
    """
    for block in (s.block for s in walk(func.body) if isinstance(s, BlockRealize)):
        for value in _values(block):
            for e in walk_expr(value):
                if not (isinstance(e, BinOp) and e.op == "*" and has_loads(e.a) and has_loads(e.b)):
                    continue
                # Of sums of products a constant that is added to a factor is split off.
                factors = (e.a, e.b) if block.init is None else (_without_offset(e.a), _without_offset(e.b))
                instead = _instead(*factors)
                if instead is not None:
                    return (f"block {block.name} multiplies {_said(e.a)} by {_said(e.b)}; the machine multiplies int8 "
                            f"elements: {instead}")
                if block.init is not None and value is store_value(block) and e not in operands(value, "+"):
                    return (f"block {block.name} sums up what it makes of the product of {_said(e.a)} and {_said(e.b)}; the "
                            "machine sums up products, or what is stored: store it as int8 in a block before, and sum that up")
    return None


def why_no_weight(func: PrimFunc, apart: bool = False) -> str | None:
    """Which product has two factors that the program computes itself, and what to write instead; None where there is none.

    What only moves elements of a parameter is a parameter's still.

    Args:
        func: the program as the user wrote it.
        apart: of products of each element of one tensor with each of another, in place of sums of products.
    """
    made: set[Buffer] = set()
    for block in (s.block for s in walk(func.body) if isinstance(s, BlockRealize)):
        store = block.body
        if not isinstance(store, BufferStore):
            continue
        if block.init is not None or not is_move(store.value) or any(x.buffer in made for x in loads_in(store.value)):
            made.add(store.buffer)
        for e in walk_expr(store.value) if apart == (block.init is None) else ():
            sides = [_element(x) for x in (e.a, e.b)] if isinstance(e, BinOp) and e.op == "*" else []
            if sides and all(x is not None and x.buffer in made for x in sides):
                one, other = [x.buffer.name for x in sides if x is not None]
                if apart and any(set(x.indices) >= set(store.indices) for x in sides if x is not None):
                    continue
                if apart:
                    return (f"block {block.name} multiplies each element of {one} by each of {other}, and the program makes "
                            "both; the machine sums up over vectors: give one of the two to the program as a parameter, and make "
                            "it by a program of its own")
                return (f"block {block.name} multiplies {one} by {other}, and the program makes both; what makes them stores no "
                        "vectors that can be the rows of a weight here: give one of the two to the program as a parameter, and "
                        "make it by a program of its own")
    return None


def why_no_type(func: PrimFunc) -> str | None:
    """Of which tensor of a program the type is in the way, and what to write instead; None where all are of the machine's.

    Args:
        func: the program as the user wrote it.
    """
    blocks = [s.block for s in walk(func.body) if isinstance(s, BlockRealize)]
    for block in blocks:
        for value in _values(block) if block.init is not None else []:
            for e in walk_expr(value):
                sides = (e.a, e.b) if isinstance(e, BinOp) and e.op == "*" else ()
                loads = [x for side in sides for x in loads_in(side)]
                given = [x for x in loads if x.buffer in func.buffers and is_int(x.dtype)]
                odd = next((x for x in given if x.dtype not in ("int8", "int32")), None)
                if odd is not None:
                    less = ": less 128, where a zero point is taken away, which is then less by 128, too" * (odd.dtype == "uint8")
                    return (f"block {block.name} multiplies elements of {odd.buffer.name}, which is {odd.dtype}; the machine "
                            f"multiplies int8 elements: give the program {odd.buffer.name} as int8{less}")
    for block in blocks:
        store = block.body
        if isinstance(store, BufferStore) and store.buffer in func.buffers and store.buffer.dtype not in ("int8", *WIDE):
            return (f"{store.buffer.name} is a result and {store.buffer.dtype}; the machine computes integers of up to 32 bits: "
                    f"cast what block {block.name!r} writes to int32")
        stored = None if block.init is not None else store_value(block)
        if isinstance(store, BufferStore) and store.buffer in func.buffers and isinstance(stored, Cast):
            source, made = stored.value.dtype, store.buffer.dtype
            if made in WIDE and is_int(source) and "int32" not in (source, made):
                return (f"block {block.name!r} converts {source} to {made}; the machine makes the bytes of int32 values: convert "
                        f"to int32 before, .astype(\"int32\").astype(\"{made}\")")
    return None


def why_no_operation(func: PrimFunc) -> SpaceError | None:
    """Which operation on integers the ALU has in no form of a program, and what to write instead; None where it has all of them.

    Args:
        func: the program as the user wrote it.
    """
    for block in (s.block for s in walk(func.body) if isinstance(s, BlockRealize)):
        for e in (e for value in _values(block) for e in walk_expr(value)):
            # Of a result, or of a tensor, that is no integer its type is what is in the way.
            inside = is_float(e.dtype) and not (isinstance(e, Cast) and e is store_value(block))
            if inside and has_loads(e) and all(is_int(x.dtype) for x in loads_in(e)):
                return SpaceError(f"block {block.name!r} computes in {e.dtype}; the machine computes integers: write a factor "
                                  "such as 0.3 as * 77 >> 8, in int32", "type")
            if isinstance(e, Call) and e.op in ("shift_left", "shift_right"):
                count = int_value(e.args[1])
                if count is not None and count not in SHIFTS:
                    return SpaceError(no_shift(block.name, count), "machine")
    return None


def why_no_operand(func: PrimFunc) -> str | None:
    """Which operand of the ALU is of a type that neither it nor the GEMM takes in, and what to write instead; None where none is.

    Args:
        func: the program as the user wrote it.
    """
    for block in (s.block for s in walk(func.body) if isinstance(s, BlockRealize)):
        for load in (x for value in _values(block) for x in loads_in(value)):
            if load.buffer in func.buffers and load.dtype not in ("int8", "int32"):
                return (f"block {block.name!r} reads {load.buffer.name} as {load.dtype}; the ALU takes int32, and int8 by the "
                        f"GEMM: give the program {load.buffer.name} as int32")
        for e in (e for value in _values(block) for e in walk_expr(value)):
            if isinstance(e, BinOp) and e.op in COMPARISON and has_loads(e):
                narrow = next((x for x in walk_expr(e) if isinstance(x, BinOp) and x.dtype == "int8" and has_loads(x)), None)
                if narrow is not None:
                    return (f"block {block.name!r} compares {expr_text(narrow)}, which wraps around in int8; the ALU computes in "
                            'int32: write .astype("int32") behind what it is computed of')
                return (f"block {block.name!r} compares by {expr_text(e)}; the ALU has no comparison but minimum and maximum: a "
                        "number that is 1 where x > y is T.min(T.max(x - y, 0), 1)")
    return None


def store_value(block: Block) -> Expr | None:
    """What a block stores, of one plain store.

    Args:
        block: any.
    """
    return block.body.value if isinstance(block.body, BufferStore) else None


def _values(block: Block) -> list[Expr]:
    return [s.value for s in (block.init, block.body) if isinstance(s, BufferStore)]


def _instead(a: Expr, b: Expr) -> str | None:
    """What to write instead of a product; None where it is one of two int8 elements."""
    wide = [which for which, x in (("first", a), ("second", b)) if _element(x) is None]
    if not wide:
        return None
    if len(wide) == 2:
        return "store both factors as int8 in blocks before, shifted so that they fit, and multiply what these store"
    return f"store the {wide[0]} factor as int8 in a block before, shifted so that it fits, and multiply what that stores"


def _without_offset(value: Expr) -> Expr:
    """A value without a constant that is added or taken away."""
    return value.a if isinstance(value, BinOp) and value.op in ("+", "-") and int_value(value.b) is not None else value


def _element(value: Expr) -> BufferLoad | None:
    """The int8 element that a value is, converted or not."""
    load = value.value if isinstance(value, Cast) else value
    return load if isinstance(load, BufferLoad) and load.dtype == "int8" else None


def _said(value: Expr) -> str:
    """A factor as it is written; where that is long, what it is made of."""
    element = _element(value)
    text = expr_text(value if element is None else element)
    if len(text) <= LONG:
        return text
    return f"what it makes of {together(sorted({x.buffer.name for x in walk_expr(value) if isinstance(x, BufferLoad)}))}"
