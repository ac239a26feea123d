"""What primitives take and refuse: kinds of arguments, sizes beyond an integer type, names of loops, samplings."""

from __future__ import annotations

import pickle
import random
import re
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import AutoschedError, ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.ir.interp import run
from autosched.schedule import BlockRV, ExprRV, LoopRV, Schedule, tile_with_tensor_intrin
from autosched.schedule.kit.arguments import WrongArgument, conform, kinds_of, unchanged
from autosched.schedule.kit.base import ArgumentError
from autosched.schedule.kit.primitive import PRIMITIVES
from autosched.script import T, parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


def product(rows: int, columns: int, depth: int = 128, dtype: str = "int32") -> PrimFunc:
    size = [T.IntImm(dtype, n) if dtype != "int32" else n for n in (rows, columns, depth)]
    X = te.placeholder((size[0], size[2]), "float32", name="X")
    Y = te.placeholder((size[2], size[1]), "float32", name="Y")
    k = te.reduce_axis((0, size[2]), name="k")
    return te.create_prim_func([X, Y, te.compute((size[0], size[1]), lambda i, j: te.sum(X[i, k] * Y[k, j], axis=k), name="Z")])


mm = product(128, 128)


def test_what_a_parameter_takes_as_it_is_is_what_conforms_to_the_same() -> None:
    """Of all parameters there are; objects of other classes, of subclasses too, are looked at."""
    values = None, True, 1.5, "x", 7, np.int64(7), BlockRV(), LoopRV(), ExprRV(), Enum("Text", {"X": "x"}, type=str).X
    annotations = {p.annotation for found in PRIMITIVES.values() for p in found.parameters}
    quick = set()
    for annotation in annotations:
        for value in values:
            if type(value) in unchanged(annotation):
                assert conform(value, kinds_of(annotation)) is value
                quick.add(type(value))
            elif type(value) in (type(None), bool, float, str, BlockRV, LoopRV) and "Any" not in annotation:
                taken = conform_or_none(value, annotation)
                assert taken is None or taken is not value or "[" in annotation
    assert quick == {type(None), bool, float, str, BlockRV, LoopRV}


def conform_or_none(value: Any, annotation: str) -> Any:
    """What a parameter makes of a value; None where it is refused."""
    try:
        return conform(value, kinds_of(annotation))
    except WrongArgument:
        return None


def names(sch: Schedule) -> list[str]:
    return [sch.get(x).var.name for x in sch.get_loops("Z")]


def sizes(sch: Schedule) -> list[int]:
    return [sch.get(x).extent.value for x in sch.get_loops("Z")]


# -- kinds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action, line", [
    (lambda s: s.split(s.get_loops("Z"), [2]), "split: argument 'loop' cannot be a list of 3; it takes a loop (its handle"),
    (lambda s: s.split(None, [2]), "split: argument 'loop' cannot be None; it takes a loop"),
    (lambda s: s.split("i", ["?", 2]), "split: argument 'factors' cannot be '?' at position 0; it takes a list of"),
    (lambda s: s.split("i", [None, 2.0]), "split: argument 'factors' cannot be 2.0 at position 1"),
    (lambda s: s.split("i", [None, True]), "split: argument 'factors' cannot be True at position 1"),
    (lambda s: s.split("i", [2], preserve_unit_iters="no"), "'preserve_unit_iters' cannot be 'no'; it takes True or False"),
    (lambda s: s.split("i"), "split: missing a required argument: 'factors'"),
    (lambda s: s.add_unit_loop(5), "add_unit_loop: argument 'block_or_loop' cannot be 5; it takes a block or a loop"),
    (lambda s: s.get_loops(3), "get_loops: argument 'block' cannot be 3; it takes a block (its handle or name)"),
    (lambda s: s.get_block(None), "get_sblock: argument 'name' cannot be None; it takes a string"),
    (lambda s: s.cache_read("Z", None, "local"), "cache_read: argument 'read_buffer_index' cannot be None"),
    (lambda s: s.tensorize(s.get_loops("Z")[0], mm), "'tensor_intrin' cannot be a PrimFunc; it takes a string"),
    (lambda s: s.tensorize(s.get_loops("Z")[0], None), "tensorize: argument 'tensor_intrin' cannot be None"),
    (lambda s: s.blockize([]), "blockize: no block is given"),
    (lambda s: s.annotate("Z", "key", object()), "annotate: argument 'ann_val' cannot hold an object; it takes numbers, strings"),
    (lambda s: s.transform_layout("Z", "Z", 5), "'index_map' cannot be 5; it takes an IndexMap or a function of the indices"),
    (lambda s: s.copy().get(s.get_loops("Z")[0]), "get: the loop handle was not made by this schedule"),
    (lambda s: s.get(7), "get: expected a handle of a block, a loop or an integer, got 7"),
    (lambda s: s.remove_rv(None), "remove_rv: expected a handle, got None"),
])
def test_an_argument_of_the_wrong_kind_is_one_clear_line(action: Callable[[Schedule], Any], line: str) -> None:
    sch = Schedule(mm)
    sch.unroll("k")
    before = (sch.func, sch.trace.as_json())
    with pytest.raises(ScheduleError) as caught:
        action(sch)
    text = str(caught.value).split("\ntry: ")[0]
    assert line in text
    assert "\n" not in text
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert sch.func is before[0]
    assert [x for x in sch.trace.as_json() if x["op"] not in ("get_loops", "get_sblock")] == [
        x for x in before[1] if x["op"] not in ("get_loops", "get_sblock")]


