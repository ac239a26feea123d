"""Matrix products: conditions on instances, loop mappings, micro-op residency, other machines, and what is refused."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod
from types import ModuleType

import pytest

from autosched.errors import LoweringError
from autosched.ir.stmt import PrimFunc
from autosched.lower import alike, gemm, limits, lower_table
from autosched.lower.compute import Folder, _pairs
from autosched.lower.nest import Dim
from autosched.schedule import Schedule
from autosched.script import parse
from autosched.target import Target, get_target
from autosched.target.intrin import register
from autosched.workloads import workload
from sim import isa
from sim.config import VTAConfig
from sim.presets import TARGETS as PRESETS
from space import Space

TARGETS = ("vta-de10", "vta-de10-portable", "vta-fsim")


def taps(width: int, k: int, where: str, stride: int = 1, notes: str = "", loops: str = "x, t", outer: int = 1) -> PrimFunc:
    """A row convolved with ``k`` taps; an instance runs only ``where`` it holds (of vx, the output, and vt, the tap)."""
    n = -(-width // stride)
    order = [name.strip() for name in loops.split(",")]
    extents = {"x": n // outer, "t": k}
    heads = "\n".join(
        "    " * (2 + d) + f"for {v} in T.serial({extents[v]}" + (f", annotations={{{notes}}}" if notes and d == 0 else "") + "):"
        for d, v in enumerate(order)
    )
    pad = " " * 16
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({width}, 16), "int8"), w: T.Buffer(({k}, 16, 16), "int8"), out: T.Buffer(({n}, 16), "int8")):
    inp = T.alloc_buffer(({width}, 16), "int8", scope="local.inp_buffer")
    wgt = T.alloc_buffer(({k}, 16, 16), "int8", scope="local.wgt_buffer")
    acc = T.alloc_buffer(({n}, 16), "int32", scope="local.acc_buffer")
    for i, l in T.grid({width}, 16):
        with T.block("load"):
            vi, vl = T.axis.remap("SS", [i, l])
            inp[vi, vl] = a[vi, vl]
    for t, o, l in T.grid({k}, 16, 16):
        with T.block("load_w"):
            vt, vo, vl = T.axis.remap("SSS", [t, o, l])
            wgt[vt, vo, vl] = w[vt, vo, vl]
    for i, l in T.grid({n}, 16):
        with T.block("init"):
            vi, vl = T.axis.remap("SS", [i, l])
            acc[vi, vl] = 0
    for x0 in range({outer}):
{heads}
{pad}with T.block("gemm"):
{pad}    vx = T.axis.spatial({n}, x0 * {n // outer} + x)
{pad}    vt = T.axis.reduce({k}, t)
{pad}    T.where({where.replace("vx", f"(x0 * {n // outer} + x)").replace("vt", "t")})
{pad}    T.reads(acc[vx, 0:16], inp[vx * {stride} + vt - {k // 2}, 0:16], wgt[vt, 0:16, 0:16])
{pad}    T.writes(acc[vx, 0:16])
{pad}    A = T.match_buffer(acc[vx, 0:16], (1, 16), "int32", scope="local.acc_buffer", offset_factor=16)
{pad}    I = T.match_buffer(inp[vx * {stride} + vt - {k // 2}, 0:16], (1, 16), "int8", scope="local.inp_buffer", offset_factor=16)
{pad}    W = T.match_buffer(wgt[vt, 0:16, 0:16], (16, 16), "int8", scope="local.wgt_buffer", offset_factor=256)
{pad}    T.evaluate(T.call_extern("int32", "vta.gemm", A.data, I.data, W.data))
    for i, l in T.grid({n}, 16):
        with T.block("store"):
            vi, vl = T.axis.remap("SS", [i, l])
            out[vi, vl] = T.cast(acc[vi, vl], "int8")
''')


def inside(width: int, k: int, stride: int = 1) -> str:
    """The taps that fall inside the row."""
    return f"{k // 2} <= vx * {stride} + vt and vx * {stride} + vt < {width + k // 2}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("width", "k", "stride", "loops", "outer"), [
    (8, 3, 1, "x, t", 1), (8, 3, 1, "t, x", 1), (9, 5, 2, "x, t", 1), (8, 3, 1, "t, x", 2), (4, 7, 1, "x, t", 2),
    (1, 3, 1, "t, x", 1), (12, 3, 3, "x, t", 4),
])
def test_taps_outside_are_left_out(
    width: int, k: int, stride: int, loops: str, outer: int, target: str, vta_schedules: ModuleType,
) -> None:
    low = vta_schedules.verify(taps(width, k, inside(width, k, stride), stride, loops=loops, outer=outer), target)
    gemm = low.table[(low.table[:, isa.OPCODE] == isa.OP_GEMM) & (low.table[:, isa.RESET] == 0)]
    done = (gemm[:, isa.ITER_OUT] * gemm[:, isa.ITER_IN] * (gemm[:, isa.UOP_END] - gemm[:, isa.UOP_BGN])).sum()
    n = -(-width // stride)
    assert done == sum(0 <= x * stride + t - k // 2 < width for x in range(n) for t in range(k))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("where", [
    "vt != 1", "vx < 3 or vt == 2", "vx % 2 == 0", "not (vx == 2)", "vx + vt >= 3 and vx + vt <= 6",
])
def test_any_condition(where: str, target: str, vta_schedules: ModuleType) -> None:
    vta_schedules.verify(taps(8, 1, where.replace("vt", "vt * 0 + vx"), loops="x, t"), target)
    vta_schedules.verify(taps(8, 3, f"({inside(8, 3)}) and ({where})", loops="x, t"), target)


def gemms(func: PrimFunc, target: str | Target = "vta-de10") -> list[tuple[int, int, int]]:
    """(iter_out, iter_in, micro-ops) of every matrix product."""
    table = lower_table(func, target).table
    rows = table[(table[:, isa.OPCODE] == isa.OP_GEMM) & (table[:, isa.RESET] == 0)]
    return [tuple(int(v) for v in (r[isa.ITER_OUT], r[isa.ITER_IN], r[isa.UOP_END] - r[isa.UOP_BGN])) for r in rows]


def test_loop_notes(vta_schedules: ModuleType) -> None:
    always = inside(8, 1)
    assert gemms(taps(8, 1, always)) == [(1, 8, 1)]
    assert gemms(taps(8, 1, always, notes='"vta.loop": "uop"')) == [(1, 1, 8)]
    assert gemms(taps(8, 1, always, notes='"vta.loop": "unroll"')) == [(1, 1, 1)] * 8
    with pytest.raises(LoweringError, match="'fast'; one of hw, uop, unroll"):
        lower_table(taps(8, 1, always, notes='"vta.loop": "fast"'), "vta-de10")


def three_loops(notes: tuple[str, str, str]) -> PrimFunc:
    """A product over three loops that do not merge: 2 x 3 rows of 5 and 4 blocks of the reduction."""
    heads = "".join(
        "    " * (1 + d) + f"for {v} in T.serial({n}" + (f', annotations={{"vta.loop": "{note}"}}' if note else "") + "):\n"
        for d, (v, n, note) in enumerate(zip("ijk", (2, 3, 4), notes))
    )
    return parse(f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((2, 5, 4, 16), "int8"), w: T.Buffer((4, 16, 16), "int8"), out: T.Buffer((2, 5, 16), "int8")):
    inp = T.alloc_buffer((2, 5, 4, 16), "int8", scope="local.inp_buffer")
    wgt = T.alloc_buffer((4, 16, 16), "int8", scope="local.wgt_buffer")
    acc = T.alloc_buffer((2, 5, 16), "int32", scope="local.acc_buffer")
    for i, j, k, l in T.grid(2, 5, 4, 16):
        with T.block("load"):
            vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
            inp[vi, vj, vk, vl] = a[vi, vj, vk, vl]
    for k, o, l in T.grid(4, 16, 16):
        with T.block("load_w"):
            vk, vo, vl = T.axis.remap("SSS", [k, o, l])
            wgt[vk, vo, vl] = w[vk, vo, vl]
    for i, j, l in T.grid(2, 5, 16):
        with T.block("init"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            acc[vi, vj, vl] = 0
{heads}                with T.block("gemm"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    T.reads(acc[vi, vj, 0:16], inp[vi, vj, vk, 0:16], wgt[vk, 0:16, 0:16])
                    T.writes(acc[vi, vj, 0:16])
                    A = T.match_buffer(acc[vi, vj, 0:16], (1, 16), "int32", scope="local.acc_buffer", offset_factor=16)
                    I = T.match_buffer(inp[vi, vj, vk, 0:16], (1, 16), "int8", scope="local.inp_buffer", offset_factor=16)
                    W = T.match_buffer(wgt[vk, 0:16, 0:16], (16, 16), "int8", scope="local.wgt_buffer", offset_factor=256)
                    T.evaluate(T.call_extern("int32", "vta.gemm", A.data, I.data, W.data))
    for i, j, l in T.grid(2, 5, 16):
        with T.block("store"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            out[vi, vj, vl] = T.cast(acc[vi, vj, vl], "int8")
''')


@pytest.mark.parametrize(("notes", "shape"), [
    (("", "", ""), [(4, 3, 2)]),  # the two longest loops are the hardware's
    (("hw", "", ""), [(4, 2, 3)]),
    (("hw", "hw", ""), [(3, 2, 4)]),
    (("uop", "", "uop"), [(1, 3, 8)]),
    (("", "unroll", ""), [(4, 2, 1)] * 3),
])
def test_which_loops_are_the_hardwares(
    notes: tuple[str, str, str], shape: list[tuple[int, int, int]], vta_schedules: ModuleType,
) -> None:
    func = three_loops(notes)
    assert gemms(func) == shape
    for target in TARGETS:
        vta_schedules.verify(func, target)


def test_an_instruction_has_two_loops() -> None:
    with pytest.raises(LoweringError, match=r"block gemm: 3 loops are marked vta\.loop = hw; an instruction has two"):
        lower_table(three_loops(("hw", "hw", "hw")), "vta-de10")


def test_close_writes_of_one_accumulator(vta_schedules: ModuleType) -> None:
    """HLS may miss a result that is one or two micro-ops old; the RTL forwards it, so there one instruction does."""
    two = taps(2, 1, "vt == vt", loops="x, t")
    assert len(gemms(two, "vta-de10-portable")) == len(gemms(two)) == 1
    reduced = vta_schedules.dense(lambda options: options[0], "dense:m=1,k=64,n=32,tail=cast,bias=0").mod["main"]
    assert len(gemms(reduced)) <= len(gemms(reduced, "vta-de10-portable"))
    vta_schedules.verify(reduced, "vta-de10-portable")
    short = taps(4, 3, inside(4, 3), loops="t, x", outer=2)
    assert len(gemms(short)) < len(gemms(short, "vta-de10-portable"))


def machine(**keys: int) -> Target:
    """A machine of one's own."""
    semantics = "fsim" if keys.get("LOG_BATCH") else "chisel"
    found = Target("mine", VTAConfig(**{"uop_depth": None, **keys}), semantics)  # type: ignore[arg-type]
    register(found.config)
    return found


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("keys", "batch", "block"), [
    ({"uop_depth": 16}, 1, 16),  # micro-ops are pushed out and loaded again
    ({"LOG_BATCH": 1}, 2, 16),
    ({"LOG_BLOCK": 3, "LOG_INP_BUFF_SIZE": 13, "LOG_ACC_BUFF_SIZE": 15, "LOG_WGT_BUFF_SIZE": 14}, 1, 8),
])
def test_other_machines(keys: dict[str, int], batch: int, block: int, seed: int, vta_schedules: ModuleType) -> None:
    target = machine(**keys)
    if block == 8:
        target = replace(target, semantics="fsim")
    choose = random.Random(seed).choice
    name = f"conv2d:n={batch},h=6,w=5,ci={2 * block},co={4 * block},k={choose([1, 3])},stride={choose([1, 2])},tail=requant"
    vta_schedules.verify(vta_schedules.conv2d(choose, name, batch, block).mod["main"], target, seed)


