"""Constants: tensors whose elements are part of the program, through text, key, interpreter, memory image and kernel file."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import PrimFunc, structural_hash
from autosched.ir.constant import constant, of_buffer, values
from autosched.ir.interp import run
from autosched.ir.value_bounds import ValueBounds
from autosched.ir.verify import verify
from autosched.kernel import Kernel, of_schedule
from autosched.schedule import Schedule
from autosched.script import T, parse
from autosched.workloads import workload
from sim.machine import run as simulate

ACC = "local.acc_buffer"


@T.prim_func
def added(a: T.Buffer((4, 16), "int32"), out: T.Buffer((4, 16), "int8")):
    K = T.allocate_const([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, -15], "int32", [16])
    s = T.alloc_buffer((4, 16), "int32")
    for i, j in T.grid(4, 16):
        with T.block("s"):
            vi, vj = T.axis.remap("SS", [i, j])
            s[vi, vj] = a[vi, vj] + K[vj]
    for i, j in T.grid(4, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", s[vi, vj])


def with_elements(func: PrimFunc, array: np.ndarray) -> PrimFunc:
    return replace(func, constants=(of_buffer(func.constants[0].buffer, array),))


def scheduled(func: PrimFunc) -> Schedule:
    sch = Schedule(func)
    sch.cache_read("s", 0, ACC)
    sch.cache_read("s", 1, ACC)
    sch.set_scope("s", 0, ACC)
    return sch


def test_text_pickle_and_equality() -> None:
    for text in (added.script(), added.script("block")):
        again = parse(text)
        assert again == added
        assert np.array_equal(values(again.constants[0]), values(added.constants[0]))
    assert pickle.loads(pickle.dumps(added)) == added
    other = with_elements(added, np.arange(16, dtype="int32"))
    assert other != added
    assert structural_hash(other) != structural_hash(added)
    assert values(other.constants[0])[15] == 15


@pytest.mark.parametrize(("dtype", "size"), [("int8", 4096), ("int8", 4097), ("int32", 5000), ("float32", 3)])
def test_numbers_are_printed_as_long_as_they_can_be_read(dtype: str, size: int) -> None:
    array = np.arange(size).astype(dtype)
    func = PrimFunc(added.params, added.body, constants=(*added.constants, constant("L", array)))
    text = func.script()
    assert ("T.allocate_const([0" in text.split(" L = ")[1]) == (size <= 4096)
    again = parse(text)
    assert again == func
    assert np.array_equal(values(again.constants[1]), array)


def test_keys_of_programs_without_constants_are_what_they_were() -> None:
    # The key under which every shipped record of t2 is filed.
    assert workload("dense:m=1,k=256,n=256,bias=0,tail=cast").key.startswith("7425ab8ccd1bf82d")


def test_the_interpreter_knows_them() -> None:
    a = np.arange(64, dtype="int32").reshape(4, 16)
    wanted = (a + values(added.constants[0])).astype("int8")
    assert np.array_equal(run(added, a)[0], wanted)


def test_ranges_of_values_come_from_the_elements() -> None:
    assert ValueBounds(added).of_buffer(added.constants[0].buffer) == (-15, 14)


@pytest.mark.parametrize(("broken", "message"), [
    (lambda f: replace(f, constants=(replace(f.constants[0], data=b"\0" * 63),)), "has 63 bytes, its shape asks for 64"),
    (lambda f: replace(f, constants=f.constants * 2), "listed twice"),
    (lambda f: replace(f, constants=()), "used outside the block"),
    (lambda f: replace(f, params=f.params[:1], constants=(*f.constants, of_buffer(f.params[1], np.zeros((4, 16), "int8")))),
     "constant 'out' is written"),
])
def test_malformed(broken, message: str) -> None:
    assert not verify(added)
    assert any(message in str(v) for v in verify(broken(added)))


@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable", "vta-fsim"])
def test_they_are_part_of_the_memory_image(target: str) -> None:
    kernel = of_schedule(added, target, scheduled(added))
    a = np.arange(-32, 32, dtype="int32").reshape(4, 16)
    wanted = run(added, a)[0]
    assert np.array_equal(kernel(a), wanted)
    ran = simulate(kernel.lowered.program({"a": a}, {"out": wanted}), kernel.target.semantics, check=True)
    assert ran.outputs_match and not ran.races and not ran.diagnostics
    # Without arguments the constant is there all the same.
    assert added.constants[0].data in [s.data for s in kernel.lowered.program().memory]


def test_they_are_part_of_the_program_and_of_its_file(tmp_path) -> None:
    kernel = of_schedule(added, "vta-de10", scheduled(added))
    other = with_elements(added, np.arange(16, dtype="int32"))
    assert of_schedule(other, "vta-de10", scheduled(other)).hash != kernel.hash
    kernel.save(tmp_path / "k.json")
    again = Kernel.load(tmp_path / "k.json")
    assert again.hash == kernel.hash
    a = np.ones((4, 16), "int32")
    assert np.array_equal(again(a), kernel(a))


def test_a_constant_lies_as_it_is() -> None:
    sch = Schedule(added)
    with refused(ScheduleError, "layout"):
        sch.transform_layout("s", "K", lambda i: (i // 4, i % 4))
    text = re.sub("K = .*", f'K = T.allocate_const({[7] * 64}, "int32", [4, 16])', added.script())
    grid = parse(text.replace("K[vj]", "K[vi, vj]"))
    with refused(ScheduleError, "layout"):
        Schedule(grid).set_axis_separator("s", ("read", 1), [1])
    copy = sch.cache_read("s", 1, "global")
    sch.transform_layout(copy, ("write", 0), lambda i: (i // 4, i % 4))
    a = np.ones((4, 16), "int32")
    assert np.array_equal(run(sch.func, a)[0], run(added, a)[0])
