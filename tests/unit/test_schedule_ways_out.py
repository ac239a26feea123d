"""What refusals propose: done as told, it works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from refusals import refused

import autosched
from autosched.errors import ScheduleError, UnknownNameError
from autosched.schedule import Schedule, TensorIntrin
from autosched.script import T
from autosched.target import get_target


@T.prim_func
def mm(A: T.Buffer((32, 32), "int8"), B: T.Buffer((32, 32), "int8"), Z: T.Buffer((32, 32), "int32")):
    for i, j, k in T.grid(32, 32, 32):
        with T.sblock("Z"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Z[vi, vj] = 0
            Z[vi, vj] = Z[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vj, vk])


@T.prim_func
def chain(A: T.Buffer((16, 8), "int32"), D: T.Buffer((16,), "int32")):
    B = T.sblock_alloc_buffer((16, 8), "int32")
    C = T.sblock_alloc_buffer((16,), "int32")
    for i, j in T.grid(16, 8):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(16, 8):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + B[vi, vj]
    for i in T.serial(16):
        with T.sblock("D"):
            vi = T.axis.spatial(16, i)
            D[vi] = C[vi] + 1


def tiled() -> Schedule:
    sch = Schedule(mm)
    i, j, k = sch.get_loops("Z")
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 16])
    sch.reorder(i, j0, k0, j1, k1)
    return sch


def hint(call: Callable[[], object]) -> str:
    with pytest.raises(ScheduleError) as caught:
        call()
    assert len(str(caught.value).splitlines()) <= 15
    return caught.value.hint


def do(sch: Schedule, text: str) -> None:
    exec("\n".join(line.strip() for line in text.split("\n")), {"sch": sch})


def test_the_loop_of_a_reduction_is_named() -> None:
    sch = tiled()
    for told in (
        hint(lambda: sch.rfactor("i", 0)), hint(lambda: sch.decompose_reduction(sch.get_block("Z"), sch.get_loops("Z")[4])),
    ):
        assert '"k_0"' in told
        do(sch.copy(), told)
    other = Schedule(chain)
    told = hint(lambda: other.rfactor(other.get_loops("B")[0], 0))  # no reduction there, but in C
    assert told == 'sch.rfactor(sch.get_axis("j", block="C"), 0)'
    do(other, told)


def test_a_decomposed_reduction_has_nothing_left_to_decompose() -> None:
    sch = Schedule(chain)
    sch.decompose_reduction(sch.get_block("C"), sch.get_loops("C")[1])
    i, j = sch.get_loops("C_update")
    assert "C_init is the initialisation" in hint(lambda: sch.decompose_reduction(sch.get_block("C_update"), i))
    assert hint(lambda: sch.rfactor(j, 0)).startswith("rfactor before decompose_reduction")
    early = Schedule(chain)
    early.rfactor(early.get_loops("C")[1], 0)


def test_reductions_are_placed_instead_of_inlined() -> None:
    sch = Schedule(chain)
    told = hint(lambda: sch.compute_inline(sch.get_block("C")))
    assert told == 'sch.compute_at("C", sch.get_axis("i", block="D"))'
    do(sch.copy(), told)
    told = hint(lambda: sch.reverse_compute_inline(sch.get_block("D")))
    assert told == 'sch.reverse_compute_at("D", sch.get_axis("i", block="C"))'
    do(sch.copy(), told)
    told = hint(lambda: sch.reverse_compute_inline(sch.get_block("C")))
    assert told == 'sch.compute_inline("B")'
    do(sch, told)


def test_what_is_not_a_reduction_with_its_epilogue_is_told_which_blocks_are() -> None:
    sch = Schedule(chain)
    told = hint(lambda: sch.fuse_reduction_epilogue(sch.get_block("D"), sch.get_block("C")))
    assert told == "the blocks with a reduction and its init: C"
    sch.fuse_reduction_epilogue(sch.get_block("C"), sch.get_block("D"))


def test_arguments_are_told_with_values_that_are_taken() -> None:
    sch = Schedule(chain)
    assert hint(lambda: sch.storage_align("B", 0, 5, 32, 0)) == "axis 0 to 1, or -1 for the last"
    sch.storage_align("B", 0, 1, 32, 0)
    assert hint(lambda: sch.pad_einsum("C", [4])).startswith("e.g. [1, 16]")
    sch.copy().pad_einsum("C", [1, 16])
    assert hint(lambda: sch.unannotate("C", "x")) == "nothing is left to do: it has no annotations"
    sch.annotate(sch.get_loops("D")[0], "x", 1)
    assert hint(lambda: sch.unannotate("C", "x")) == "'x' is on loop i"
    assert hint(lambda: sch.cache_read("C", 3, "local")) == "0 or 'B'"
    sch.copy().cache_read("C", "B", "local")
    assert hint(lambda: sch.get_producers("root")) == "give a block inside it: B, C or D"
    told = hint(lambda: sch.set_scope("B", 0, "scr"))
    assert {"global", "shared", "local", "local.acc_buffer"} <= set(told.split(", "))
    for scope in told.split(", "):
        sch.set_scope("B", 0, scope)
    with pytest.raises(ScheduleError, match="did you mean 'shared'"):
        sch.set_scope("B", 0, "sharde")


def test_tensorize_names_every_buffer_that_stands_elsewhere_and_the_lines_that_move_it() -> None:
    get_target("vta-de10")
    sch = tiled()
    with pytest.raises(ScheduleError) as caught:
        sch.tensorize("Z", "vta.gemm.1x16x16")
    for name, memory in (("A", "inp"), ("B", "wgt"), ("Z", "acc")):
        assert f"{name} is in global, the intrinsic wants it in local.{memory}_buffer" in caught.value.reason
    head, *lines = caught.value.hint.split("\n")
    assert head == "put them there first:"
    done = sch.copy()
    do(done, "\n".join(lines))
    done.decompose_reduction("Z", done.get_loops("Z")[2])
    done.tensorize("Z_update", "vta.gemm.1x16x16")
    # What is decomposed cannot be given another memory any more: the lines go before.
    late = sch.copy()
    late.decompose_reduction("Z", late.get_loops("Z")[2])
    head, *lines = hint(lambda: late.tensorize("Z_update", "vta.gemm.1x16x16")).split("\n")
    assert head == "before decompose_reduction, put them there:"
    do(sch, "\n".join(lines))
    sch.set_scope("Z", 0, "shared")
    sch.decompose_reduction("Z", sch.get_loops("Z")[2])
    # An intermediate changes its memory in place.
    told = hint(lambda: sch.tensorize("Z_update", "vta.gemm.1x16x16"))
    assert told.split("\n")[1:] == ['  sch.set_scope("Z_update", 0, "local.acc_buffer")']
    do(sch, "\n".join(told.split("\n")[1:]))
    sch.tensorize("Z_update", "vta.gemm.1x16x16")


def test_unknown_intrinsics_tell_how_they_become_known(monkeypatch: pytest.MonkeyPatch) -> None:
    get_target("vta-de10")
    with pytest.raises(UnknownNameError, match=r"did you mean 'vta\.gemm\.1x16x16'") as caught:
        tiled().tensorize("Z", "vta.gem.1x16x16")
    assert "get_target" not in str(caught.value)
    monkeypatch.setattr("autosched.schedule.primitives.tensorize.intrin._INTRINS", {})
    with pytest.raises(UnknownNameError) as caught:
        tiled().tensorize("Z", "vta.gemm.1x16x16")
    assert 'autosched.target.get_target("vta-de10") registers the intrinsics of that target' in str(caught.value)
    import autosched

    autosched.target.get_target("vta-de10")
    assert TensorIntrin.get("vta.gemm.1x16x16")
    with pytest.raises(UnknownNameError) as caught:
        tiled().tensorize("Z", "mine")
    assert "vta.gemm.1x16x16" in str(caught.value)


CHAIN = """
@T.prim_func
def chain(A: T.Buffer((64, 64), "int32"), C: T.Buffer((64, 64), "int32")):
    B = T.sblock_alloc_buffer((64, 64), "int32")
    D = T.sblock_alloc_buffer((64, 64), "int32")
    for i, j in T.grid(64, 64):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(64, 64):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] * 3
    for i, j in T.grid(64, 64):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = D[vi, vj] + 1
