"""Programs that come to the same with fewer products or operations, run: the bound of what is written is not above them.

Each was above one once. The twins show that the bound still counts what no program can do without.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.ir import PrimFunc
from autosched.ir.expr import int_value
from autosched.kernel import of_schedule, resolve
from autosched.lower import lower_table
from autosched.schedule import Schedule
from autosched.target import get_target
from space import Space
from space.machine_bound import MachineBound

Tail = Callable[[Any], Any]
ROWS, DEPTH, COLUMNS, TIMES = 16, 4, 8, 4


def wide(e: Any) -> Any:
    return e.astype("int32")


def bound(func: PrimFunc, target: str) -> MachineBound:
    return Space(func, target).machine


def multiplied(x: Any, w: Any, shape: tuple[int, ...], row: Callable[..., Any], name: str) -> Any:
    """A sum of products of packed rows and columns; ``row`` says which by the result's indices."""
    k, kb = te.reduce_axis((0, DEPTH), name=f"{name}_k"), te.reduce_axis((0, 16), name=f"{name}_kb")
    return te.compute(shape, lambda *at: te.sum(
        wide(x[row(*at), k, at[-2], kb]) * wide(w[at[-3], k, at[-1], kb]), axis=[k, kb]), name=name)


def narrow(value: Any, shape: tuple[int, ...], name: str, at: Callable[..., tuple[Any, ...]]) -> Any:
    return te.compute(shape, lambda *i: value[at(*i)].astype("int8"), name=name)