def test_a_list_stands_for_the_loops_in_it(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(mm)
    sch.reorder(sch.get_loops("Z")[::-1])
    assert names(sch) == ["k", "j", "i"]
    sch.fuse(["k", "j"])
    assert names(sch) == ["k_j_fused", "i"]
    assert "sch.reorder(l3, l2, l1)" in str(sch.trace)
    verify_trace_roundtrip(sch, mm)
    with pytest.raises(ArgumentError, match="argument 'ordered_loops' cannot be a list of 2"):
        sch.reorder(sch.get_loops("Z"), sch.get_loops("Z"))


def test_numbers_of_other_libraries_are_numbers(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(mm)
    sch.split("i", np.array([4, 32]))
    sch.split("j", [None, np.int8(4)], preserve_unit_iters=np.bool_(True))
    assert sizes(sch) == [4, 32, 32, 4, 128]
    tile = sch.sample_categorical([8], [1.0])
    sch.split("k", (None, tile))
    verify_trace_roundtrip(sch, mm)


def test_a_sampled_integer_stands_for_an_integer(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(mm)
    size = sch.sample_categorical([48], [1.0])
    sch.pad_einsum("Z", [size, 1, 1])
    assert sizes(sch)[0] == 144
    assert "padding=[v0, 1, 1]" in str(sch.trace)
    verify_trace_roundtrip(sch, mm)


@pytest.mark.parametrize("action, argument", [
    (lambda s, b: s.cache_read("Z", b[1], "shared"), "read_buffer_index=1"),
    (lambda s, b: s.cache_write("Z", b[2], "shared"), "write_buffer_index=0"),
    (lambda s, b: s.reindex_cache_read("Z", b[1], "shared", lambda i, j, k: (j, k)), "read_buffer_index=1"),
    (lambda s, b: s.read_at("k", "Z", b[0], "shared"), "read_buffer_index=0"),
    (lambda s, b: s.set_axis_separator("Z", b[2], [1]), 'buffer=("write", 0)'),
    (lambda s, b: s.set_scope("Z", b[2], "global"), "buffer_index=0"),
])
def test_a_buffer_is_traced_by_its_position(
    action: Callable[[Schedule, Any], Any], argument: str, verify_trace_roundtrip: Verify
) -> None:
    sch = Schedule(mm)
    action(sch, mm.buffers)
    assert argument in str(sch.trace)
    verify_trace_roundtrip(sch, mm)
    with pytest.raises(ScheduleError, match=r"has no (read|write) buffer|uses no buffer"):
        action(Schedule(mm), product(4, 4).buffers[::-1])  # buffers of another program


def test_an_error_of_a_users_function_stays_that_error() -> None:
    sch = Schedule(mm)
    with pytest.raises(ZeroDivisionError):
        sch.transform_layout("Z", "Z", lambda i, j: (i, 1 // 0))
    assert sch.func is mm
    assert not sch.trace.insts


def test_a_loop_of_an_init_is_no_place_for_a_block() -> None:
    sch = Schedule(mm)
    outer = sch.blockize(sch.get_loops("Z")[1])
    copy = sch.reindex("Z", ("read", 1))
    init, update = sch.get_axis("j", block="Z_init"), sch.get_axis("j", block="Z")
    before = sch.script()
    with pytest.raises(ScheduleError, match="loop j belongs to the initialisation of the block around X_reindex_reindex"):
        sch.reverse_compute_at(copy, init)
    with pytest.raises(ScheduleError):
        sch.compute_at(copy, init)
    assert sch.script() == before
    sch.compute_at(copy, update)
    assert [sch.get(b).name for b in sch.get_child_blocks(outer)] == ["X_reindex_reindex", "Z"]


# -- extents and indices beyond their type ----------------------------------------------------------------------------


@pytest.mark.parametrize("factors, reason", [
    ([None, 2**31], "would have 2147483648 iterations or more; its type int32 ends at 2147483647"),
    ([None, 65536, 65536], "would have 4294967296 iterations"),
    ([2**16, 2**15, None], "would have 2147483648 iterations"),
    ([2**62] * 500, "would have 4611686018427387904 iterations"),
    ([None, 2**63], "cannot be an integer beyond 64 bits at position 1"),
    ([None, 10**5000], "cannot be an integer beyond 64 bits"),
])
def test_a_split_beyond_the_type_is_refused(factors: list[int | None], reason: str) -> None:
    with pytest.raises(ScheduleError, match=reason):
        Schedule(mm).split("i", factors)


def test_a_split_up_to_the_end_of_the_type(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(mm)
    _, inner = sch.split("i", [None, 2**31 - 1])
    assert sizes(sch) == [1, 2**31 - 1, 128, 128]
    with pytest.raises(ScheduleError, match=r"reaches 2147483648|would have 2147483648"):
        sch.split(inner, [None, 2])  # the last, partial tile would start inside the type and end outside
    verify_trace_roundtrip(sch, mm)


def test_predicated_tiles_of_tiles_do_not_leave_the_type() -> None:
    sch = Schedule(mm)
    outer, _ = sch.split("i", [None, 2**20])  # one tile, mostly predicated
    with pytest.raises(ScheduleError, match="its type int32 ends at 2147483647"):
        sch.split(outer, [None, 2**12])  # 4096 tiles of 2**20: the predicate itself would wrap
    sch.split(outer, [None, 2**10])
    assert sizes(sch)[:3] == [1, 2**10, 2**20]


@pytest.mark.parametrize("rows, columns", [(65536, 65536), (50000, 50000), (32768, 65536)])
def test_more_iterations_than_the_type_counts_are_refused(rows: int, columns: int) -> None:
    func = product(rows, columns)
    actions: list[Callable[[Schedule], Any]] = [
        lambda s: s.fuse("i", "j"),
        lambda s: s.transform_layout("Z", "Z", lambda i, j: (i * columns + j,)),
        lambda s: s.transform_block_layout("Z", lambda i, j, k: (i * columns + j, k)),
        lambda s: s.reindex_cache_write("Z", 0, "shared", lambda i, j, k: (i * columns + j,)),
    ]
    for action in actions:
        sch = Schedule(func)
        with pytest.raises(ScheduleError, match="its type int32 ends at 2147483647"):
            action(sch)
        assert sch.func is func


def test_as_many_iterations_as_the_type_counts() -> None:
    actions: list[Callable[[Schedule], Any]] = [
        lambda s: s.fuse("i", "j"),
        lambda s: s.transform_layout("Z", "Z", lambda i, j: (i * 65535 + j,)),
        lambda s: s.transform_block_layout("Z", lambda i, j, k: (i * 65535 + j, k)),
    ]
    for action in actions:
        sch = Schedule(product(32768, 65535))
        action(sch)
        assert "2147450880" in sch.script()


def test_wider_extents_have_room() -> None:
    side = "T.int64(65536)"
    text = f"""
@T.prim_func
def wide(A: T.Buffer(({side}, {side}), "int8"), B: T.Buffer(({side}, {side}), "int8")):
    for i, j in T.grid({side}, {side}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
"""
    actions: list[Callable[[Schedule], Any]] = [
        lambda s: s.fuse("i", "j"),
        lambda s: s.transform_layout("B", "B", lambda i, j: (i * 65536 + j,)),
        lambda s: s.transform_block_layout("B", lambda i, j: (i * 65536 + j,)),
        lambda s: s.reindex_cache_read("B", 0, "shared", lambda i, j: (i * 65536 + j,)),
    ]
    for action in actions:
        sch = Schedule(parse(text))
        action(sch)
        assert "T.int64(4294967296)" in sch.script()
    with pytest.raises(ScheduleError, match="its type int64 ends at"):
        Schedule(parse(text)).split("i", [None, 2**62, 2])


def test_padding_beyond_the_type_is_refused() -> None:
    sch = Schedule(product(50000, 16, 16))
    with pytest.raises(ScheduleError, match="the padded iterator v_i would have 2147483648 iterations or more; its type int32"):
        sch.pad_einsum("Z", [2**31, 1, 1])
    sch.pad_einsum("Z", [2**31 - 1, 1, 1])
    assert sizes(sch)[0] == 2**31 - 1


# -- names of loops ---------------------------------------------------------------------------------------------------


def test_fusing_what_a_split_made_gives_back_its_name(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(mm)
    for _ in range(20):
        outer, inner = sch.split(sch.get_loops("Z")[0], [None, 2])
        sch.fuse(outer, inner)
    assert names(sch) == ["i", "j", "k"]
    first, second = sch.split("i => a, b", [None, 16])
    parts = sch.split(first, [2, 4])
    again = sch.fuse(*parts)
    assert names(sch)[:2] == ["a", "b"]
    sch.fuse(again, second)
    assert names(sch) == ["i", "j", "k"]
    verify_trace_roundtrip(sch, mm)


def test_other_fused_names_are_joined_and_short() -> None:
    sch = Schedule(mm)
    i0, i1, _ = sch.split("i", [2, 8, 8])
    sch.fuse(i0, i1)
    assert names(sch)[0] == "i_0_i_1_fused"  # not all of the split
    sch = Schedule(mm)
    sch.fuse(sch.fuse("i", "j"), "k")
    assert names(sch) == ["i_j_k_fused"]
    rng = random.Random(0)
    for _ in range(30):
        loops = [x for x in sch.get_loops("Z") if sch.get(x).extent.value % 2 == 0]
        sch.split(rng.choice(loops), [None, 2])
        at = rng.randrange(len(sch.get_loops("Z")) - 1)
        sch.fuse(*sch.get_loops("Z")[at:at + 2])
        assert max(map(len, names(sch))) <= 34, names(sch)
        assert len(set(names(sch))) == len(names(sch))
    assert parse(sch.script()) == sch.func


def test_long_names_of_loops_stay_what_they_are() -> None:
    text = mm.script()
    for old, new in (("for i, j, k in", f"for {'i' * 50}, {'j' * 50}, k in"), ("[i, j, k]", f"[{'i' * 50}, {'j' * 50}, k]")):
        text = text.replace(old, new)
    sch = Schedule(parse(text))
    sch.fuse(*sch.get_loops("Z")[:2])
    assert names(sch) == ["fused", "k"]


def test_a_fused_loop_can_be_named(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(mm)
    fused = sch.fuse("i", "j", name="ij")
    assert str(fused) == "for ij in range(16384)"
    assert re.search(r'\.fuse\(l\d+, l\d+, preserve_unit_iters=True, name="ij"\)$', sch.trace.as_python()[-1])
    other = Schedule(mm)
    other.fuse("i, j => ij")
    assert other.script() == sch.script()
    assert other.trace.as_python() == sch.trace.as_python()
    plain = Schedule(mm)
    plain.fuse("i", "j")
    assert "name=" not in plain.trace.as_python()[-1]
    for done in (sch, other, plain):
        verify_trace_roundtrip(done, mm)


@pytest.mark.parametrize("action, reason", [
    (lambda s: s.split("i => j, i1", [None, 2]), "another loop of the nest has the name 'j'"),
    (lambda s: s.fuse("i", "j", name="k"), "another loop of the nest has the name 'k'"),
    (lambda s: s.split("i => a, a", [None, 2]), "name 'a' is given to two of the new loops"),
    (lambda s: s.split("i => a b, c", [None, 2]), "'a b' is no name of a loop"),
    (lambda s: s.split("i => (a, b", [None, 2]), r"'\(a' is no name of a loop"),
    (lambda s: s.split("i => a,", [None, 2]), "'' is no name of a loop"),
    (lambda s: s.split("i", [None, 2], names=["for", "T"]), "'for' is no name of a loop"),
    (lambda s: s.split("i, j => a, b", [None, 2]), "names several loops to split"),
    (lambda s: s.fuse("i, j => a, b"), "names 2 loops for the result"),
    (lambda s: s.fuse("i, j => a", name="b"), "a name is given twice"),
    (lambda s: s.reorder("i, j => j, i"), "'i, j => j, i' is no name of a loop"),
])
def test_refused_names(action: Callable[[Schedule], Any], reason: str) -> None:
    sch = Schedule(mm)
    with pytest.raises(ScheduleError, match=reason):
        action(sch)
    assert sch.func is mm


def test_names_in_parentheses_and_names_that_became_free() -> None:
    sch = Schedule(mm)
    sch.split("i => (i0, i1)", [None, 2])
    sch.split("j => [j, i]", [None, 4])
    assert names(sch) == ["i0", "i1", "j", "i", "k"]


@T.prim_func
def clashing(A: T.Buffer((8, 8), "float32"), i: T.Buffer((8, 8), "float32")):
    for j, k in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [j, k])
            i[vi, vj] = A[vi, vj] + T.float32(1)


def test_what_is_printed_can_be_asked_for(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(clashing)
    sch.split("j", [None, 2], names=["A", "i"])  # names of buffers: printed A_1, i_1
    outer, inner = sch.get_axis("A_1"), sch.get_axis("i_1")
    assert (str(outer), str(inner)) == ("for A_1 in range(4)", "for i_1 in range(2)")
    assert f"for {sch._states['main'].loop_name(sch.get(outer).var)}, " in sch.script()
    assert sch.get(sch.get_axis("A")) is sch.get(outer)  # the name that was given still means that loop
    sch.reorder("i_1", "A_1")
    verify_trace_roundtrip(sch, clashing)


def test_numbered_names_are_what_the_printer_says(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(mm)
    cache = sch.cache_read("Z", 0, "shared")
    sch.compute_at(cache, sch.get_loops("Z")[0])
    sch.cache_read(cache, 0, "local")
    for _ in range(3):
        sch.add_unit_loop("Z")
    line = next(x for x in sch.script().splitlines() if "u_2" in x)
    assert "u_2" in line
    for name in ("u", "u_1", "u_2"):
        assert str(sch.get_axis(name)) == f"for {name} in range(1)"
        assert sch.get(sch.get_axis(name, block="Z")) is sch.get(sch.get_axis(name))
    verify_trace_roundtrip(sch, mm)


# -- handles in a session ---------------------------------------------------------------------------------------------


def test_a_handle_shown_by_a_session_says_what_it_is() -> None:
    sch = Schedule(mm)
    i, *_ = sch.get_loops("Z")
    kind, number, name = repr(i).strip("<>").replace(":", "").split()
    assert (kind, name) == ("LoopRV", "i")
    assert repr(sch.get_block("Z")).endswith(": Z>")
    assert number not in repr(sch.get_loops("Z")[0])
    assert repr(sch.sample_categorical([3], [1])).startswith("<ExprRV ")
    sch.split(i, [None, 2])
    assert repr(i) == f"<LoopRV {number}: no longer in the program>"
    assert repr(LoopRV()) == "<LoopRV: of no schedule here>"


# -- samplings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action, reason", [
    (lambda s, i: s.sample_perfect_tile(i, 3, decision=[2, 2]), "the decision has 2 factors, 3 are needed"),
    (lambda s, i: s.sample_perfect_tile(i, 2, decision=[0, 2]), "the decision has a factor 0"),
    (lambda s, i: s.sample_perfect_tile(i, 2, decision=[2, -1]), "the decision has a factor -1"),
    (lambda s, i: s.sample_perfect_tile(i, 2, decision=[2.0, 2]), "argument 'decision' cannot be 2.0 at position 0"),
    (lambda s, i: s.sample_perfect_tile(i, 0), "cannot tile loop i into 0 factors"),
    (lambda s, i: s.sample_perfect_tile(i, 10**9), "cannot tile loop i into 1000000000 factors"),
    (lambda s, i: s.sample_perfect_tile(i, 2, 0), "max_innermost_factor is at least 1, or -1"),
    (lambda s, i: s.sample_partitioned_tile(i, 2, 1, 0), "innerpart_factor is at least 1, not 0"),
    (lambda s, i: s.sample_partitioned_tile(i, 2, -1), "partition_pos -1 is not a position among 2 factors"),
    (lambda s, i: s.sample_partitioned_tile(i, 2, decision=[4]), "the decision has 1 factors, 2 are needed"),
    (lambda s, i: s.sample_categorical([1, 2], [-1, 2]), "a probability cannot be -1"),
    (lambda s, i: s.sample_categorical([1, 2], [0, 0]), "the probabilities are all zero"),
    (lambda s, i: s.sample_categorical([1, 2], [float("nan"), 1]), "a probability cannot be nan"),
    (lambda s, i: s.sample_categorical([1, 2], [1, float("inf")]), "a probability cannot be inf"),
    (lambda s, i: s.sample_categorical([1.5], [1]), "argument 'candidates' cannot be 1.5 at position 0"),
    (lambda s, i: s.sample_categorical([1, 2], [1, 2], decision=-1), "decision -1 is out of range"),
    (lambda s, i: s.sample_compute_location("Z", decision=-3), "there is no place -3"),
])
def test_refused_samplings(action: Callable[[Schedule, LoopRV], Any], reason: str) -> None:
    sch = Schedule(mm, seed=4)
    loop = sch.get_loops("Z")[0]
    before, rng = str(sch.trace), sch._rng_state
    with pytest.raises(AutoschedError, match=reason):
        action(sch, loop)
    assert (str(sch.trace), sch._rng_state) == (before, rng)


def test_samplings_at_the_edges(verify_trace_roundtrip: Verify) -> None:
    sch = Schedule(mm, seed=4)
    loop = sch.get_loops("Z")[0]
    assert [sch.get(x) for x in sch.sample_perfect_tile(loop, 1)] == [128]
    assert len(sch.sample_perfect_tile(loop, 64)) == 64
    assert [sch.get(x) for x in sch.sample_perfect_tile(loop, 2, 1)] == [128, 1]
    assert sch.get(sch.sample_categorical([1, 2], [0, 3])) == 2
    # What a symbolic loop left open is -1 in its decision: replayed on a constant extent, it is what remains.
    assert [sch.get(x) for x in sch.sample_perfect_tile(loop, 3, decision=[-1, 1, 1])] == [128, 1, 1]
    verify_trace_roundtrip(sch, mm)


def test_fused_and_named_programs_compute_the_same() -> None:
    func = product(8, 8, 8)
    sch = Schedule(func)
    sch.split("i => (i0, i1)", [None, 3])
    sch.fuse("i0, i1 => i")
    sch.fuse("i, j => ij")
    x, y = np.random.default_rng(0).integers(-4, 5, (2, 8, 8)).astype("float32")
    assert np.array_equal(run(sch.func, x, y)["Z"], x @ y)


@pytest.mark.parametrize("action, line", [
    (lambda s: s.work_on(5), "work_on: argument 'func_name' cannot be 5; it takes a string"),
    (lambda s: s.seed("x"), "seed: argument 'seed' cannot be 'x'; it takes an integer or None"),
    (lambda s: Schedule(mm, seed=2.5), "seed: argument 'seed' cannot be 2.5"),
    (lambda s: s.get_scope(5), "expected a block, got 5"),
    (lambda s: s.get_scope("root"), "the root block is contained in no other"),
    (lambda s: s.get_block("Z", func_name=[]), "get_sblock: argument 'func_name' cannot be a list of 0"),
    (lambda s: tile_with_tensor_intrin(s, 5, "x"), "expected a block, got 5"),
    (lambda s: tile_with_tensor_intrin(s, "Z", 5), "unknown tensor intrinsic 5"),
])
def test_methods_that_are_no_primitives(action: Callable[[Schedule], Any], line: str) -> None:
    sch = Schedule(mm, seed=1)
    with pytest.raises(AutoschedError) as caught:
        action(sch)
    assert line in str(caught.value)
    assert not str(caught.value).startswith(":")
    assert sch.get_scope("Z").name == "root"
    assert [i.op for i in sch.trace.insts if i.op != "get_sblock"] == []
    sch.seed(np.int64(7))
    sch.work_on("main")


def test_a_refusal_is_one_error() -> None:
    sch = Schedule(mm)
    for call in (lambda: sch.split("i", [3, 2**31 - 1]), lambda: sch.compute_inline("Z"), lambda: sch.get_block("nope")):
        with pytest.raises(ScheduleError) as caught:
            call()
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