"""
SUM = """
@T.prim_func
def total(A: T.Buffer((32, 32), "int8"), W: T.Buffer((32, 32), "int8"), D: T.Buffer((32, 32), "int32")):
    C = T.sblock_alloc_buffer((32, 32), "int32")
    for i, j, k in T.grid(32, 32, 32):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
    for i, j in T.grid(32, 32):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + 1
"""


@pytest.mark.parametrize("keyword, factors", [("factor", [4, 16]), ("nparts", [16, 4])])
def test_a_split_by_one_number_is_told_how_to_write_it(keyword: str, factors: list[int]) -> None:
    sch = Schedule(autosched.parse(CHAIN))
    with pytest.raises(ScheduleError, match=f"no argument '{keyword}'") as error:
        sch.split(sch.get_loops("B")[0], **{keyword: 16})  # type: ignore[arg-type]
    loop = sch.get_loops("B")[0]
    made = eval(f"sch.split(loop, {error.value.hint})", {"sch": sch, "loop": loop})
    assert [sch.get(x).extent.value for x in made] == factors
    with pytest.raises(ScheduleError, match="unexpected keyword argument 'facto'"):
        sch.split(made[0], [None, 2], facto=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("block", ["D", "C"])
def test_moving_a_consumer_forwards_names_the_move_that_is_legal(block: str) -> None:
    sch = Schedule(autosched.parse(CHAIN))
    around = {"D": "B", "C": "D"}[block]
    with pytest.raises(ScheduleError) as error:
        sch.compute_at(block, sch.get_loops(around)[0])
    call, _, why = error.value.hint.partition("): ")
    assert call.startswith(f'sch.reverse_compute_at("{block}", ') and "consumer" in why
    eval(call + ")", {"sch": sch})
    assert len(sch.get_child_blocks(sch.get_loops(around)[0])) == 2
    other = Schedule(autosched.parse(CHAIN))
    with pytest.raises(ScheduleError) as error:
        other.compute_at("B", other.get_loops("C")[0])  # no consumer of B is there, and no producer either
    assert "sch.reverse_compute_at(" not in error.value.hint


def test_after_decompose_reduction_the_way_out_names_one_loop() -> None:
    sch = Schedule(autosched.parse(SUM))
    _, j, k = sch.get_loops("C")
    sch.decompose_reduction("C", j)
    with refused(ScheduleError, "reduction") as error:
        sch.reverse_compute_at("D", k)
    call = error.value.hint.partition(" attaches")[0]
    eval(call, {"sch": sch})
    assert len(sch.get_child_blocks(j)) == 2


@pytest.mark.parametrize("scope, fine", [
    ("local.acc_bufer", False), ("local.acc_buffer", True), ("local.scratchpad", True), ("local", True), ("sram", False),
    ("local.inp_buffers", False), ("globl", False),
])
def test_a_memory_one_letter_off_is_none(scope: str, fine: bool) -> None:
    sch = Schedule(autosched.parse(CHAIN))
    if fine:
        sch.set_scope("B", 0, scope)
        return
    with refused(ScheduleError, "argument") as error:
        sch.set_scope("B", 0, scope)
    near = {"local.acc_bufer": "local.acc_buffer", "local.inp_buffers": "local.inp_buffer", "globl": "global"}.get(scope, "")
    assert near in error.value.reason


def test_a_name_that_a_schedule_lacks() -> None:
    sch = Schedule(autosched.parse(CHAIN))
    with pytest.raises(AttributeError, match="no 'compute_att'; did you mean 'compute_at'"):
        sch.compute_att("B", "i")  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r'sch.get_sblock\("C"\)'):
        sch["C"]  # type: ignore[index]
    assert not hasattr(sch, "__array__") and sch.copy().script() == sch.script()


@pytest.mark.parametrize("mapping, places", [
    (lambda i, j: (i // 2 * 2, j), r"B\[0, 0\] and B\[1, 0\]"), (lambda i, j: (i + j,), r"B\[0, 1\] and B\[1, 0\]"),
    (lambda i, j: (i % 63, j), r"B\[0, 0\] and B\[63, 0\]"), (lambda i, j: (i % 64, j), None), (lambda i, j: (j * 64 + i,), None),
    (lambda i, j: ((i + j) % 64, i), None),
])
def test_a_map_that_is_surely_not_one_to_one_is_refused_whatever_is_assumed(mapping: Any, places: str | None) -> None:
    sch = Schedule(autosched.parse(CHAIN))
    if places is None:
        sch.transform_layout("B", "B", mapping, assume_injective_transform=True)
        return
    with pytest.raises(ScheduleError, match=f"sends {places} to one place"):
        sch.transform_layout("B", "B", mapping, assume_injective_transform=True)
