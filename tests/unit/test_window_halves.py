"""Sums over windows by halves, and extrema of windows that are padded otherwise: the forms, their programs, what has none."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import cache
from math import prod
from pathlib import Path

import numpy as np
import pytest

from autosched.ir.host import split_host
from autosched.ir.stmt import PrimFunc
from autosched.kernel import build, resolve
from autosched.measure import Candidate, measure
from autosched.networks.programs import Spec, workload_of
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from autosched.workloads import workload
from space import Space
from space.nest import analyse
from space.normalise import BANDED, BORDERED, DOUBLED, GATHERED, JOINT, ONES, Wanted, doubled, normalised

DE10 = get_target("vta-de10")
FILLS = {"+": 0, "max": -128, "min": 127}
POOL = """from autosched.script import T

@T.prim_func
def pool(X: T.Buffer((1, 16, {h}, {w}), "int8"), O: T.Buffer((1, 16, {oh}, {ow}), "int8")):
    P = T.alloc_buffer((1, 16, {ph}, {pw}), "int8")
    S = T.alloc_buffer((1, 16, {oh}, {ow}), "int32")
    for n, c, i, j in T.grid(1, 16, {ph}, {pw}):
        with T.block("P"):
            vn, vc, vi, vj = T.axis.remap("SSSS", [n, c, i, j])
            P[vn, vc, vi, vj] = T.if_then_else({pad} <= vi and vi < {h} + {pad} and {pad} <= vj and vj < {w} + {pad},
                                               X[vn, vc, vi - {pad}, vj - {pad}], T.int8({fill}))
    for n, c, i, j, a, b in T.grid(1, 16, {oh}, {ow}, {k}, {m}):
        with T.block("S"):
            vn, vc, vi, vj, va, vb = T.axis.remap("SSSSRR", [n, c, i, j, a, b])
            with T.init():
                S[vn, vc, vi, vj] = {fill}
            S[vn, vc, vi, vj] = {update}
    for n, c, i, j in T.grid(1, 16, {oh}, {ow}):
        with T.block("O"):
            vn, vc, vi, vj = T.axis.remap("SSSS", [n, c, i, j])
            O[vn, vc, vi, vj] = T.Cast("int8", S[vn, vc, vi, vj]{shift})
