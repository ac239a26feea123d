"""Look-ups, handles, traces, errors and the registry of primitives."""

from __future__ import annotations

import json
import pickle
import runpy
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc, Var
from autosched.ir.functor import substitute_stmt
from autosched.ir.structural import structural_equal, structural_hash
from autosched.schedule import (
    PRIMITIVES,
    LoopRV,
    NoFunctionError,
    Schedule,
    StaleRVError,
    Trace,
    UnknownRVError,
    primitive,
)
from autosched.schedule.kit.primitive import lookup
from autosched.script import T

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


@T.prim_func
def matmul_relu(A: T.Buffer((64, 64)), B: T.Buffer((64, 64)), D: T.Buffer((64, 64))):
    C = T.sblock_alloc_buffer((64, 64))
    for i, j, k in T.grid(64, 64, 64):
        with T.sblock("matmul"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(64, 64):
        with T.sblock("relu"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], 0.0)


@T.prim_func
def nested(A: T.Buffer((16, 16)), B: T.Buffer((16, 16))):
    with T.sblock("outer"):
        vo = T.axis.spatial(1, 0)  # noqa: F841
        for i, j in T.grid(16, 16):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0


def names(sch: Schedule, rvs: list) -> list[str]:
    return [sch.get(rv).name for rv in rvs]


