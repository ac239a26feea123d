"""The machine bound of programs that store the same elements repeatedly: what is made of them is made once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from masked_programs import best, clipped, number, results, summed, wide

from autosched import te
from autosched.ir.stmt import PrimFunc
from autosched.kernel import resolve
from autosched.target import get_target
from space import Space

TARGET = get_target("vta-de10")


def tensor(n: int, d: int, name: str) -> Any:
    return te.placeholder((n, d), "int8", name=name)


def clip_of(M: Any) -> Callable[[Any, Any], Any]:
    return lambda i, j: clipped(M[i, j])


def made_of(n: int, d: int, rows: int, read: Callable[..., Any], also: bool = False) -> PrimFunc:
    """out = Q V, of n rows of Q that are made of those of P, which has fewer, and of R's."""
    P, R, V = tensor(rows, n, "P"), tensor(n, n, "R"), tensor(n, d, "V")
    Q = te.compute((n, n), lambda i, k: read(P, R, i, k), name="Q")
    M = summed(Q, V, (n, d), n, "M")
    return te.create_prim_func([P, *[R] * also, V, te.compute((n, d), clip_of(M), name="out")])


def once(n: int, d: int, again: int) -> PrimFunc:
    """The same of each row that there is, stored so often."""
    P, V = tensor(n // again, n, "P"), tensor(n, d, "V")
    Q = te.compute((n // again, n), lambda i, k: te.max(P[i, k], number(0)), name="Q")
    M = summed(Q, V, (n // again, d), n, "M")
    outs = [te.compute((n // again, d), clip_of(M), name=f"out{m}") for m in range(again)]
    return te.create_prim_func([P, V, *outs])


def test_a_program_that_makes_each_row_once_does_not_beat_the_bound() -> None:
    """7 490 cycles were said to be a bound; it takes 4 060."""
    n, d, again = 128, 64, 4
    whole, rows = made_of(n, d, n // again, lambda P, R, i, k: te.max(P[i // again, k], number(0))), once(n, d, again)
    inputs = resolve(whole, TARGET).inputs(0)
    found = results(rows, TARGET, inputs).reshape(again, n // again, d)
    np.testing.assert_array_equal(results(whole, TARGET, inputs), found.transpose(1, 0, 2).ravel())
    assert Space(whole, TARGET).machine_bound() <= best(rows, TARGET, 3, 150) < 7490


def over(x: Any) -> Any:
    return te.max(x, number(0))


READS: dict[str, tuple[Callable[..., Any], bool, int, int]] = {
    "four rows": (lambda P, R, i, k: over(P[i // 4, k]), False, 4, 16),
    "two rows": (lambda P, R, i, k: over(P[i // 2, k]), False, 2, 32),
    "each row": (lambda P, R, i, k: over(P[i, k]), False, 1, 64),
    "told apart by another": (lambda P, R, i, k: over(te.max(P[i // 4, k], R[i, k])), True, 1, 16),
    "told apart less": (lambda P, R, i, k: over(te.max(P[i // 4, k], R[i // 2, k])), True, 2, 16),
}


@pytest.mark.parametrize("how", READS)
def test_results_of_the_same_rows_are_formed_once(how: str) -> None:
    n, d = 64, 32
    read, also, again, rows = READS[how]
    bound = Space(made_of(n, d, n, read, also), TARGET).machine
    made = n * n // 16 // again
    assert bound.words["Q"] == 2 * made
    # Of P no more is loaded than what is read.
    assert bound.words["local.inp_buffer of P"] == 2 * rows * n // 16
    results = n * d // 16 // again
    if not also:
        assert bound.terms["products"] == made + n * n * d // 256 // again
        assert bound.terms["stages"] == made + 3 * results + 18


@pytest.mark.parametrize(("least", "times"), [(0, 4), (-2, 1)])
def test_what_never_is_the_result_tells_nothing_apart(least: int, times: int) -> None:
    """Where R is promised to be less than P all of a maximum is P's; else R's element tells its row."""
    n, d = 64, 32
    func = made_of(n, d, n // 4, lambda P, R, i, k: te.max(te.max(P[i // 4, k], R[i, k]), number(5)), also=True)
    bound = Space(replace(func, value_ranges=((least, 127), (-128, -1), None, None)), TARGET).machine
    assert bound.words["Q"] == 2 * n * n // 16 // times


def chained(again: int, n: int = 64, d: int = 32, q: int = 16) -> PrimFunc:
    """Scores of rows, of which so many are the same ones, times V."""
    A, K, V = tensor(n // again, q, "A"), tensor(n, q, "K"), tensor(n, d, "V")
    k = te.reduce_axis((0, q), name="k")
    S = te.compute((n, n), lambda i, j: te.sum(wide(A[i // again, k]) * wide(K[j, k]), axis=k), name="S")
    P = te.compute((n, n), lambda i, j: clipped(S[i, j], 8), name="P")
    M = summed(P, V, (n, d), n, "M")
    return te.create_prim_func([A, K, V, te.compute((n, d), clip_of(M), name="out")])


@pytest.mark.parametrize("again", [1, 2, 4])
def test_sums_of_the_same_rows_are_the_same(again: int) -> None:
    n, d, q = 64, 32, 16
    bound = Space(chained(again), TARGET).machine
    assert bound.words["P"] == 2 * n * n // 16 // again
    assert bound.terms["products"] == (n * n * q + n * n * d) // 256 // again


def test_what_stands_repeatedly_within_a_row_is_a_factor_once() -> None:
    """Of what is stored half is the other half, and x w + x v is x (w + v); but each row is another one."""
    n, d, q = 64, 32, 16
    A, K, V = tensor(n, q, "A"), tensor(n // 2, q, "K"), tensor(n, d, "V")
    k = te.reduce_axis((0, q), name="k")
    S = te.compute((n, n), lambda i, j: te.sum(wide(A[i, k]) * wide(K[j // 2, k]), axis=k), name="S")
    P = te.compute((n, n), lambda i, j: clipped(S[i, j], 8), name="P")
    M = summed(P, V, (n, d), n, "M")
    bound = Space(te.create_prim_func([A, K, V, te.compute((n, d), clip_of(M), name="out")]), TARGET).machine
    assert bound.words["P"] == 2 * n * n // 2 // 16
    assert bound.terms["products"] == n * n * q // 2 // 256 + n * n * d // 2 // 256
    assert bound.terms["stages"] == 3 * (n * n // 2 + n * d) // 16 + 18


def test_windows_of_what_is_stored_are_none_of_each_other() -> None:
    """Each element of an image stands in nine windows, and no two windows are the same."""
    def bound(first: int, second: int) -> int:
        x, w = te.placeholder((16, 12, 12), "int8", name="x"), te.placeholder((16, 16, 3, 3), "int8", name="w")
        u = te.placeholder((16, 16, 3, 3), "int8", name="u")

        def windows(a: Any, b: Any, size: int, name: str) -> Any:
            c, p, q = te.reduce_axis((0, 16), "c"), te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 3), "q")
            sums = te.compute((16, size, size), lambda o, i, j: te.sum(
                wide(a[c, i + p, j + q]) * wide(b[o, c, p, q]), axis=[c, p, q]), name=f"{name}_sum")
            return te.compute((16, size, size), lambda *at: clipped(sums[at]), name=name)

        func = te.create_prim_func([x, w, u, windows(windows(x, w, first, "y"), u, second, "z")])
        return Space(func, TARGET).machine.terms["products"]

    assert bound(10, 8) == (10 * 10 + 8 * 8) * 9
