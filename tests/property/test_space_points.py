"""The space against enumeration, the interpreter and the simulator: nothing in it is illegal, wrong, or faster than its bound."""

import json
from typing import Any

import numpy as np
import pytest

from autosched.errors import ProgramError, UnknownNameError
from autosched.kernel import resolve
from autosched.lower import lower, lower_table
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule, Trace
from autosched.search.worker import one
from autosched.target import get_target
from autosched.workloads import workload
from sim import timing, tokens
from space import Space
from space.rule import Rule
from space.rules import NUMERIC, STRUCTURAL

SMALL = [
    "t1",
    "dense:m=2,k=64,n=96",
    "dense:m=1,k=32,n=64,tail=cast,bias=0",
    "conv2d:h=6,w=8,ci=32,co=32,k=3,pad=1",
    "conv2d:h=7,w=6,ci=16,co=48,k=1,stride=2,bias=0",
    "conv2d:h=8,w=8,ci=32,co=16,k=3,stride=2,pad=1",
    "conv2d:h=5,w=9,ci=16,co=16,k=5,pad=2,tail=cast",
]


def drawn(name: str, n: int, seed: int = 0, target: str = "vta-de10") -> tuple[Space, np.ndarray]:
    space = Space(workload(name).func, target)
    return space, space.sample(np.random.default_rng(seed), n)


UNCUT = [rule for rule in (*STRUCTURAL, *NUMERIC) if rule.name not in ("cuts", "residency")]


@pytest.mark.parametrize(("name", "rules"), [
    ("t1", UNCUT), ("t2", UNCUT), pytest.param("dense:m=2,k=64,n=96", UNCUT, marks=pytest.mark.slow),
    pytest.param("dense:m=1,k=32,n=48,tail=cast,bias=0", None, marks=pytest.mark.slow),
    ("add:m=1,n=48", None), ("dense:m=1,k=16,n=48,tail=cast,bias=0", None),
])
def test_enumeration_is_the_brute_force_product_filtered(name: str, rules: list[Rule] | None) -> None:
    space = Space(workload(name).func, "vta-de10", rules)
    assert space.raw() < 5e6
    product = np.stack(np.meshgrid(*[c.astype(np.int32) for c in space.choices], indexing="ij"), -1).reshape(-1, space.width)
    expected = product[space.valid(product)]
    found = np.concatenate(list(space.enumerate()))
    assert np.array_equal(found, expected)
    assert np.array_equal(np.concatenate(list(space.blocks(64))), expected), "however many are expanded at once"
    assert space.count() == (len(expected), True)
    assert space.count(limit=3) == (space.count(limit=3)[0], False)


@pytest.mark.parametrize("rules", [("tiling", "attach"), ("tiling", "banks", "slices")])
def test_the_estimate_of_a_space_counts_each_of_its_forms_apart(rules: tuple[str, ...]) -> None:
    name = "max_pool2d:h=3,w=3,c=16,k=2,stride=1,pad=0"
    space = Space(workload(name).func, "vta-de10", [*STRUCTURAL, *(r for r in NUMERIC if r.name in rules)])
    assert space.nests.tolist() == [2, 1, 1, 1], "forms of different numbers of nests"
    expected = 0
    for k, sketch in enumerate(space.sketches):
        product = np.meshgrid(*[np.array(c.choices) for c in sketch.columns], indexing="ij")
        own = np.stack(product, -1).reshape(-1, len(sketch.columns))
        rows = np.zeros((len(own), space.width), dtype=np.int32)
        rows[:, 0], rows[:, space.places(k)] = k, own
        expected += int(space.valid(rows).sum())
    about, exact = space.count(limit=1)
    assert not exact and abs(about - expected) <= 0.1 * expected + 1


@pytest.mark.parametrize("name", SMALL)
def test_every_point_computes_the_reference(name: str) -> None:
    space, points = drawn(name, 5)
    for point in points:
        result = measure(Candidate(name, "vta-de10", tuple(space.trace(point).as_json())), execute=True)
        assert result.ok, (space.explain(point), result)
        assert result.cycles is not None and result.cycles >= space.bound(point[None])[0], space.explain(point)


