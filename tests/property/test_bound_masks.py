"""The machine bound of programs that mask: products with what is always 0, and of results that nobody needs, are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from masked_programs import Place, best, by_rows, clipped, masked, number, results, summed, wide

from autosched import te
from autosched.errors import ProgramError
from autosched.ir.stmt import PrimFunc
from autosched.kernel import resolve
from autosched.search import tune
from autosched.target import get_target
from autosched.workloads import workload
from space import Space, known
from space.formed import Formings, formings
from space.lanes import fillings
from space.machine_bound import machine_bound
from space.visits import visits

PROGRAMS = Path(__file__).resolve().parents[1] / "data" / "programs"
TARGET = get_target("vta-de10")
Cells = Callable[[int, int], bool]


# -- masks: for a program's text and for plain numbers --------------------------------------------------------------------------

MASKS: dict[str, tuple[Place, Cells]] = {
    "causal": (lambda i, k: k <= i, lambda i, k: k <= i),
    "band": (lambda i, k: te.all(k <= i, i < k + 5), lambda i, k: k <= i < k + 5),
    "steps": (lambda i, k: k < i // 4 * 4, lambda i, k: k < i // 4 * 4),
    "either": (lambda i, k: te.any(k < 3, k > i + 9), lambda i, k: k < 3 or k > i + 9),
    "every third": (lambda i, k: te.equal((i + k) % 3, 0), lambda i, k: (i + k) % 3 == 0),
    "all": (lambda i, k: k >= 0, lambda i, k: True),
}


def mixed(n: int, d: int, of: str | None, into: str | None = None, weight: str | None = None, given: bool = True) -> PrimFunc:
    """out = P V: of P, of V and of the results some are masked; P is a parameter, or made of two."""
    V = te.placeholder((n, d), "int8", name="V")
    if given:
        P = te.placeholder((n, n), "int8", name="P")
        first, p = [P], P if of is None else masked(P, MASKS[of][0], "Q")
    else:
        Q, K = (te.placeholder((n, 24), "int8", name=name) for name in "QK")
        scores = summed(Q, K, (n, n), 24, "S", across=True)
        first = [Q, K]
        p = te.compute((n, n), lambda i, j: te.if_then_else(
            MASKS[of or "all"][0](i, j), clipped(scores[i, j], 8), number(0)), name="P")
    v = V if weight is None else masked(V, MASKS[weight][0], "W")
    M = summed(p, v, (n, d), n, "M")
    whole = lambda i, j: clipped(M[i, j])  # noqa: E731
    out = te.compute((n, d), whole if into is None else lambda i, j: te.if_then_else(
        MASKS[into][0](i, j), whole(i, j), number(-128)), name="out")
    return te.create_prim_func([*first, V, out])


def terms(n: int, d: int, of: str | None, into: str | None, weight: str | None) -> dict[tuple[int, int], int]:
    """How many products each result has that is needed, counted one by one."""
    p, v, r = (MASKS[x or "all"][1] for x in (of, weight, into))
    found = {(i, j): sum(p(i, k) and v(k, j) for k in range(n)) for i, j in product(range(n), range(d)) if r(i, j)}
    return {at: count for at, count in found.items() if count}


CASES = [
    ("causal", None, None), ("band", None, None), ("every third", None, None), ("either", None, None), (None, "causal", None),
    (None, "steps", None), ("causal", "band", None), ("steps", "either", None), ("all", None, None), (None, None, None),
]
GIVEN = [(*case, True) for case in (*CASES, (None, None, "either"), (None, None, "causal"), (None, "band", "steps"))]


@pytest.mark.parametrize(("of", "into", "weight", "given"), [*GIVEN, *((*case, False) for case in CASES[::2])])
def test_products_are_those_counted_one_by_one(of: str | None, into: str | None, weight: str | None, given: bool) -> None:
    n, d = 21, 18
    func = mixed(n, d, of, into, weight, given)
    found = terms(n, d, of, into, weight)
    space = Space(func, TARGET)
    sketch = space.sketches[-1]
    formed = formings(sketch.models).of(sketch.models[-1].nest.anchor)
    assert formed is not None
    counts = sorted(set(found.values()))
    assert (formed.terms, formed.reach) == (sum(found.values()), tuple(counts))
    assert formed.results == tuple(sum(c >= m for c in found.values()) for m in counts)
    least = ceil(formed.terms / 256)
    if given:
        # A result is visited once for every sixteen of its products.
        visited = ceil(sum(ceil(c / 16) for c in found.values()) / 16)
        assert least <= visited == space.machine.terms["products"]
    else:
        # Of scores those count that are not masked and that a result needs.
        p, v, r = (MASKS[x or "all"][1] for x in (of, weight, into))
        needed = sum(p(i, k) and any(v(k, j) and r(i, j) for j in range(d)) for i, k in product(range(n), range(n)))
        scores = formings(sketch.models).of(sketch.models[0].nest.anchor)
        assert scores is not None and scores.terms == 24 * needed
        assert ceil((scores.terms + formed.terms) / 256) <= space.machine.terms["products"]


@pytest.mark.parametrize(("of", "into", "weight", "given"), GIVEN)
def test_only_what_is_needed_is_loaded(of: str | None, into: str | None, weight: str | None, given: bool) -> None:
    n, d = 21, 18
    p, v, r = (MASKS[x or "all"][1] for x in (of, weight, into))
    used = {
        "P": sum(p(i, k) and any(v(k, j) and r(i, j) for j in range(d)) for i, k in product(range(n), range(n))),
        "V": sum(v(k, j) and any(p(i, k) and r(i, j) for i in range(n)) for k, j in product(range(n), range(d))),
    }
    words = Space(mixed(n, d, of, into, weight, given), TARGET).machine.words
    for name, elements in used.items():
        (memory,) = (key for key in words if key.endswith(f"of {name}"))
        size = 16 if "inp" in memory else 256
        assert words[memory] == size // 8 * ceil(elements / size)


def packed(shape: tuple[int, int, int, int], holds: Callable[..., Any]) -> PrimFunc:
    """The same of blocks, laid out by the user."""
    rows, each, columns, depth = shape
    P = te.placeholder((rows, each, depth, 1, 16), "int8", name="P")
    V = te.placeholder((columns, depth, 16, 16), "int8", name="V")
    Q = te.compute(P.shape, lambda *at: te.if_then_else(holds(*at), P[at], number(0)), name="Q")
    k, r = te.reduce_axis((0, depth), name="k"), te.reduce_axis((0, 16), name="r")
    M = te.compute((rows, each, columns, 1, 16), lambda i, e, j, b, o: te.sum(
        wide(Q[i, e, k, b, r]) * wide(V[j, k, o, r]), axis=[k, r]), name="M")
    part = te.compute(M.shape, lambda *at: clipped(M[at]), name="part")
    return te.create_prim_func([P, V, te.compute(M.shape, lambda *at: part[at], name="out")])


@pytest.mark.parametrize(("holds", "told"), [
    (lambda i, e, k, b, r: k <= i, lambda i, e, k, r: k <= i),
    (lambda i, e, k, b, r: k * 16 + r <= i * 4 + e, lambda i, e, k, r: k * 16 + r <= i * 4 + e),
    (lambda i, e, k, b, r: te.equal((k + e) % 2, 0), lambda i, e, k, r: (k + e) % 2 == 0),
    (lambda i, e, k, b, r: te.all(te.equal(r, 3), k > i), lambda i, e, k, r: r == 3 and k > i),
    (lambda i, e, k, b, r: te.all(k > i, te.any(e < 1, e > 1)), lambda i, e, k, r: k > i and e != 1),
])
def test_of_blocks_in_a_layout_of_the_users_those_with_any_product_count(
    holds: Callable[..., Any], told: Callable[..., bool],
) -> None:
    rows, each, columns, depth = shape = (3, 4, 2, 3)
    held = [[any(told(i, e, k, r) for r in range(16)) for k in range(depth)] for i, e in product(range(rows), range(each))]
    space = Space(packed(shape, holds), TARGET)
    assert space.machine.terms["products"] == columns * sum(map(sum, held))
    # What a condition cuts inside elements the host makes.
    (words,) = [n for name, n in space.machine.words.items() if name == "P" or name.startswith("Q")]
    assert words == 2 * sum(map(sum, held))
    assert space.machine.words["V"] == 32 * columns * sum(any(row[k] for row in held) for k in range(depth))


def test_of_blocks_between_nests_those_that_are_read_are_made_and_stored() -> None:
    """Of 16 x 4 rows those of P count that values are made of: a mask keeps of each the blocks up to its own."""
    Q, K = te.placeholder((4, 16, 2, 1, 16), "int8", name="Q"), te.placeholder((4, 2, 16, 16), "int8", name="K")
    V = te.placeholder((3, 4, 16, 16), "int8", name="V")

    def product_of(a: Any, b: Any, blocks: int, depth: int, name: str) -> Any:
        k, r = te.reduce_axis((0, depth), name=f"{name}_k"), te.reduce_axis((0, 16), name=f"{name}_r")
        return te.compute((4, 16, blocks, 1, 16), lambda i, e, j, b_, o: te.sum(
            wide(a[i, e, k, b_, r]) * wide(b[j, k, o, r]), axis=[k, r]), name=name)

    def stored(sums: Any, name: str) -> Any:
        part = te.compute(sums.shape, lambda *at: te.max(te.min(sums[at] >> 7, number(127, "int32")), number(-128, "int32")),
                          name=f"{name}_part")
        return te.compute(sums.shape, lambda *at: part[at].astype("int8"), name=name)

    P = stored(product_of(Q, K, 4, 2, "S"), "P")
    held = te.compute(P.shape, lambda i, e, k, b, r: te.if_then_else(k <= i, P[i, e, k, b, r], number(0)), name="held")
    out = stored(product_of(held, V, 3, 4, "M"), "out")
    terms = Space(te.create_prim_func([Q, K, V, out]), TARGET).machine.terms
    kept = 16 * (1 + 2 + 3 + 4)
    assert terms["products"] == kept * 2 + kept * 3
    assert terms["stages"] == 3 * (kept + 64 * 3) + 18


# -- rivals ---------------------------------------------------------------------------------------------------------------------

def test_a_program_on_blocks_of_rows_does_not_beat_the_bound() -> None:
    """It is faster than all products are: with them 20 546 cycles were said to be a bound."""
    n, d, b = 256, 64, 64
    whole, rows = mixed(n, d, "causal"), by_rows(n, d, b, causal=True)
    inputs = resolve(whole, TARGET).inputs(0)
    np.testing.assert_array_equal(results(whole, TARGET, inputs), results(rows, TARGET, inputs))
    bound = Space(whole, TARGET).machine
    assert bound.cycles <= best(rows, TARGET) < 20546 == Space(mixed(n, d, None), TARGET).machine_bound()
    # Block by block, of lanes that are full, there are no fewer products.
    assert ceil(n * (n + 1) // 2 * d / 256) <= bound.terms["products"] <= d // 16 * sum(i // 16 + 1 for i in range(n))


# -- what a mask does to stages, stores and loads in between -------------------------------------------------------------------

def test_what_is_masked_between_nests_is_not_stored() -> None:
    whole, causal = (Space(mixed(64, 32, of, given=False), TARGET).machine for of in (None, "causal"))
    assert causal.words["P"] == 2 * ceil(64 * 65 / 2 / 16) < whole.words["P"] == 2 * 64 * 64 // 16
    assert causal.terms["store chain"] < whole.terms["store chain"]


def test_results_that_are_one_number_need_no_operation() -> None:
    """Of 64 x 32 results as many as stand in 96 vectors are made of sums; the others are -128, which one vector is, too."""
    whole, part = (Space(mixed(64, 32, None, into), TARGET).machine for into in (None, "causal"))
    made = ceil(sum(min(i + 1, 32) for i in range(64)) / 16)
    assert whole.terms["stages"] == 3 * 128 + 18 and part.terms["stages"] == 3 * made + 18
    assert part.terms["store chain"] == whole.terms["store chain"]


def test_one_product_adds_to_so_many_results() -> None:
    """However few products a mask leaves of each, every result with any is visited."""
    models = Space(mixed(64, 32, "band"), TARGET).sketches[0].models
    assert machine_bound(models).terms["products"] == 64 * 32 // 16 > ceil((64 * 5 - 10) * 32 / 256)


def test_results_that_limits_of_the_programs_own_make_one_number_are_not_visited() -> None:
    P, V = te.placeholder((64, 64), "int8", name="P"), te.placeholder((64, 32), "int8", name="V")
    M = summed(P, V, (64, 32), 64, "M")
    L = te.compute((64, 32), lambda i, j: te.if_then_else(j <= i, number(90, "int32"), number(0, "int32")), name="L")
    out = te.compute((64, 32), lambda i, j: te.min(te.max(M[i, j] >> 7, number(0, "int32")), L[i, j]).astype("int8"), name="out")
    assert visits(te.create_prim_func([P, V, out]), TARGET) == 4 * sum(min(i + 1, 32) for i in range(64))


def test_of_two_products_in_one_sum_each_is_masked_by_itself() -> None:
    tensors = [te.placeholder((64, 64 if name in "PQ" else 32), "int8", name=name) for name in "PQVW"]
    P, Q, V, W = tensors
    one, two = summed(P, V, (64, 32), 64, "A"), summed(masked(Q, MASKS["causal"][0], "R"), W, (64, 32), 64, "B")
    out = te.compute((64, 32), lambda i, j: clipped(one[i, j] + two[i, j]), name="out")
    terms = machine_bound(Space(te.create_prim_func([*tensors, out]), TARGET).sketches[-1].models).terms
    # 4 096 and 2 080 products of an element of a row, for 32 columns, 256 at once; those of the one or the other are a stage's.
    assert terms["products"] + terms["stages"] - 3 * 128 - 18 == 512 + 260


def test_sums_of_nothing_are_not_worked_on_and_neither_is_what_is_one_number() -> None:
    A, b = te.placeholder((64, 32), "int32", name="A"), te.placeholder((32,), "int32", name="b")
    P, V = te.placeholder((64, 64), "int8", name="P"), te.placeholder((64, 32), "int8", name="V")
    M = summed(masked(P, MASKS["steps"][0], "Q"), V, (64, 32), 64, "M")
    out = te.compute((64, 32), lambda i, j: clipped(M[i, j] + b[j]), name="out")
    # The first four rows have no product, and with a bias they are what another program may have as it is.
    assert Space(te.create_prim_func([P, V, b, out]), TARGET).machine.terms["stages"] == 3 * (128 - 4 * 2) + 18
    alone = te.compute((64, 32), lambda i, j: te.if_then_else(j <= i, clipped(A[i, j]), number(0)), name="out")
    rows = sum(min(i + 1, 32) for i in range(64))
    assert Space(te.create_prim_func([A, alone]), TARGET).machine.terms["stages"] == 3 * ceil(rows / 16) + 18


@pytest.mark.parametrize(("high", "least"), [(125, 128), (126, 126), (252, 124), (8063, 2), (8064, 0)])
def test_a_clip_counts_for_sums_that_reach_it(high: int, least: int) -> None:
    """One product of factors up to 127, shifted by 7, is 126 at most, and -127 at least; of 32 columns two vectors are a row."""
    P, V = te.placeholder((64, 64), "int8", name="P"), te.placeholder((64, 32), "int8", name="V")
    M = summed(masked(P, MASKS["causal"][0], "Q"), V, (64, 32), 64, "M")
    out = te.compute((64, 32), lambda i, j: clipped(M[i, j], low=-128, high=high), name="out")
    func = replace(te.create_prim_func([P, V, out]), value_ranges=((-127, 127), (-127, 127), None))
    terms = Space(func, TARGET).machine.terms
    assert terms["stages"] == 128 + 126 + least + 6 * (2 + bool(least))


def constant_mask(times: bool) -> PrimFunc:
    """A mask that the program makes, and multiplies."""
    P, V = te.placeholder((32, 32), "int8", name="P"), te.placeholder((32, 32), "int8", name="V")
    C = te.compute((32, 32), lambda i, k: te.if_then_else(k <= i, number(1), number(0)), name="C")
    Q = te.compute((32, 32), lambda i, k: (P[i, k] * C[i, k]) if times else P[i, k], name="Q")
    M = summed(Q, V, (32, 32), 32, "M")
    out = te.compute((32, 32), lambda i, j: clipped(M[i, j]), name="out")
    return te.create_prim_func([P, V, out])


@pytest.mark.parametrize(("far", "few"), [(62, 2), (48, 16), (0, 64)])
def test_a_clip_counts_for_sums_that_what_is_added_by_place_makes_reach_it(far: int, few: int) -> None:
    """Numbers of places lift some rows past the limit, where less may come out: of the others nothing need be taken."""
    x, w = te.placeholder((64, 16), "int8", name="x"), te.placeholder((64, 16), "int8", name="w")

    def bound(value: Callable[[Any, Any], Any]) -> Any:
        s = summed(x, w, (64, 64), 16, "s", across=True)
        out = te.compute((64, 64), lambda i, j: value(s[i, j], i).astype("int8"), name="out")
        func = replace(te.create_prim_func([x, w, out]), value_ranges=((-1, 1), (-1, 1), None))
        return Space(func, TARGET).machine

    chosen = bound(lambda v, i: te.min(v + te.if_then_else(i >= far, 110, 0), 120))
    counted = bound(lambda v, i: te.min(v + (i + 64 - far) // 64 * 110, 120))
    stages = {"chosen": chosen.terms["stages"], "counted": counted.terms["stages"]}
    assert stages == dict.fromkeys(stages, few * 4 + 6)


def test_a_mask_of_ones_and_zeros_leaves_products_out() -> None:
    func = constant_mask(True)
    # Sixteen rows of up to 16 products, sixteen of more.
    assert visits(func, TARGET) == 32 * (16 + 2 * 16) < visits(constant_mask(False), TARGET) == 32 * 64
    terms = Space(func, TARGET).machine.terms
    assert terms["products"] == 2 * (16 + 2 * 16)
    # Only results are stored: ones and zeros are known without, and their products are elements of the parameter, or 0.
    assert terms["store chain"] == Space(mixed(32, 32, None), TARGET).machine.terms["store chain"]


def test_data_laid_out_repeatedly_and_masked_count_once() -> None:
    """Where of 64 rows each four are one, what a mask leaves of all of them may be what it leaves of one."""
    def bound(again: int, of: str | None) -> int:
        P, V = te.placeholder((64 // again, 64), "int8", name="P"), te.placeholder((64, 32), "int8", name="V")
        R = te.compute((64, 64), lambda i, k: te.if_then_else(
            MASKS[of or "all"][0](i // again * again, k), P[i // again, k], number(0)), name="R")
        M = summed(R, V, (64, 32), 64, "M")
        out = te.compute((64, 32), lambda i, j: clipped(M[i, j]), name="out")
        return Space(te.create_prim_func([P, V, out]), TARGET).machine.terms["products"]

    once = ceil(sum(i + 1 for i in range(0, 64, 4)) * 32 / 256)
    assert once <= bound(4, "causal") <= ceil(sum(i // 16 + 1 for i in range(0, 64, 4)) * 2) < bound(1, "causal")


def test_of_what_is_too_large_to_look_at_nothing_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    func = mixed(64, 32, "causal", given=False)
    sketch = Space(func, TARGET).sketches[0]
    found = Formings(sketch.models).of("M")
    monkeypatch.setattr("space.known.LARGE", 64 * 64 - 1)
    none = Formings(sketch.models).of("M")
    monkeypatch.setattr("space.known.LARGE", 64 * 64)
    assert found is not None and none is not None and found.terms == 32 * 64 * 65 // 2 and none.terms == 0
    assert Formings(sketch.models).of("M") == found
    # What is not masked is not looked at, however large it is.
    whole = Space(mixed(64, 32, None), TARGET).sketches[0]
    monkeypatch.setattr("space.known.LARGE", 64)
    formed = Formings(whole.models).of("M")
    assert formed is not None and formed.terms == 64 * 64 * 32


def test_choices_by_place_of_what_is_not_there_have_a_bound_and_no_schedule(tmp_path: Path) -> None:
    func = workload(f"{PROGRAMS / 'choice_guards.py'}:main").func
    bound = Space(func, TARGET).machine
    # Of sixteen columns thirteen are read, eight words a vector: and none of what stands in front of the first row.
    assert bound.words == {"local.acc_buffer of A": 8 * 13} and bound.cycles == Space(func, TARGET).machine_bound() > 0
    with pytest.raises(ProgramError, match="chooses by the place of an element"):
        tune(func, target="vta-de10", trials=1, jobs=1, log=tmp_path)


# -- how a mask is written, what stands where it masks, and what is not looked at ------------------------------------------------

SPELLINGS: list[Place] = [
    lambda i, k: (k >> 4) <= (i >> 4), lambda i, k: (k & -16) <= (i & -16), lambda i, k: (k | 15) <= (i | 15),
    lambda i, k: te.truncdiv(k, 16) <= te.truncdiv(i, 16), lambda i, k: k - te.truncmod(k, 16) <= i - te.truncmod(i, 16),
    lambda i, k: (k // 16).astype("int8") <= (i // 16).astype("int64"),
    lambda i, k: (k * 16).astype("int8") // 4096 + k // 16 <= (i * 256).astype("int8") + i // 16 + (0 * k).astype("int8"),
]


@pytest.mark.parametrize("holds", SPELLINGS[:-1])
def test_it_does_not_matter_how_a_condition_is_written(holds: Place) -> None:
    P, V = te.placeholder((64, 64), "int8", name="P"), te.placeholder((64, 32), "int8", name="V")

    def bound(holds: Place) -> int:
        M = summed(masked(P, holds, "Q"), V, (64, 32), 64, "M")
        out = te.compute((64, 32), lambda i, j: clipped(M[i, j]), name="out")
        return Space(te.create_prim_func([P, V, out]), TARGET).machine_bound()

    assert bound(holds) == bound(lambda i, k: k // 16 <= i // 16) < bound(lambda i, k: k < 64)


@pytest.mark.parametrize("elsewhere", [3, -128])
def test_a_number_elsewhere_is_no_product(elsewhere: int) -> None:
    """Sums of it and a column are the same for all rows, and another program has them beforehand: as if it were 0."""
    P, V = te.placeholder((128, 128), "int8", name="P"), te.placeholder((128, 64), "int8", name="V")

    def bound(elsewhere: int) -> int:
        M = summed(masked(P, lambda i, k: k // 64 <= i // 64, "Q", elsewhere), V, (128, 64), 128, "M")
        out = te.compute((128, 64), lambda i, j: clipped(M[i, j]), name="out")
        return Space(te.create_prim_func([P, V, out]), TARGET).machine_bound()

    assert bound(elsewhere) == bound(0)


def around(pad: int) -> PrimFunc:
    x, w = te.placeholder((16, 14, 14), "int8", name="x"), te.placeholder((32, 16, 3, 3), "int8", name="w")
    xp = te.compute((16, 16, 16), lambda c, i, j: te.if_then_else(
        te.all(i >= 1, i < 15, j >= 1, j < 15), x[c, i - 1, j - 1], number(pad)), name="xp")
    c, p, q = te.reduce_axis((0, 16), "c"), te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 3), "q")
    total = te.compute((32, 14, 14), lambda o, i, j: te.sum(
        wide(xp[c, i + p, j + q]) * wide(w[o, c, p, q]), axis=[c, p, q]), name="total")
    return te.create_prim_func([x, w, te.compute((32, 14, 14), lambda *i: clipped(total[i]), name="out")])


def test_padding_with_another_number_brings_in_nothing() -> None:
    """The host works out what it adds to each result, and might have put the number among the data instead."""
    assert Space(around(3), TARGET).machine.terms == Space(around(0), TARGET).machine.terms


def test_limits_that_the_host_moves_are_known() -> None:
    """Of two sums in a row the first rows of the last are results: of the first one no more is needed."""
    P, V, W = (te.placeholder(shape, "int8", name=name) for shape, name in (((64, 32), "P"), ((32, 64), "V"), ((64, 32), "W")))
    first = summed(P, V, (64, 64), 32, "A")
    y = te.compute((64, 64), lambda i, j: clipped(first[i, j]), name="y")
    last = summed(masked(y, lambda i, k: k // 16 <= i // 16, "q"), W, (64, 32), 64, "B")
    out = te.compute((64, 32), lambda i, j: te.if_then_else(i < 16, clipped(last[i, j]), number(0)), name="out")
    products = Space(te.create_prim_func([P, V, W, out]), TARGET).machine.terms["products"]
    assert products == (16 * 16 * 32 + 16 * 16 * 32) // 256


@pytest.mark.parametrize("func", [
    mixed(40, 24, "causal", "steps"), mixed(40, 24, "causal", "steps", given=False), around(0), around(3)])
@pytest.mark.parametrize("few", [1, 100, 1000])
def test_what_is_too_large_to_look_at_counts_nothing(func: PrimFunc, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    all_of_it = Space(func, TARGET).machine
    monkeypatch.setattr(known, "LARGE", few)
    fillings.cache_clear()
    least = Space(func, TARGET).machine
    fillings.cache_clear()
    assert least.cycles <= all_of_it.cycles and all(least.terms[name] <= n for name, n in all_of_it.terms.items())
    assert all(least.words.get(name, 0) <= n for name, n in all_of_it.words.items())


@pytest.mark.parametrize(("shift", "clips"), [(2, 1), (3, 0)])
def test_sums_of_small_numbers_reach_no_clip(shift: int, clips: int) -> None:
    """Of half of the rows, which are 1 or 0, four products are no more than 512 together: 128 shifted by 2, and 64 by 3.

    So much goes past 127, and less 128, which is as far, not past the other limit.
    """
    P, V = te.placeholder((64, 4), "int8", name="P"), te.placeholder((4, 32), "int8", name="V")

    def stages(small: int) -> int:
        few = te.compute((64, 4), lambda i, k: te.max(te.min(
            P[i, k], te.if_then_else(i < small, number(1), number(127))),
            te.if_then_else(i < small, number(0), number(-128))), name="few")
        M = summed(few, V, (64, 32), 4, "M")
        out = te.compute((64, 32), lambda i, j: clipped(M[i, j], shift), name="out")
        return Space(te.create_prim_func([P, V, out]), TARGET).machine.terms["stages"]

    assert stages(0) - stages(32) == (2 - clips) * 2 * 32