def test_evicted_micro_ops_are_loaded_again(vta_schedules: ModuleType) -> None:
    choose = random.Random(3).choice
    func = vta_schedules.conv2d(choose, "conv2d:h=6,w=5,ci=32,co=64,k=3,tail=requant").mod["main"]
    roomy, tight = lower_table(func, "vta-de10"), lower_table(func, machine(uop_depth=8))

    def loaded(low: object) -> int:
        table = low.table  # type: ignore[attr-defined]
        return int(table[(table[:, isa.OPCODE] == isa.OP_LOAD) & (table[:, isa.MEM] == isa.MEM_UOP), isa.X_SIZE].sum())

    assert loaded(roomy) == len(roomy.triples)
    assert loaded(tight) >= len(tight.triples)
    assert int(tight.table[:, isa.UOP_END].max()) <= 8


def test_equal_kernels_are_shared(vta_schedules: ModuleType) -> None:
    choose = random.Random(5).choice
    func = vta_schedules.dense(choose, "dense:m=4,k=64,n=64").mod["main"]
    words = lower_table(func, "vta-de10").uop_words
    assert len(words) < 40


def test_unknown_call_is_named() -> None:
    func = parse('''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer((16,), "int8")):
    with T.block("odd"):
        T.reads(a[0:16])
        T.writes()
        T.evaluate(T.call_extern("int32", "vta.sin", a.data))
''')
    with pytest.raises(LoweringError, match=r"block odd calls 'vta.sin'; the target only has vta.gemm"):
        lower_table(func, "vta-de10")


