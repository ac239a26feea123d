"""trim_reduction, and the form of programs whose taps only read padding: what changes no result is not computed."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest
from refusals import refused

from autosched import te
from autosched.errors import ScheduleError, SpaceError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.expr import int_value
from autosched.ir.interp import random_inputs, run
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule, Trace
from autosched.script import parse
from autosched.target import get_target
from autosched.workloads import workload
from space import Space
from space.lowerable import require_lowerable
from space.normalise import normalise
from space.normalise.blocks import device_blocks, extents

Same = Callable[..., None]
Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]
DE10 = get_target("vta-de10")

SUM = '''
@T.prim_func
def f(A: T.Buffer(({n},), "int32"), W: T.Buffer(({k},), "int32"), C: T.Buffer(({m},), "int32")):
    P = T.alloc_buffer(({padded},), "int32")
    Q = T.alloc_buffer(({padded},), "int32")
    for i in range({padded}):
        with T.block("P"):
            vi = T.axis.spatial({padded}, i)
            P[vi] = T.if_then_else({pad} <= vi and vi < {end}, A[vi - {pad}], {zero})
    for i in range({padded}):
        with T.block("Q"):
            vi = T.axis.spatial({padded}, i)
            Q[vi] = P[vi]
    for i, k in T.grid({m}, {k}):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {init}
            C[vi] = {value}
'''


def taps(n: int = 2, k: int = 5, pad: int = 2, m: int | None = None, d: int = 1, zero: int = 0, init: str = "0",
         value: str = "C[vi] + Q[vi + {d} * vk] * W[vk]") -> PrimFunc:
    padded = n + 2 * pad
    return parse(SUM.format(n=n, k=k, pad=pad, padded=padded, end=n + pad, m=m or padded - d * (k - 1), zero=zero, init=init,
                            value=value.format(d=d)))


def reduced(func: PrimFunc) -> list[int]:
    """How many terms every sum has, iterator by iterator."""
    return [n for b in device_blocks(func) for iv, n in zip(b.iter_vars, extents(b).values()) if iv.kind == "reduce"]


def first_read(sch: Schedule, name: str) -> int | None:
    block = next(b for b in device_blocks(sch.func) if b.name == "C")
    return int_value(next(r for r in block.reads if r.buffer.name == name).region[0].min)


def test_taps_beyond_a_small_image_go(same: Same, verify_trace_roundtrip: Verify) -> None:
    func = taps()
    sch = Schedule(func)
    before = sch.get_sblock("C")
    sch.trim_reduction("C")
    assert reduced(sch.func) == [3] and "W[vk + 1]" in sch.script() and sch.get(before).name == "C"
    same(func, sch)
    verify_trace_roundtrip(sch, func)
    with refused(ScheduleError, "form") as caught:
        sch.trim_reduction("C")
    assert "no iterations of block C, at an end of a reduction iterator, are known to change nothing" in str(caught.value)


@pytest.mark.parametrize(("func", "left"), [
    (taps(n=1, k=3, pad=1), [1]), (taps(n=3, k=5, pad=2), [5]), (taps(n=2, k=3, pad=12, d=12), [1]),
    (taps(n=8, k=3, pad=6, d=6, m=3), [2]),  # of a result cut short the first tap alone is beyond
    (taps(n=4, k=64, pad=70, m=1), []),
    (taps(n=1, k=64, pad=63, m=2), [2]),
])
def test_what_may_change_a_result_stays(func: PrimFunc, left: list[int], same: Same) -> None:
    sch = Schedule(func)
    if reduced(func) == left:
        with refused(ScheduleError, "form"):
            sch.trim_reduction("C")
        return
    sch.trim_reduction("C")
    assert reduced(sch.func) == left
    same(func, sch)


@pytest.mark.parametrize(("op", "init", "zero", "left"), [
    ("max", "-9", -9, [1]), ("max", "-9", -10, [1]), ("max", "-9", -8, [3]), ("min", "7", 7, [1]), ("min", "7", 6, [3]),
])
def test_so_do_extrema(op: str, init: str, zero: int, left: list[int], same: Same) -> None:
    func = taps(n=1, k=3, pad=1, zero=zero, init=init, value=f"T.{op}(C[vi], Q[vi + vk])")
    sch = Schedule(func)
    if left == [3]:
        with refused(ScheduleError, "form"):
            sch.trim_reduction("C")
        return
    sch.trim_reduction("C")
    assert reduced(sch.func) == left
    same(func, sch)


def test_padding_with_a_zero_point_is_nothing_either(same: Same) -> None:
    func = taps(n=1, k=3, pad=1, zero=5, value="C[vi] + (Q[vi + vk] - 5) * W[vk]")
    sch = Schedule(func)
    sch.trim_reduction("C")
    assert reduced(sch.func) == [1]
    same(func, sch)
    with refused(ScheduleError, "form"):
        Schedule(taps(n=1, k=3, pad=1, zero=5, value="C[vi] + (Q[vi + vk] - 4) * W[vk]")).trim_reduction("C")


def test_of_which_nothing_stays_its_start_does(same: Same) -> None:
    func = taps(n=4, k=3, pad=9, m=2, init="vi + 3")
    sch = Schedule(func)
    sch.trim_reduction("C")
    assert reduced(sch.func) == [] and "C[vi] = vi + 3" in sch.script()
    same(func, sch)
    apart = Schedule(func)
    apart.decompose_reduction("C", apart.get_loops("C")[0])
    with refused(ScheduleError, "reduction") as caught:
        apart.trim_reduction("C_update")
    assert "sets nothing itself" in str(caught.value)


def test_an_update_is_shortened_as_well(same: Same) -> None:
    func = taps()
    sch = Schedule(func)
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    sch.trim_reduction("C_update", [1])
    assert reduced(sch.func) == [3]
    same(func, sch)


@pytest.mark.parametrize(("func", "steps", "iterators", "code"), [
    (taps(), "", [0], "reduction"), (taps(), "", [], "reduction"), (taps(), "sch.split('k', [None, 2])", None, "domain"),
    (taps(), "sch.unroll('k')", None, "loop"), (taps(value="C[vi] - Q[vi + vk]"), "", None, "form"),
    (taps(value="T.max(C[vi], Q[vi + vk])", init="W[vi]", zero=-5), "", None, "form"),
])
def test_others_are_refused(func: PrimFunc, steps: str, iterators: list[int] | None, code: str) -> None:
    sch = Schedule(func)
    exec(steps, {"sch": sch})
    with refused(ScheduleError, code):
        sch.trim_reduction("C", iterators)


@pytest.mark.parametrize(("times", "init"), [(3, True), (3, False), (0, False)])
def test_what_loops_of_no_iterator_run_again_stays(times: int, init: bool, same: Same) -> None:
    plain = SUM.format(n=2, k=5, pad=2, padded=6, end=4, m=2, zero=0, init=0, value="C[vi] + Q[vi + vk] * W[vk]")
    text = plain.replace("for i, k in T.grid(2, 5)", f"for r, i, k in T.grid({times}, 2, 5)")
    func = parse(text if init else text.replace("            with T.init():\n                C[vi] = 0\n", ""))
    sch = Schedule(func)
    with refused(ScheduleError, "domain"):
        sch.trim_reduction("C")
    once = Schedule(parse(text.replace(f"T.grid({times}, ", "T.grid(1, ")))
    once.renest("C")
    once.trim_reduction("C")
    assert reduced(once.func) == [3]


# -- the form -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "left"), [
    ("conv2d:h=1,w=1,ci=32,co=32,k=3,pad=1", [2, 1, 1, 16]), ("conv2d:h=1,w=9,ci=16,co=16,k=3,pad=1", [1, 1, 3, 16]),
    ("conv2d:h=2,w=3,ci=16,co=16,k=5,pad=2", [1, 3, 5, 16]), ("conv2d:h=2,w=2,ci=16,co=16,k=3,pad=1", None),
    ("conv2d:h=7,w=7,ci=16,co=16,k=3,pad=1", None), ("conv2d:h=4,w=4,ci=16,co=16,k=1,stride=2", None),
])
def test_a_layer_is_as_long_as_its_image(name: str, left: list[int] | None) -> None:
    func = workload(name).func
    new, steps = normalise(func, DE10)
    assert any(s.op == "trim_reduction" for s in steps) == (left is not None)
    assert left is None or reduced(new) == left
    assert normalise(new, DE10) == (new, ())


def test_one_pixel_is_a_product_of_matrices() -> None:
    """Its middle tap alone is loaded, and no padding is left: the bound is that of a kernel of one."""
    funcs = [workload(f"conv2d:h=1,w=1,ci=64,co=64,{k}").func for k in ("k=3,pad=1", "k=1")]
    padded, plain = (Space(func, DE10) for func in funcs)
    assert (padded.names, padded.floor(), padded.count()) == (plain.names, plain.floor(), plain.count())


LAYER = '''
@T.prim_func
def f(X: T.Buffer((1, 16, {h}, {w}), "int8"), {weight}out: T.Buffer((1, 16, {oh}, {ow}), "int8")):
    C = T.alloc_buffer((1, 16, {oh}, {ow}), "int32"){stage}
    for n, o, y, x, {c}p, q in T.grid(1, 16, {oh}, {ow}, {cs}{k}, {l}):
        with T.block("C"):
            vn, vo, vy, vx, {vc}vp, vq = T.axis.remap("{kinds}", [n, o, y, x, {c}p, q])
            with T.init():
                C[vn, vo, vy, vx] = {init}
            C[vn, vo, vy, vx] = {value}
    for n, o, y, x in T.grid(1, 16, {oh}, {ow}):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.Cast("int8", T.min(T.max({tail}, -128), 127))
'''
STAGE = '''
    P = T.alloc_buffer((1, 16, {H}, {W}), "int8")
    for n, c, y, x in T.grid(1, 16, {H}, {W}):
        with T.block("P"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            P[vn, vc, vy, vx] = T.if_then_else({inside}, X[vn, vc, vy - {p}, vx - {q}], T.int8({zero}))'''


def layer(rng: np.random.Generator) -> PrimFunc:
    """A layer over a small image, with padding in one of the ways to write it, most of its taps beyond."""
    kind, way = str(rng.choice(["conv", "conv", "depthwise", "max"])), str(rng.choice(["stage", "zero point", "choice"]))
    zero = -128 if kind == "max" else 3 if way == "zero point" else 0
    sides = []
    for _ in range(2):
        size, k, d = int(rng.integers(1, 4)), int(rng.choice([1, 3, 3, 5])), int(rng.choice([1, 1, 2, 5]))
        pad = int(rng.integers((max(d * (k - 1) + 1 - size, 0) + 1) // 2, d * (k - 1) + 2))
        stride = int(rng.integers(1, 3)) if way == "stage" else 1  # other rules take the rest apart
        sides.append((size, k, d, pad, stride, (size + 2 * pad - d * (k - 1) - 1) // stride + 1))
    (h, k, dh, p, sh, oh), (w, m, dw, q, sw, ow) = sides
    y, x, c = f"vy * {sh} + vp * {dh}", f"vx * {sw} + vq * {dw}", "vc" if kind == "conv" else "vo"

    def inside(y: str, x: str) -> str:
        return f"{p} <= {y} and {y} < {h + p} and {q} <= {x} and {x} < {w + q}"

    stage, read = "", f"T.if_then_else({inside(y, x)}, X[vn, {c}, {y} - {p}, {x} - {q}], T.int8({zero}))"
    if way != "choice":
        stage = STAGE.format(H=h + 2 * p, W=w + 2 * q, inside=inside("vy", "vx"), p=p, q=q, zero=zero)
        read = f"P[vn, {c}, {y}, {x}]"
    data = f'(T.Cast("int32", {read}) - 3)' if zero == 3 else f'T.Cast("int32", {read})'
    weight, filters = ("", "") if kind == "max" else ("16, 16, ", "vo, vc, ") if kind == "conv" else ("16, ", "vo, ")
    value = f"T.max(C[vn, vo, vy, vx], {data})" if kind == "max" else (
        f'C[vn, vo, vy, vx] + {data} * T.Cast("int32", V[{filters}vp, vq])')
    return parse(LAYER.format(
        h=h, w=w, oh=oh, ow=ow, k=k, l=m, stage=stage, value=value, init=-128 if kind == "max" else 0,
        weight="" if kind == "max" else f'V: T.Buffer(({weight}{k}, {m}), "int8"), b: T.Buffer((16,), "int32"), ',
        tail="C[vn, vo, vy, vx]" if kind == "max" else "(C[vn, vo, vy, vx] + b[vo]) >> 6",
        c="c, " if kind == "conv" else "", cs="16, " if kind == "conv" else "", vc="vc, " if kind == "conv" else "",
        kinds="SSSSRRR" if kind == "conv" else "SSSSRR"))


@pytest.mark.parametrize("seed", range(10))
def test_the_machine_computes_what_the_whole_layer_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    func = layer(rng)
    new, _ = normalise(func, DE10)
    inputs = random_inputs(func, seed)
    for got, wanted in zip(run(new, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted)
    space = Space(func, DE10)
    point = space.sample(rng, 1)[0]
    result = measure(Candidate(func, DE10, tuple(space.trace(point).as_json())), execute=True, wide=True)
    assert result.ok and result.cycles is not None and int(space.bound(point[None])[0]) <= result.cycles, result


@pytest.mark.parametrize("sizes", [
    "h=1,w=1,ci=16,co=16,k=3,pad=1", "h=1,w=3,ci=16,co=32,k=5,pad=2", "h=2,w=2,ci=32,co=16,k=3,stride=2,pad=1",
])
def test_a_load_outside_all_loops_brings_the_weights_that_are_left(sizes: str) -> None:
    task = workload(f"conv2d:{sizes}")
    space = Space(task.func, DE10)
    points = space.sample(np.random.default_rng(0), 60)
    points = points[points[:, space.names.index("load_kernel")] == 0]
    kernel = [o for o in space.sketches[0].model.nest.operands if o.further]
    least = prod(size for o in kernel for _, size in o.dims)
    shortest, longest = points[np.argsort(space.draft(points))[[0, -1]]]
    for point in (shortest, longest):
        trace = tuple(space.trace(point).as_json())
        result = measure(Candidate(task, DE10, trace), execute=True)
        assert result.ok and result.stats["wgt_load_nbytes"] == 256 * least, result
        assert space.point_of(Trace.from_json(list(trace))).tolist() == point.tolist()


UNREAD = '''
@T.prim_func
def f(X: T.Buffer((16, 32), "int8"), O: T.Buffer((16, 32), "int8")):
    P = T.alloc_buffer((16, 32), "int8")
    Q = T.alloc_buffer((16, 32), "int32")
    S = T.alloc_buffer((16, 32), "int32")
    for i, j in T.grid(16, 32):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = T.if_then_else(3 <= vi, X[vi, vj], T.int8(0))
    for i, j in T.grid(16, 32):
        with T.block("Q"):
            vi, vj = T.axis.remap("SS", [i, j])
            Q[vi, vj] = T.cast(P[vi, vj], "int32") * 2
    for i, j in T.grid(16, 32):
        with T.block("S"):
            vi, vj = T.axis.remap("SS", [i, j])
            S[vi, vj] = T.cast(X[vi, vj], "int32") + 3
    for i, j in T.grid(16, 32):
        with T.block("O"):
            vi, vj = T.axis.remap("SS", [i, j])
            O[vi, vj] = T.cast(T.max(T.min(S[vi, vj]{plus}, 127), -128), "int8")
'''


@pytest.mark.parametrize("plus", ["", " + Q[vi, vj]"])
def test_stages_that_nobody_reads_are_left_out(plus: str) -> None:
    func = parse(UNREAD.format(plus=plus))
    space = Space(func, "vta-de10")
    names = [b.name for b in device_blocks(normalise(func, DE10)[0])]
    assert any(name.startswith(("P", "Q")) for name in names) == bool(plus)
    for point in space.sample(np.random.default_rng(0), 2):
        result = measure(Candidate(func, DE10, tuple(space.trace(point).as_json())), execute=True)
        assert result.ok, result


TWO_SUMS = '''
@T.prim_func
def f(X: T.Buffer((2, 16), "int8"), V: T.Buffer((3, 16), "int8"), out: T.Buffer((4, 16), "int8")):
    P = T.alloc_buffer((6, 16), "int8")
    C = T.alloc_buffer((4, 16), "int32")
    D = T.alloc_buffer((4, 16), "int32")
    for y, c in T.grid(6, 16):
        with T.block("P"):
            vy, vc = T.axis.remap("SS", [y, c])
            P[vy, vc] = T.if_then_else(vy < 2, X[vy, vc], T.int8(0))
    for y, c, k in T.grid(4, 16, 3):
        with T.block("C"):
            vy, vc, vk = T.axis.remap("SSR", [y, c, k])
            with T.init():
                C[vy, vc] = 0
            C[vy, vc] = C[vy, vc] + T.Cast("int32", P[vy + vk, vc]) * T.Cast("int32", V[vk, vc])
    for y, c, k in T.grid(4, 16, 1):
        with T.block("D"):
            vy, vc, vk = T.axis.remap("SSR", [y, c, k])
            with T.init():
                D[vy, vc] = 5
            D[vy, vc] = D[vy, vc] + T.Cast("int32", P[vy + vk + {at}, vc])
    for y, c in T.grid(4, 16):
        with T.block("out"):
            vy, vc = T.axis.remap("SS", [y, c])
            out[vy, vc] = T.Cast("int8", T.min(T.max((C[vy, vc] + D[vy, vc]) >> 2, -128), 127))
'''


@pytest.mark.parametrize("at", [2, 1])
def test_a_program_stays_whole_where_no_nest_takes_what_is_left(at: int) -> None:
    """What a sum only starts with is joined with another one in no space: with its terms it is a sum."""
    func = parse(TWO_SUMS.format(at=at))
    assert any(s.op == "trim_reduction" for s in normalise(func, DE10)[1])
    space = Space(func, DE10)
    trace = space.trace(space.sample(np.random.default_rng(0), 1)[0])
    assert any(step.op == "trim_reduction" for step in trace.insts) == (at == 1)
    result = measure(Candidate(func, DE10, tuple(trace.as_json())), execute=True, wide=True)
    assert result.ok, result


FILLED = '''
@T.prim_func
def f(X: T.Buffer((1, 16, 1, 3), "int8"), O: T.Buffer((1, 16, 1, 4), "int8")):
    P = T.alloc_buffer((1, 16, 1, 7), "int8")
    A = T.alloc_buffer((1, 16, 1, 4), "int32")
    B = T.alloc_buffer((1, 16, 1, 4), "int32")
    for n, c, y, x in T.grid(1, 16, 1, 7):
        with T.block("P"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            P[vn, vc, vy, vx] = T.if_then_else(2 <= vx and vx < 5, X[vn, vc, vy, vx - 2], T.int8({fill}))
    for n, c, y, x, q in T.grid(1, 16, 1, 4, 4):
        with T.block("A"):
            vn, vc, vy, vx, vq = T.axis.remap("SSSSR", [n, c, y, x, q])
            with T.init():
                A[vn, vc, vy, vx] = 5
            A[vn, vc, vy, vx] = A[vn, vc, vy, vx] + T.Cast("int32", P[vn, vc, vy, vx + vq])
    for n, c, y, x, q in T.grid(1, 16, 1, 4, 4):
        with T.block("B"):
            vn, vc, vy, vx, vq = T.axis.remap("SSSSR", [n, c, y, x, q])
            with T.init():
                B[vn, vc, vy, vx] = 3
            B[vn, vc, vy, vx] = T.min(B[vn, vc, vy, vx], T.Cast("int32", P[vn, vc, vy, vx + vq]))
    for n, c, y, x in T.grid(1, 16, 1, 4):
        with T.block("O"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            O[vn, vc, vy, vx] = T.Cast("int8", T.min(T.max((A[vn, vc, vy, vx] + B[vn, vc, vy, vx]) >> 3, -128), 127))
'''


def test_what_is_tried_last_is_no_form_that_no_load_fills() -> None:
    with pytest.raises(SpaceError, match="block 'O' joins what comes from A and B"):
        Space(parse(FILLED.format(fill=3)), "vta-de10").sample(np.random.default_rng(0), 1)


def padded_column(rows: int, deep: int, wide: int, alone: bool = False) -> PrimFunc:
    """A product of one result a row, zeros around all of them, and a product of that; ``alone``: what has the zeros is stored."""
    x, w = te.placeholder((rows, deep), "int8", name="x"), te.placeholder((1, deep), "int8", name="w")
    v = te.placeholder((wide, 3), "int8", name="v")

    def narrow(s: te.Tensor, name: str) -> te.Tensor:
        return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> 4, 127), -128).astype("int8"), name=name)

    k, m = te.reduce_axis((0, deep), name="k"), te.reduce_axis((0, 3), name="m")
    s = te.compute((rows, 1), lambda a, b: te.sum(x[a, k].astype("int32") * w[b, k].astype("int32"), axis=k), name="s")
    y = narrow(s, "y")
    p = te.compute((rows + 2, 3), lambda a, b: te.if_then_else(
        te.all(a >= 1, a < rows + 1, b >= 1, b < 2), y[a - 1, b - 1], te.const(0, "int8")), name="p")
    if alone:
        return te.create_prim_func([x, w, te.compute(p.shape, lambda *i: te.max(p(*i), te.const(-3, "int8")), name="more")])
    t = te.compute((rows + 2, wide), lambda a, b: te.sum(p[a, m].astype("int32") * v[b, m].astype("int32"), axis=m), name="t")
    return te.create_prim_func([x, w, v, narrow(t, "out")])


@pytest.mark.parametrize(("rows", "deep", "wide"), [(2, 1, 5), (6, 8, 20), (16, 8, 1)])
def test_one_term_that_is_left_is_a_product_as_well(rows: int, deep: int, wide: int) -> None:
    """Of a sum over three one reads no padding; it was refused for a condition that cuts inside of an element."""
    func = padded_column(rows, deep, wide)
    space = Space(func, DE10)
    require_lowerable(space)
    for point in space.sample(np.random.default_rng(0), 3):
        result = measure(Candidate(func, DE10, tuple(space.trace(point).as_json())), execute=True, wide=True)
        assert result.ok and result.cycles is not None and result.cycles >= space.machine_bound(), result.reason


def test_what_has_zeros_inside_of_elements_is_refused_in_the_users_words() -> None:
    with pytest.raises(SpaceError, match="p has no index that can be the lanes of an element"):
        Space(padded_column(6, 8, 5, alone=True), DE10)