def test_lookups(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(matmul_relu)
    block = sch.get_block("matmul")
    assert [sch.get(x).var.name for x in sch.get_loops(block)] == ["i", "j", "k"]
    assert names(sch, sch.get_consumers(block)) == ["relu"]
    assert names(sch, sch.get_producers("relu")) == ["matmul"]
    assert names(sch, sch.get_child_blocks("root")) == ["matmul", "relu"]
    assert names(sch, sch.get_output_blocks("root")) == ["relu"]
    assert sch.get(sch.get_axis("k")).extent.value == 64
    verify_trace_roundtrip(sch, matmul_relu)


def test_output_blocks_of_nested_scopes() -> None:
    sch = Schedule(nested)
    assert names(sch, sch.get_output_blocks("root")) == ["outer", "B"]
    assert names(sch, sch.get_output_blocks("outer")) == ["B"]


def test_unknown_block_lists_near_names() -> None:
    with pytest.raises(ScheduleError, match=r"Cannot find a block with the name: matmal; did you mean 'matmul'\?"):
        Schedule(matmul_relu).get_block("matmal")
    with pytest.raises(ScheduleError, match=r"Cannot find a block with the specified name: matmal; did you mean"):
        Schedule(matmul_relu, error_render_level="fast").get_block("matmal")


def test_axis_by_name_must_be_unique() -> None:
    sch = Schedule(matmul_relu)
    with pytest.raises(ScheduleError, match="2 loops are named 'i': around matmul; around relu") as caught:
        sch.get_axis("i")
    assert 'get_axis("i", block="matmul")' in caught.value.hint
    assert sch.get(sch.get_axis("i", block="relu")) is sch.get(sch.get_loops("relu")[0])
    with pytest.raises(ScheduleError, match="Cannot find a loop with the name: q"):
        sch.get_axis("q")


def test_root_has_no_producers() -> None:
    with refused(ScheduleError, "root"):
        Schedule(matmul_relu).get_producers("root")


def test_module_of_several_functions(verify_trace_roundtrip: Verify) -> None:
    mod = IRModule({"first": matmul_relu, "second": nested})
    sch = Schedule(mod)
    with pytest.raises(NoFunctionError, match="does not know which function to be working on"):
        sch.get_block("relu")
    with pytest.raises(ValueError, match="no function 'frist'"):
        sch.work_on("frist")
    sch.work_on("second")
    assert sch.func_working_on == "second"
    sch.annotate("B", "note", 1)
    sch.annotate(sch.get_block("relu", func_name="first"), "note", 2)
    assert "note" in sch.mod["second"].script()
    assert "note" in sch.mod["first"].script()
    verify_trace_roundtrip(sch, mod)


def test_copy_is_independent() -> None:
    sch = Schedule(matmul_relu, seed=1)
    i, j, _ = sch.get_loops("matmul")
    other = sch.copy()
    i0, _ = sch.split(i, [None, 8])
    j0, _ = other.split(j, [None, 4])
    assert sch.get(i0).extent.value == 8
    assert other.get(j0).extent.value == 16
    with pytest.raises(IndexError):
        other.get(i0)
    with pytest.raises(UnknownRVError, match="not made by this schedule"):
        sch.get(j0)
    assert len(sch.trace.insts) == len(other.trace.insts)


def test_what_a_copy_has_become_is_taken_over() -> None:
    sch = Schedule(matmul_relu, seed=1)
    i, j, _ = sch.get_loops("matmul")
    other = sch.copy()
    i0, i1 = other.split(i, [None, 8])
    (chosen,) = other.sample_perfect_tile(i0, 1)
    sch.adopt(other)
    assert structural_equal(sch.func, other.func) and sch.trace.as_json() == other.trace.as_json()
    other.parallel(i0)  # is its own again
    assert "parallel" not in sch.script() and "parallel" in other.script()
    sch.vectorize(i1)
    assert "vectorized" not in other.script()
    del other
    assert str(i1) == "for i_1 in T.vectorized(8)" and int(chosen) == 8 and str(j) == "for j in range(64)"


def test_steps_that_count_together() -> None:
    sch = Schedule(matmul_relu, seed=1)
    i, j, _ = sch.get_loops("matmul")
    before = sch.func, len(sch.trace.insts), sch._rng_state, len(sch._symbols)
    with pytest.raises(StaleRVError), sch.all_or_none():
        sch.sample_perfect_tile(j, 2)
        i0, _ = sch.split(sch.get_loops("relu")[0], [None, 8])
        sch.split(i, [None, 8])
        sch.split(i, [None, 8])
    assert before == (sch.func, len(sch.trace.insts), sch._rng_state, len(sch._symbols))
    with pytest.raises(UnknownRVError, match="not made by this schedule"):
        sch.unroll(i0)
    with pytest.raises(KeyError), sch.all_or_none():
        sch.unroll(i)
        raise KeyError
    assert sch.func is before[0]
    with sch.all_or_none():
        i0, _ = sch.split(i, [None, 8])
        sch.unroll(i0)
    assert "unroll" in sch.script() and len(sch.trace.insts) == before[1] + 2


def test_removed_and_stale_handles() -> None:
    sch = Schedule(matmul_relu)
    block = sch.get_block("matmul")
    i, j, _ = sch.get_loops(block)
    sch.remove_rv(block)
    with pytest.raises(IndexError):
        sch.get(block)
    sch.split(i, [None, 8])
    with pytest.raises(StaleRVError, match=r"loop i no longer exists in the program \(last used by split\)"):
        sch.unroll(i)
    with pytest.raises(TypeError, match="argument 'block' cannot be a loop"):
        sch.get_loops(j)


def test_bad_arguments_name_the_parameter() -> None:
    sch = Schedule(matmul_relu)
    with pytest.raises(TypeError, match=r"split: there is no argument 'factor'\ntry: factors="):
        sch.split(sch.get_loops("relu")[0], factor=[2, None])


def test_refusal_leaves_everything_as_it_was() -> None:
    sch = Schedule(matmul_relu, seed=3)
    before, text, rng = sch.func, str(sch.trace), sch._rng_state
    with pytest.raises(ScheduleError):
        sch.set_scope("relu", 0, "shared")
    with pytest.raises(ScheduleError):
        sch.sample_categorical([1, 2], [1.0])
    assert sch.func is before
    assert str(sch.trace) == text
    assert sch._rng_state == rng


def test_errors_are_short_marked_and_picklable() -> None:
    sch = Schedule(matmul_relu)
    with pytest.raises(ScheduleError) as caught:
        sch.parallel(sch.get_loops("matmul")[2])
    text = str(caught.value)
    assert text.startswith("parallel: ")
    assert any(line.startswith(">") and "matmul" in line for line in text.splitlines())
    assert len(text.splitlines()) <= 15
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is ScheduleError
    assert str(again) == text
    stale = StaleRVError("split", "gone")
    assert str(pickle.loads(pickle.dumps(stale))) == "split: gone"


@pytest.mark.parametrize(("level", "rendered"), [("detail", True), ("fast", False), ("none", False)])
def test_error_levels(level: str, rendered: bool) -> None:
    sch = Schedule(matmul_relu, error_render_level=level)
    with pytest.raises(ScheduleError) as caught:
        sch.parallel(sch.get_loops("matmul")[2])
    assert bool(caught.value.excerpt) is rendered
    assert ("not rendered" in str(caught.value)) is (level == "none")


def test_annotations(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(matmul_relu)
    loop = sch.get_loops("matmul")[0]
    sch.annotate(loop, "text", 'with "quotes"')
    sch.annotate(loop, "nested", {"list": [0, 1.5], "flag": True})
    sch.annotate("relu", "vta.dma", "merge")
    sch.annotate("relu", "sampled", sch.sample_categorical([7, 9], [0.0, 1.0]))
    assert sch.get(loop).annotations == {"text": 'with "quotes"', "nested": {"list": [0, 1.5], "flag": True}}
    assert sch.get(sch.get_block("relu")).annotations == {"vta.dma": "merge", "sampled": 9}
    verify_trace_roundtrip(sch, matmul_relu)
    sch.unannotate(loop, "nested")
    assert list(sch.get(loop).annotations) == ["text"]
    with pytest.raises(ScheduleError, match=r"there is no annotation 'vta\.dmb'; did you mean 'vta\.dma'"):
        sch.unannotate("relu", "vta.dmb")
    verify_trace_roundtrip(sch, matmul_relu)


def test_trace_text_runs_in_tvm_unchanged() -> None:
    sch = Schedule(matmul_relu)
    block = sch.get_block("matmul")
    i, _, k = sch.get_loops(block)
    _, i1 = sch.split(i, [None, 4])
    sch.reorder(k, i1)
    sch.cache_read(block, 0, "local")
    assert sch.trace.as_python() == [
        'b0 = sch.get_sblock(name="matmul", func_name="main")',
        "l1, l2, l3 = sch.get_loops(block=b0)",
        "l4, l5 = sch.split(loop=l1, factors=[None, 4], preserve_unit_iters=True, disable_predication=False)",
        "sch.reorder(l3, l5)",
        'b6 = sch.cache_read(block=b0, read_buffer_index=0, storage_scope="local")',
    ]


def test_loops_by_name_are_traced_by_position(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(matmul_relu)
    sch.split("k", [None, 4], names=["k0", "k1"])
    sch.parallel(sch.get_axis("j", block="relu"))
    assert sch.trace.as_python(dialect="tvm") == [
        'b0 = sch.get_sblock(name="matmul", func_name="main")',
        "l1, l2, l3 = sch.get_loops(block=b0)",
        "l4, l5 = sch.split(loop=l3, factors=[None, 4], preserve_unit_iters=True, disable_predication=False)",
        'b6 = sch.get_sblock(name="relu", func_name="main")',
        "l7, l8 = sch.get_loops(block=b6)",
        "sch.parallel(loop=l8)",
    ]
    assert sch.trace.as_python()[2].endswith('names=["k0", "k1"])')
    verify_trace_roundtrip(sch, matmul_relu)
    with pytest.raises(ValueError, match="the dialect is autosched or tvm, not 'tir'"):
        sch.trace.as_python(dialect="tir")
    # A trace that an earlier version wrote names loops still.
    old = [{"op": "get_axis", "in": {}, "args": {"name": "k", "func_name": "main"}, "out": ["l0"]},
           {"op": "unroll", "in": {"loop": "l0"}, "args": {}, "out": []}]
    again = Schedule(matmul_relu)
    Trace.from_json(old).apply_to_schedule(again)
    assert again.get(again.get_axis("k")).kind == "unrolled"


def test_loops_of_blocks_that_share_a_name_and_of_none_are_traced(verify_trace_roundtrip: Verify) -> None:
    @T.prim_func
    def twice(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.sblock("same"):
                vi = T.axis.spatial(8, i)
                A[vi] = 0
        for j in range(8):
            with T.sblock("same"):
                vj = T.axis.spatial(8, j)
                B[vj] = 1

    sch = Schedule(twice)
    sch.unroll("j")
    assert sch.trace.as_python() == [
        'b0 = sch.get_sblock(name="root", func_name="main")',
        "b1, b2 = sch.get_child_blocks(block_or_loop=b0)",
        "l3, = sch.get_loops(block=b2)",
        "sch.unroll(loop=l3)",
    ]
    verify_trace_roundtrip(sch, twice)


def test_maps_are_printed_as_tvm_takes_them(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(matmul_relu)
    sch.annotate_buffer_access("relu", 0, "read", lambda i, j: ((i, i + 1), (0, 64)))
    sch.transform_layout("matmul", ("write", 0), lambda i, j: (0, i, j))  # no bare numbers
    texts = sch.trace.as_python()
    assert any(line.endswith("gen_new_ranges=lambda i, j: ((i, i + 1), (0, 64)))") for line in texts)
    assert "index_map=lambda i, j: (i * 0, i, j)" in texts[-1]
    verify_trace_roundtrip(sch, matmul_relu)


def test_trace_json_is_named_objects() -> None:
    sch = Schedule(matmul_relu)
    sch.split(sch.get_loops("relu")[0], [None, 4])
    assert sch.trace.as_json() == [
        {"op": "get_sblock", "in": {}, "args": {"name": "relu", "func_name": "main"}, "out": ["b0"]},
        {"op": "get_loops", "in": {"block": "b0"}, "args": {}, "out": ["l1", "l2"]},
        {
            "op": "split", "in": {"loop": "l1", "factors": [None, 4]},
            "args": {"preserve_unit_iters": True, "disable_predication": False}, "out": ["l3", "l4"],
        },
    ]


def test_trace_simplified_drops_unused_lookups() -> None:
    sch = Schedule(matmul_relu)
    sch.get_block("matmul")
    block = sch.get_block("relu")
    sch.get_consumers(block)
    sch.annotate(block, "a", 1)
    sch.enter_postproc()
    sch.annotate(block, "b", 2)
    assert [x.op for x in sch.trace.simplified().insts] == ["get_sblock", "annotate", "enter_postproc", "annotate"]
    short = sch.trace.simplified(remove_postproc=True)
    assert [x.op for x in short.insts] == ["get_sblock", "annotate"]
    other = Schedule(matmul_relu)
    short.apply_to_schedule(other)
    assert dict(other.get(other.get_block("relu")).annotations) == {"a": 1}


def test_decisions_can_be_changed() -> None:
    sch = Schedule(matmul_relu, seed=5)
    loop = sch.get_loops("relu")[0]
    factors = sch.sample_perfect_tile(loop, 2, decision=[16, 4])
    sch.split(loop, factors)
    other = Schedule(matmul_relu)
    sch.trace.with_decision(2, [8, 8]).apply_to_schedule(other)
    assert [x.var.name for x in map(other.get, other.get_loops("relu"))][:2] == ["i_0", "i_1"]
    assert other.get(other.get_loops("relu")[1]).extent.value == 8
    third = Schedule(matmul_relu)
    sch.trace.apply_to_schedule(third, decision_provider=lambda inst, args, decision: [32, 2])
    assert third.get(third.get_loops("relu")[0]).extent.value == 32


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"op": "nothing", "in": {}, "args": {}, "out": []}]', "unknown schedule primitive 'nothing'"),
        ('[{"op": "get_loops", "in": {"block": "b7"}, "args": {}, "out": []}]', "uses 'b7', which no earlier"),
        ('[{"in": {}}]', "instruction 0 of the trace is not an object with a field 'op'"),
        ('[{"op": "get_sblock", "args": {"name": "relu"}, "out": ["x1"]}]', "an output is named b.., l.. or v.."),
        ('[{"op": "get_sblock", "args": {"name": "relu"}, "out": []}]', "the trace belongs to another program"),
    ],
)
def test_damaged_traces_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Trace.apply_json_to_schedule(text, Schedule(matmul_relu))


def test_replay_error_tells_the_instruction() -> None:
    sch = Schedule(matmul_relu)
    sch.get_block("matmul")
    sch.annotate("relu", "a", 1)
    with pytest.raises(ScheduleError, match="Cannot find a block") as caught:
        Trace.from_json(sch.trace.as_json()).apply_to_schedule(Schedule(nested))
    note = 'in instruction 0 of the trace: _ = sch.get_sblock(name="matmul", func_name="main")'
    assert caught.value.__notes__ == [note]


def test_schedule_pickles_with_its_handles() -> None:
    sch = Schedule(matmul_relu, seed=1)
    block = sch.get_block("matmul")
    i, j, _ = sch.get_loops(block)
    i0, _ = sch.split(i, [None, 8])
    again, loops = pickle.loads(pickle.dumps((sch, [i0, j])))
    again.reorder(loops[1], loops[0])
    assert [again.get(x).var.name for x in again.get_loops("matmul")] == ["j", "i_1", "i_0", "k"]
    assert [sch.get(x).var.name for x in sch.get_loops("matmul")] == ["i_0", "i_1", "j", "k"]


def test_one_registration_gives_all_forms(verify_trace_roundtrip: Verify) -> None:
    class Reversing(Schedule):
        @primitive
        def reverse(self, loop: LoopRV | str, note: str | None = None) -> LoopRV:
            """Runs a loop backwards."""
            state, node = self.loop_at(loop)
            if node.kind != "serial":
                self.refuse(f"loop {node.var.name} is {node.kind}", [node.var], code="loop")
            var = Var(node.var.name, node.var.dtype)
            body = substitute_stmt(node.body, {node.var: node.extent - 1 - var})
            new = replace(node, var=var, body=body)
            self.commit_nodes(state, {id(node): new})
            return self.loop_rv(new)

    try:
        sch = Reversing(matmul_relu)
        loop = sch.reverse("k")
        assert sch.trace.as_python()[-1] == "l4 = sch.reverse(loop=l3)"
        assert sch.trace.as_json()[-1] == {"op": "reverse", "in": {"loop": "l3"}, "args": {}, "out": ["l4"]}
        other = Reversing(matmul_relu)
        Trace.apply_json_to_schedule(json.dumps(sch.trace.as_json()), other)
        assert other.func == sch.func
        sch.unroll(loop)
        with refused(ScheduleError, "loop"):
            sch.reverse(loop)
    finally:
        del PRIMITIVES["reverse"]


def test_every_primitive_is_documented() -> None:
    for name in PRIMITIVES:
        doc = lookup(name).method.__doc__ or ""
        assert doc.strip(), name
        for p in lookup(name).parameters:
            assert f"{p.name}:" in doc, f"{name} does not document {p.name}"


def test_replay_hash_and_comparison_keep_their_limits() -> None:
    # The limits of the benchmark, with several times the room that a quiet machine needs.
    bench = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "bench_replay.py"))
    func = bench["matmul"]
    trace = bench["sketch"](func, bench["QUADS"], 2)
    assert len(trace.insts) == 34
    made: list[Schedule] = []

    def play() -> None:
        made.append(Schedule(func))
        trace.apply_to_schedule(made[-1])

    def least(call: Callable[[], object], repeats: int = 7) -> float:
        times = []
        for _ in range(repeats):
            begun = time.process_time()
            call()
            times.append((time.process_time() - begun) * 1e3)
        return min(times)

    assert least(play) <= 20
    fresh = iter([replace(sch.func) for sch in made])
    assert least(lambda: structural_hash(next(fresh))) <= 1
    pairs = iter([(replace(a.func), replace(b.func)) for a, b in pairwise(made)])
    assert least(lambda: structural_equal(*next(pairs)), 6) <= 1
    assert all(sch.func == made[0].func for sch in made)
    assert made[0].func != func