def test_product_that_is_not_tensorized() -> None:
    from autosched.workloads import workload

    with pytest.raises(LoweringError, match="dense is int32 in DRAM and block dense_init writes it; STORE narrows to int8"):
        lower_table(workload("dense:m=2,k=16,n=16").func, "vta-de10")


def test_targets_are_registered_with_their_intrinsic() -> None:
    from autosched.schedule import TensorIntrin

    for name in PRESETS:
        assert TensorIntrin.get(get_target(name).gemm_intrin)


def test_same_function_same_program(vta_schedules: ModuleType) -> None:
    """Lowering is pure: equal functions give equal bytes, whatever was lowered before."""
    func = vta_schedules.dense(random.Random(1).choice, "dense:m=3,k=32,n=32").mod["main"]
    again = vta_schedules.dense(random.Random(1).choice, "dense:m=3,k=32,n=32").mod["main"]
    first, second = lower_table(func, "vta-de10"), lower_table(again, "vta-de10")
    assert first.table.tobytes() == second.table.tobytes()
    assert first.uop_words.tobytes() == second.uop_words.tobytes()
    assert first.insn_address == second.insn_address


def counted(func: PrimFunc, target: str = "vta-de10") -> tuple[int, int]:
    """GEMM instructions, and the micro-ops of the longest."""
    table = lower_table(func, target).table
    gemm = table[(table[:, isa.OPCODE] == isa.OP_GEMM) & (table[:, isa.RESET] == 0)]
    return len(gemm), int((gemm[:, isa.UOP_END] - gemm[:, isa.UOP_BGN]).max())


