"""Factors that are both read at multiples of an iterator, or from somewhere on: the host lays them out densely."""

from __future__ import annotations

from math import prod

import pytest

from autosched import te
from autosched.errors import SpaceError
from autosched.ir import PrimFunc
from autosched.ir.host import split_host
from autosched.measure import Candidate, measure
from autosched.target import get_target
from space import Space
from space.normalise import normalise

Index = tuple[int, int]  # a multiple of an iterator, and from where on


def program(rows: Index, columns: Index, deep: int = 1, window: int = 1, times: int = 1) -> PrimFunc:
    """A product of 24 rows by 24 columns, over a window along rows and multiples of 48 elements; then a factor."""
    (a, b), (c, d) = rows, columns
    x = te.placeholder((23 * a + b + window, 48 * deep), "int8", name="x")
    w = te.placeholder((23 * c + d + 1, window, 48), "int8", name="w")
    p, k = te.reduce_axis((0, window), name="p"), te.reduce_axis((0, 48), name="k")
    y = te.compute((24, 24), lambda i, j: te.sum(
        x[i * a + b + p, k * deep].astype("int32") * w[j * c + d, p, k].astype("int32"), axis=[p, k]), name="y")
    made = te.compute((24, 24), lambda i, j: te.max(te.min((y[i, j] >> 7) * times, 127), -128).astype("int8"), name="z")
    return te.create_prim_func([x, w, made])


def laid_out(func: PrimFunc, target: str = "vta-de10") -> dict[str, int]:
    """Elements of what the host makes of parameters."""
    device = split_host(normalise(func, get_target(target))[0]).device
    return {b.name: prod(int(n.value) for n in b.shape) for b in device.buffers if not b.name.startswith("z")}


def runs(func: PrimFunc, target: str = "vta-de10") -> bool:
    space = Space(func, target)
    return measure(Candidate(func, target, tuple(space.trace(space.point()).as_json())), execute=True, wide=True).ok


@pytest.mark.parametrize("times", [1, 3])  # what the ALU lacks leads to a form by another way
@pytest.mark.parametrize(("rows", "columns"), [
    ((2, 0), (2, 0)), ((3, 1), (2, 5)), ((1, 2), (2, 1)), ((2, 3), (1, 4)), ((1, 2), (1, 3)),
])
def test_all_lanes_are_filled(rows: Index, columns: Index, times: int) -> None:
    func = program(rows, columns, times=times)
    # 24 vectors of 48 elements, and weights for 32 vectors.
    found = laid_out(func)
    assert sorted(found.values()) == [24 * 48, 32 * 48]
    # What is read from one index on is cut out, as it was before there were strides.
    assert [n.rpartition("_")[2] for n in found] == ["part" if step == 1 else "reindex" for step, _ in (rows, columns)]
    assert runs(func) and (times > 1 or runs(func, "vta-de10-portable"))


def test_windows_stay_where_they_are() -> None:
    func = program((2, 1), (2, 0), window=3)
    found = laid_out(func)
    assert list(found) == ["x_global", "w_global_reindex"] and runs(func)
    # Rows of the window lie side by side in the data, each once.
    assert list(found.values()) == [(23 * 2 + 1 + 3) * 48, 32 * 3 * 48]


def test_windows_at_multiples_of_what_is_summed_over_are_not_gathered_for_it() -> None:
    """Each element would lie there as often as windows read it."""
    with pytest.raises(SpaceError, match="no plain index of its own"):
        Space(program((1, 0), (2, 0), deep=2, window=6), "vta-de10")


def test_one_factor_with_a_stride_needs_nothing() -> None:
    func = program((2, 0), (1, 0))
    assert laid_out(func) == {"x_global": 47 * 48, "w_global": 32 * 48}
    assert runs(func)


def test_filters_with_a_stride_over_one_row_are_rows_of_their_own() -> None:
    """Data that lie at sums of iterators only have no index of what is summed over: the host gathers their windows."""
    x, w = te.placeholder((40,), "int8", name="x"), te.placeholder((3, 9), "int8", name="w")
    p = te.reduce_axis((0, 9), name="p")
    y = te.compute((2, 32), lambda j, i: te.sum(x[i + p].astype("int32") * w[2 * j, p].astype("int32"), axis=p), name="y")
    z = te.compute((2, 32), lambda j, i: te.max(te.min(y[j, i] >> 7, 127), -128).astype("int8"), name="z")
    func = te.create_prim_func([x, w, z])
    assert laid_out(func) == {"w_global": 3 * 16, "x_global_reindex": 32 * 16} and runs(func)
