"""Products with a constant in shifts and additions: multiply_by_doubling. The RTL's ALU does not multiply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from autosched.ir.expr import BinOp, BufferLoad, Expr, binary, const, int_value, intrin
from autosched.ir.functor import rewrite
from autosched.ir.patterns import has_loads
from autosched.ir.print_expr import expr_text
from autosched.ir.region import with_access
from autosched.ir.scopes import WORD
from autosched.ir.stmt import BlockRealize, Buffer, BufferStore, Stmt, seq
from autosched.schedule.analysis.dependence import scope_of
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.refusal import Refusal
from autosched.schedule.kit.state import State
from autosched.schedule.primitives.reductions.plain import plain_store, top_of
from autosched.schedule.primitives.reductions.stages import part_at, part_shape, require_inside, stage_of, stores_plainly
from autosched.schedule.primitives.reductions.zero_terms import Replaced

NEGATIVE = 5  # additions that the negative of any int32 takes, by doubling


class Doubling(ScheduleBase):
    """The primitive that multiplies without a multiplication."""

    @primitive
    def multiply_by_doubling(self, block: BlockRV | str, path: Sequence[int] = (), negative: int = NEGATIVE) -> None:
        """Writes a product of an int32 element with a constant as shifts and additions, exact modulo 2**32.

        The digits of the constant from the highest on: each step shifts what there is and adds the element, or what a stage
        has made of it where that takes fewer additions (``x * 15`` is ``y + (y << 2)`` of ``y = x + (x << 1)``). The element is
        taken away where that saves more additions than its negative costs: for digits of -1, and for negative constants.

        Args:
            block: handle or name of a block that stores one value; alone in its loops where a stage is to be made.
            path: the operand to take at each step from the stored value down to the product.
            negative: how many additions the element's negative costs.

        Raises:
            ScheduleError: no product there of an int32 element with a constant; a constant that one shift multiplies by.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.shift_right(A[vi] * 77, 9)

        After ``sch.multiply_by_doubling("C", [0])``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = T.shift_right(T.shift_left(T.shift_left(T.shift_left(A[vi], 3) + A[vi], 1) + A[vi], 2) + A[vi], 9)
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        try:
            body = _multiplied(state, realize, [int(p) for p in path], negative)
        except Refusal as r:
            self.refuse(r.reason, r.marks, r.hint, state, code=r.code)
        self.commit(state, body)


@dataclass(frozen=True)
class Digit:
    """One step of a product: what there is, shifted left, and something added.

    Args:
        shift: by how much.
        sign: -1 where the element is taken away, 0 where nothing is added.
        own: whether what there is is added, and not the element: then it is a stage.
    """

    shift: int
    sign: int = 1
    own: bool = False


@dataclass(frozen=True)
class Recoding:
    """How a product with a constant is made.

    Args:
        negative: whether it starts with the element's negative.
        digits: steps from the element on.
    """

    negative: bool
    digits: tuple[Digit, ...]

    @property
    def takes_away(self) -> bool:
        """Whether it needs the element's negative."""
        return self.negative or any(d.sign < 0 for d in self.digits)


def recoded(constant: int, stages: bool = True, negative: int = NEGATIVE) -> Recoding:
    """The steps of a product with a constant, modulo 2**32, of as few additions as are found.

    Args:
        constant: of int32, and not zero.
        stages: whether parts may be made by stages of their own.
        negative: how many additions the element's negative costs.
    """
    found = [Recoding(False, _digits(constant % (1 << WORD), stages))]
    below = constant < 0
    found.append(Recoding(below, tuple([replace(d, sign=-d.sign) if below and not d.own else d
                                        for d in _digits(abs(constant), stages)])))
    found.append(_signed(constant))
    return min(found, key=lambda r: additions(r.digits) + negative * r.takes_away)