"""


def text_of(op: str, h: int, w: int, k: int, m: int, stride: int, pad: int, fill: int | None = None, apart: int = 1) -> str:
    ph, pw = h + 2 * pad, w + 2 * pad
    down = "va" if apart == 1 else f"va * {apart}"
    read = f'T.Cast("int32", P[vn, vc, vi * {stride} + {down}, vj * {stride} + vb])'
    update = f"S[vn, vc, vi, vj] + {read}" if op == "+" else f"T.{op}(S[vn, vc, vi, vj], {read})"
    return POOL.format(
        h=h, w=w, ph=ph, pw=pw,
        oh=(ph - (k - 1) * apart - 1) // stride + 1, ow=(pw - m) // stride + 1, k=k, m=m, pad=pad, update=update,
        fill=FILLS[op] if fill is None else fill, shift=" >> 6" if op == "+" else "")


def expected(x: np.ndarray, op: str, k: int, m: int, stride: int, pad: int) -> np.ndarray:
    around = np.pad(x.astype(np.int32), [(0, 0), (0, 0), (pad, pad), (pad, pad)], constant_values=FILLS[op])
    windows = np.lib.stride_tricks.sliding_window_view(around, (k, m), axis=(2, 3))[:, :, ::stride, ::stride]
    made = windows.sum(axis=(4, 5)) >> 6 if op == "+" else getattr(windows, op)(axis=(4, 5))
    return np.asarray(made).astype(np.int8)


def forms(func: PrimFunc, target: str = "vta-de10") -> list[bool]:
    """Of the sketches of a space, which are of the new forms."""
    return [bool({DOUBLED, BORDERED} & {*s.done}) for s in Space(func, target).sketches]


@pytest.mark.parametrize(("target", "op", "h", "w", "k", "m", "stride", "pad"), [
    ("vta-de10", "+", 9, 10, 4, 4, 1, 0), ("vta-de10", "+", 12, 9, 5, 5, 1, 2), ("vta-de10", "+", 17, 18, 8, 7, 2, 0),
    ("vta-de10", "+", 60, 12, 16, 1, 1, 0), ("vta-de10", "+", 27, 24, 9, 9, 3, 0), ("vta-de10-portable", "+", 14, 14, 8, 8, 1, 0),
    ("vta-de10", "max", 8, 9, 3, 3, 1, 1), ("vta-de10", "min", 9, 8, 5, 5, 1, 2), ("vta-de10", "max", 6, 7, 2, 4, 1, 1),
    ("vta-de10", "max", 8, 9, 9, 9, 1, 4),
])
def test_every_point_of_these_forms_gives_what_windows_are(
    target: str, op: str, h: int, w: int, k: int, m: int, stride: int, pad: int
) -> None:
    func = parse(text_of(op, h, w, k, m, stride, pad))
    task = resolve(func, get_target(target))
    space = Space(task.func, target)
    points = space.sample(np.random.default_rng(k), 250)
    mine = np.array([bool({DOUBLED, BORDERED} & {*s.done}) for s in space.sketches])
    x = np.random.default_rng(h).integers(-128, 128, (1, 16, h, w)).astype(np.int8)
    drafts = space.draft(points)
    chosen = points[mine[points[:, 0]]]
    for point in (chosen[np.argmin(space.draft(chosen))], chosen[0]):
        kernel = build(task, target, tuple(space.trace(point).as_json()))
        assert np.array_equal(kernel(x), expected(x, op, k, m, stride, pad))
        assert int(space.bound(point[None])[0]) <= kernel.cycles and space.machine_bound() <= kernel.cycles
    others = ~mine & np.array([ONES not in s.done for s in space.sketches])
    assert space.draft(chosen).min() < drafts[others[points[:, 0]]].min(), "and it is worth it"


@cache
def least(k: int, m: int, pair: int = 2) -> int:
    """Cycles of a window among many: a reset, one for a product, two for a sum of halves; tried in all ways."""
    halves = [(h, m, (k - 2 * h) * m) for h in range(1, k // 2 + 1)] + [(k, h, (m - 2 * h) * k) for h in range(1, m // 2 + 1)]
    return min([1 + k * m, *[pair + rest + least(*half, pair) for *half, rest in halves]])


def taken(sch: Schedule, target: str) -> int:
    (nest,) = analyse(split_host(sch.func).device, get_target(target), True)
    return sum(part.taken for part in (*nest.halos, *nest.stages))


@pytest.mark.parametrize(("target", "pair"), [("vta-de10", 2), ("vta-de10-portable", 5)])
@pytest.mark.parametrize(("k", "m"), [(8, 8), (4, 4), (2, 2), (5, 5), (1, 7), (16, 1), (3, 3), (7, 7), (12, 12)])
def test_a_window_takes_as_little_as_its_halves(k: int, m: int, target: str, pair: int) -> None:
    sch = normalised(parse(text_of("+", 90 + k, 90 + m, k, m, 1, 0)), get_target(target), Wanted(doubled=True))
    assert bool(sch.trace.insts) == (least(k, m, pair) < 1 + k * m)
    if sch.trace.insts:
        shift = 1
        assert taken(sch, target) == least(k, m, pair) + shift


def test_sums_of_products_with_one_weight_and_multiples_are_such() -> None:
    """Means of networks, of which a weight holds the factor, and others'; lanes that a product sums up are no window."""
    mean = workload_of(Spec("average", 1, 16, 94, 94, 16, 90, 90, (5, 5)), "mean", 1, 16).func
    sch = normalised(mean, DE10, Wanted(doubled=True))
    bias, shift, clips = 2, 1, 2
    assert taken(sch, "vta-de10") == least(5, 5) + bias + shift + clips
    text = text_of("+", 20, 20, 8, 8, 1, 0)
    for factor, new in ((3, True), (-128, True), (128, False)):
        many = text.replace('T.Cast("int32", P[vn, vc, vi * 1 + va, vj * 1 + vb])',
                            f'T.Cast("int32", P[vn, vc, vi * 1 + va, vj * 1 + vb]) * {factor}')
        assert any(forms(parse(many))) == new
    weighted = workload("conv2d:h=14,w=14,ci=16,co=16,k=5").func
    assert not normalised(weighted, DE10, Wanted(doubled=True)).trace.insts


