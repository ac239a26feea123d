"""Sums that stages read for more lanes than they are made for: means over channels and groups, made for each by a matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spaces import computes, formed
from turns import MACHINES, in_turn

from autosched import te
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.target import get_target
from space.normalise import EVERYWHERE, Wanted, everywhere, normal_forms, normalise
from space.normalise.blocks import device_block, device_blocks, product_of, store_of
from space.normalise.blocks import extents as sizes

DE10 = "vta-de10"
ALL = Wanted(everywhere=True)


def narrow(e):
    return te.max(te.min(e, 127), -128).astype("int8")


def centred(rows: int, size: int, shift: int = 6, mean: str = "int32", by: int = 1, times: bool = True) -> PrimFunc:
    """Rows of channels without their means, times a number for each channel.

    Args:
        rows: of them.
        size: channels.
        shift: of the mean.
        mean: the type of its stage, ``inside`` for none.
        by: channels of a group, each with a mean of its own; 1 for all of them.
        times: whether there is that number.
    """
    x, g = te.placeholder((rows, size), "int8", name="x"), te.placeholder((size,), "int8", name="g")
    each = size if by == 1 else by
    k = te.reduce_axis((0, each), name="k")
    s = te.compute((rows, size // each), lambda i, n: te.sum(x[i, n * each + k].astype("int32"), axis=k), name="s")
    m = s if mean == "inside" else te.compute(
        s.shape, lambda i, n: narrow(s[i, n] >> shift) if mean == "int8" else s[i, n] >> shift, name="m")

    def less(i, j):
        value = m[i, 0 if by == 1 else j // each]
        return x[i, j].astype("int32") - (value >> shift if mean == "inside" else value.astype("int32"))

    c = te.compute((rows, size), lambda i, j: narrow(less(i, j)), name="c")
    if not times:
        return te.create_prim_func([x, c])
    return te.create_prim_func([x, g, te.compute((rows, size), lambda i, j: narrow(
        (c[i, j].astype("int32") * g[j].astype("int32")) >> 6), name="o")])


CASES = (
    {"rows": 16, "size": 64}, {"rows": 5, "size": 40, "mean": "int8"}, {"rows": 3, "size": 16},
    {"rows": 7, "size": 48, "shift": 2}, {"rows": 4, "size": 24, "by": 6}, {"rows": 3, "size": 64, "by": 16, "mean": "int8"},
    {"rows": 9, "size": 20, "by": 5, "shift": 0},
    {"rows": 6, "size": 33, "mean": "inside"}, {"rows": 20, "size": 32, "by": 8, "mean": "inside"},
)


@pytest.mark.parametrize(("case", "target"), in_turn([(case,) for case in CASES]))
def test_means_are_taken_away_from_every_channel(case: dict[str, object], target: str) -> None:
    func = centred(**case)  # type: ignore[arg-type]
    formed(func, target, ALL)
    computes(func, target, 2, ALL)


@settings(max_examples=12)
@given(st.integers(1, 18), st.integers(1, 6), st.integers(2, 17), st.integers(0, 7), st.sampled_from(["int8", "int32", "inside"]),
       st.sampled_from(MACHINES))
def test_means_of_any_groups_are_taken_away(rows: int, groups: int, each: int, shift: int, mean: str, target: str) -> None:
    func = centred(rows, groups * each, shift, mean, each if groups > 1 else 1)
    made = everywhere.apart(_begun(func), get_target(target))
    assert made is not None
    for seed in range(2):
        inputs = random_inputs(func, seed)
        assert all(map(np.array_equal, run(made.func, *inputs), run(func, *inputs)))
    if normalise(func, get_target(target), ALL)[1]:
        formed(func, target, ALL)


@pytest.mark.parametrize(("case", "rows", "groups", "stored"), [
    ({"rows": 16, "size": 64}, 16, 1, True), ({"rows": 16, "size": 64, "mean": "int8"}, 16, 1, True),
    ({"rows": 3, "size": 17}, 16, 1, True), ({"rows": 3, "size": 16}, 16, 1, False),  # one element has them all
    ({"rows": 7, "size": 48, "shift": 2}, 48, 1, False),  # no int8 holds it: it stays in the accumulator, where every lane has it
    ({"rows": 4, "size": 24, "by": 6}, 24, 4, False),
])
def test_what_counts_is_a_matrix(case: dict[str, object], rows: int, groups: int, stored: bool) -> None:
    """Of a mean of all channels one element, where that is stored as int8; of groups a row for each channel, in its group."""
    func = centred(**case)  # type: ignore[arg-type]
    sch = everywhere.apart(_begun(func), get_target(DE10))
    assert sch is not None
    total = device_block(sch, "s_0")
    assert product_of(total) is not None and [*sizes(total).values()][:2] == [case["rows"], rows]
    assert (store_of(device_block(sch, "m_0")).buffer.dtype == "int8") == stored == ("% 16" in sch.script())
    size = int(case["size"])  # type: ignore[call-overload]
    (made,) = sch.func.constants
    wanted = np.kron(np.eye(groups), np.ones((rows // groups, size // groups)))
    assert np.array_equal(np.frombuffer(made.data, np.int8).reshape(rows, size), wanted)


def _begun(func: PrimFunc) -> Schedule:
    return Schedule(func, seed=0)


def lanes_of(func: PrimFunc, wanted: Wanted) -> int:
    """How many vectors a form stores of its result, over all of its nests."""
    device = split_host(normalise(func, get_target(DE10), wanted)[0]).device
    last = device_blocks(device)[-1]
    return int(np.prod(list(sizes(last).values()))) // 16


def test_channels_are_lanes_where_rows_would_leave_them_empty() -> None:
    func = centred(3, 64)
    assert lanes_of(func, ALL) == 12 and lanes_of(func, Wanted()) == 64


def by_channel(pixels: int) -> PrimFunc:
    """Images without the means of their channels, which lie in the lanes already."""
    x = te.placeholder((2, 16, pixels), "int8", name="x")
    p = te.reduce_axis((0, pixels), name="p")
    s = te.compute((2, 16), lambda n, c: te.sum(x[n, c, p].astype("int32"), axis=p), name="s")
    m = te.compute((2, 16), lambda n, c: narrow(s[n, c] >> 4), name="m")
    return te.create_prim_func([x, te.compute(x.shape, lambda n, c, i: narrow(
        x[n, c, i].astype("int32") - m[n, c].astype("int32")), name="y")])


@pytest.mark.parametrize(("func", "fits"), [
    (centred(16, 64), True), (centred(4, 24, by=6), True), (centred(64, 128, 7), True),  # computing longer, moving less
    (centred(16, 64, times=False), False), (by_channel(9), False),
])
def test_it_is_a_form_where_it_takes_less(func: PrimFunc, fits: bool) -> None:
    assert ((EVERYWHERE,) in [done for done, _ in normal_forms(func, get_target(DE10))]) == fits


@pytest.mark.parametrize("func", [centred(3, 16), centred(64, 64, 2)])
def test_where_nothing_else_has_a_schedule_it_is_the_form_whatever_it_takes(func: PrimFunc) -> None:
    assert (EVERYWHERE,) not in [done for done, _ in normal_forms(func, get_target(DE10))]
    computes(func, DE10)


def read_plainly() -> PrimFunc:
    """Sums that a stage reads where they are made."""
    x = te.placeholder((8, 32), "int8", name="x")
    k = te.reduce_axis((0, 32), name="k")
    s = te.compute((8,), lambda i: te.sum(x[i, k].astype("int32"), axis=k), name="s")
    return te.create_prim_func([x, te.compute((8,), lambda i: narrow(s[i] >> 5), name="y")])


def maxima() -> PrimFunc:
    """Rows less their maxima, which are no sums."""
    x = te.placeholder((8, 32), "int8", name="x")
    k = te.reduce_axis((0, 32), name="k")
    s = te.compute((8,), lambda i: te.max(x[i, k].astype("int32"), axis=k), name="s")
    return te.create_prim_func([x, te.compute((8, 32), lambda i, j: narrow(x[i, j].astype("int32") - s[i]), name="y")])


def stored_too() -> PrimFunc:
    """Rows less their means, which are results as well: these are made once, where they are stored."""
    x = te.placeholder((8, 32), "int8", name="x")
    k = te.reduce_axis((0, 32), name="k")
    s = te.compute((8,), lambda i: te.sum(x[i, k].astype("int32"), axis=k), name="s")
    return te.create_prim_func([x, s, te.compute((8, 32), lambda i, j: narrow(x[i, j].astype("int32") - (s[i] >> 5)), name="y")])


def mirrored() -> PrimFunc:
    """Rows less the means of others, which stages read where they do not stand."""
    x = te.placeholder((8, 32), "int8", name="x")
    k = te.reduce_axis((0, 32), name="k")
    s = te.compute((8,), lambda i: te.sum(x[i, k].astype("int32"), axis=k), name="s")
    m = te.compute((8,), lambda i: s[7 - i] >> 5, name="m")
    return te.create_prim_func([x, te.compute((8, 32), lambda i, j: narrow(x[i, j].astype("int32") - m[i]), name="y")])


def crossed() -> PrimFunc:
    """Rows less the means of others, which are neither those of rows nor those of channels."""
    x = te.placeholder((8, 32), "int8", name="x")
    k = te.reduce_axis((0, 32), name="k")
    s = te.compute((5,), lambda i: te.sum(x[i, k].astype("int32"), axis=k), name="s")
    return te.create_prim_func([x, te.compute((8, 32), lambda i, j: narrow(x[i, j].astype("int32") - (s[(i + j) // 8] >> 5)),
                                              name="y")])


@pytest.mark.parametrize("func", [read_plainly(), maxima(), stored_too(), mirrored(), crossed()])
def test_what_is_no_such_sum_is_left(func: PrimFunc) -> None:
    target = get_target(DE10)
    assert not everywhere.applies(func, target)
    assert everywhere.apart(_begun(func), target) is None


@pytest.mark.parametrize("shape", [(5, 32), (32, 5)])
def test_the_matrix_is_of_the_fullest_dimension(shape: tuple[int, int]) -> None:
    """Of a mean of all pixels and channels: these are the lanes, and pixels are gone over one by one."""
    x = te.placeholder((2, *shape), "int8", name="x")
    p, k = (te.reduce_axis((0, n), name=name) for n, name in zip(shape, "pk"))
    s = te.compute((2,), lambda n: te.sum(x[n, p, k].astype("int32"), axis=[p, k]), name="s")
    m = te.compute((2,), lambda n: s[n] >> 8, name="m")
    func = te.create_prim_func([x, te.compute(x.shape, lambda n, i, j: narrow(x[n, i, j].astype("int32") - m[n]), name="y")])
    made = everywhere.apart(_begun(func), get_target(DE10))
    assert made is not None and [sizes(b) for b in device_blocks(made.func) if product_of(b) is not None]
    (constant,) = made.func.constants
    assert len(constant.data) == 16 * 32
    computes(func, DE10, 2, ALL)


def test_the_matrix_is_of_the_dimension_of_groups() -> None:
    """Pixels would fill more lanes; what counts for which channel is told by channels."""
    x = te.placeholder((2, 24, 16), "int8", name="x")
    c, p = te.reduce_axis((0, 6), name="c"), te.reduce_axis((0, 16), name="p")
    s = te.compute((2, 4), lambda n, g: te.sum(x[n, g * 6 + c, p].astype("int32"), axis=[c, p]), name="s")
    func = te.create_prim_func([x, te.compute(x.shape, lambda n, k, i: narrow(
        x[n, k, i].astype("int32") - (s[n, k // 6] >> 7)), name="y")])
    made = everywhere.apart(_begun(func), get_target(DE10))
    assert made is not None
    (constant,) = made.func.constants
    assert len(constant.data) == 24 * 24
    computes(func, DE10, 2, ALL)


def test_the_negative_is_that_of_the_matrix() -> None:
    """What stays in the accumulator is taken away by what counts, which never is -128; the data would be two."""
    new = formed(centred(7, 48, 2), DE10, ALL)
    names = {b.name for b in split_host(new).device.buffers}
    assert "counts_global_negative" in names and not any(name.startswith("x_negative") for name in names)


def test_means_that_two_stages_read_are_made_for_each() -> None:
    x = te.placeholder((6, 32), "int8", name="x")
    k = te.reduce_axis((0, 32), name="k")
    s = te.compute((6,), lambda i: te.sum(x[i, k].astype("int32"), axis=k), name="s")
    m = te.compute((6,), lambda i: s[i] >> 5, name="m")
    func = te.create_prim_func([
        x, te.compute((6, 32), lambda i, j: narrow(x[i, j].astype("int32") - m[i]), name="y"),
        te.compute((6, 32), lambda i, j: narrow(x[i, j].astype("int32") + (m[i] >> 1)), name="z")])
    made = everywhere.apart(_begun(func), get_target(DE10))
    assert made is not None
    sums = [b for b in device_blocks(made.func) if product_of(b) is not None]
    assert len(sums) == 2 and {len(store_of(b).indices) for b in sums} == {2}
    computes(func, DE10, 2)
