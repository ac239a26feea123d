"""Integers wider than what a machine stores, byte by byte: split_bytes."""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.expr import BufferLoad, Cast, Expr, cast, const, intrin, is_int
from autosched.ir.functor import rewrite
from autosched.ir.region import with_access
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, Stmt, seq
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.minus import known_values
from autosched.schedule.primitives.reductions.plain import plain_store, require_once, top_of
from autosched.schedule.primitives.reductions.stages import part_shape, stage_of, stores_plainly

BYTE = 8  # bits of what is stored
WIDE = {"int16": 2, "int32": 4, "uint8": 1, "uint16": 2, "uint32": 4}  # bytes of what is stored in several, or in another sign


class BytePlanes(ScheduleBase):
    """The primitive that stores an integer in bytes."""

    @primitive
    def split_bytes(self, block: BlockRV | str) -> list[BlockRV]:
        """Stores the bytes of a value in tensors of int8, one for each, and puts the value together of them.

        Bytes that only repeat the sign, as value ranges prove, have no tensor.

        Args:
            block: handle or name of a block that stores one integer of up to 32 bits, converted from int32 or as it is, at its
                plain iterators, alone in its loops.

        Returns:
            The blocks of the bytes, from the lowest on; the block itself puts together what they store.

        Raises:
            ScheduleError: another body, or another type.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.shift_right(A[vi], 16)

        After ``sch.split_bytes("C")``::

            C_0 = T.sblock_alloc_buffer((16,), "int8")
            C_1 = T.sblock_alloc_buffer((16,), "int8")
            for i in range(16):
                with T.sblock("C_0"):
                    vi = T.axis.spatial(16, i)
                    C_0[vi] = T.Cast("int8", T.shift_right(A[vi], 16))
            for i in range(16):
                with T.sblock("C_1"):
                    vi = T.axis.spatial(16, i)
                    C_1[vi] = T.Cast("int8", T.shift_right(T.shift_right(A[vi], 16), 8))
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.bitwise_or(T.bitwise_and(T.Cast("int32", C_0[vi]), 255), T.shift_left(T.Cast("int32", C_1[vi]), 8))
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body, made = _split(state, realize)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)
        return [self.block_rv(b) for b in made]


def wide_value(store: BufferStore) -> Expr | None:
    """The int32 value of a store of a wider integer than int8, or of an unsigned one; None of any other store.

    Args:
        store: of a block.
    """
    value = store.value
    if isinstance(value, Cast) and is_int(value.value.dtype):
        value = value.value
    return value if store.buffer.dtype in WIDE and value.dtype == "int32" else None


def _split(state: State, realize: BlockRealize) -> tuple[Stmt, list[Block]]:
    block = realize.block
    store = plain_store(block, True)
    value = wide_value(store)
    if value is None or not stores_plainly(block):
        raise Refusal(f"block {block.name} stores {store.value.dtype} as {store.buffer.dtype}; what is split into bytes is "
                      "int32, stored at plain iterators, and as another integer than int8",
                      [block.ident], "decompose_value makes an int32 stage of what is converted", code="form")
    require_once(state, realize)
    low, high = known_values(state.func).of(value, {iv.var: iv.dom for iv in block.iter_vars})
    most = WIDE[store.buffer.dtype]
    count = next(n for n in range(1, 5) if n == most or (-(1 << BYTE * n - 1) <= low and high < 1 << BYTE * n - 1))
    scope = scope_of(state, block)
    names, taken = set(state.block_names()), set(state.buffer_names(scope))
    whole: Expr | None = None
    made: list[Block] = []
    nests: list[Stmt] = []
    planes: list[Buffer] = []
    for n in range(count):
        name, held = fresh_name(f"{block.name}_{n}", names), fresh_name(f"{store.buffer.name}_{n}", taken)
        names.add(name)
        taken.add(held)
        planes.append(Buffer(held, part_shape(store), "int8"))
        shifted = intrin("shift_right", value, const(BYTE * n)) if n else value
        byte, nest = stage_of(block, name, planes[-1], cast("int8", shifted))
        made.append(byte)
        nests.append(nest)
        part: Expr = cast("int32", BufferLoad(planes[-1], store.indices, "int8"))
        if n < count - 1:
            part = intrin("bitwise_and", part, const((1 << BYTE) - 1))
        part = intrin("shift_left", part, const(BYTE * n)) if n else part
        whole = part if whole is None else intrin("bitwise_or", whole, part)
    assert whole is not None
    joined = whole if store.buffer.dtype == whole.dtype else cast(store.buffer.dtype, whole)
    rest = with_access(replace(block, body=BufferStore(store.buffer, store.indices, joined)))
    top = top_of(state, realize)
    changed = rewrite(top, realize, replace(realize, block=rest))
    return state.rewrite({id(top): seq(*nests, changed)}, {id(scope): (*scope.alloc_buffers, *planes)}), made
