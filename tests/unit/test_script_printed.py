"""What is printed is read back as it was: vectors, calls, names, annotations; and what is too deep is refused in one line."""

from __future__ import annotations

import enum
import json
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from refusals import refused

import autosched as at
from autosched import te
from autosched.errors import ProgramError, ScheduleError
from autosched.ir import PrimFunc, interp
from autosched.ir.depth import DEEPEST
from autosched.ir.expr import BufferLoad, Call, Cast, Expr, IntImm, StringImm, binary
from autosched.ir.functor import find, rewrite, walk
from autosched.ir.stmt import BufferStore, Evaluate, IRModule
from autosched.schedule import AXIS_SEPARATOR, Trace
from autosched.script import T, parse, script

HEAD = "@T.prim_func\ndef f(A: T.Buffer((16,), 'int32'), n: T.int32, m: T.int64, x: T.float32):\n"


def body(*lines: str) -> PrimFunc:
    func = parse(HEAD + "".join(f"    {line}\n" for line in lines))
    assert isinstance(func, PrimFunc)
    return func


def same(func: PrimFunc) -> None:
    for dialect in ("tvm", "block"):
        text = script(func, dialect)
        again = parse(text)
        assert again == func, text
        assert isinstance(again, PrimFunc) and again.name == func.name and script(again, dialect) == text


@pytest.mark.parametrize("lines", [
    ("V = T.alloc_buffer((4,), 'int32x4')", "V[0] = T.broadcast(1, 4)"),
    ("V = T.alloc_buffer((4,), 'int32x4')", "V[n] = T.Ramp(n, 1, 4) * T.Broadcast(2, 4)", "A[T.Ramp(0, 1, 4)] = V[1]"),
    ("V = T.alloc_buffer((4,), 'int8x4')", "V[0] = T.Ramp(0, 1, 4)"),
    ("V = T.alloc_buffer((8,), 'int32x4')", "V[T.Ramp(0, 1, 2)] = T.Broadcast(1, 8)"),
    ("A[T.Ramp(0, 2, 4)] = A[T.Ramp(1, 2, 4)]",),
])
def test_vectors(lines: tuple[str, ...]) -> None:
    func = body(*lines)
    same(func)
    assert sum(isinstance(s, BufferStore) and isinstance(s.value, Cast) for s in walk(func.body)) == ("int8x4" in lines[0])


@pytest.mark.parametrize(("lines", "said"), [
    (("V = T.alloc_buffer((4,), 'int32x4')", "V[0] = 1"), r"line 4, column 12: V takes int32x4 here, got int32; write T.Br"),
    (("A[0] = T.Broadcast(1, 4)",), "line 3, column 12: A takes int32 here, got int32x4"),
    (("A[T.Ramp(0, 1, 4)] = T.Broadcast(1, 8)",), "A takes int32x4 here, got int32x8"),
    (("A[0] = T.Broadcast(1, 0)",), "the number of lanes of T.Broadcast is at least 1, got 0"),
])
def test_vectors_of_another_length_are_refused(lines: tuple[str, ...], said: str) -> None:
    with pytest.raises(ProgramError, match=said):
        body(*lines)


def test_every_call_of_every_name_is_read_back() -> None:
    base = body("T.evaluate(n)")
    n, m, x = base.params[1:]
    old = find(base.body, lambda s: isinstance(s, Evaluate))
    assert old is not None and isinstance(n, Expr) and isinstance(m, Expr) and isinstance(x, Expr)
    arguments: list[tuple[Expr, ...]] = [
        (), (n,), (x,), (n, n), (n, m), (x, n), (IntImm(1), IntImm(2)), (IntImm(1), IntImm(-2)), (n, IntImm(4)),
        (StringImm("s"), n), (IntImm(1, "bool"), n, n), (binary(">", n, 1), n, n),
    ]
    names = [*T._names, *T._hidden, "x", "int32", "vendor.op", "a b", "for"]
    wrong = []
    for turn, name in enumerate(names):
        # All types with every number of arguments, and all arguments with a type, which is another one for each name.
        dtypes = ("int32", "float32", "void", "int32x4")
        for k, args in enumerate(arguments):
            for dtype in dtypes if k in (0, 1, 3, 10) else (dtypes[(turn + k) % 4],):
                func = replace(base, body=rewrite(base.body, old, Evaluate(Call(name, args, dtype))))
                if parse(script(func)) != func:
                    wrong.append(script(func))
    assert not wrong, wrong[:3]
    same(body("A[0] = T.call_intrin('int32', 'tir.x', 1)"))