@pytest.mark.parametrize(("name", "target"), [
    ("conv2d:h=9,w=7,ci=48,co=32,k=3,pad=1", "vta-de10"),
    pytest.param("conv2d:h=8,w=8,ci=32,co=16,k=3,stride=2,pad=1", "vta-de10-portable", marks=pytest.mark.slow),
    pytest.param("max_pool2d:h=12,w=10,c=32,k=3,stride=2,pad=1", "vta-de10", marks=pytest.mark.slow),
    ("conv2d_transpose:h=4,w=4,ci=32,co=16,k=4,stride=2,pad=1", "vta-fsim"),
])
def test_points_need_no_checks(name: str, target: str) -> None:
    """What a search leaves out of a replay would refuse nothing, and alters nothing."""
    task = resolve(name, get_target(target))
    space = Space(task.func, target)
    for point in space.sample(np.random.default_rng(3), 3):
        candidate = Candidate(task, target, tuple(space.trace(point).as_json()))
        assert one(candidate) == measure(candidate), space.explain(point)


@pytest.mark.parametrize("name", [n for n in SMALL if "pad=" in n])
def test_leaving_out_padding_computes_the_same_with_fewer_products(name: str) -> None:
    task = workload(name)
    space, points = drawn(name, 60)
    dropped = points[points[:, space.names.index("drop_zeros")] == 1][:3]
    assert len(dropped) and space.sketches[0].model.padding.useful < space.sketches[0].model.products
    counts = set()
    for point in dropped:
        result = measure(Candidate(name, "vta-de10", tuple(space.trace(point).as_json())), execute=True)
        assert result.ok, (space.explain(point), result)
        assert result.cycles is not None and result.cycles >= space.bound(point[None])[0], space.explain(point)
        counts.add(result.stats["gemm_counter"])
    # Brute force over the loops of the definition: a product counts where it reads inside the tensor.
    spec = dict(part.split("=") for part in name.removeprefix("conv2d:").split(","))
    h, w, k, s, p = (int(spec.get(x, d)) for x, d in zip(("h", "w", "k", "stride", "pad"), "00010"))
    taps = sum(0 <= y * s + ky - p < h for y in range((h + 2 * p - k) // s + 1) for ky in range(k))
    taps *= sum(0 <= x * s + kx - p < w for x in range((w + 2 * p - k) // s + 1) for kx in range(k))
    blocks = task.func.buffers[0].shape[1], task.func.buffers[1].shape[0]
    assert counts == {taps * int(blocks[0].value) * int(blocks[1].value)} == {space.sketches[0].model.padding.useful}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["t3", "conv2d:h=7,w=6,ci=16,co=48,k=1,stride=2,bias=0"])
def test_without_padding_there_is_nothing_to_leave_out(name: str) -> None:
    space = Space(workload(name).func, "vta-de10")
    assert space.choices[space.names.index("drop_zeros")].tolist() == [0]
    with pytest.raises(ProgramError, match="choose one of 0"):
        space.point(drop_zeros=1)


@pytest.mark.parametrize("target", ["vta-pynq", "vta-de10-portable", "vta-fsim"])
def test_every_point_fits_other_targets(target: str) -> None:
    name = "conv2d:h=6,w=8,ci=32,co=32,k=3,pad=1"
    space, points = drawn(name, 6, target=target)
    for point in points:
        result = measure(Candidate(name, target, tuple(space.trace(point).as_json())), execute=True)
        assert result.ok, (space.explain(point), result)


@pytest.mark.parametrize("name", [pytest.param("resnet18.c2", marks=pytest.mark.slow), "resnet18.c10", "t3"])
def test_the_draft_ranks_and_the_bound_holds(name: str) -> None:
    space, points = drawn(name, 16)
    target = get_target("vta-de10")
    cycles = []
    for point in points:
        lowered = lower(space.schedule(point).func, target)
        cycles.append(timing.cycles(lowered.table, lowered.config, lowered.insn_address))
    measured = np.array(cycles)
    assert (measured >= space.bound(points)).all()
    assert (measured >= space.floor()).all()
    assert np.corrcoef(np.log(measured), np.log(space.draft(points)))[0, 1] > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18.c4", "resnet18.c11", "t4", "t3", "resnet18.c3"])
def test_no_point_of_a_real_layer_fails(name: str) -> None:
    space, points = drawn(name, 300, seed=1)
    for point in points:
        result = measure(Candidate(name, "vta-de10", tuple(space.trace(point).as_json())))
        assert result.ok, (space.explain(point), result)
        assert result.cycles is not None and result.cycles >= space.bound(point[None])[0], space.explain(point)


@pytest.mark.parametrize("name", SMALL)
def test_neighbours_and_samples_are_members(name: str) -> None:
    space, points = drawn(name, 20)
    assert space.valid(points).all() and len(np.unique(points, axis=0)) == len(points)
    again = space.sample(np.random.default_rng(0), 20)
    assert np.array_equal(points, again)
    near = space.neighbours(points[0])
    assert len(near) and space.valid(near).all()
    assert not (near == points[0]).all(axis=1).any()
    assert np.array_equal(near, np.unique(near, axis=0)), "each once, in lexicographic order"
    # Whatever differs in one decision of few values is a neighbour, also of several points at once.
    found = {row.tobytes() for row in space.neighbours_of(points[:2])}
    assert found >= {row.tobytes() for row in near} - {points[1].tobytes()}
    for n, choices in enumerate(space.choices):
        rows = np.repeat(points[:1], len(choices), axis=0)
        rows[:, n] = choices
        beside = rows[space.valid(rows)]
        assert n == 0 or len(choices) > 8 or {row.tobytes() for row in beside} - found <= {p.tobytes() for p in points[:2]}


@pytest.mark.parametrize("name", ["resnet18.c2", "max_pool2d:h=96,w=96,c=16,k=2,stride=2,pad=0"])
def test_rows_are_repaired_alike_alone_and_among_their_twins(name: str) -> None:
    """What is worked out once for twins is what each of them is repaired to alone."""
    space = Space(workload(name).func, "vta-de10")
    rng = np.random.default_rng(1)
    rows = space.draws(rng, 40)
    rows = np.concatenate([rows, space.repair(rows)[0], rows[::-1]])
    together, inside = space.repair(rows)
    assert 0 < inside.sum() < len(inside) and len(np.unique(together, axis=0)) < len(together)
    for n, row in enumerate(rows):
        alone, is_inside = space.repair(row[None])
        assert np.array_equal(alone[0], together[n]) and is_inside[0] == inside[n]



def test_a_point_has_one_program() -> None:
    """Loops of equal extents under one condition leave a choice, which must not fall to the addresses of objects."""
    name = "conv2d:h=3,w=2,ci=16,co=32,k=3,pad=1,tail=cast,bias=0"
    space = Space(workload(name).func, "vta-de10")
    point = space.point(tile_co=1, tile_kx=1, drop_zeros=1, load_kernel=7, banks_kernel=2)
    candidate = Candidate(name, "vta-de10", tuple(space.trace(point).as_json()))
    keep = []  # what stays alive moves what comes next to other addresses
    programs = set()
    for n in range(12):
        keep.append([object() for _ in range(97 * n)])
        programs.add(measure(candidate).program)
    assert len(programs) == 1


def waits(name: str, target: str, row: list[int]) -> tuple[int, ...]:
    """The most tokens that may wait on each channel in the program of a point, which runs and is right."""
    space, point = Space(workload(name).func, target), np.array(row, dtype=np.int32)
    assert space.valid(point[None]).all()
    table = lower_table(space.schedule(point).func, target).table
    assert measure(Candidate(name, target, tuple(space.trace(point).as_json())), execute=True, wide=True).ok
    return tuple(most for most, _ in tokens.flow(table, space.target.config.queue_depth).outstanding())


def test_slices_leave_no_more_tokens_than_are_counted() -> None:
    """Two tiles of 128 slices each, which nothing waits for but their stores."""
    name = "dense:m=128,k=256,n=256"
    space = Space(workload(name).func, "vta-de10")
    sliced = {"tile_n": 1, "tile_k": 2, "order": 1, "load_weight": 3, "tail": 1}
    assert waits(name, "vta-de10", space.point(**sliced).tolist())[2] == 128
    assert 128 < waits(name, "vta-de10", space.point(**sliced, banks_acc=2).tolist())[2] <= 255


@pytest.mark.parametrize(("name", "target", "row", "channel"), [
    # Slices of a part beside those of the part before; pieces of what stays on chip, each waited for by itself.
    ("mobilenet.d1", "vta-de10",
     [0, 0, 5, 34, 0, 1, 1, 1, 4, 112, 1, 3, 3, 0, 1, 3, 3, 0, 0, 0, 2, 1, 0, 0, 0, 0, 5,
      1, 4, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 0],
     2),
    ("resnet18.c3", "vta-pynq",
     [0, 22, 0, 0, 0, 1, 1, 2, 6, 4, 3, 3, 0, 1, 1, 1, 0, 0, 0, 1, 5, 2, 7, 3, 0, 1, 4, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 0],
     0),
    ("resnet18.c10", "vta-pynq",
     [0, 17, 0, 0, 0, 1, 1, 2, 1, 16, 1, 1, 0, 1, 1, 1, 0, 0, 5, 2, 5, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1], 0),
])
def test_no_point_leaves_more_tokens_than_are_counted(name: str, target: str, row: list[int], channel: int) -> None:
    """Programs of which 289 and more tokens could wait, were nobody held back."""
    assert 224 <= waits(name, target, row)[channel] <= 255


@pytest.mark.parametrize("name", ["t2", "dense:m=2,k=32,n=32,tail=cast,bias=0"])
def test_slices_of_a_lone_store_are_no_second_program(name: str) -> None:
    """What is left out for slicing a store that has no stages before it has its program in the space; the rest differ."""
    space = Space(workload(name).func, "vta-de10", UNCUT)
    points = np.concatenate(list(space.enumerate()))
    tail = space.names.index("tail")
    assert space.choices[tail].tolist() == [0]
    model = space.sketches[0].model

    def program(point: np.ndarray) -> str | None:
        return measure(Candidate(name, "vta-de10", tuple(space.trace(point).as_json()))).program

    left_out = 0
    for point in points[np.random.default_rng(0).permutation(len(points))[:8]]:
        for axis in model.nest.spatial:
            twin = point.copy()
            twin[tail] = 1 + axis
            if twin[space.names.index(f"tile_{model.nest.axes[axis].name}")] > 1:
                left_out += 1
                assert program(twin) == program(point), space.explain(twin)
    assert left_out
    kept = points[np.random.default_rng(1).permutation(len(points))[:20]]
    assert len({program(p) for p in kept}) == len(kept)


def test_the_trace_is_the_schedule() -> None:
    space, points = drawn(SMALL[3], 3)
    for point in points:
        text = space.trace(point).as_json()
        sch, again = space.schedule(point), Schedule(space.func)
        Trace.from_json(json.dumps(text)).apply_to_schedule(again)
        assert again.func == sch.func and str(again.trace) == str(sch.trace)
        assert [inst["op"] for inst in sch.trace.as_json()] == [inst["op"] for inst in text]
        assert Trace.from_json(text).as_json() == text


def test_points_by_name_and_their_refusals() -> None:
    space = Space(workload("t3").func, "vta-de10")
    point = space.point(tile_n=8, load_weight=1, banks_weight=2)
    assert "n=8" in space.explain(point) and "weight@n x2" in space.explain(point)
    with pytest.raises(UnknownNameError, match="did you mean 'tile_n'"):
        space.point(tile_nn=8)
    with pytest.raises(ProgramError, match="choose one of 1, 2, 3, 4"):
        space.point(tile_k=12)
    with pytest.raises(ProgramError, match="not in the space"):
        space.point(tile_n=3)
    assert space.valid(space.point(tile_n=3, cut=1, load_weight=1)[None])[0], "63 = 21 * 3, and a last part of one"
    with pytest.raises(ProgramError, match="not in the space"):
        space.point(tile_n=64, banks_acc=2)


def test_programs_outside_the_space_are_named() -> None:
    from autosched.script import parse

    text = """
@T.prim_func
def f(A: T.Buffer((8,), 'int32'), B: T.Buffer((8,), 'int32'), C: T.Buffer((8,), 'int8')):
    for i in T.serial(8):
        with T.block('c'):
            vi = T.axis.spatial(8, i)
            C[vi] = T.Cast('int8', A[B[vi]])
"""
    with pytest.raises(ProgramError, match="an index that is data"):
        Space(parse(text), "vta-de10")
    assert len(Space(parse(text.replace("A[B[vi]]", "A[vi * vi % 8] + B[vi]")), "vta-de10").sketches) == 1
    wide = text.replace("B: T.Buffer((8,), 'int32'), ", "")
    wide = wide.replace("(8,), 'int32'", "(1, 8, 1, 16), 'int32'").replace("(8,), 'int8'", "(1, 8, 1, 16), 'int64'")
    wide = wide.replace("for i in T.serial(8):", "for i, j, k, n in T.grid(1, 8, 1, 16):")
    wide = wide.replace("vi = T.axis.spatial(8, i)", "a, b, c, d = T.axis.remap('SSSS', [i, j, k, n])")
    wide = wide.replace("C[vi] = T.Cast('int8', A[B[vi]])", "C[a, b, c, d] = T.Cast('int64', A[a, b, c, d] + 1)")
    with pytest.raises(ProgramError, match="the machine computes integers of up to 32 bits"):
        Space(parse(wide), "vta-de10")


@pytest.mark.parametrize(("loop", "said"), [
    ("T.serial(0, 8)", ""), ("T.serial(0, 7)", "takes vi from 0 to 6 of its domain 0..7"),
    ("T.serial(1, 8)", "takes vi from 1 to 7 of its domain 0..7"),
])
def test_a_loop_runs_through_the_whole_of_its_iterator(loop: str, said: str) -> None:
    """What a space tiles are domains: it would compute what the loops leave out."""
    from autosched.script import parse

    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((8, 16), 'int32'), C: T.Buffer((8, 16), 'int8')):
    for i in {loop}:
        for j in T.serial(16):
            with T.block('c'):
                vi = T.axis.spatial(8, i)
                vj = T.axis.spatial(16, j)
                C[vi, vj] = T.Cast('int8', T.max(T.min(A[vi, vj] + 1, 127), -128))
""")
    if not said:
        assert Space(func, "vta-de10").floor() > 0
        return
    with pytest.raises(ProgramError, match=said):
        Space(func, "vta-de10")


def test_the_largest_tiles_of_an_alu_program_fit_with_their_banks() -> None:
    """A result may take the place of an operand, whose buffer then has the banks of both."""
    space = Space(workload("add:m=64,n=1024").func, "vta-de10")
    rng = np.random.default_rng(0)
    raw = np.stack([rng.choice(choices, 4000) for choices in space.choices], axis=1).astype(np.int32)
    rows, inside = space.repair(raw)
    rows = np.unique(rows[inside], axis=0)
    named = {name: rows[:, n] for n, name in enumerate(space.names)}
    rows = rows[(named["banks_acc"] == 2) & (named["banks_A"] == 1) & (named["banks_B"] == 1)]
    tile = rows[:, space.names.index("tile_m")] * rows[:, space.names.index("tile_n")]
    for point in rows[np.argsort(-tile, kind="stable")[:24]]:
        low = lower(space.schedule(point).func, space.target)
        assert len(low.table), space.explain(point)


ONE = {
    "a stage": ("A: T.Buffer(({n},), 'int32'), C: T.Buffer(({n},), 'int8')", "C[vi] = T.Cast('int8', A[vi] + 1)"),
    "two int8": ("A: T.Buffer(({n},), 'int8'), B: T.Buffer(({n},), 'int8'), C: T.Buffer(({n},), 'int8')",
                 "C[vi] = T.max(A[vi], B[vi])"),
}


@pytest.mark.parametrize("n", [8, 16, 17])
@pytest.mark.parametrize("form", ONE)
def test_a_program_of_one_vector_is_a_space_too(form: str, n: int) -> None:
    """Nothing is left to tile, and the next longer one has an axis."""
    from autosched.script import parse

    buffers, body = (part.format(n=n) for part in ONE[form])
    func = parse(f"""
@T.prim_func
def f({buffers}):
    for i in T.serial({n}):
        with T.block('c'):
            vi = T.axis.spatial({n}, i)
            {body}
""")
    space = Space(func, "vta-de10")
    assert len(space.sketches[0].model.nest.axes) == (1 if n > 16 else 0)
    points = space.sample(np.random.default_rng(0), 3)
    for point in points:
        result = measure(Candidate(func, "vta-de10", tuple(space.trace(point).as_json())), execute=True)
        assert result.ok and space.bound(point[None])[0] <= result.cycles, result.reason


DENSE = """
@T.prim_func
def f(A: T.Buffer(({m}, 16), "int8"), W: T.Buffer({weight}, "int8"), b: T.Buffer(({n},), "int32"), E: T.Buffer({out}, "int8")):
    P = T.alloc_buffer(({m}, {n}), "int32")
    for i, j, k in T.grid({m}, {n}, 16):
        with T.block("P"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                P[vi, vj] = {init}
            P[vi, vj] = P[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W{at})
    for i, j in T.grid({m}, {n}):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E{where} = T.Cast("int8", {value})
"""
USUAL = {"m": "5", "n": "20", "weight": "(20, 16)", "out": "(5, 20)", "init": "0", "at": "[vj, vk]", "where": "[vi, vj]",
         "value": "T.shift_right(P[vi, vj], 7)"}


@pytest.mark.parametrize("changes", [
    {"m": "1", "init": "b[vj]", "out": "(20, 1)", "where": "[vj, vi]"},
    {"m": "2", "init": "b[vj]", "out": "(20, 2)", "where": "[vj, vi]"},
    {"n": "1", "weight": "(16,)", "at": "[vk]", "out": "(5, 1)"},
    {"out": "(1, 5, 20)", "where": "[0, vi, vj]"},
])
def test_dimensions_of_one_element_are_in_nobodys_way(changes: dict[str, str]) -> None:
    from autosched.script import parse

    func = parse(DENSE.format(**{**USUAL, **changes}))
    space = Space(func, "vta-de10")
    for point in space.sample(np.random.default_rng(0), 4):
        result = measure(Candidate(func, "vta-de10", tuple(space.trace(point).as_json())), execute=True)
        assert result.ok and space.machine_bound() <= result.cycles, result.reason


STAGED = """
@T.prim_func
def f(A: T.Buffer(({m}, 64), "int8"), W: T.Buffer((64, 64), "int8"), E: T.Buffer(({m}, 64), "int8")):
    C = T.alloc_buffer(({m}, 64), "int32")
    {more}
    for i, j, k in T.grid({m}, 64, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
    {blocks}
"""
SECOND = """for i, j, k in T.grid({m}, 64, 64):
        with T.block("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = 0
            D[vi, vj] = D[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
    """
STAGE = """for i, j in T.grid({m}, 64):
        with T.block("{name}"):
            vi, vj = T.axis.remap("SS", [i, j])
            {name}[vi, vj] = {value}
    """


def staged(m: int, *stages: tuple[str, str], twice: bool = False) -> Any:
    """A sum of products, the same sum once more, and stages."""
    from autosched.script import parse

    blocks = (SECOND.format(m=m) if twice else "") + "".join(STAGE.format(m=m, name=n, value=v) for n, v in stages)
    names = [*(["D"] if twice else []), *(n for n, _ in stages if n != "E")]
    more = "".join(f'{n} = T.alloc_buffer(({m}, 64), "int32")\n    ' for n in names)
    return parse(STAGED.format(m=m, more=more, blocks=blocks))


def test_the_machine_bound_of_a_program_holds_for_another_of_the_same_function() -> None:
    """The same sum twice is one; what is cut in two and put together again need not be cut."""
    twice = staged(64, ("Q", "C[vi, vj] + D[vi, vj]"), ("E", "T.Cast('int8', Q[vi, vj])"), twice=True)
    shifted = staged(64, ("E", "T.Cast('int8', T.shift_left(C[vi, vj], 1))"))
    cut = staged(64, ("P", "T.max(C[vi, vj], 0)"), ("S", "T.min(C[vi, vj], 0)"), ("Q", "P[vi, vj] + S[vi, vj]"),
                 ("E", "T.Cast('int8', Q[vi, vj])"))
    plain = staged(64, ("E", "T.Cast('int8', C[vi, vj])"))
    bounds = [Space(func, "vta-de10").machine_bound() for func in (twice, shifted, cut, plain)]
    assert bounds[0] < bounds[1] + 64 and bounds[2] <= bounds[3]
    behind = staged(64, ("P", "T.max(C[vi, vj], 0)"), ("S", "T.min(C[vi, vj], 0)"), ("Q", "P[vi, vj] + S[vi, vj]"),
                    ("E", "T.Cast('int8', T.shift_right(Q[vi, vj], 3))"))
    assert Space(behind, "vta-de10").machine_bound() == Space(
        staged(64, ("E", "T.Cast('int8', T.shift_right(C[vi, vj], 3))")), "vta-de10").machine_bound()


def test_forms_without_a_fixed_decision_are_no_choice() -> None:
    space = Space(workload("resnet18.c8").func, "vta-de10-portable")
    named = [k for k, s in enumerate(space.sketches) if "load_bias_digits" in s.names]
    assert 0 < len(named) < len(space.sketches) and len(space.choices[0]) == len(space.sketches)
    fixed = Space(workload("resnet18.c8").func, "vta-de10-portable", fixed={"load_bias_digits": 0})
    assert fixed.choices[0].tolist() == named


def test_a_parameter_does_not_hold_two_things() -> None:
    from autosched.script import parse

    text = """
@T.prim_func
def f(X: T.Buffer((40,), "int8"), Y: T.Buffer((40,), "int8"), E: T.Buffer((40,), "int8")):
    for i in range(40):
        with T.block("E"):
            vi = T.axis.spatial(40, i)
            E[vi] = T.max(X[vi], Y[vi])
    for i in range(40):
        with T.block("X"):
            vi = T.axis.spatial(40, i)
            X[vi] = T.min(Y[vi], T.int8(3))
"""
    with pytest.raises(ProgramError, match="reads X before block X writes it"):
        Space(parse(text), "vta-de10")
    own = text.replace("T.max(X[vi], Y[vi])", "T.max(Y[vi], T.int8(5))")
    assert Space(parse(own), "vta-de10").sketches
    with pytest.raises(ProgramError, match="'X' reads X, which it writes"):
        Space(parse(own.replace("T.min(Y[vi]", "T.min(X[vi]")), "vta-de10")
    assert Space(parse(own.replace("T.max(Y[vi], T.int8(5))", "Y[vi] * Y[vi]")), "vta-de10").sketches  # of a copy
