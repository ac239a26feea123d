"""Arguments of any kind and any value: a primitive works or refuses by name, and a refusal changes nothing."""

from __future__ import annotations

import functools
import json
import random
from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import AutoschedError, ScheduleError
from autosched.ir import PrimFunc
from autosched.ir.expr import FloatImm, IntImm, StringImm, Var, int_value
from autosched.ir.stmt import For, Range
from autosched.schedule import PRIMITIVES, IndexMap, Schedule, Trace
from autosched.schedule.kit.arguments import WrongArgument, conform, kinds_of
from autosched.schedule.kit.limits import Overflow, bounds
from autosched.schedule.kit.primitive import Parameter
from autosched.schedule.kit.trace import Instruction
from autosched.script import T, parse


@T.prim_func
def staged(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), D: T.Buffer((16, 16), "float32")):
    C = T.alloc_buffer((16, 16), "float32")
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for m, n in T.grid(16, 16):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [m, n])
            D[vi, vj] = C[vi, vj] + T.float32(1)


def somewhere(sch: Schedule, rng: random.Random) -> tuple[Any, list[Any]]:
    """A block that has loops around it, and those; or what comes nearest."""
    names = [r.block.name for r in sch.state.realizes.values()]
    blocks = [n for n in names if names.count(n) == 1 and sch.state.loops_of(sch.state.blocks_named(n)[0])] or ["root"]
    block = sch.get_block(rng.choice(blocks))
    return block, sch.get_loops(block) or [None]


def junk(sch: Schedule, rng: random.Random, depth: int = 0) -> Any:
    """A value of some kind: often of the wrong one."""
    block, loops = somewhere(sch, rng)
    texts = ["", "?", "global", "shared", "i => i0, i1", "i, j => ij", "=>", "vthread", "threadIdx.x", "int8", "C", "i", "m"]
    maps = [lambda i, j: (j, i), lambda i, j, k: (i, j), lambda *i: i, lambda i: None, lambda: 1]
    pool: list[Callable[[], Any]] = [
        lambda: None, lambda: rng.choice([True, False]), lambda: rng.randint(-3, 20),
        lambda: rng.choice([2**31, 2**63, -(2**70)]), lambda: rng.choice([0.5, 2.0, float("nan"), float("inf")]),
        lambda: rng.choice(texts), lambda: rng.choice(loops), lambda: rng.choice([block, sch.get_block("root")]),
        lambda: sch.sample_categorical([2], [1]), lambda: Schedule(staged).get_loops("C")[0],
        lambda: Schedule(staged).get_block("C"), lambda: object(), lambda: int, lambda: np.int64(4), lambda: np.float32(2),
        lambda: np.array([1, 2]), lambda: np.array([[1]]), lambda: np.bool_(True), lambda: IntImm(4), lambda: FloatImm(1.0),
        lambda: StringImm("C"), lambda: Var("x"), lambda: staged, lambda: staged.buffers[0], lambda: rng.choice(maps),
        lambda: IndexMap.from_func(lambda i, j: (j, i)), lambda: {"a": 1}, lambda: {1, 2}, lambda: b"C", lambda: range(3),
        lambda: 1j, lambda: Exception("x"),
    ]
    if depth < 2:
        for _ in range(6):
            pool.append(lambda: rng.choice([list, tuple])(junk(sch, rng, depth + 1) for _ in range(rng.randint(0, 3))))
    return rng.choice(pool)()


def plausible(sch: Schedule, rng: random.Random, p: Parameter) -> Any:
    """A value of the right kind, of any size."""
    ints = [-2, -1, 0, 1, 2, 3, 16, 10**6, 2**31 - 1, 2**40]
    values = {
        "Sequence[int]": lambda: [rng.choice(ints) for _ in range(rng.randint(0, 4))],
        "Sequence[float]": lambda: [rng.choice([0, 1, 0.5, -1]) for _ in range(rng.randint(0, 3))],
        "Sequence[int | ExprRV | None]": lambda: [rng.choice([None, *ints]) for _ in range(rng.randint(0, 4))],
        "bool": lambda: rng.random() < 0.5, "int": lambda: rng.choice(ints), "Any": lambda: rng.choice(["x", 1, [1]]),
    }
    text = p.annotation.removesuffix(" | None")
    if text in values:
        return values[text]()
    if p.takes_block or p.takes_loop:
        block, loops = somewhere(sch, rng)
        return rng.choice([*([block, "C"] if p.takes_block else []), *(loops if p.takes_loop else [])])
    if "Callable" in text:
        return rng.choice([
            lambda i, j: (j, i), lambda i, j, k: (i, j, k), lambda i, j: (i * 2**20, j * 2**20), lambda i, j: (i * 16 + j,),
        ])
    return rng.choice(["global", "shared", "read", "write", "vthread", 0, 1, ("read", 0), ("write", 0), "C", "int8", "key"])