def once(second: bool, repeated: bool) -> PrimFunc:
    """Products with results that are alike, or with every other row once more: two sums, or one that is stored again."""
    x = te.placeholder((ROWS, DEPTH, 1, 16), "int8", name="x")
    w = te.placeholder((COLUMNS, DEPTH, 16, 16), "int8", name="w")
    c = multiplied(x, w, (ROWS, COLUMNS, 1, 16), lambda i, *_: i, "c")
    if repeated:
        shape = (ROWS, TIMES, COLUMNS, 1, 16)
        of = multiplied(x, w, shape, lambda i, *_: i, "c") if second else c
        out = narrow(of, shape, "o", (lambda *i: i) if second else (lambda i, _, *rest: (i, *rest)))
        return te.create_prim_func([x, w, out])
    half = (ROWS // 2, COLUMNS, 1, 16)
    whole = narrow(c, (ROWS, COLUMNS, 1, 16), "o", lambda *i: i)
    d = multiplied(x, w, half, lambda i, *_: i * 2, "d") if second else c
    part = narrow(d, half, "p", (lambda *i: i) if second else (lambda i, *rest: (i * 2, *rest)))
    return te.create_prim_func([x, w, whole, part])


@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable"])
@pytest.mark.parametrize("repeated", [True, False])
def test_products_that_two_sums_have_in_common_count_once(repeated: bool, target: str) -> None:
    get_target(target)  # which knows its own intrinsic
    written, rival = once(True, repeated), once(False, repeated)
    sch = Schedule(rival)
    c = sch.get_sblock("c")
    sch.set_scope(c, 0, "local.acc_buffer")
    a, b = sch.cache_read(c, "x", "local.inp_buffer"), sch.cache_read(c, "w", "local.wgt_buffer")
    i, j, bi, bj, k, kb = sch.get_loops(c)
    sch.reorder(k, i, j, bi, bj, kb)
    sch.decompose_reduction(c, k)
    for copy in (a, b):
        sch.compute_at(copy, k)
        sch.double_buffer(copy, 0)
    sch.tensorize(bi, "vta.gemm.1x16x16")
    made = of_schedule(rival, target, sch)
    task = resolve(written, get_target(target))
    inputs = task.inputs(0)
    results = made(*inputs)
    for want, got in zip(task.results(*inputs).values(), results if isinstance(results, tuple) else (results,), strict=True):
        np.testing.assert_array_equal(want, got)
    found = bound(written, target)
    assert found.cycles <= made.cycles
    assert found.terms["products"] == ROWS * COLUMNS * DEPTH


def test_sums_of_other_weights_add_up() -> None:
    x = te.placeholder((ROWS, DEPTH, 1, 16), "int8", name="x")
    outs = []
    weights = [te.placeholder((COLUMNS, DEPTH, 16, 16), "int8", name=name) for name in ("v", "w")]
    for w in weights:
        c = multiplied(x, w, (ROWS, COLUMNS, 1, 16), lambda i, *_: i, f"{w.op.name if hasattr(w, 'op') else w.name}_c")
        outs.append(narrow(c, (ROWS, COLUMNS, 1, 16), f"o{len(outs)}", lambda *i: i))
    assert bound(te.create_prim_func([x, *weights, *outs]), "vta-de10").terms["products"] == 2 * ROWS * COLUMNS * DEPTH


@pytest.mark.parametrize(("shift", "times"), [(0, 4), (1, 4)])
def test_a_product_that_stands_in_several_places_of_sums_counts_once(shift: int, times: int) -> None:
    """Along a reduction that only one factor is read along, or none: what is summed up may be sums of products already."""
    def repeated(more: int) -> int:
        x = te.placeholder((ROWS + shift * more, DEPTH, 1, 16), "int8", name="x")
        w = te.placeholder((COLUMNS, DEPTH, 16, 16), "int8", name="w")
        t, k, kb = (te.reduce_axis((0, n), name=name) for n, name in ((more, "t"), (DEPTH, "k"), (16, "kb")))
        c = te.compute((ROWS, COLUMNS, 1, 16), lambda i, j, b, lane: te.sum(
            wide(x[i + shift * t, k, b, kb]) * wide(w[j, k, lane, kb]), axis=[t, k, kb]), name="c")
        out = narrow(c, (ROWS, COLUMNS, 1, 16), "o", lambda *at: at)
        return bound(te.create_prim_func([x, w, out]), "vta-de10").terms["products"]

    assert repeated(times) == repeated(1) == ROWS * COLUMNS * DEPTH


def test_a_product_of_a_tensor_with_itself_is_known_by_half() -> None:
    def gram(same: bool) -> PrimFunc:
        x = te.placeholder((64, 256), "int8", name="x")
        y = x if same else te.placeholder((64, 256), "int8", name="y")
        k = te.reduce_axis((0, 256), name="k")
        c = te.compute((64, 64), lambda i, j: te.sum(wide(x[i, k]) * wide(y[j, k]), axis=k), name="c")
        out = te.compute((64, 64), lambda i, j: (c[i, j] >> 6).astype("int8"), name="o")
        return te.create_prim_func([x, out] if same else [x, y, out])

    alone, other = (bound(gram(same), "vta-de10").terms["products"] for same in (True, False))
    assert other == 64 * 64 // 16 * 256 // 16 == 2 * alone


def dense(tail: Tail, depth: int = 16) -> PrimFunc:
    x = te.placeholder((64, depth), "int8", name="x")
    w = te.placeholder((64, depth), "int8", name="w")
    k = te.reduce_axis((0, depth), name="k")
    acc = te.compute((64, 64), lambda i, j: te.sum(wide(x[i, k]) * wide(w[j, k]), axis=k), name="acc")
    return te.create_prim_func([x, w, te.compute((64, 64), lambda i, j: tail(acc[i, j]).astype("int8"), name="o")])


def number(value: int) -> Any:
    return te.const(value, "int32")


def clipped(v: Any, low: int, high: int) -> Any:
    return te.min(te.max(v, number(low)), number(high))


@pytest.mark.parametrize(("tail", "vector"), [
    # Of 16 products none reaches 2^15 once it is shifted by 4; of a range that ends one lower the ends count.
    pytest.param(lambda v: clipped(v >> 4, -(1 << 15), (1 << 15) - 1), 2, id="ends out of reach"),
    pytest.param(lambda v: clipped(v >> 4, -(1 << 14), 1 << 14), 2, id="the very ends"),
    pytest.param(lambda v: clipped(v >> 4, -(1 << 13), (1 << 14) - 1), 4, id="within them"),
    pytest.param(lambda v: (v * 4) >> 2, 1, id="a scale undone"),
    pytest.param(lambda v: (v << 3) >> 3, 1, id="a shift undone"),
    pytest.param(lambda v: (v + v) >> 1, 1, id="a sum of two halved"),
    pytest.param(lambda v: (v * 4) >> 3, 2, id="more than the scale"),
    pytest.param(lambda v: (v * 4 + 2) >> 2, 1, id="a scale and a constant"),
    pytest.param(lambda v: clipped(v * 4, -512, 510) >> 2, 3, id="a scale between constants"),
    pytest.param(lambda v: (v * 2 + 2) >> 2, 2, id="less of a scale"),
    pytest.param(lambda v: clipped(v >> 4, -1, 0), 2, id="two values"),
    pytest.param(lambda v: clipped(v >> 4, -1, 0) * 4 + 3, 2, id="two values, moved"),
    pytest.param(lambda v: clipped(v >> 4, -1, 1), 4, id="three values"),
])
def test_operations_that_a_result_can_do_without_do_not_count(tail: Tail, vector: int) -> None:
    assert bound(dense(tail), "vta-de10").vector == vector


@pytest.mark.parametrize(("bytes_", "initial"), [(64, 1), (32, 2), (8, 2)])
def test_on_a_wide_bus_a_load_writes_a_vector_as_soon_as_a_reset(bytes_: int, initial: int, tmp_path: Path) -> None:
    path = tmp_path / "wide.json"
    path.write_text(json.dumps({"semantics": "portable", "bus_bytes": bytes_, "burst_beats": 256}))
    from autosched.workloads import workload

    func = workload("dense:m=16,k=32,n=1024,bias=1,tail=cast").func
    assert bound(func, str(path)).vector == initial


# -- programs of several nests -----------------------------------------------------------------------------------------------

SIDE = 16


def pointwise(x: Any, channels: int, name: str, step: int = 1) -> tuple[Any, Any]:
    """The sums of a 1x1 convolution of an image, and its weights."""
    depth, side, _ = (int_value(e) or 1 for e in x.shape)
    rows = side // step
    w = te.placeholder((channels, depth), "int8", name=f"w{name}")
    k = te.reduce_axis((0, depth), name=f"k{name}")
    acc = te.compute((channels, rows, rows), lambda o, i, j: te.sum(
        wide(x[k, i * step, j * step]) * wide(w[o, k]), axis=k), name=f"acc{name}")
    return acc, w


def least(func: PrimFunc, target: str) -> int:
    """Cycles of the best of some points."""
    space = Space(func, target)
    points = space.sample(np.random.default_rng(0), 400)
    found = [lower_table(space.schedule(p).func, target).cycles(None) for p in points[np.argsort(space.draft(points))[:4]]]
    return int(min(found))


def stages(v: Any, name: str) -> Any:
    return te.compute(v.shape, lambda *i: clipped(v[i] >> 5, 0, 127).astype("int8"), name=name)


def half_read(all_of_it: bool) -> PrimFunc:
    """What a second convolution with stride 2 reads of a first one, or all of that."""
    x = te.placeholder((32, SIDE, SIDE), "int8", name="x")
    first, w = pointwise(x, 32, "1", 1 if all_of_it else 2)
    second, v = pointwise(stages(first, "q"), 32, "2", 2 if all_of_it else 1)
    return te.create_prim_func([x, w, v, stages(second, "o")])


def pooled(later: bool, both: bool = False) -> PrimFunc:
    """A maximum of what stages make, or stages of the maximum; with ``both`` what stages make is a result as well."""
    x = te.placeholder((16, SIDE, SIDE), "int8", name="x")
    acc, w = pointwise(x, 64, "1")
    a, b = te.reduce_axis((0, 2), name="a"), te.reduce_axis((0, 2), name="b")
    read = acc if later else stages(acc, "q")
    more = [read] if both else []
    best = te.compute((64, SIDE // 2, SIDE // 2), lambda o, i, j: te.max(read[o, i * 2 + a, j * 2 + b], axis=[a, b]), name="best")
    out = stages(best, "o") if later else te.compute(best.shape, lambda *i: best[i], name="o")
    return te.create_prim_func([x, w, *more, out])


def clipped_again(once: bool) -> PrimFunc:
    """A relu of a clip that lies otherwise."""
    x = te.placeholder((16, SIDE, SIDE), "int8", name="x")
    acc, w = pointwise(x, 64, "1")
    low = 0 if once else -128
    q = te.compute(acc.shape, lambda *i: clipped(acc[i] >> 5, low, 127).astype("int8"), name="q")
    shape = (64, SIDE // 2, 2, SIDE)
    again = te.compute(shape, lambda o, i, u, j: te.max(q[o, i * 2 + u, j], te.const(0, "int8")), name="s")
    return te.create_prim_func([x, w, q if once else again])


@pytest.mark.parametrize("target", ["vta-de10", "vta-ultra96"])
@pytest.mark.parametrize("written, rival", [
    pytest.param(half_read(True), half_read(False), id="what nobody reads"),
    pytest.param(pooled(False), pooled(True), id="stages of a maximum"),
    pytest.param(clipped_again(False), clipped_again(True), id="the same stage twice"),
])
def test_what_a_program_of_several_nests_can_do_without(written: PrimFunc, rival: PrimFunc, target: str) -> None:
    inputs = resolve(written, get_target(target)).inputs(0)
    for want, got in zip(*(resolve(f, get_target(target)).results(*inputs).values() for f in (written, rival)), strict=True):
        np.testing.assert_array_equal(want.reshape(got.shape), got)
    assert bound(written, target).cycles <= least(rival, target)


def test_stages_count_where_their_results_are_needed() -> None:
    """Three operations of each of the 1 024 vectors, and not of a quarter of them alone."""
    few, all_ = (bound(pooled(False, both), "vta-de10").terms["stages"] for both in (False, True))
    assert all_ - few == 3 * (1024 - 256)


def product_of(x: Any, w: Any, depth: int, name: str) -> Any:
    k = te.reduce_axis((0, depth), name=f"{name}_k")
    return te.compute((256, 256), lambda i, j: te.sum(wide(x[i, k]) * wide(w[j, k]), axis=k), name=name)


def sum_of(a: Any, b: Any, name: str) -> Any:
    return te.compute((256, 256), lambda i, j: a[i, j] + b[i, j], name=name)


def paired(pairs: int, same: bool, depth: int = 8) -> PrimFunc:
    """A sum of products of several pairs of tensors, all of which may have one factor in common."""
    xs = [te.placeholder((256, depth), "int8", name=f"x{n}") for n in range(1 if same else pairs)]
    ws = [te.placeholder((256, depth), "int8", name=f"w{n}") for n in range(pairs)]
    total: Any = None
    for n, w in enumerate(ws):
        part = product_of(xs[0 if same else n], w, depth, f"p{n}")
        total = part if total is None else sum_of(total, part, f"t{n}")
    return te.create_prim_func([*xs, *ws, te.compute((256, 256), lambda i, j: total[i, j].astype("int8"), name="o")])


@pytest.mark.parametrize(("depth", "same", "products"), [
    (8, False, 4096),  # two halves of lanes are one
    (16, False, 8192),
    (16, True, 4096),  # x w + x v is x (w + v)
])
def test_products_of_several_pairs_fill_lanes_by_their_own_weights(depth: int, same: bool, products: int) -> None:
    terms = bound(paired(2, same, depth), "vta-de10").terms
    assert terms["products"] + terms["stages"] == products


def test_tensors_side_by_side_are_one_transfer() -> None:
    one, four = (bound(paired(n, False, 16), "vta-de10").terms["load chain"] for n in (1, 4))
    words = 2 * 256 * 16 // 8
    assert four - one == 3 * words