@cache
def places(k: int, m: int, rows: int, columns: int, apart: int = 1) -> int:
    """Cycles of sums of k x m elements at so many places, rows ``apart``, with all that is made around them; in all ways."""
    down = [(h, m, rows + h * apart, columns, (k - 2 * h) * m) for h in range(1, k // 2 + 1)]
    ways = [*down, *[(k, h, rows, columns + h, (m - 2 * h) * k) for h in range(1, m // 2 + 1)]]
    return min([(1 + k * m) * rows * columns, *[(2 + rest) * rows * columns + places(*half, apart) for *half, rest in ways]])


@pytest.mark.parametrize(("rows", "columns", "k", "m", "apart"), [
    (13, 13, 8, 8, 1), (3, 33, 8, 8, 1), (3, 7, 7, 9, 1), (20, 20, 5, 5, 1), (12, 30, 6, 5, 3), (40, 30, 6, 5, 3),
])
def test_halves_are_made_where_little_is_around_them(rows: int, columns: int, k: int, m: int, apart: int) -> None:
    text = text_of("+", rows + (k - 1) * apart, columns + m - 1, k, m, 1, 0, apart=apart)
    sch = normalised(parse(text), DE10, Wanted(doubled=True))
    (nest,) = analyse(split_host(sch.func).device, DE10, True)
    around = sum(halo.cycles * prod(extent for _, extent in halo.dims) for halo in nest.halos)
    shift = 1
    own = sum(stage.cycles for stage in nest.stages) - shift
    assert nest.halos and around + own * rows * columns == places(k, m, rows, columns, apart)


def test_windows_are_no_larger_than_can_be_tried() -> None:
    for k in (32, 33):
        assert doubled.applies(parse(text_of("+", 90, 90, k, k, 1, 0)), DE10) == (k == 32)


def summed(name: str, shape: str, over: str, terms: str) -> str:
    """A sum of products, written out by its iterators, and what stores it."""
    spatial, reduced = shape.split(), over.split()
    loops = [*[f"i{k}" for k in range(len(spatial))], *[f"r{k}" for k in range(len(reduced))]]
    at = ", ".join(f"vi{k}" for k in range(len(spatial)))
    kinds = "S" * len(spatial) + "R" * len(reduced)
    iters = f'{", ".join(f"v{x}" for x in loops)} = T.axis.remap("{kinds}", [{", ".join(loops)}])'
    return f'''    for {", ".join(loops)} in T.grid({", ".join([*spatial, *reduced])}):
        with T.block("{name}"):
            {iters}
            with T.init():
                {name}[{at}] = 0
            {name}[{at}] = {name}[{at}] + {" * ".join(f'T.Cast("int32", {x})' for x in terms.split(" * "))}
'''


def beside(text: str, params: dict[str, str], tensors: dict[str, str], blocks: str) -> PrimFunc:
    """A pool and other blocks in one program."""
    head, body = text.split("    P = T.alloc", 1)
    more = ", ".join(f'{name}: T.Buffer(({shape}), "int8")' for name, shape in params.items())
    made = "".join(f'    {name} = T.alloc_buffer(({shape}), "int32")\n' for name, shape in tensors.items())
    return parse(head.replace("def pool(X", f"def pool({more}, X") + made + blocks + "    P = T.alloc" + body)


STORED = """    for i, j in T.grid({n}, {m}):
        with T.block("{out}"):
            vi, vj = T.axis.remap("SS", [i, j])
            {out}[vi, vj] = T.Cast("int8", {value})
"""
JOINED = (summed("C", "16 32", "32", "Y[vi0, vr0] * W[vi1, vr0]") + summed("D", "16 32", "32", "Y[vi0, vr0] * V[vi1, vr0]")
          + STORED.format(n=16, m=32, out="Q", value="T.max(C[vi, vj] >> 4, 0) + D[vi, vj]"))
JOINT_PARAMS = {"Y": "16, 32", "W": "32, 32", "V": "32, 32", "Q": "16, 32"}
PLANE = (summed("E", "28 28", "3 3", "Z[vi0 + vr0, vi1 + vr1] * F[vr0, vr1]")
         + STORED.format(n=28, m=28, out="R", value="E[vi, vj] >> 4"))


@pytest.mark.parametrize("op", ["+", "max"])
def test_they_come_behind_all_that_there_was(op: str) -> None:
    """Points say their sketch first: what stood last until then, loads for several products, and before it banded weights."""
    pool = text_of(op, 20, 20, 8, 8, 1, 0 if op == "+" else 2)
    space = Space(beside(pool, JOINT_PARAMS, {"C": "16, 32", "D": "16, 32"}, JOINED), "vta-de10")
    before = [s.done for s in space.sketches if ONES not in s.done]  # which came later
    new = [bool({DOUBLED, BORDERED} & {*done}) for done in before]
    assert any(new) and new == sorted(new)
    assert JOINT in before[new.index(True) - 1]
    if op == "+":
        func = beside(text_of("+", 4, 4, 4, 4, 1, 0), {**JOINT_PARAMS, "Z": "30, 30", "F": "3, 3", "R": "28, 28"},
                      {"C": "16, 32", "D": "16, 32", "E": "28, 28"}, JOINED + PLANE)
        assert [s.done for s in Space(func, "vta-de10").sketches] == [(), (BANDED,), (JOINT,), (BANDED, JOINT)]


@pytest.mark.parametrize(("op", "pad", "form"), [("max", 1, BORDERED), ("+", 0, DOUBLED)])
def test_they_go_with_windows_that_the_host_gathers(op: str, pad: int, form: str) -> None:
    """A stem of three channels with a pool behind it."""
    k = 3 if op == "max" else 6
    text = text_of(op, 14, 14, k, k, 1, pad).replace(
        'X: T.Buffer((1, 16, 14, 14), "int8")', 'Y: T.Buffer((1, 3, 16, 16), "int8"), W: T.Buffer((16, 3, 3, 3), "int8")')
    made = summed("A", "1 16 14 14", "3 3 3", "Y[vi0, vr0, vi2 + vr1, vi3 + vr2] * W[vi1, vr0, vr1, vr2]")
    head, body = text.split("    for n, c, i, j in T.grid", 1)
    task = resolve(parse(head + """    A = T.alloc_buffer((1, 16, 14, 14), "int32")
    X = T.alloc_buffer((1, 16, 14, 14), "int8")
""" + made + """    for n, c, i, j in T.grid(1, 16, 14, 14):
        with T.block("X"):
            vn, vc, vi, vj = T.axis.remap("SSSS", [n, c, i, j])
            X[vn, vc, vi, vj] = T.Cast("int8", T.max(T.min(A[vn, vc, vi, vj] >> 6, 127), -128))
    for n, c, i, j in T.grid""" + body), DE10)
    space = Space(task.func, "vta-de10")
    both = [k for k, s in enumerate(space.sketches) if {GATHERED, form} <= {*s.done}]
    assert len(both) == 1
    points = space.sample(np.random.default_rng(0), 200)
    drafts = space.draft(points)
    best = points[np.argmin(np.where(points[:, 0] == both[0], drafts, np.inf))]
    assert space.draft(best[None])[0] == drafts.min()
    result = measure(Candidate(task, "vta-de10", tuple(space.trace(best).as_json())), execute=True)
    assert result.ok, result


def test_of_two_tensors_one_may_be_padded_so() -> None:
    one, second = text_of("max", 8, 8, 3, 3, 1, 1), text_of("max", 8, 8, 3, 3, 2, 1).split("    P = T.alloc", 1)[1]
    for old in "PSO":
        for text in (f"{old}[", f'"{old}"', f"    {old} = "):
            second = second.replace(text, text.replace(old, f"{old}2"))
    func = parse(one.replace("), O:", '), O2: T.Buffer((1, 16, 4, 4), "int8"), O:') + "    P2 = T.alloc" + second)
    (new,) = [s for s in Space(func, "vta-de10").sketches if BORDERED in s.done]
    assert [step.op for step in new.prefix.insts].count("add_padding") == 1


def test_padding_elsewhere_makes_no_such_form() -> None:
    text = text_of("max", 8, 8, 3, 3, 1, 0).replace(
        'T.Cast("int8", S[vn, vc, vi, vj])', 'T.if_then_else(vi < 3, T.Cast("int8", S[vn, vc, vi, vj]), T.int8(5))')
    assert not any(forms(parse(text)))


def test_windows_of_one_tensor_are_all_written_so_or_none() -> None:
    """What one of them reads is the sum with the border for all."""
    one = text_of("max", 8, 8, 3, 3, 1, 1)
    head, window = one[: one.index("    for n, c, i, j, a, b")], one[one.index("    for n, c, i, j, a, b"):]
    for stride, size in ((1, 8), (2, 4), (3, 3)):  # of the latter not all is shared, or nothing
        tensor = f'T.Buffer((1, 16, {size}, {size}), "int8")'
        both = head.replace("), O:", f"), S2_out: {tensor}, O:").replace(
            "    S = ", f'    S2 = T.alloc_buffer((1, 16, {size}, {size}), "int32")\n    S = ') + window
        for old, new in (("S[", "S2["), ('"S"', '"S2"'), ("O[", "S2_out["), ('"O"', '"S2_out"'), (" * 1", f" * {stride}"),
                         ("16, 8, 8", f"16, {size}, {size}")):
            window = window.replace(old, new)
        assert any(forms(parse(both + window))) == (stride == 1)
        window = one[one.index("    for n, c, i, j, a, b"):]


def test_a_pool_of_ones_own_is_tuned(tmp_path: Path, here: Callable[..., subprocess.CompletedProcess[str]], brief: None) -> None:
    """A pool of a spatial pyramid, and a mean: each takes less than what comparing, or adding, every element would."""
    for op, h, k, pad in (("max", 13, 5, 2), ("+", 20, 8, 0)):
        path = tmp_path / f"pool_{k}.py"
        path.write_text(text_of(op, h, h, k, k, 1, pad))
        ran = here("tune", f"{path}:pool", "--trials", "2", "--jobs", "1", "--format", "json", "--log", tmp_path / "log")
        row = json.loads(ran.stdout.splitlines()[-1])
        assert row["cycles"] < 169 * 40 and row["verified"], row  # 52 and 65 cycles for a window
