"""add_unit_iterator and spread_operand: one kernel over an image is a row of one, or one for every plane of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import get_target
from space import Space
from space.normalise import normalise
from space.normalise.blocks import device_blocks, is_packed, product_of
from space.normalise.units import applies

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]

TEXT = '''
@T.prim_func
def f(x: T.Buffer((6, 20), "int8"), k: T.Buffer((5,), "int8"), out: T.Buffer((6, 16), "int32")):
    s = T.alloc_buffer((6, 16), "int32")
    for i, j, p in T.grid(6, 16, 5):
        with T.block("s"):
            vi, vj, vp = T.axis.remap("SSR", [i, j, p])
            with T.init():
                s[vi, vj] = 0
            s[vi, vj] += x[vi, vj + vp].astype("int32") * k[vp].astype("int32")
    for i, j in T.grid(6, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = s[vi, vj] + 1
'''


def equal(func: PrimFunc, other: PrimFunc) -> bool:
    inputs = random_inputs(func, 0)
    return all(np.array_equal(a, b) for a, b in zip(run(func, *inputs), run(other, *inputs), strict=True))


def test_an_axis_of_one_element(verify_trace_roundtrip: Verify) -> None:
    func = parse(TEXT)
    sch = Schedule(func)
    sch.transform_layout("s", ("write", 0), lambda i, j: (i % 1, i, j))
    with refused(ScheduleError, "argument"):
        sch.add_unit_iterator("s", ["x"])
    with refused(ScheduleError, "argument"):
        sch.add_unit_iterator("s", ["out"])
    sch.add_unit_iterator("s", ["s"])
    assert "s[vu, vi, vj] = s[vu, vi, vj] +" in sch.script() and "out[vi, vj] = s[0, vi, vj] + 1" in sch.script()
    sch.add_unit_iterator("out", ["s"])
    assert "out[vi, vj] = s[vu, vi, vj] + 1" in sch.script() and len(sch.get_loops("out")) == 3
    assert equal(func, sch.func)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("iterator", [0, 1])
def test_an_operand_gets_an_index(iterator: int, verify_trace_roundtrip: Verify) -> None:
    func = parse(TEXT)
    sch = Schedule(func)
    sch.host_stage(sch.spread_operand("s", "k", iterator))
    assert f"k_spread[v{'ij'[iterator]}, vp]" in sch.script() and equal(func, sch.func)
    verify_trace_roundtrip(sch, func)


def test_the_copy_of_a_parameter_is_made_in_front_of_all_and_that_of_a_copy_behind_it() -> None:
    sch = Schedule(parse(TEXT))
    sch.host_stage(sch.spread_operand("s", "k", 0))
    first = [b.name for b in sch.state.children_of(sch.state.root)]
    sch.host_stage(sch.spread_operand("s", "k_spread", 1))
    second = [b.name for b in sch.state.children_of(sch.state.root)]
    assert first[0] == "k_spread" and second[:2] == ["k_spread", "k_spread_spread"] and second[2:] == first[1:]


@pytest.mark.parametrize(("block", "operand", "iterator", "code"), [
    ("s", "k", 2, "index"), ("s", "k", 3, "argument"), ("s", "x", 1, "index"), ("out", "s", 0, "writer"),
])
def test_what_is_not_spread(block: str, operand: str, iterator: int, code: str) -> None:
    func = parse(TEXT)
    sch = Schedule(func)
    with refused(ScheduleError, code):
        sch.spread_operand(block, operand, iterator)
    assert sch.func == func


def copied(sch: Schedule, op: str) -> None:
    """Lets s read k from a copy, by one of the primitives that place one behind what fills k."""
    if op == "spread_operand":
        sch.spread_operand("s", "k", 0)
    else:
        sch.repeat_read("s", "k", lambda i, j, p: (j, p), lambda a, b: (b,))


@pytest.mark.parametrize("op", ["spread_operand", "repeat_read"])
def test_where_a_copy_may_stand(op: str) -> None:
    func = parse(TEXT)
    sch = Schedule(func)
    sch.unroll(sch.get_loops("s")[0])
    copied(sch, op)
    assert sch.state.children_of(sch.state.root)[0].name.startswith("k_") and equal(func, sch.func)
    sch = Schedule(func)
    sch.reverse_compute_at("out", sch.get_loops("s")[0])
    with refused(ScheduleError, "place"):  # it would be made in front of both
        copied(sch, op)
    stored = TEXT.replace("    for i, j, p", "    for w in range(3):\n        k[w] = T.int8(1)\n    for i, j, p", 1)
    assert stored != TEXT
    with refused(ScheduleError, "order"):  # nobody knows what a copy in front of that would hold
        copied(Schedule(parse(stored)), op)


FILTER = '''
@T.prim_func
def f(x: T.Buffer({x}, "int8"), k: T.Buffer({k}, "int8"), r: T.Buffer(({shape}), "int8"), out: T.Buffer(({shape}), "int8")):
    s = T.alloc_buffer(({shape}), "int32")
    for {loops} in T.grid({extents}):
        with T.block("s"):
            v{names} = T.axis.remap("{kinds}", [{loops}])
            with T.init():
                s[{at}] = 0
            s[{at}] += x[{data}].astype("int32") * k[{kernel}].astype("int32")
    for {around} in T.grid({shape}):
        with T.block("out"):
            {own} = T.axis.remap("{spatial}", [{around}])
            out[{at}] = T.Cast("int8", {value})
'''


def program(extents: dict[str, int], sums: str, shapes: tuple[str, str], data: str, kernel: str, value: str) -> PrimFunc:
    around = [n for n in extents if n not in sums]
    return parse(FILTER.format(
        x=shapes[0], k=shapes[1], shape=", ".join(str(extents[n]) for n in around), loops=", ".join(extents),
        extents=", ".join(map(str, extents.values())), names=", v".join(extents), data=data, kernel=kernel,
        kinds="".join("R" if n in sums else "S" for n in extents), at=", ".join(f"v{n}" for n in around),
        around=", ".join(around), own=", ".join(f"v{n}" for n in around), spatial="S" * len(around),
        value=value.replace("AT", ", ".join(f"v{n}" for n in around))))


IMAGE = program({"y": 6, "z": 7, "p": 3, "q": 3}, "pq", ("(8, 9)", "(3, 3)"), "vy + vp, vz + vq", "vp, vq", "s[AT] >> 4")
CASES = {
    "image": (IMAGE, "add_unit_iterator"),
    "differences": (program({"y": 6, "z": 7, "p": 3, "q": 3}, "pq", ("(8, 9)", "(3, 3)"), "vy + vp, vz + vq", "vp, vq",
                            "T.max(s[AT], 0 - s[AT]) * 3 >> 6"), "add_unit_iterator"),
    "residual": (program({"y": 6, "z": 7, "p": 3, "q": 3}, "pq", ("(8, 9)", "(3, 3)"), "vy + vp, vz + vq", "vp, vq",
                         "(s[AT] >> 4) + r[AT].astype(\"int32\")"), "add_unit_iterator"),
    "channels": (program({"y": 6, "z": 6, "c": 20, "p": 3, "q": 3}, "cpq", ("(20, 8, 8)", "(20, 3, 3)"), "vc, vy + vp, vz + vq",
                         "vc, vp, vq", "s[AT] >> 6"), "add_unit_iterator"),
    "one plane": (program({"n": 1, "y": 6, "z": 6, "p": 3, "q": 3}, "pq", ("(1, 8, 8)", "(3, 3)"), "vn, vy + vp, vz + vq",
                          "vp, vq", "s[AT] >> 4"), "add_unit_iterator"),
    "planes": (program({"n": 20, "y": 6, "z": 6, "p": 3, "q": 3}, "pq", ("(20, 8, 8)", "(3, 3)"), "vn, vy + vp, vz + vq",
                       "vp, vq", "s[AT] >> 4"), "spread_operand"),
    "signal": (program({"y": 40, "p": 9}, "p", ("(48,)", "(9,)"), "vy + vp", "vp", "s[AT] >> 4"), "add_unit_iterator"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable"])
def test_one_kernel_runs(name: str, target: str) -> None:
    func, op = CASES[name]
    new, steps = normalise(func, get_target(target))
    found = {s.op for s in steps} & {"add_unit_iterator", "spread_operand"}
    assert found == {op} and is_packed(split_host(new).device, get_target(target)) and equal(func, new)
    space = Space(func, target)
    for point in space.sample(np.random.default_rng(0), 2):
        result = measure(Candidate(func, target, tuple(space.trace(point).as_json())), execute=True, wide=True)
        assert result.ok, result


def test_who_has_an_index_of_the_weight_needs_no_more(user_programs) -> None:
    """Nor has it points: what is accepted as it is keeps its form."""
    for name in ("conv_nchw", "conv_depthwise", "dense_matrix_vector", "dense_plain", "channel_scale", "conv_grouped_flat"):
        assert not applies(user_programs.program(name)), name
    # One kernel for two images is a vector, and the images are the matrix.
    assert not applies(program({"n": 2, "y": 6, "c": 16, "p": 3}, "cp", ("(2, 16, 8)", "(16, 3)"), "vn, vc, vy + vp", "vc, vp",
                               "s[AT]"))
    assert applies(IMAGE) and product_of(device_blocks(IMAGE)[0]) is not None


COLUMNS = '''
@T.prim_func
def f(x: T.Buffer((8, 16), "int8"), k: T.Buffer((5, 1), "int8"), l: T.Buffer((5, 1), "int8"), out: T.Buffer((4, 16), "int8")):
    a = T.alloc_buffer((4, 16), "int32")
    b = T.alloc_buffer((4, 16), "int32")
    for i, j, p, q in T.grid(4, 16, 5, 1):
        with T.block("a"):
            vi, vj, vp, vq = T.axis.remap("SSRR", [i, j, p, q])
            with T.init():
                a[vi, vj] = 0
            a[vi, vj] += x[vi + vp, vj + vq].astype("int32") * k[vp, vq].astype("int32")
    for i, j, p, q in T.grid(4, 16, 5, 1):
        with T.block("b"):
            vi, vj, vp, vq = T.axis.remap("SSRR", [i, j, p, q])
            with T.init():
                b[vi, vj] = 0
            b[vi, vj] += x[vi + vp, vj + vq].astype("int32") * l[vp, vq].astype("int32")
    for i, j in T.grid(4, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.max(a[vi, vj], b[vi, vj]))
'''


def test_two_filters_of_one_image_read_one_copy() -> None:
    """What the host lays out alike for both is one tensor."""
    func = parse(COLUMNS)
    new, _ = normalise(func, get_target("vta-de10"))
    text = new.script()
    assert text.count("_reindex = T.sblock_alloc_buffer") == 1 and "_reindex_1" not in text
    assert isinstance(new, PrimFunc) and equal(func, new)