def test_taps_that_are_cut_alike_share_an_instruction(vta_schedules: ModuleType) -> None:
    func = taps(24, 3, "1 <= vx + vt and vx + vt < 25")
    for target in TARGETS:
        vta_schedules.verify(func, target)
    # The first and the last tap run 23 iterations each; of five taps, two pairs do.
    assert counted(func) == (2, 2)
    assert counted(taps(24, 5, "2 <= vx + vt and vx + vt < 26")) == (3, 2)


def test_taps_that_are_told_apart_stay_apart(vta_schedules: ModuleType) -> None:
    func = taps(24, 3, "1 <= vx + vt and vx + vt < 25", notes='"vta.loop": "unroll"', loops="t, x")
    vta_schedules.verify(func, "vta-de10")
    assert counted(func) == (3, 1)


def test_a_condition_may_be_written_either_way(vta_schedules: ModuleType) -> None:
    wanted = gemms(taps(8, 3, inside(8, 3)))
    assert wanted == [(1, 7, 2), (1, 8, 1)]
    for where in ("vx + vt > 0 and 9 > vx + vt", "vx + vt >= 1 and 8 >= vx + vt", "0 < vx + vt and vx + vt <= 8"):
        assert gemms(taps(8, 3, where)) == wanted, where
    vta_schedules.verify(taps(8, 3, "vx + vt > 0 and 9 > vx + vt"), "vta-de10")


