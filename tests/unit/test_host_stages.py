"""Host stages: blocks that a kernel runs on the host, before and after the accelerator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from autosched.errors import ProgramError, ScheduleError
from autosched.ir import IRModule, PrimFunc, host
from autosched.ir.expr import IntImm, Var
from autosched.ir.host import has_host_stages, split_host
from autosched.ir.interp import run
from autosched.ir.stmt import TRUE, Block, BlockRealize, Buffer, BufferRegion, Constant, Evaluate, For, Range, Stmt, seq
from autosched.ir.verify import verify
from autosched.kernel import Kernel, build, of_schedule
from autosched.lower import lower
from autosched.lower.host_work import run_stage
from autosched.measure import Candidate, measure
from autosched.schedule import Schedule
from autosched.script import T, parse
from autosched.target import get_target
from autosched.workloads import of_func
from sim.machine import run as simulate

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]
ACC = "local.acc_buffer"


@T.prim_func
def cropped(a: T.Buffer((5,), "int32"), f: T.Buffer((5,), "int32"), out: T.Buffer((5,), "int8")):
    A = T.alloc_buffer((16,), "int32")
    F = T.alloc_buffer((16,), "int32")
    G = T.alloc_buffer((16,), "int32")
    s = T.alloc_buffer((16,), "int32")
    O = T.alloc_buffer((16,), "int8")  # noqa: E741
    for i in range(16):
        with T.block("A"):
            vi = T.axis.spatial(16, i)
            A[vi] = T.if_then_else(vi < 5, a[4 - vi], 0)
    for i in range(16):
        with T.block("F"):
            vi = T.axis.spatial(16, i)
            F[vi] = T.if_then_else(vi < 5, f[vi], 0)
    for i in range(16):
        with T.block("G"):
            vi = T.axis.spatial(16, i)
            G[vi] = F[vi] * 3
    for i in range(16):
        with T.block("s"):
            vi = T.axis.spatial(16, i)
            s[vi] = A[vi] + G[vi]
    for i in range(16):
        with T.block("O"):
            vi = T.axis.spatial(16, i)
            O[vi] = T.Cast("int8", s[vi])
    for i in range(5):
        with T.block("out"):
            vi = T.axis.spatial(5, i)
            out[vi] = O[vi]


def scheduled(func: PrimFunc = cropped) -> Schedule:
    sch = Schedule(func)
    for name in ("A", "F", "G", "out"):
        sch.host_stage(name)
    sch.cache_read("s", 0, ACC)
    sch.cache_read("s", 1, ACC)
    sch.set_scope("s", 0, ACC)
    return sch


def inputs() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(5, dtype="int32"), np.arange(10, 15, dtype="int32")


def wanted() -> np.ndarray:
    a, f = inputs()
    return (a[::-1] + 3 * f).astype("int8")


def test_a_kernel_runs_them_around_the_accelerator(tmp_path, verify_trace_roundtrip: Verify) -> None:
    sch = scheduled()
    verify_trace_roundtrip(sch, cropped)
    assert not verify(sch.func)
    assert parse(sch.script()) == sch.func
    assert np.array_equal(run(sch.func, *inputs())[0], wanted())
    kernel = of_schedule(cropped, "vta-de10", sch)
    assert np.array_equal(kernel(*inputs()), wanted())
    assert {b.name for b in kernel.lowered.params} == {"A", "G", "O"}
    assert [s.block for s in kernel.lowered.sites] == ["A_local.acc_buffer", "G_local.acc_buffer", "s", "O"]
    kernel.save(tmp_path / "k.json")
    again = Kernel.load(tmp_path / "k.json")
    assert again.hash == kernel.hash
    assert np.array_equal(again(*inputs()), wanted())


def test_the_program_file_holds_what_the_accelerator_sees() -> None:
    kernel = of_schedule(cropped, "vta-de10", scheduled())
    a, f = inputs()
    program = kernel.lowered.program({"a": a, "f": f}, {"out": wanted()})
    assert [o.name for o in program.outputs] == ["O"]
    held = {s.data for s in program.memory}
    assert np.concatenate([a[::-1], np.zeros(11, "int32")]).astype("<i4").tobytes() in held
    assert np.concatenate([3 * f, np.zeros(11, "int32")]).astype("<i4").tobytes() in held
    ran = simulate(program, "chisel", check=True)
    assert ran.outputs_match and not ran.races
    with pytest.raises(ProgramError, match="a is int32"):
        kernel.lowered.program({"a": a[:4], "f": f})


def test_a_candidate_is_verified_through_them() -> None:
    target = get_target("vta-de10")
    result = measure(Candidate(of_func(cropped), target, tuple(scheduled().trace.as_json())), execute=True)
    assert result.status == "ok"
    wrong = replace(of_func(cropped), reference=lambda a, f: wanted() + np.int8(1))
    result = measure(Candidate(wrong, target, tuple(scheduled().trace.as_json())), execute=True)
    assert result.status != "ok"
    assert "out: 5 of 5 elements differ" in str(result)


def test_work_of_the_host_is_counted_and_moving_is_free() -> None:
    work = of_schedule(cropped, "vta-de10", scheduled()).host_work(*inputs())
    assert [(w.stage, w.reads, w.writes, w.bytes, w.free) for w in work] == [
        ("A", ("a",), ("A",), 84, True), ("F", ("f",), ("F",), 84, True), ("G", ("F",), ("G",), 128, False),
        ("out", ("O",), ("out",), 21, True),
    ]
    assert all(w.milliseconds > 0 for w in work)


def test_copying_an_element_twice_is_work() -> None:
    text = cropped.script().replace("a[4 - vi]", "a[vi // 2]")
    func = parse(text)
    work = of_schedule(func, "vta-de10", scheduled(func)).host_work(*inputs())
    assert [w.free for w in work] == [False, True, False, True]


def test_the_parts() -> None:
    parts = split_host(scheduled().func)
    assert [p.name for p in parts.pack] == ["A", "F", "G"]
    assert [[b.name for b in p.buffers] for p in (*parts.pack, *parts.unpack)] == [
        ["a", "A"], ["f", "F"], ["F", "G"], ["O", "out"],
    ]
    assert not has_host_stages(cropped) and split_host(cropped).device is cropped
    for part in (*parts.pack, parts.device, *parts.unpack):
        assert not verify(part)


def test_promised_ranges_pass_through_a_stage() -> None:
    func = replace(cropped, value_ranges=((-3, 4), (0, 5), None))
    device = split_host(scheduled(func).func).device
    assert dict(zip([b.name for b in device.buffers], device.value_ranges)) == {"A": (-3, 4), "G": (0, 15), "O": None}


def test_refusals() -> None:
    sch = Schedule(cropped)
    for name, reason in (("s", "reads 'A'"), ("G", "reads 'F'"), ("O", "reads 's'")):
        before = sch.script()
        with pytest.raises(ScheduleError, match=f"the host cannot run block {name}: .*{reason}"):
            sch.host_stage(name)
        assert sch.script() == before
    sch.host_stage("F")
    sch.host_stage("G")
    sch.compute_at("A", sch.get_loops("s")[0])
    with pytest.raises(ScheduleError, match="host stage 'A' shares its loops"):
        sch.host_stage("A")


def test_what_is_no_stage_is_malformed() -> None:
    good = scheduled().func.script()
    pack = 'T.sblock_attr({"host_stage": "pack"})'
    assert good.count(pack) == 3

    def fault(text: str) -> str:
        found = verify(parse(text))
        assert found
        with pytest.raises(ProgramError):
            lower(parse(text))
        return str(found[0])

    assert "is 'later'; expected 'pack' or 'unpack'" in fault(good.replace('"pack"', '"later"'))
    assert "reads 'F'" in fault(good.replace(f"T.writes(F[vi])\n            {pack}", "T.writes(F[vi])"))
    assert "which the program writes later" in fault(good + '''    for i in range(16):
        with T.sblock("again"):
            vi = T.axis.spatial(16, i)
            O[vi] = T.int8(0)
''')
    assert "so does another part of the program" in fault(good + '''    for i in range(16):
        with T.sblock("again"):
            vi = T.axis.spatial(16, i)
            F[vi] = 0
''')
    packed = good.replace("T.writes(O[vi])", f"T.writes(O[vi])\n            {pack}")
    assert "in local.acc_buffer; the host has global memory only" in fault(packed)


def test_a_trace_builds_the_same_kernel() -> None:
    sch = scheduled()
    kernel = build(cropped, "vta-de10", sch.trace)
    assert kernel.hash == of_schedule(cropped, "vta-de10", sch).hash


PARTS = '''
@T.prim_func
def f(a: T.Buffer((16,), "int32"), b: T.Buffer((16,), "int32"), out: T.Buffer((2, 16), "int8")):
    O = T.alloc_buffer((16,), "int8")
    s = T.alloc_buffer((16,), "int32")
    t = T.alloc_buffer((16,), "int32")
{blocks}
'''
BLOCKS = {
    "s": "    for i in range(16):\n        with T.block('s'):\n            vi = T.axis.spatial(16, i)\n"
         "            s[vi] = a[vi] + 1\n",
    "t": "    for i in range(16):\n        with T.block('t'):\n            vi = T.axis.spatial(16, i)\n"
         "            t[vi] = b[vi] + 2\n",
    "row": "    for i in range(16):\n        with T.block('row'):\n            vi = T.axis.spatial(16, i)\n"
           "            out[0, vi] = T.Cast('int8', s[vi])\n",
    "O": "    for i in range(16):\n        with T.block('O'):\n            vi = T.axis.spatial(16, i)\n"
         "            O[vi] = T.Cast('int8', t[vi])\n",
    "late": "    for y, i in T.grid(2, 8):\n        with T.block('late'):\n            vy, vi = T.axis.remap('SS', [y, i])\n"
            "            out[vy, vi + 8] = O[vy * 8 + vi]\n",
}


def in_parts(*order: str) -> PrimFunc:
    return parse(PARTS.format(blocks="".join(BLOCKS[name] for name in order)))


def test_the_host_makes_a_part_of_a_result_after_the_accelerator_has_made_its_own() -> None:
    func = in_parts("s", "row", "t", "O", "late")
    sch = Schedule(func)
    sch.host_stage("late")
    for stage, operand in (("s", "a"), ("t", "b")):
        sch.set_scope(stage, 0, ACC)
        sch.cache_read(stage, operand, ACC)
    arrays = [np.arange(16, dtype=np.int32), np.arange(50, 66, dtype=np.int32)]
    expected = run(func, *arrays)[0]
    # A quarter is what the accelerator left, a quarter nobody's.
    assert expected[0, :8].tolist() == list(range(1, 9)) and not expected[1, :8].any() and expected[1, 8] == 60
    kernel = of_schedule(func, "vta-de10", sch)
    assert np.array_equal(kernel(*arrays), expected) and np.array_equal(kernel(*arrays), expected)
    program = kernel.lowered.program(dict(zip("ab", arrays)), {"out": expected})
    # What the accelerator is to have stored is its own part, not the whole.
    assert {o.name: None if o.expected is None else list(o.expected)[:16] for o in program.outputs} == {
        "out": list(range(1, 17)), "O": list(range(52, 68))}
    # A stage adds its part to a copy: what the accelerator has stored is the caller's.
    stored = {"out": np.full((2, 16), 7, np.int8), "O": np.arange(16, dtype=np.int8)}
    made = run_stage(kernel.lowered.host.unpack[0], stored)["out"]
    assert (stored["out"] == 7).all() and (made[:, :8] == 7).all() and made[:, 8:].ravel().tolist() == list(range(16))


@pytest.mark.parametrize("order", [("t", "O", "late", "s", "row"), ("s", "t", "O", "late", "row")])
def test_the_host_writes_nothing_that_the_accelerator_writes_later(order: tuple[str, ...]) -> None:
    sch = Schedule(in_parts(*order))
    with pytest.raises(ScheduleError, match="writes 'out', and so does another part"):
        sch.host_stage("late")


def drawn(draw: np.random.Generator) -> PrimFunc:
    """Statements that read and write tensors of each other, some of them host stages; most of that is nothing one would write."""
    shape, kinds = (IntImm(4),), [host.PACK, host.PACK, None, None, host.UNPACK, host.UNPACK, "both"]
    params, own = ([Buffer(f"{name}{n}", shape, "int8") for n in range(3)] for name in "pt")
    own.append(Buffer("t3", shape, "int8", ACC if draw.random() < 0.1 else "global"))
    constant = Constant(Buffer("c", shape, "int8"), bytes(4))

    def region(pool: list[Buffer]) -> tuple[BufferRegion, ...]:
        return (BufferRegion(pool[draw.integers(len(pool))], (Range(IntImm(0), IntImm(4)),)),)

    # Mostly as the host and the accelerator come one after the other, with tensors of theirs each.
    ordered = sorted(draw.integers(6 + (draw.random() < 0.1), size=5)) if draw.random() < 0.7 else draw.integers(7, size=5)
    blocks = []
    for n, k in enumerate(ordered):
        kind = kinds[k]
        near = {host.PACK: ([*params[:1], constant.buffer, own[0]], own[:1]), None: (own[:2], own[1:3]),
                host.UNPACK: (own[1:3], params[2:])}
        anything = [*params, *own, constant.buffer], [*params, *own]
        read, written = near[kind] if kind in near and draw.random() < 0.85 else anything
        notes = {} if kind is None else {host.HOST_STAGE: kind}
        blocks.append(Block(f"b{n}", (), region(read), region(written), Evaluate(IntImm(n)), annotations=notes))
    stmts: list[Stmt] = [BlockRealize((), TRUE, block) for block in blocks]
    if draw.random() < 0.1:  # two share a loop
        stmts[:2] = [For(Var("i", "int32"), IntImm(0), IntImm(2), "serial", seq(*stmts[:2]))]
    body = seq(*stmts)
    root = Block("root", (), (), (), body, alloc_buffers=tuple(own))
    return PrimFunc(tuple(params), BlockRealize((), TRUE, root), "drawn", constants=(constant,))


def test_that_nothing_is_wrong_with_host_stages_is_seen_soon_and_never_wrongly() -> None:
    draw = np.random.default_rng(0)
    seen = {(soon, bool(wrong)): 0 for soon in (True, False) for wrong in (True, False)}
    for _ in range(900):
        func = drawn(draw)
        wrong = list(host._faults(func))
        soon = host._in_order(func)
        assert list(host.host_faults(func)) == wrong
        seen[soon, bool(wrong)] += 1
    assert not seen[True, True] and seen[False, True] > 200 and seen[True, False] > 9 * seen[False, False]
