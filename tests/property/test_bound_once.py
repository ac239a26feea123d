"""The machine bound of programs that make the same repeatedly: draws of the parameters tell it, whatever the text says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from masked_programs import best, clipped, masked, number, results, summed, wide

from autosched import te
from autosched.ir.interp import run, written
from autosched.ir.stmt import PrimFunc
from autosched.kernel import resolve
from autosched.lower.regions import shape_of
from autosched.target import get_target
from autosched.workloads import workload
from space import Space
from space.drawn import KINDS, Drawn, _random
from space.formed import Formings
from space.once import Kept
from space.visits import told_apart

TARGET = get_target("vta-de10")
PROGRAMS = Path(__file__).parent.parent / "data" / "programs"

# Of each kind of block that a form has: sums, windows, stages, choices, constants, joins, parts of tensors, several nests.
NAMES = ("attention_rows_unknown", "blur_separable", "complex_product", "concat_of_pools", "conv_upsampled", "dense_difference",
         "gate_in_two_parts", "lstm_cell", "mean_int16", "rows_and_columns", "squeeze_and_excite_made", "zero_points_of_made")


def tensor(n: int, d: int, name: str) -> Any:
    return te.placeholder((n, d), "int8", name=name)


def made(given: list[Any], M: Any) -> PrimFunc:
    """A program whose result is a sum, narrowed."""
    return te.create_prim_func([*given, te.compute(M.shape, lambda i, j: clipped(M[i, j]), name="out")])


@pytest.mark.parametrize("name", NAMES)
def test_a_draw_is_what_the_program_makes_of_its_parameters(name: str) -> None:
    for sketch in Space(workload(f"{PROGRAMS / name}.py:main").func, TARGET).sketches:
        drawn = Drawn(Formings(sketch.models).known, sketch.models[0].laid)
        assert drawn.draw()
        func = sketch.models[0].nest.func
        first = {b: np.broadcast_to(drawn.tensors[b].first, shape_of(b)).astype(b.dtype) for b in func.buffers}
        inputs = [None if b in written(func) else first[b] for b in func.buffers]
        found = dict(zip(written(func), run(func, *inputs)))
        assert found
        for buffer, array in found.items():
            np.testing.assert_array_equal(first[buffer], array)


def kept(func: PrimFunc) -> tuple[Kept, Kept, Formings]:
    """What of a program's last sums, and of its results, is left."""
    sketch = next(s for s in Space(func, TARGET).sketches if not s.done)
    formings = Formings(sketch.models, False)
    maker = formings._makers[sketch.models[-1]]
    assert formings._once is not None
    sums, results = formings._once.sums(maker, maker.sums[0]), formings._once.made(maker, maker.stored[-1])
    assert sums is not None and results is not None
    return sums, results, formings


def different(func: PrimFunc, times: int) -> int:
    """Results of a program that some of so many runs tells apart, and that are not one number."""
    outs = []
    for seed in range(times):
        inputs = resolve(func, TARGET).inputs(seed)
        outs.append(np.concatenate([x.ravel() for x in run(func, *inputs, *[None] * len(written(func)))]))
    rows = np.stack(outs, axis=1)
    return len(np.unique(rows[(rows != rows[:, :1]).any(axis=1)], axis=0))