@pytest.mark.parametrize("name", ["a-b", "for", "", "1x", "T", "I", "range", "q q", "ä", "a\nb", 'a"b', "main"])
def test_names_that_python_cannot_spell(name: str) -> None:
    func = body("A[0] = 1").with_attr({"global_symbol": name})
    same(func)
    module = IRModule({name: func, "other": body("A[0] = 2")})
    assert parse(script(module)) == module


class Color(enum.IntEnum):
    RED = 1


class Word(enum.StrEnum):
    RED = "red"


def annotated(value: Any, key: Any = "k") -> at.Schedule:
    sch = at.Schedule(body("for i in range(16):", "    with T.sblock('B'):", "        vi = T.axis.spatial(16, i)",
                           "        A[vi] = 1"))
    sch.annotate(sch.get_loops("B")[0], key, value)
    return sch


@pytest.mark.parametrize(("value", "held"), [
    (np.float32(1.5), 1.5), (np.float64(0.1), 0.1), (np.bool_(True), True), (np.int64(3), 3), (np.array(2), 2), (None, None),
    (float("inf"), float("inf")), ([float("-inf"), None], [float("-inf"), None]), (Color.RED, 1), (Word.RED, "red"),
    ({"a": (np.float32(1), "b")}, {"a": [1.0, "b"]}), ("\ud800ä\U0001f600", "\ud800ä\U0001f600"), (True, True), (2**70, 2**70),
    (T.int32(3), 3), (-0.0, -0.0),
])
def test_annotations_survive_text_json_and_python(value: Any, held: Any) -> None:
    sch = annotated(value)
    loop = sch.get(sch.get_loops("B")[0])
    assert repr(loop.annotations["k"]) == repr(held)
    assert parse(script(sch.mod)) == sch.mod
    trace = sch.trace.as_json()
    replays = [lambda new: Trace.apply_json_to_schedule(json.dumps(trace), new),
               lambda new: exec("\n".join(sch.trace.as_python()), {"sch": new})]
    for replay in replays:
        new = at.Schedule(body("for i in range(16):", "    with T.sblock('B'):", "        vi = T.axis.spatial(16, i)",
                               "        A[vi] = 1"))
        replay(new)
        assert script(new.mod) == script(sch.mod)


@pytest.mark.parametrize(("value", "kind"), [
    (object(), "object"), (lambda: 0, "function"), (b"x", "bytes"), ({1, 2}, "set"), (1j, "complex"), (..., "ellipsis"),
    (int, "type"), (np.arange(3), "ndarray"), ([1, {"a": {2}}], "set"), (np.complex64(1), "complex"),
])
def test_annotations_that_nothing_could_hold_are_refused(value: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=rf"^annotate: argument 'ann_val' cannot hold an? {kind}; it takes numbers") as caught:
        annotated(value)
    assert "\n" not in str(caught.value)
    with pytest.raises(TypeError, match=rf"attribute 'k' cannot hold an? {kind}; it takes numbers"):
        body("A[0] = 1").with_attr("k", value)
    with pytest.raises(ProgramError, match=rf"line 3, column 5: T.func_attr: 'k' cannot hold an? {kind}; it"):
        parse(HEAD + "    T.func_attr({'k': value})\n    A[0] = 1\n", value=value)


def test_keys_that_mean_something_in_traces_are_refused() -> None:
    with pytest.raises(TypeError, match="cannot hold the key '\\$rv': keys that start with"):
        annotated({"$rv": "l0"})
    with pytest.raises(TypeError, match="'ann_key' cannot be 3; it takes a string"):
        annotated(1, key=3)