def test_only_the_tiles_at_a_border_mind_it(vta_schedules: ModuleType) -> None:
    """Tiles are told apart where something else shares their loop: here the load of the weights."""
    sch = Schedule(taps(12, 3, inside(12, 3), outer=3))
    sch.compute_at("load_w", sch.get_loops("gemm")[0])
    vta_schedules.verify(sch.func, "vta-de10")
    # The first and the last leave out one product of the twelve; the one between has nothing to leave out.
    assert gemms(sch.func) == [(1, 1, 11), (4, 3, 1), (1, 1, 11)]


@pytest.mark.parametrize(("width", "wanted"), [
    # Written out, two taps of a loop cut differently are one instruction: six cycles less for 2 * width - 3 micro-ops more, of
    # which two are a cycle.
    (6, [(1, 1, 11)]), (7, [(1, 1, 13)]), (8, [(1, 7, 1), (1, 8, 1)]),
])
def test_a_loop_is_written_out_where_that_takes_fewer_cycles(
    width: int, wanted: list[tuple[int, int, int]], vta_schedules: ModuleType
) -> None:
    func = taps(width, 2, "1 <= vx + vt")
    vta_schedules.verify(func, "vta-de10")
    assert gemms(func) == wanted


def test_a_loop_with_a_mark_is_not_written_out_anyway() -> None:
    assert gemms(taps(6, 2, "1 <= vx + vt")) == [(1, 1, 11)]
    assert gemms(taps(6, 2, "1 <= vx + vt", notes='"vta.loop": "hw"')) == [(1, 5, 1), (1, 6, 1)]
    assert gemms(taps(6, 2, "1 <= vx + vt", notes='"vta.loop": "unroll"')) == [(1, 1, 1)] + [(1, 2, 1)] * 5


