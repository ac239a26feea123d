"""Bringing programs into schedulable form: the same results, by primitives alone, once."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.ir.stmt import PrimFunc
from autosched.ir.verify import verify
from autosched.kernel import of_schedule
from autosched.schedule import Schedule
from autosched.schedule.kit.trace import Trace
from autosched.target import get_target
from autosched.workloads import workload
from space.normalise import MOVED, Wanted, normal_forms, normalise
from space.normalise.blocks import is_packed

# Programs of tests/data/programs that no rule brings into form yet.
UNKNOWN = {
    "blur_of_one_plane_too_long", "concat_along_window", "conv_first_step_last", "conv_padded_by_tensor", "distances_l1",
    "filter_made", "flattened_layers", "gather", "involution", "loops_carried", "loops_overwritten",
    "loops_scattered", "mixer_block_narrow", "neighbour_in_place", "rows_left_out",
    "running_maximum_ahead", "skip_joined", "state_joined", "zero_points_wide_of_made", "zero_points_wide_less_made",
    "attention_slices", "int64_result", "logits", "symbolic", "uint8_dense", "windows_of_both",
}
# Of these the trace is replayed: together they have every primitive of all forms, and every kind of argument that each is given.
REPLAYED = {
    "above_mean_of_row", "arg_max", "average_padded_wide", "border_set", "choice_of_wide_tensors", "concat_channels",
    "concat_depthwise_pointwise", "concat_of_products", "conv_one_kernel", "conv_then_pool", "conv_transposed_gather",
    "conv_two_results", "dense_bias_int8_init", "dense_three_outputs", "dense_zero_point_both", "difference_of_scaled",
    "energy_of_rows", "first_elements_or_zero", "flat_conv", "frame_difference", "hard_sigmoid", "histogram",
    "identity_added", "integral_image", "layer_norm", "loops_stages", "max_pool_padded", "pad_three_conv", "relu_in_place",
    "remainder", "residual_first", "result_read_again", "row_max_taken_away", "rows_and_columns", "running_maximum",
    "scale_by_channel", "scores_batched", "squared_differences", "squeeze_and_excite", "step_at_five", "sums_of_rows",
    "total_sum", "unsharp_mask", "zero_points_less_weights", "zero_points_of_made",
}
# Of these what is moved is made where it goes, in a form that stands behind the others; of some it is the only one.
MADE_ELSEWHERE = ["attention_slices", "attention_views", "logits", "scores_batched", "transpose_then_dense"]
# Of these axes that some blocks take apart are several everywhere: the form that has schedules, and that is recorded.
SPLIT = {
    "attention_heads_merged", "attention_heads_of_eight", "attention_one_key", "channels_shuffled_between",
    "flat_reshaped", "pixels_between_layers",
}
# And of these the ranges of what one product makes are tensors besides.
RANGED = {"attention_joint", "attention_joint_by_heads", "attention_joint_blocks", "attention_joint_blocks_by_axes"}
# Of these, several blocks behind each other, products are more than there are ways tried to say which factors are weights.
SETTLED = {"attention_joint_blocks", "attention_joint_blocks_by_axes", "mixer_blocks"}
# Of these a form is recorded that is tried behind all of these.
BEHIND = {
    "attention_cache_row": Wanted(beside=True, returned=True),
    "attention_joint_result": Wanted(digits=True, ranged=True, returned=True),
    "dense_block": Wanted(handed=True, loaded=True, chosen=True),
    "dense_block_of_matrices": Wanted(handed=True, loaded=True, chosen=True),
    "finer_and_added": Wanted(loaded=True, finer=True), "rotary_by_halves": Wanted(chosen=True),
    "pooled_twice_then_gate": Wanted(lone=True), "rotary_by_parity": Wanted(chosen=True),
    "class_token_of_patches": Wanted(beside=True), "channel_attention_neighbours": Wanted(filtered=True),
    "spatial_attention": Wanted(filtered=True), "blur_of_made_plane": Wanted(filtered=True),
    "largest_of_neighbours": Wanted(lone=True),
}
FORMS = Path(__file__).resolve().parents[1] / "data" / "programs" / "forms.json"
NAMES = sorted(p.stem for p in FORMS.parent.glob("*.py"))
INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"


def program(user_programs, name: str) -> PrimFunc:
    return user_programs.program(name)


def replayed(func: PrimFunc, steps) -> Schedule:
    trace = Trace()
    trace.insts.extend(steps)
    sch = Schedule(func, seed=0)
    Trace.from_json(trace.as_json()).apply_to_schedule(sch)
    return sch


def digest(steps) -> str:
    trace = Trace()
    trace.insts.extend(steps)
    return hashlib.sha256(json.dumps(trace.as_json()).encode()).hexdigest()[:12] if steps else ""


def wanted_of(name: str) -> Wanted:
    plain = Wanted(digits=name in SPLIT or name in RANGED, ranged=name in RANGED, settled=name in SETTLED)
    return BEHIND.get(name, plain)


@pytest.mark.parametrize("name", NAMES)
def test_a_users_program_has_the_form_that_it_had(user_programs, name: str, request: pytest.FixtureRequest) -> None:
    target = get_target("vta-de10")
    func = program(user_programs, name)
    new, steps = normalise(func, target, wanted_of(name))
    if request.config.getoption("--update-golden"):
        forms = {**json.loads(FORMS.read_text()), name: digest(steps)}
        FORMS.write_text(json.dumps(dict(sorted(forms.items())), indent=0) + "\n")
    # A form is part of what a point means: whoever changes that of a program that has points raises ``space.VERSION``.
    said = "other steps than those recorded (--update-golden -n 0 writes them)"
    assert digest(steps) == json.loads(FORMS.read_text())[name], said
    if steps:
        assert name not in UNKNOWN and is_packed(split_host(new).device, target)
    else:
        assert new is func
        assert (name in UNKNOWN) != (name != "symbolic" and is_packed(func, target))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in UNKNOWN])
def test_a_users_program_means_the_same_in_its_form(user_programs, name: str) -> None:
    target = get_target("vta-de10")
    func = program(user_programs, name)
    new, steps = normalise(func, target, wanted_of(name))
    assert not verify(new)
    assert [b.name for b in new.buffers] == [b.name for b in func.buffers]
    inputs = random_inputs(func, 3)
    for got, expected in zip(run(new, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, expected)
    assert normalise(new, target, wanted_of(name)) == (new, ())
    if name in REPLAYED:
        assert replayed(func, steps).func == new


@pytest.mark.parametrize("name", MADE_ELSEWHERE)
def test_what_is_moved_is_made_where_it_goes(user_programs, name: str) -> None:
    target = get_target("vta-de10")
    func = program(user_programs, name)
    new, steps = normalise(func, target, Wanted(moved=True))
    assert steps and not verify(new) and is_packed(split_host(new).device, target) and replayed(func, steps).func == new
    inputs = random_inputs(func, 5)
    for got, wanted in zip(run(new, *inputs), run(func, *inputs), strict=True):
        assert np.array_equal(got, wanted)
    assert normalise(new, target, Wanted(moved=True)) == (new, ())
    assert [done for done, _ in normal_forms(func, target)][-1] == (MOVED,)


@pytest.mark.parametrize("name", ["dense_chain", "conv_two_results", "flat_conv", "move_transposed"])
def test_where_nothing_is_moved_there_is_no_such_form(user_programs, name: str) -> None:
    func = program(user_programs, name)
    assert normalise(func, get_target("vta-de10"), Wanted(moved=True)) == (func, ())


def kinds(value: object) -> object:
    """What an argument is, whatever its value."""
    if isinstance(value, (list, tuple)):
        return frozenset(map(kinds, value))
    if isinstance(value, dict):
        return frozenset((key, kinds(one)) for key, one in value.items())
    return value if value is None or isinstance(value, bool) else type(value)


@pytest.mark.slow
def test_every_form_is_what_its_steps_make(user_programs) -> None:
    found: dict[bool, set[object]] = {True: set(), False: set()}
    for name in NAMES:
        func = program(user_programs, name)
        new, steps = normalise(func, get_target("vta-de10"))
        assert replayed(func, steps).func == new, name
        found[name in REPLAYED] |= {(i.op, key, kinds(value)) for i in steps for key, value in i.args.items()}
    assert found[False] <= found[True], "REPLAYED lacks a kind of step"


def test_every_form_is_one_of_a_program() -> None:
    assert set(json.loads(FORMS.read_text())) == set(NAMES) >= UNKNOWN


@pytest.mark.parametrize("name", ["t1", "t2", "t3", "t4", "resnet18.c3", "conv2d:h=5,w=5,ci=3,co=7,k=3"])
def test_named_workloads_are_packed_already(name: str) -> None:
    func = workload(name).func
    assert normalise(func, get_target("vta-de10")) == (func, ())


@pytest.mark.parametrize("name", ["add_1d", "conv_nchw", "conv_padding_select", "max_pool_four_loads", "max_of_three"])
def test_a_pickled_program_has_the_form_that_it_had(user_programs, name: str) -> None:
    """Its names and constants are other objects; so workers get it."""
    func = program(user_programs, name)
    steps = [digest(normalise(f, get_target("vta-de10"))[1]) for f in (func, pickle.loads(pickle.dumps(func)))]
    assert steps[0] == steps[1] != ""


def test_a_plain_convolution_becomes_the_packed_one(user_programs) -> None:
    func = program(user_programs, "conv_odd")
    device = split_host(normalise(func, get_target("vta-de10"))[0]).device
    shapes = {b.name: [e.value for e in b.shape] for b in device.buffers}
    assert shapes == {
        "X_global": [1, 1, 7, 9, 1, 16], "W_global": [1, 1, 3, 3, 16, 16], "bias_global": [1, 1, 16],
        "out_global": [1, 1, 7, 9, 1, 16],
    }


def test_a_kernel_takes_and_gives_the_users_own_layout(user_programs) -> None:
    func = program(user_programs, "dense_odd")
    sch = replayed(func, normalise(func, get_target("vta-de10"))[1])
    for index, scope in ((0, INP), (1, WGT)):
        sch.cache_read("C", index, scope)
    sch.cache_read("out_part", 1, ACC)
    sch.set_scope("C", 0, ACC)
    sch.set_scope("out_part", 0, ACC)
    m, row, column, k, depth = sch.get_loops("C")  # all ten columns are in one element
    sch.reorder(k, m, row, column, depth)
    sch.decompose_reduction("C", k)
    sch.tensorize(row, "vta.gemm.1x16x16")
    kernel = of_schedule(func, "vta-de10", sch)
    inputs = random_inputs(func, 1)
    assert np.array_equal(kernel(*inputs), run(func, *inputs)[0])
    # Packing permutes and fills with zeros, nothing else.
    assert all(w.free for w in kernel.host_work(*inputs))


def test_the_lanes_do_not_depend_on_the_order_of_writing(user_programs) -> None:
    target = get_target("vta-de10")
    shapes = set()
    for name in ("dense_one_expression", "dense_loops_kij"):
        device = split_host(normalise(program(user_programs, name), target)[0]).device
        shapes.add(tuple(sorted((b.name, tuple(e.value for e in b.shape)) for b in device.buffers)))
    assert len(shapes) == 1


def test_other_machines_have_other_elements(user_programs) -> None:
    import dataclasses

    from autosched.target import Target

    base = get_target("vta-de10")
    wide = Target("wide", dataclasses.replace(base.config, LOG_BLOCK=5), base.semantics)
    func = program(user_programs, "dense_plain")
    new, _ = normalise(func, wide)
    device = split_host(new).device
    assert [e.value for e in next(b for b in device.buffers if b.name == "W_global").shape] == [1, 2, 32, 32]


@pytest.mark.parametrize(("groups", "each", "size"), [(2, 16, 16), (3, 5, 4), (4, 20, 8), (1, 16, 16)])
def test_flat_groups_become_an_axis(groups: int, each: int, size: int) -> None:
    from autosched.script import parse
    from space import Space

    func = parse(f'''
@T.prim_func
def f(X: T.Buffer((6, {groups * size}), "int8"), W: T.Buffer(({groups * each}, {size}), "int8"),
      out: T.Buffer((6, {groups * each}), "int8")):
    C = T.alloc_buffer((6, {groups * each}), "int32")
    for y, o, c in T.grid(6, {groups * each}, {size}):
        with T.block("C"):
            vy, vo, vc = T.axis.remap("SSR", [y, o, c])
            with T.init():
                C[vy, vo] = 0
            C[vy, vo] = C[vy, vo] + T.Cast("int32", X[vy, vo // {each} * {size} + vc]) * T.Cast("int32", W[vo, vc])
    for y, o in T.grid(6, {groups * each}):
        with T.block("out"):
            vy, vo = T.axis.remap("SS", [y, o])
            out[vy, vo] = T.Cast("int8", C[vy, vo] >> 2)
''')
    target = get_target("vta-de10")
    new, steps = normalise(func, target)
    assert steps and not verify(new)
    inputs = random_inputs(func)
    assert np.array_equal(run(new, *inputs)[0], run(func, *inputs)[0])
    space = Space(func, target)
    kernel = of_schedule(func, target, space.schedule(space.sample(np.random.default_rng(0), 1)[0]))
    assert np.array_equal(kernel(*inputs), run(func, *inputs)[0])


@pytest.mark.parametrize("weight", ["r, j", "j, r"])
def test_a_product_of_lanes_is_no_diagonal(weight: str) -> None:
    """A plain matmul of an element's extents: the lane of the result is the last index of one operand, or of none."""
    from autosched.script import parse

    func = parse(f'''
@T.prim_func
def f(A: T.Buffer((5, 16), "int8"), W: T.Buffer((16, 16), "int8"), out: T.Buffer((5, 16), "int8")):
    C = T.alloc_buffer((5, 16), "int32")
    for i, j, r in T.grid(5, 16, 16):
        with T.block("C"):
            vi, vj, vr = T.axis.remap("SSR", [i, j, r])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vr]) * T.Cast("int32", W[v{weight.replace(", ", ", v")}])
    for i, j in T.grid(5, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", C[vi, vj])
''')
    new, steps = normalise(func, get_target("vta-de10"))
    assert steps and "diagonalize" not in [i.op for i in steps]
    inputs = random_inputs(func)
    assert np.array_equal(run(new, *inputs)[0], run(func, *inputs)[0])