def test_the_separator_in_a_trace_needs_no_name_in_scope() -> None:
    def fresh() -> at.Schedule:
        return at.Schedule(parse(
            "@T.prim_func\ndef f(A: T.Buffer((4, 4), 'int8')):\n    for i, j in T.grid(4, 4):\n        with T.sblock('B'):\n"
            "            vi, vj = T.axis.remap('SS', [i, j])\n            A[vi, vj] = 1\n"))

    sch = fresh()
    sch.transform_layout("B", ("write", 0), lambda i, j: (i, AXIS_SEPARATOR, j))
    text = "\n".join(sch.trace.as_python())
    assert '"axis_separator"' in text
    new = fresh()
    exec(text, {"sch": new})
    assert script(new.mod) == script(sch.mod) and "axis_separators=[1]" in script(sch.mod)
    with refused(ScheduleError, "argument"):
        fresh().transform_layout("B", ("write", 0), lambda i, j: (i, "separator", j))


def chain(terms: int, op: str = " + ") -> str:
    return HEAD + f"    A[0] = T.Cast('int32', {op.join(['A[1] > 0' if op == ' and ' else 'A[1]'] * terms)})\n"


@pytest.mark.parametrize("op", [" + ", " and "])
def test_long_sums_work_up_to_the_limit(op: str) -> None:
    terms = DEEPEST - 4
    func = parse(chain(terms, op))
    assert isinstance(func, PrimFunc)
    same(func)
    assert pickle.loads(pickle.dumps(func)) == func
    sch = at.Schedule(func)
    assert sch.mod is not None
    got = interp.run(func, np.ones(16, np.int32), 1, 1, 1)
    assert got[0][0] == (terms if op == " + " else 1)
    for terms in (DEEPEST + 3, 330, 3000, 30000):
        with pytest.raises(ProgramError, match=f"nested more than {DEEPEST} levels deep, which is the limit") as caught:
            parse(chain(terms, op))
        assert caught.value.line == 3 or terms > 1000  # Python's own parser gives up before there are lines.


def test_depth_made_by_helpers_conditions_and_definitions() -> None:
    for line in ("A[0] = sum(A[i % 4] for i in range(1000))", "if " + " + ".join(["n"] * 400) + " > 3:\n        A[0] = 1"):
        with pytest.raises(ProgramError, match="levels deep"):
            body(line)
    X = te.placeholder((4,), "int32", "X")
    with pytest.raises(ProgramError, match=r"^compute Y: .*levels deep"):
        te.compute((4,), lambda i: sum([X[i]] * 400, X[i]), name="Y")


def laid_out(func: PrimFunc) -> None:
    at.Schedule(func).transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4))


def moved_to_itself(func: PrimFunc) -> None:
    sch = at.Schedule(func)
    sch.compute_at("B", sch.split(sch.get_loops("B")[0], [4, 4])[0])


def test_a_deeper_program_built_by_hand_is_refused_where_it_is_walked() -> None:
    func = body("for i in range(16):", "    with T.sblock('B'):", "        vi = T.axis.spatial(16, i)", "        A[vi] = 1")
    store = next(s for s in walk(func.body) if isinstance(s, BufferStore))
    value: Expr = BufferLoad(store.buffer, store.indices, "int32")
    for _ in range(2000):
        value = value + BufferLoad(store.buffer, store.indices, "int32")
    deep = replace(func, body=rewrite(func.body, store, replace(store, value=value)))
    for use in (script, lambda f: interp.run(f, np.ones(16, np.int32), 1, 1, 1), laid_out):
        with pytest.raises((ProgramError, ScheduleError), match="levels deep"):
            use(deep)
    # Where nobody walks it the reason is another, and is said without the lines, which cannot be printed.
    with pytest.raises(ScheduleError, match="the block is there already") as caught:
        moved_to_itself(deep)
    assert caught.value.excerpt == "" and "\n>" not in str(caught.value)
    with pytest.raises(ScheduleError, match="the block is there already") as caught:
        moved_to_itself(func)
    assert caught.value.excerpt and "\n>" in str(caught.value)