def test_a_loop_is_not_written_out_beyond_what_a_program_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its iterations are counted at every place that it runs at, and the other way has room."""
    func = taps(6, 2, "1 <= vx + vt")
    for most, wanted in ((11, [(1, 1, 11)]), (10, [(1, 5, 1), (1, 6, 1)])):
        with monkeypatch.context() as patch:
            patch.setattr(gemm, "LIMITS", replace(limits.LIMITS, instructions=most))
            alike.forget()
            assert gemms(func) == wanted
    alike.forget()


@pytest.mark.parametrize("seed", range(24))
def test_where_no_order_is_wrong_the_first_loops_that_fit_leave_the_shortest_list(seed: int) -> None:
    """Of all pairs of loops for the hardware, marked ones among them; none where all lists are too long."""
    rng = random.Random(seed)
    notes = [*rng.sample(("hw", "hw", None, None), 2), *[rng.choice((None, None, "uop")) for _ in range(3)]]
    dims = [Dim(rng.randint(1, 6), (1, 2, 3), note) for note in notes[: rng.randint(0, 5)]]
    one, capacity = Dim(1, (0, 0, 0)), rng.choice((4, 20, 200))
    must = [d for d in dims if d.note == "hw"]
    pairs = list(_pairs([d for d in dims if d.note != "uop"], must, one))
    lengths = [prod(d.extent for d in dims) // prod(d.extent for d in pair) for pair in pairs]
    found = Folder((9, 9, 9), capacity, False, "b").choose(dims, one)
    shortest = min(lengths)
    if shortest > capacity:
        assert found is None
    else:
        assert found is not None and (found.out, found.inner) == pairs[lengths.index(shortest)]
        assert found.uops == [d for d in dims if d not in (found.out, found.inner)]


def test_kinds_of_pieces_keep_lists_of_their_own(vta_schedules: ModuleType) -> None:
    """Two taps of other lengths, each of one piece: what tells their lists apart is the kind."""
    func = taps(9, 2, "1 <= vx + vt", notes='"vta.loop": "hw"')
    vta_schedules.verify(func, "vta-de10")
    assert gemms(func) == [(1, 8, 1), (1, 9, 1)]
    small = Target("small", replace(get_target("vta-de10").config, uop_depth=16), "chisel")
    func = taps(12, 3, inside(12, 3), notes='"vta.loop": "uop"')
    vta_schedules.verify(func, small)
    assert sorted(gemms(func, small)) == [(1, 1, 11), (1, 1, 11), (1, 1, 12)]


@pytest.mark.parametrize(("groups", "depth", "written"), [
    # Two of four instructions less for 111 micro-ops more, which are loaded once: that pays from the fifth visit on.
    (4, 2048, False), (5, 2048, True),
    # 120 of them are no more than an eighth of what the memory holds.
    (5, 1024, True), (5, 512, False),
])
def test_a_loop_is_written_out_where_it_runs_often(groups: int, depth: int, written: bool, vta_schedules: ModuleType) -> None:
    target = Target("small", replace(get_target("vta-de10").config, uop_depth=depth), "chisel")
    lanes = 16 * groups
    name = f"conv2d:h=14,w=14,ci={lanes},co={lanes},k=3,pad=1,groups={groups},bias=0,tail=cast"
    space = Space(workload(name).func, target)
    func = space.schedule(space.point(drop_zeros=1, tile_g=1, load_data=1, load_kernel=1)).func
    vta_schedules.verify(func, target)
    apart = [(13, 13, 4), (1, 182, 2), (14, 13, 2), (1, 196, 1)]
    assert gemms(func, target) == ([(1, 13, 80), (1, 14, 40)] if written else apart) * groups


@pytest.mark.parametrize(("target", "wanted"), [
    # Rows that no border cuts are one loop with what is in them, and then a block of channels is the other one.
    ("vta-de10", [(6, 6, 48), (42, 4, 6), (7, 6, 24), (49, 4, 3)]),
    # Where micro-ops on one accumulator must be three apart, lists of several taps are tried with the loops of all alike.
    ("vta-de10-portable", [(6, 6, 48), (6, 7, 24), (7, 6, 24), (7, 7, 12)]),
])
def test_what_a_border_leaves_has_loops_of_its_own(
    target: str, wanted: list[tuple[int, int, int]], vta_schedules: ModuleType
) -> None:
    space = Space(workload("conv2d:h=7,w=7,ci=64,co=48,k=3,pad=1,bias=0,tail=cast").func, target)
    func = space.schedule(space.point(drop_zeros=1)).func
    vta_schedules.verify(func, target)
    assert gemms(func, target)[: len(wanted)] == wanted


def test_marks_of_a_loop_hold_at_a_border(vta_schedules: ModuleType) -> None:
    for note, wanted in (("hw", [(1, 7, 2), (1, 8, 1)]), ("uop", [(1, 1, 22)])):
        func = taps(8, 3, inside(8, 3), notes=f'"vta.loop": "{note}"')
        vta_schedules.verify(func, "vta-de10")
        assert gemms(func) == wanted