N, D = 16, 16
ROWS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "each": lambda P, i, k: P[i, k],
    "four rows": lambda P, i, k: P[i // 4, k],
    "rows again": lambda P, i, k: P[i % 4, k],
    "mirrored": lambda P, i, k: te.max(P[i, k], P[N - 1 - i, k]),
    "masked": lambda P, i, k: te.if_then_else(i < 5, P[i, k], number(0)),
    "masked and a row more": lambda P, i, k: te.max(te.if_then_else(i < 5, P[i, k], number(-128)), P[0, k]),
    "limits that let all through": lambda P, i, k: te.max(P[i // 2, k], number(-128)),
    "limits that let nearly all through": lambda P, i, k: te.max(P[i // 2, k], number(-127)),
    "columns again": lambda P, i, k: P[i, k // 2],
    "the last row": lambda P, i, k: P[te.min(i, 7), k],
    "halves of pairs": lambda P, i, k: ((wide(P[i, k]) + wide(P[N - 1 - i, k])) >> 1).astype("int8"),
}


@pytest.mark.parametrize("how", ROWS)
def test_as_much_is_left_as_runs_tell_apart(how: str) -> None:
    P, V = tensor(N, D, "P"), tensor(D, 16, "V")
    Q = te.compute((N, D), lambda i, k: ROWS[how](P, i, k), name="Q")
    func = made([P, V], summed(Q, V, (N, 16), D, "M"))
    sums, results, _ = kept(func)
    expected = different(func, 40)
    assert results.left == sums.results == expected
    assert sums.left == expected * (D // 2 if how == "columns again" else D)
    assert results.every <= N * 16


def test_what_is_one_number_in_a_row_is_none_of_its_sums() -> None:
    """Row i has i columns of P, each twice, and 127 in the others: a sum has a product with each of those that are left."""
    P, V = tensor(N, D, "P"), tensor(D, 16, "V")
    Q = te.compute((N, D), lambda i, k: te.max(P[i, k // 2], te.if_then_else(k < i, number(-128), number(127))), name="Q")
    sums, _, _ = kept(made([P, V], summed(Q, V, (N, 16), D, "M")))
    assert (sums.results, sums.left) == (16 * (N - 1), 16 * sum((i + 1) // 2 for i in range(N)))


def bound_of(rows: Callable[[Any, Any, Any], Any], n: int, d: int, deep: int) -> Any:
    """The bound of out = clip(Q V), Q made of P element by element."""
    P, V = tensor(n, deep, "P"), tensor(deep, d, "V")
    Q = te.compute((n, deep), lambda i, k: rows(P, i, k), name="Q")
    return Space(made([P, V], summed(Q, V, (n, d), deep, "M")), TARGET).machine


def test_a_row_and_its_mirror_have_the_same_maximum() -> None:
    n, d = 64, 32
    bound = bound_of(lambda P, i, k: te.max(te.max(P[i, k], P[n - 1 - i, k]), number(0)), n, d, 64)
    whole = bound_of(lambda P, i, k: te.max(P[i, k], number(0)), n, d, 64)
    assert bound.words["Q"] * 2 == whole.words["Q"]
    # Half of P is needed in the one place of the text, and half in the other; what comes in of it counts once, the larger.
    assert bound.terms["products"] * 2 == whole.terms["products"]
    assert bound.terms["store chain"] < whole.terms["store chain"]


def test_masked_rows_with_a_bias_are_one() -> None:
    """8 804 cycles were said to be a bound at 256 rows, of which 16 are not masked; a program took 6 126."""
    n, d, seen = 64, 32, 8

    def chain(rows: int) -> PrimFunc:
        P, V, W, B = tensor(rows, d, "P"), tensor(d, d, "V"), tensor(d, d, "W"), te.placeholder((d,), "int32", name="B")
        q = masked(P, lambda i, k: i < seen, "q")
        A = summed(q, V, (rows, d), d, "A")
        t = te.compute((rows, d), lambda i, j: clipped(A[i, j] + B[j]), name="t")
        return made([P, V, B, W], summed(t, W, (rows, d), d, "M"))

    # One row stands for all that are masked; the other program has it once, and the host repeats it.
    whole, rows = chain(n), chain(16)
    inputs = [x // 4 for x in resolve(whole, TARGET).inputs(0)]
    found = results(rows, TARGET, [inputs[0][:16], *inputs[1:]]).reshape(16, d)
    assert len(np.unique(found)) > 12 and np.abs(found).max() < 127
    np.testing.assert_array_equal(results(whole, TARGET, inputs), np.concatenate([found, found[8:9].repeat(n - 16, 0)]).ravel())
    stored = (n - 16) * d // 16 * 27 // 8
    bound = Space(whole, TARGET).machine
    assert bound.cycles <= best(rows, TARGET, 4, 200) + stored
    vectors = (seen * d // 16, (seen + 1) * d // 16)  #: what is masked has no products, and one row is made of it
    assert bound.words["t"] == 2 * vectors[1]
    assert bound.terms["products"] == (seen + seen + 1) * d * d // 256
    assert bound.terms["initial"] == vectors[0] - d // 16 + vectors[1] + 6  # the bias stands where sums begin
    assert bound.terms["stages"] == 3 * sum(vectors) + 3 * 6


def test_what_is_a_parameter_in_other_words_is_not_made() -> None:
    """max(min(P, R), min(max(P, R), P)) is P, whatever R is: nothing is done for it, and it is not stored."""
    n, d = 32, 32

    def terms(last: Callable[[Any, Any], Any]) -> Any:
        P, R, V = tensor(n, d, "P"), tensor(n, d, "R"), tensor(d, d, "V")
        Q = te.compute((n, d), lambda i, k: te.max(te.min(P[i, k], R[i, k]), te.min(te.max(P[i, k], R[i, k]), last(
            P[i, k], R[i, k]))), name="Q")
        return Space(made([P, R, V], summed(Q, V, (n, d), d, "M")), TARGET).machine

    other, own = terms(lambda p, r: te.max(p, number(3))), terms(lambda p, r: p)
    assert (other.words["Q"], own.words["Q"]) == (2 * n * d // 16, 0)
    assert other.terms["stages"] - own.terms["stages"] >= n * d // 16
    assert other.terms["store chain"] - own.terms["store chain"] == n * d // 16 * 27 // 8


def test_what_the_host_reads_of_a_part_of_rows_is_loaded_once() -> None:
    """4 162 cycles were said to be a bound at 128 rows; a program took 2 591."""
    n, d, again = 64, 32, 4
    P, V = tensor(n, d, "P"), tensor(d, d, "V")
    k = te.reduce_axis((0, d), name="k")
    M = te.compute((n, d), lambda i, j: te.sum(wide(P[i % (n // again), k]) * wide(V[k, j]), axis=k), name="M")
    bound = Space(made([P, V], M), TARGET).machine
    Q = tensor(n // again, d, "Q")
    S = summed(Q, V, (n // again, d), d, "S")
    outs = [te.compute((n // again, d), lambda i, j: clipped(S[i, j]), name=f"o{x}") for x in range(again)]
    rows = te.create_prim_func([Q, V, *outs])
    inputs = resolve(rows, TARGET).inputs(1)
    whole = np.concatenate([inputs[0], np.full((n - n // again, d), 7, np.int8)])
    np.testing.assert_array_equal(results(made([P, V], M), TARGET, [whole, inputs[1]]), results(rows, TARGET, inputs))
    assert bound.cycles <= best(rows, TARGET, 4, 200)
    assert bound.words["local.inp_buffer of P"] == 2 * n * d // 16 // again


def test_two_nests_that_make_the_same_sums_make_them_once() -> None:
    """In other words: max(x, 0), and max(max(x, -5), 0)."""
    n, d = 32, 32

    def twice(second: Callable[[Any], Any]) -> int:
        A, V = tensor(n, d, "A"), tensor(d, d, "V")
        made_by = [lambda x: te.max(x, number(0)), second]
        def each(f: Callable[[Any], Any], name: str) -> Any:
            return te.compute((n, d), lambda i, k: f(A[i, k]), name=name)

        def out(S: Any, shift: int) -> Any:
            return te.compute((n, d), lambda i, j: clipped(S[i, j], shift), name=f"o{shift}")

        sums = [summed(each(f, f"t{x}"), V, (n, d), d, f"S{x}") for x, f in enumerate(made_by)]
        outs = [out(S, 5 + x) for x, S in enumerate(sums)]
        found: int = Space(te.create_prim_func([A, V, *outs]), TARGET).machine.terms["products"]
        return found

    once = n * d // 16 + n * d * d // 256
    assert twice(lambda x: te.max(te.max(x, number(-5)), number(0))) == once
    assert twice(lambda x: te.max(x, number(1))) == n * d // 16 + 2 * n * d * d // 256


def halves(n: int, d: int, deep: int, others: str) -> PrimFunc:
    """[A B] V, and [A C] V."""
    A, V = tensor(n, deep // 2, "A"), tensor(deep, d, "V")

    def joined(other: Any, name: str) -> Any:
        return te.compute((n, deep), lambda i, k: te.if_then_else(k < deep // 2, A[i, k], other[i, k - deep // 2]), name=name)

    given = {name: tensor(n, deep // 2, name) for name in dict.fromkeys(others)}
    sums = [summed(joined(given[name], f"A{name}{k}"), V, (n, d), deep, f"S{k}") for k, name in enumerate(others)]
    outs = [te.compute((n, d), clip_of(S, 5 + k), name=f"o{k}") for k, S in enumerate(sums)]
    return te.create_prim_func([A, *given.values(), V, *outs])


def clip_of(S: Any, shift: int) -> Callable[[Any, Any], Any]:
    return lambda i, j: clipped(S[i, j], shift)


@pytest.mark.parametrize(("others", "times"), [("BC", 3), ("BB", 2)])
def test_nests_have_products_in_common_that_are_parts_of_their_sums(others: str, times: int) -> None:
    n, d, deep = 32, 16, 32
    assert Space(halves(n, d, deep, others), TARGET).machine.terms["products"] == times * n * d * deep // 2 // 256


def test_where_pairs_are_too_many_to_look_at_the_text_tells_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the columns are one row's in all rows: the text divides by how often an element stands, draws by pairs."""
    n, d, deep = 32, 32, 32
    A, r, V = tensor(n, deep // 2, "A"), te.placeholder((deep // 2,), "int8", name="r"), tensor(deep, d, "V")
    Q = te.compute((n, deep), lambda i, k: te.if_then_else(k < deep // 2, A[i, k], r[k - deep // 2]), name="Q")
    func = made([A, r, V], summed(Q, V, (n, d), deep, "M"))
    exact = Space(func, TARGET).machine
    monkeypatch.setattr("space.once.PAIRS", n * d * deep - 1)
    less = Space(func, TARGET).machine
    assert less.terms["products"] <= exact.terms["products"] <= (n + 1) * d * deep // 2 // 256


def test_a_factor_that_is_promised_to_be_one_number_makes_the_results_of_all_rows_one() -> None:
    n, d, deep = 64, 32, 128
    P, V = tensor(n, deep, "P"), tensor(deep, d, "V")
    func = made([P, V], summed(P, V, (n, d), deep, "M"))
    ones, two = (Space(replace(func, value_ranges=((low, 1), None, None)), TARGET).machine.terms["products"] for low in (1, 0))
    assert two == n * d * deep // 256
    assert ones == d * deep // 256


def test_windows_of_products_have_them_in_common() -> None:
    """A sum of eight rows' products has seven with the next one."""
    n, d, size = 32, 32, 8
    X, W = tensor(n + size - 1, d, "X"), tensor(n + size - 1, d, "W")
    r = te.reduce_axis((0, size), name="r")
    M = te.compute((n, d), lambda i, j: te.sum(wide(X[i + r, j]) * wide(W[i + r, j]), axis=r), name="M")
    sums, _, _ = kept(made([X, W], M))
    assert (sums.left, sums.results) == ((n + size - 1) * d, n * d)


def test_draws_are_those_of_promised_ranges() -> None:
    """Of values from 3 to 5 no more are drawn; and of one that the program is given as well all others may be a copy."""
    P, V = tensor(16, 16, "P"), tensor(16, 16, "V")
    func = replace(made([P, V], summed(P, V, (16, 16), 16, "M")), value_ranges=((3, 5), None, None))
    sketch = next(s for s in Space(func, TARGET).sketches if not s.done)
    drawn = Drawn(Formings(sketch.models).known, sketch.models[0].laid)
    assert all(drawn.draw() for _ in range(12))
    assert {*np.unique(drawn.given["P"].first)} <= {3, 4, 5} and drawn.given["P"].varied.all()
    for buffer, ends in drawn._free:
        for most, end in product(sorted({most for most, _ in KINDS}), range(3)):
            found = _random(np.random.default_rng(most), buffer, ends, most, end)
            assert ends[0] <= found.min() and found.max() <= ends[1]
            assert end == 2 or np.all(found == ends[end])


PLAIN: dict[str, tuple[Callable[[], PrimFunc], bool]] = {
    "a product": (lambda: made([p := tensor(32, 32, "P"), v := tensor(32, 32, "V")], summed(p, v, (32, 32), 32, "M")), True),
    "a tensor by itself": (lambda: made([p := tensor(32, 32, "P")], summed(p, p, (32, 32), 32, "M", across=True)), False),
    "rows again": (lambda: made([p := tensor(8, 32, "P"), v := tensor(32, 32, "V")], summed(
        te.compute((32, 32), lambda i, k: p[i // 4, k], name="Q"), v, (32, 32), 32, "M")), False),
    "a maximum of two": (lambda: te.create_prim_func([p := tensor(32, 32, "P"), v := tensor(32, 32, "V"), te.compute(
        (32, 32), lambda i, j: te.max(p[i, j], v[i, j]), name="out")]), True),
    "of one and itself": (lambda: te.create_prim_func([p := tensor(32, 32, "P"), te.compute(
        (32, 32), lambda i, j: te.max(p[i, j], p[31 - i, j]), name="out")]), False),
    "one column for all": (lambda: te.create_prim_func([p := tensor(32, 32, "P"), te.compute(
        (32, 32), lambda i, j: te.max(p[i, 0], number(3)), name="out")]), False),
}


def test_what_never_is_the_result_tells_nothing_apart() -> None:
    """Where R is promised to be less than P all of a maximum is P's, which four rows have in common."""
    P, R = tensor(8, 32, "P"), tensor(32, 32, "R")
    out = te.compute((32, 32), lambda i, j: te.max(P[i // 4, j], R[i, j]), name="out")
    func = te.create_prim_func([P, R, out])
    assert told_apart(func, TARGET)
    assert not told_apart(replace(func, value_ranges=((0, 127), (-128, -1), None)), TARGET)


@pytest.mark.parametrize("what", PLAIN)
def test_where_the_text_tells_all_apart_nothing_is_drawn(what: str) -> None:
    func, plain = PLAIN[what][0](), PLAIN[what][1]
    assert told_apart(func, TARGET) == plain
    if plain:
        _, results, formings = kept(func) if "product" in what else (None, None, None)
        assert results is None or not results.fewer
        assert formings is None or not any(m is not None and m.fewer for m in formings._once._told())


def test_the_same_program_has_the_same_bound() -> None:
    """Draws are those of a seed."""
    func = workload(f"{PROGRAMS / 'gate_in_two_parts'}.py:main").func
    one, other = (Space(func, TARGET).machine for _ in range(2))
    assert one == other