@cache
def _digits(constant: int, stages: bool) -> tuple[Digit, ...]:
    """Steps without a negative: binary digits, and factors of ``2**k + 1`` where these save additions."""
    zeros = (constant & -constant).bit_length() - 1
    if zeros:
        return (*_digits(constant >> zeros, stages), Digit(zeros, 0))
    if constant == 1:
        return ()
    best = _joined(_digits(constant - 1, stages), Digit(0))
    for k in range(1, constant.bit_length()) if stages else ():
        if constant % ((1 << k) + 1) == 0:
            other = (*_digits(constant // ((1 << k) + 1), stages), Digit(k, 1, True))
            best = min(best, other, key=additions)
    return best


def additions(digits: tuple[Digit, ...]) -> int:
    """How many tensors some steps add or take away.

    Args:
        digits: the steps.
    """
    return sum(d.sign != 0 for d in digits)


def _joined(digits: tuple[Digit, ...], last: Digit) -> tuple[Digit, ...]:
    """Steps and one more, which takes in a shift before it."""
    if digits and digits[-1].sign == 0:
        return (*digits[:-1], replace(last, shift=last.shift + digits[-1].shift))
    return (*digits, last)


def _signed(constant: int) -> Recoding:
    """Digits of 1, 0 and -1, no two in a row of them other than zero."""
    signs: list[int] = []
    rest = constant
    while rest:
        signs.append(0 if rest % 2 == 0 else 2 - rest % 4)
        rest = (rest - signs[-1]) // 2
    top = signs.pop()
    digits: tuple[Digit, ...] = ()
    for sign in reversed(signs):
        digits = _joined(_joined(digits, Digit(1, 0)), Digit(0, sign))
    # What a constant of 2**31 and a digit below has above the word wraps around.
    return Recoding(top < 0, digits)


def constant_factor(value: Expr) -> tuple[Expr, int] | None:
    """What is multiplied and by which constant, where one shift does not do; None for any other value.

    Args:
        value: any expression.
    """
    if not (isinstance(value, BinOp) and value.op == "*" and value.dtype == "int32"):
        return None
    x, by = (value.b, int_value(value.a)) if int_value(value.b) is None else (value.a, int_value(value.b))
    return None if by is None or not has_loads(x) or (by > 0 and by & (by - 1) == 0) else (x, by)


def _multiplied(state: State, realize: BlockRealize, path: list[int], negative: int) -> Stmt:
    block = realize.block
    store = plain_store(block)
    product = part_at(block, store.value, path)
    found = constant_factor(product)
    if found is None or found[1] == 0:
        raise Refusal(f"{expr_text(product)} in block {block.name} is no product of an int32 value with a constant that "
                      "takes more than one shift", [block.ident], code="form")
    load, by = found
    if not isinstance(load, BufferLoad):
        raise Refusal(f"{expr_text(load)} in block {block.name} would be computed at every step", [block.ident],
                      "decompose_value makes a stage of it", code="form")
    recoding = recoded(by, stores_plainly(block), negative)
    scope = scope_of(state, block)
    blocks, buffers = set(state.block_names()), state.buffer_names(scope)
    made: list[tuple[Stmt, Buffer]] = []
    value: Expr = binary("-", const(0), load) if recoding.negative else load
    times = -1 if recoding.negative else 1
    for digit in recoding.digits:
        added: Expr = load
        if digit.own:
            if not isinstance(value, BufferLoad):
                suffix = f"by_{abs(times)}"
                buffer = Buffer(fresh_name(f"{store.buffer.name}_{suffix}", buffers), part_shape(store), "int32")
                stage, nest = stage_of(block, fresh_name(f"{block.name}_{suffix}", blocks), buffer, value)
                require_inside(state, realize, path, stage)
                made.append((nest, buffer))
                value = BufferLoad(buffer, store.indices, "int32")
            added = value
        value = intrin("shift_left", value, digit.shift) if digit.shift else value
        if digit.sign:
            value = binary("+" if digit.sign > 0 else "-", value, added)
        times = (times << digit.shift) + (digit.sign if not digit.own else times)
    body = BufferStore(store.buffer, store.indices, Replaced(product, value).visit_expr(store.value))
    top = top_of(state, realize) if made else realize
    changed = rewrite(top, realize, replace(realize, block=with_access(replace(block, body=body))))
    allocs = {id(scope): (*scope.alloc_buffers, *[b for _, b in made])} if made else {}
    return state.rewrite({id(top): seq(*[nest for nest, _ in made], changed)}, allocs)


__all__ = ["NEGATIVE", "Digit", "Doubling", "Recoding", "additions", "constant_factor", "recoded"]
