"""The machine bound of programs that let elements through as they are: what is another tensor's element costs nothing to make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from masked_programs import best, by_rows, clipped, number, results, summed, wide

from autosched import te
from autosched.ir.stmt import PrimFunc
from autosched.kernel import resolve
from autosched.target import get_target
from space import Space
from space.visits import visits

TARGET = get_target("vta-de10")
Numbers = Callable[[int, int], int]
BYTES = np.arange(-128, 128)


def tensor(n: int, d: int, name: str) -> Any:
    return te.placeholder((n, d), "int8", name=name)


def either(holds: Any, yes: int, no: int, dtype: str = "int8") -> Any:
    return te.if_then_else(holds, number(yes, dtype), number(no, dtype))


def multiplied(params: Sequence[Any], Q: Any, V: Any, n: int, d: int) -> PrimFunc:
    M = summed(Q, V, (n, d), n, "M")
    return te.create_prim_func([*params, V, te.compute((n, d), lambda i, j: clipped(M[i, j]), name="out")])


def changed(n: int, d: int, make: Callable[[Any, Any, Any], Any]) -> PrimFunc:
    """out = Q V, where Q is what ``make`` makes of an element of P and of its place."""
    P, V = tensor(n, n, "P"), tensor(n, d, "V")
    return multiplied([P], te.compute((n, n), lambda i, k: make(P[i, k], i, k), name="Q"), V, n, d)


# -- counts one by one ----------------------------------------------------------------------------------------------------------

def steps(i: Any, k: Any) -> Any:
    return k // 4 <= i // 4


def thirds(i: Any, k: Any) -> Any:
    return te.equal((i + k) % 3, 0)


def cells(holds: Callable[[Any, Any], Any], i: int, k: int) -> bool:
    return k // 4 <= i // 4 if holds is steps else (i + k) % 3 == 0


# What is made of an element, in the program and of all its values.
Made = tuple[Callable[[Any, Any], Any], Callable[[bool], npt.NDArray[np.int64]]]
MADE: dict[str, Made] = {
    "limits": (lambda x, c: te.min(te.max(x, either(c, -128, 0)), either(c, 127, 0)),
               lambda c: BYTES if c else BYTES * 0),
    "limits, one less": (lambda x, c: te.min(te.max(x, either(c, -127, 0)), either(c, 127, 0)),
                         lambda c: BYTES.clip(-127, 127) if c else BYTES * 0),
    "limits, the other one less": (lambda x, c: te.max(te.min(x, either(c, 126, 5)), either(c, -128, 5)),
                                   lambda c: BYTES.clip(-128, 126) if c else BYTES * 0 + 5),
    "one limit": (lambda x, c: te.max(x, either(c, -128, 127)), lambda c: BYTES if c else BYTES * 0 + 127),
    "halves": (lambda x, c: te.max(x, either(c, -128, 0)), lambda c: BYTES if c else BYTES.clip(0, 127)),
    "wide": (lambda x, c: te.max(te.min(wide(x), either(c, 127, 0, "int32")), either(c, -128, 0, "int32")).astype("int8"),
             lambda c: BYTES if c else BYTES * 0),
    "added": (lambda x, c: te.max(te.min(wide(x) + either(c, 0, 300, "int32"), number(127, "int32")),
                                  number(-128, "int32")).astype("int8"), lambda c: BYTES if c else BYTES * 0 + 127),
    "added a little": (lambda x, c: te.max(te.min(wide(x) + either(c, 0, 1, "int32"), number(127, "int32")),
                                           number(-128, "int32")).astype("int8"),
                       lambda c: BYTES if c else (BYTES + 1).clip(-128, 127)),
    "times": (lambda x, c: x * either(c, 1, 0), lambda c: BYTES if c else BYTES * 0),
}


@pytest.mark.parametrize(("how", "holds"), [*((how, steps) for how in MADE), ("limits", thirds), ("halves", thirds)])
def test_what_is_the_parameters_element_is_neither_made_nor_stored(how: str, holds: Callable[[Any, Any], Any]) -> None:
    n, d = 24, 20
    make, told = MADE[how]
    places = {(i, k): told(cells(holds, i, k)) for i, k in product(range(n), range(n))}
    numbers = {at for at, values in places.items() if len(set(values)) == 1}
    copies = {at for at, values in places.items() if np.array_equal(values, BYTES)}
    made = set(places) - numbers - copies
    func = changed(n, d, lambda x, i, k: make(x, holds(i, k)))
    space = Space(func, TARGET)
    bound = space.machine
    assert bound.words["Q"] == 2 * ceil(len(made) / 16)
    assert bound.words["local.inp_buffer of P"] == 2 * ceil(len(made | copies) / 16)
    assert (bound.words["a constant"] > 0) == bool(made)
    # An element that is made comes in by a product. Of sums those terms count that are no numbers, as they do anyway.
    terms = [sum((i, k) in made | copies for k in range(n)) for i in range(n)]
    told = visits(func, TARGET)
    assert told == sum(d * ceil(t / 16) for t in terms) + len(made)
    assert bound.terms["products"] == max(ceil(d * sum(terms) / 256) + ceil(len(made) / 16), ceil(told / 16))


def test_limits_all_over_are_none() -> None:
    """Of a program that only pretends to do something nothing counts for it."""
    plain = changed(64, 32, lambda x, i, k: te.max(x, number(-128)))
    limits = changed(64, 32, lambda x, i, k: te.max(x, either(k >= 0, -128, 0)))
    assert Space(limits, TARGET).machine_bound() == Space(plain, TARGET).machine_bound()


# -- programs that are executed -------------------------------------------------------------------------------------------------

def through(n: int, d: int, b: int, low: int = -128) -> PrimFunc:
    return changed(n, d, lambda x, i, k: te.min(te.max(x, either(k // b <= i // b, low, 0)), either(k // b <= i // b, 127, 0)))


@pytest.mark.parametrize("make", [
    lambda x, holds: te.min(te.max(x, either(holds, -128, 0)), either(holds, 127, 0)), lambda x, holds: x * either(holds, 1, 0)])
def test_a_program_that_reads_what_is_let_through_does_not_beat_the_bound(make: Callable[[Any, Any], Any]) -> None:
    """With what it does without, 10 836 cycles were said to be a bound; it takes 8 760."""
    n, d, b = 256, 16, 64
    whole, rows = changed(n, d, lambda x, i, k: make(x, k // b <= i // b)), by_rows(n, d, b)
    inputs = resolve(whole, TARGET).inputs(0)
    np.testing.assert_array_equal(results(whole, TARGET, inputs), results(rows, TARGET, inputs))
    assert Space(whole, TARGET).machine_bound() <= best(rows, TARGET, 3, 150)


def test_a_number_elsewhere_is_known_whatever_it_is_made_by() -> None:
    """max(p, 127) is a number, and 127 times the sum of a column is the program's beforehand: 7 154 cycles, not 7 746."""
    n, d, b = 128, 64, 64
    whole, rows = changed(n, d, lambda x, i, k: te.max(x, either(k // b <= i // b, -128, 127))), by_rows(n, d, b, added=True)
    P, V = resolve(whole, TARGET).inputs(0)
    beyond = [127 * V[b * (r + 1):].astype(np.int32).sum(axis=0) for r in range(n // b)]
    given = P, V, np.stack(beyond).astype(np.int32)
    np.testing.assert_array_equal(results(whole, TARGET, (P, V)), results(rows, TARGET, given))
    assert Space(whole, TARGET).machine_bound() <= best(rows, TARGET, 3, 150) < 7746


def test_a_limit_that_changes_a_value_counts() -> None:
    """Of limits of -127 each element comes in, is compared, stored, and loaded again: as many as are let through."""
    n, d, b = 256, 16, 64
    kept = 16 * sum(range(b, n + 1, b)) * b // 256
    none, some = (Space(through(n, d, b, low), TARGET).machine for low in (-128, -127))
    assert some.terms["products"] - none.terms["products"] == kept
    assert (none.words["Q"], some.words["Q"]) == (0, 2 * kept)
    assert none.words["local.inp_buffer of P"] == some.words["local.inp_buffer of P"] == 2 * kept


# -- copies of what nests store -------------------------------------------------------------------------------------------------

def scores(n: int, q: int) -> tuple[Any, Any, Any]:
    A, K = tensor(n, q, "A"), tensor(n, q, "K")
    S = summed(A, K, (n, n), q, "S", True)
    return A, K, te.compute((n, n), lambda i, j: clipped(S[i, j], 8), name="P")


def read_again(n: int, d: int, limits: Sequence[tuple[int, int]], plain: bool) -> PrimFunc:
    """Scores that several products read: each through a limit that lets some through and makes the rest 127."""
    A, K, P = scores(n, 16)
    values = [tensor(n, d, f"V{m}") for m in range(len(limits) + plain)]
    read = [P] * plain
    for m, (b, low) in enumerate(limits):
        read.append(te.compute((n, n), partly(P, b, low), name=f"Q{m}"))
    outs = []
    for m, (x, V) in enumerate(zip(read, values)):
        M = summed(x, V, (n, d), n, f"M{m}")
        outs.append(te.compute((n, d), clip_of(M), name=f"o{m}"))
    return te.create_prim_func([A, K, *values, *outs])


def partly(P: Any, b: int, low: int) -> Callable[[Any, Any], Any]:
    return lambda i, k: te.max(P[i, k], either(k // b <= i // b, low, 127))


def clip_of(M: Any) -> Callable[[Any, Any], Any]:
    return lambda i, j: clipped(M[i, j])


def kept(n: int, b: int) -> int:
    """How many vectors of sixteen a step of b rows and columns leaves of a matrix."""
    return sum(b * (i // b + 1) for i in range(n)) // 16


def test_what_another_product_reads_as_well_is_stored_once() -> None:
    n, d, b = 64, 32, 16
    bound = Space(read_again(n, d, [(b, -128)], plain=True), TARGET).machine
    assert (bound.words["P"], bound.words["Q0"]) == (2 * n * n // 16, 0)
    less = Space(read_again(n, d, [(b, -127)], plain=True), TARGET).machine
    stores = [x.terms["store chain"] + x.terms["drain"] for x in (bound, less)]
    vectors = n * n // 16 + 2 * n * d // 16
    assert stores[1] * vectors == stores[0] * (vectors + kept(n, b))


def test_of_copies_of_what_is_not_stored_itself_the_first_is() -> None:
    """A program of scores stores them once, as what the one product reads, and the other one reads that."""
    n, d = 64, 32
    one, two = (Space(read_again(n, d, [(16, -128)] * times, plain=False), TARGET).machine for times in (1, 2))
    assert one.words["Q0"] == 2 * kept(n, 16)
    assert sorted((two.words["Q0"], two.words["Q1"])) == [0, 2 * kept(n, 16)]
    changed = Space(read_again(n, d, [(16, -128), (16, -127)], plain=False), TARGET).machine
    assert (changed.words["Q0"], changed.words["Q1"]) == (2 * kept(n, 16), 2 * kept(n, 16))


def shared(low: int) -> PrimFunc:
    """P V and Q V, where Q is P in half of the rows, if the limit lets all through."""
    n, d = 64, 32
    P, V = tensor(n, n, "P"), tensor(n, d, "V")
    Q = te.compute((n, n), lambda i, k: te.max(P[i, k], either(i < n // 2, low, 0)), name="Q")
    M, N = (summed(x, V, (n, d), n, name) for x, name in ((P, "M"), (Q, "N")))
    outs = [te.compute((n, d), clip_of(x), name=f"out{m}") for m, x in enumerate((M, N))]
    return te.create_prim_func([P, V, *outs])


def test_products_of_copies_may_be_those_of_what_they_are_copies_of() -> None:
    n, d = 64, 32
    none, some = (Space(shared(low), TARGET).machine.terms["products"] for low in (-128, -127))
    of_each = n * n * d // 256
    # Of Q half is made, and comes in by products; or all of it.
    assert (none, some) == (of_each + n * n // 32, 2 * of_each + n * n // 16)


@pytest.mark.parametrize(("low", "times"), [(-128, 2), (-127, 1)])
def test_a_tensor_times_copies_of_its_own_elements_is_one_times_itself(low: int, times: int) -> None:
    """Draws may take a few others for the same."""
    n = 64
    P = tensor(n, n, "P")
    Q = te.compute((n, n), lambda i, k: te.max(P[i, k], either(i < n // 2, low, 0)), name="Q")
    M = summed(Q, P, (n, n), n, "M", across=True)
    func = te.create_prim_func([P, te.compute((n, n), clip_of(M), name="out")])
    made = n * n // 32 if low == -128 else n * n // 16
    all_of_it = n * n * n // 256 // times + made
    assert all_of_it - 8 <= Space(func, TARGET).machine.terms["products"] <= all_of_it


@pytest.mark.parametrize(("added", "rows"), [(0, 32), (1, 64)])
def test_results_that_are_a_parameters_elements_need_no_operation(added: int, rows: int) -> None:
    """To half of the rows 7 is added, and to the others nothing, or 1: then they may be 128, and that is cut off."""
    P = tensor(64, 64, "P")
    more = lambda i: either(i < 32, added, 7, "int32")  # noqa: E731
    out = te.compute((64, 64), lambda i, k: te.max(te.min(
        wide(P[i, k]) + more(i), number(127, "int32")), number(-128, "int32")).astype("int8"), name="out")
    terms = Space(te.create_prim_func([P, out]), TARGET).machine.terms
    assert terms["stages"] == rows * 64 // 16 + 6 and terms["store chain"] + terms["drain"] == 432 * 2


# -- promised ranges ------------------------------------------------------------------------------------------------------------

def joined(n: int, d: int, k: int, ranges: Sequence[tuple[int, int] | None]) -> PrimFunc:
    """Rows of several parameters, one behind the other, times V."""
    parts, V = [tensor(n, k, f"A{m}") for m in range(len(ranges))], tensor(k, d, "V")

    def row(i: Any, r: Any) -> Any:
        found = parts[-1][i - n * (len(parts) - 1), r]
        for m in reversed(range(len(parts) - 1)):
            found = te.if_then_else(i < n * (m + 1), parts[m][i - n * m if m else i, r], found)
        return found

    Q = te.compute((n * len(parts), k), row, name="Q")
    M = summed(Q, V, (n * len(parts), d), k, "M")
    func = te.create_prim_func([*parts, V, te.compute(M.shape, lambda i, j: clipped(M[i, j]), name="out")])
    return replace(func, value_ranges=(*ranges, None, None))


def apart(n: int, d: int, k: int, small: int) -> PrimFunc:
    """The same of two parameters, in two products: that of small numbers needs no clip."""
    A, B, V = tensor(n, k, "A"), tensor(n, k, "B"), tensor(k, d, "V")
    M, N = summed(A, V, (n, d), k, "M"), summed(B, V, (n, d), k, "N")
    one = te.compute((n, d), lambda i, j: (M[i, j] >> 7).astype("int8"), name="one")
    other = te.compute((n, d), lambda i, j: clipped(N[i, j]), name="other")
    return replace(te.create_prim_func([A, B, V, one, other]), value_ranges=((-small, small), None, None, None, None))


def test_rows_that_are_promised_to_be_small_do_not_reach_a_clip() -> None:
    """10 306 cycles were said to be a bound of it."""
    n, d, k = 128, 128, 16
    whole, parts = joined(n, d, k, [(-1, 1), None]), apart(n, d, k, 1)
    inputs = resolve(parts, TARGET).inputs(0)
    np.testing.assert_array_equal(results(whole, TARGET, inputs), results(parts, TARGET, inputs))
    assert Space(whole, TARGET).machine_bound() <= best(parts, TARGET, 3, 150) < 10306


@pytest.mark.parametrize(("small", "clips"), [(1, 0), (7, 0), (8, 1), (127, 2)])
def test_promised_ranges_are_those_of_a_tensors_parts(small: int, clips: int) -> None:
    """Sums of 16 products of up to 128 and 7 are 14 336, which is 112 shifted by 7; of 8 it is 128, beyond 127, and not -128."""
    n, d, k = 32, 32, 16
    stages = Space(joined(n, d, k, [(-small, small), None]), TARGET).machine.terms["stages"]
    vectors = n * d // 16
    assert stages == vectors * (2 + 2 + clips) + 18


def test_of_three_parts_each_has_its_own_range() -> None:
    n, d, k = 32, 32, 16
    stages = Space(joined(n, d, k, [(-7, 7), None, (-1, 0)]), TARGET).machine.terms["stages"]
    assert stages == n * d // 16 * (3 + 2) + 18