@functools.lru_cache(maxsize=4)
def text_of(steps: tuple[Instruction, ...]) -> str:
    """Of a trace that was there before: most calls are refused, and leave the steps that the last one left."""
    return str(Trace(list(steps)))


def call(sch: Schedule, rng: random.Random, name: str) -> Exception | None:
    """Calls a primitive with drawn arguments; nothing but its refusal may come back, and that leaves all as it was."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for p in PRIMITIVES[name].parameters:
        draw = (lambda p=p: plausible(sch, rng, p)) if rng.random() < 0.75 else (lambda: junk(sch, rng))
        if p.variadic:
            positional = [draw() for _ in range(rng.randint(0, 3))]
        elif rng.random() < 0.9:
            named[p.name] = draw()
    before = (sch.func, text_of(tuple(sch.trace.insts)), sch._rng_state, sch._depth, sch._op)
    try:
        getattr(sch, name)(*positional, **named)
    except AutoschedError as error:
        assert (sch.func, str(sch.trace), sch._rng_state, sch._depth, sch._op) == before
        assert str(error).strip()
        assert "object at 0x" not in str(error)
        return error
    return None


@pytest.mark.parametrize("name", list(PRIMITIVES))
def test_arguments_of_any_kind(name: str) -> None:
    rng = random.Random(name)
    refused = Counter()
    for _ in range(50):
        sch = Schedule(staged, seed=1)
        error = call(sch, rng, name)
        refused[type(error).__name__] += 1
        if error is None:
            assert parse(sch.script()) == sch.func
            again = Schedule(staged)
            Trace.apply_json_to_schedule(json.dumps(sch.trace.as_json()), again)
            assert again.func == sch.func
            assert str(again.trace) == str(sch.trace)
    if PRIMITIVES[name].parameters:
        assert refused["ArgumentError"] > 5, refused


@pytest.mark.parametrize("seed", [*range(9), *(pytest.param(n, marks=pytest.mark.slow) for n in range(9, 25))])
def test_arguments_of_any_kind_one_after_another(seed: int) -> None:
    rng = random.Random(seed)
    sch = Schedule(staged, seed=1)
    accepted = 0
    for _ in range(120):
        name = rng.choice(list(PRIMITIVES))
        accepted += call(sch, rng, name) is None and not PRIMITIVES[name].pure
        if accepted == 10:
            break
    assert parse(sch.script()) == sch.func
    again = Schedule(staged)
    Trace.apply_json_to_schedule(json.dumps(sch.trace.as_json()), again)
    assert again.func == sch.func
    assert str(again.trace) == str(sch.trace)


@pytest.mark.parametrize("annotation, good, bad", [
    ("int", [1, np.int64(1), IntImm(1), -5], [True, 1.0, "1", None, [1], 2**63, np.bool_(True), int]),
    ("bool", [True, 0, 1, np.bool_(False)], [2, "x", None, 0.0]),
    ("Sequence[int | ExprRV | None]", [[1, None], (2,), range(2), np.array([1, 2])], [[1.0], "12", 5, [[1]], [True], {1}]),
    ("str | None", ["x", None, StringImm("x")], [1, ["x"], b"x"]),
    ("str | tuple[str, int] | Buffer", ["x", ("read", 0), ["read", 0]], [1, ("read",), ("read", "x"), None]),
    ("IndexMap | Callable[..., Any]", [lambda i: i, IndexMap.from_func(lambda i: i)], [int, 1, None, "i"]),
    ("Mapping[str, int]", [5, {"a": 1}], []),
])
def test_what_an_annotation_takes(annotation: str, good: list[Any], bad: list[Any]) -> None:
    kinds = kinds_of(annotation)
    for value in good:
        conform(value, kinds)
    for value in bad:
        with pytest.raises(WrongArgument):
            conform(value, kinds)


# -- nothing wraps around ---------------------------------------------------------------------------------------------


def copy_of(rows: int, columns: int) -> PrimFunc:
    A = te.placeholder((rows, columns), "int8", name="A")
    return te.create_prim_func([A, te.compute((rows, columns), lambda i, j: A[i, j] + te.const(1, "int8"), name="B")])


def value_at(e: Any, env: dict[Var, int]) -> int:
    """An index at one point, in integers that do not wrap; each part of it must fit its type."""
    if isinstance(e, IntImm):
        found = e.value
    elif isinstance(e, Var):
        found = env[e]
    else:
        a, b = value_at(e.a, env), value_at(e.b, env)
        found = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "//": lambda: a // b, "%": lambda: a % b}[e.op]()
    assert -(2**31) <= found < 2**31, (e, found)
    return found


def check_exact(sch: Schedule, rng: random.Random, elements: int) -> None:
    realize = next(r for r in sch.state.realizes.values() if r.block.name == "B")
    loops: list[For] = sch.state.loops_of(realize.block)
    extents = [int_value(x.extent) for x in loops]
    assert all(e is not None and 1 <= e < 2**31 for e in extents), sch.script()
    assert prod(extents) >= elements, sch.script()
    for buffer in sch.func.buffers:
        shape = [int_value(s) for s in buffer.shape]
        assert all(1 <= s < 2**31 for s in shape) and prod(shape) >= elements, sch.script()
    for pick in (lambda n: 0, lambda n: n - 1, lambda n: rng.randrange(n)):
        env = {x.var: pick(e) for x, e in zip(loops, extents)}
        for iv, value in zip(realize.block.iter_vars, realize.iter_values):
            env[iv.var] = value_at(value, env)
        if any(env[iv.var] >= int_value(iv.dom.extent) for iv in realize.block.iter_vars):
            continue  # an instance that the predicate leaves out
        for region in (*realize.block.reads, *realize.block.writes):
            for r in region.region:
                value_at(r.min, env)


@pytest.mark.parametrize("seed", range(60))
def test_no_extent_and_no_index_wraps(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [1, 3, 128, 1000, 2**15, 2**15 + 1, 46341, 50000, 2**16, 2**20, 2**30, 2**31 - 2]
    rows, columns = rng.choice(sizes), rng.choice(sizes)
    sch = Schedule(copy_of(rows, columns))
    done = 0
    steps: list[Callable[[int], Any]] = [
        lambda big: sch.split(rng.choice(sch.get_loops("B")), [None, big]),
        lambda big: sch.split(rng.choice(sch.get_loops("B")), [rng.choice(sizes), None, big]),
        lambda big: sch.fuse(*sch.get_loops("B")[:rng.randint(1, 3)]),
        lambda big: sch.transform_block_layout("B", lambda *i: [sum(x * big for x in i[:-1]) + i[-1]]),
        lambda big: sch.transform_layout("B", "B", lambda *i: (*i[:-1], i[-1] // big, i[-1] % big), pad_value=0),
        lambda big: sch.transform_layout("B", "B", lambda *i: (i[0] * sch.func.buffers[1].shape[-1] + i[-1], *i[1:-1])),
        lambda big: sch.transform_layout("B", "A", lambda *i: i[::-1]),
    ]
    for _ in range(8):
        try:
            rng.choice(steps)(rng.choice(sizes))
            done += 1
        except ScheduleError:
            continue
        check_exact(sch, rng, rows * columns)
    assert done or rows * columns >= 2**31


def test_bounds_are_exact_where_they_can_be() -> None:
    i, j = Var("i"), Var("j")
    dom = {i: Range(IntImm(0), IntImm(50000)), j: Range(IntImm(0), IntImm(40000))}
    assert bounds(i * 40000 + j, dom) == (0, 49999 * 40000 + 39999)
    assert bounds((i - 7) // 8, dom) == (-1, 6249)
    assert bounds(i % 16 + j // 16, dom) == (0, 15 + 2499)
    assert bounds(i + Var("n"), dom) is None
    for wide in (i * 50000, (i * 50000) // 50000, i * j * 2, i + 2**31 - 5, (j - 50000) * 60000):
        with pytest.raises(Overflow, match="its type int32 ends at"):
            bounds(wide, dom)
