"""One producer, two consumers, and a block that joins them: every order of attaching, and what is said where it cannot be."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.schedule import Schedule
from autosched.script import T, parse

Same = Callable[..., None]
Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]


@T.prim_func
def fork(inp: T.Buffer((12, 20), "int32"), oup: T.Buffer((12,), "int32")):
    x = T.sblock_alloc_buffer((12, 20), "int32")
    y = T.sblock_alloc_buffer((12,), "int32")
    z = T.sblock_alloc_buffer((12,), "int32")
    for i, j in T.grid(12, 20):
        with T.sblock("x"):
            vi, vj = T.axis.remap("SS", [i, j])
            x[vi, vj] = inp[vi, vj] + 1
    for i, j in T.grid(12, 20):
        with T.sblock("y"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                y[vi] = 0
            y[vi] += x[vi, vj] * 3
    for i, j in T.grid(12, 20):
        with T.sblock("z"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                z[vi] = -100000
            z[vi] = T.max(z[vi], x[vi, vj])
    for i in range(12):
        with T.sblock("oup"):
            vi = T.axis.spatial(12, i)
            oup[vi] = y[vi] * z[vi]


@T.prim_func
def two_outputs(a: T.Buffer((8,), "int32"), c: T.Buffer((8,), "int32"), d: T.Buffer((8,), "int32")):
    b = T.sblock_alloc_buffer((8,), "int32")
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            b[v] = a[v] * 2
    for i in range(8):
        with T.sblock("c"):
            v = T.axis.spatial(8, i)
            c[v] = b[v] + 1
    for i in range(8):
        with T.sblock("d"):
            v = T.axis.spatial(8, i)
            d[v] = b[v] - 1


@pytest.mark.parametrize("order", [("y", "z", "x"), ("z", "y", "x")])
def test_the_producer_is_attached_under_the_common_loop(order: tuple[str, ...], same: Same) -> None:
    sch = Schedule(fork)
    (i,) = sch.get_loops("oup")
    for name in order:
        sch.compute_at(name, i)
    assert len(sch.state.root.body.body.stmts) == 4
    same(fork, sch)


def test_the_refusal_names_the_consumers_outside_and_the_order() -> None:
    sch = Schedule(fork)
    (i,) = sch.get_loops("oup")
    with pytest.raises(ScheduleError) as caught:
        sch.compute_at("x", i)
    text = str(caught.value)
    assert "y and z are outside it" in text
    assert 'sch.compute_at("y", i); sch.compute_at("z", i); then sch.compute_at("x", i)' in text
    assert len(text.splitlines()) <= 15


def test_at_one_consumer_the_other_is_named() -> None:
    sch = Schedule(fork)
    i, _ = sch.get_loops("y")
    with pytest.raises(ScheduleError, match=r"to be under loop i; z is outside it \(consumers: y and z\)"):
        sch.compute_at("x", i)


def test_the_advice_works_as_given(same: Same) -> None:
    sch = Schedule(fork)
    (i,) = sch.get_loops("oup")
    with pytest.raises(ScheduleError) as caught:
        sch.compute_at("x", i)
    for line in caught.value.hint.replace("then ", "").split("; "):
        exec(line, {"sch": sch, "i": i})
    same(fork, sch)


def test_backwards_to_the_producers_loop(same: Same) -> None:
    sch = Schedule(fork)
    i, _ = sch.get_loops("x")
    for name in ("y", "z", "oup"):
        sch.reverse_compute_at(name, i)
    assert len(sch.get_loops("oup")) == 1
    same(fork, sch)


def test_recomputed_for_each_consumer(same: Same) -> None:
    sch = Schedule(fork)
    first, second = sch.recompute_at_consumers("x")
    assert sch.get(first).name == "x"
    assert sch.get(second).name == "x_z"
    sch.compute_at(first, sch.get_loops("y")[0])
    sch.compute_inline(second)
    same(fork, sch)
    assert [b.name for b in sch.state.root.alloc_buffers] == ["x", "y", "z"]


@pytest.mark.parametrize(("letters", "names"), [
    (5, ["{y}_last", "{x}_{y}_last", "{w}_{x}_{y}_last"]),
    (29, ["{y}_last", "{x}_{y}_last", "{w}_last"]),  # 64 characters
    (30, ["{y}_last", "{x}_last", "{w}_last"]),
    (70, ["{y}_last", "{x}_last", "{w}_last"]),
])
def test_names_of_copies_of_copies_do_not_grow(
    letters: int, names: list[str], same: Same, verify_trace_roundtrip: Verify
) -> None:
    w, x, y = "w" * letters, "x" * letters, "y" * letters
    stage = """
    for i in range(8):
        with T.block("{0}"):
            vi = T.axis.spatial(8, i)
            {0}[vi] = {1}[vi] * {2}"""
    func = parse(f"""
@T.prim_func
def f(a: T.Buffer((8,), "int32"), out: T.Buffer((8,), "int32"), last: T.Buffer((8,), "int32")):
    {w} = T.alloc_buffer((8,), "int32")
    {x} = T.alloc_buffer((8,), "int32")
    {y} = T.alloc_buffer((8,), "int32")""" + "".join(
        stage.format(*each) for each in ((w, "a", 2), (x, w, 3), (y, x, 5), ("out", y, 7), ("last", y, 9))))
    sch = Schedule(func)
    made = [sch.get(sch.recompute_at_consumers(b)[1]) for b in (y, x, w)]
    assert [b.name for b in made] == [b.writes[0].buffer.name for b in made] == [n.format(w=w, x=x, y=y) for n in names]
    same(func, sch)
    verify_trace_roundtrip(sch, func)


def test_some_consumers_share_a_copy(same: Same) -> None:
    @T.prim_func
    def three(a: T.Buffer((16,), "int32"), out: T.Buffer((8,), "int32")):
        x = T.alloc_buffer((16,), "int32")
        y = T.alloc_buffer((8,), "int32")
        z = T.alloc_buffer((8,), "int32")
        for i in range(16):
            with T.block("x"):
                vi = T.axis.spatial(16, i)
                x[vi] = a[vi] + 1
        for i in range(8):
            with T.block("y"):
                vi = T.axis.spatial(8, i)
                y[vi] = x[vi] * 2
        for i in range(8):
            with T.block("z"):
                vi = T.axis.spatial(8, i)
                z[vi] = x[vi + 4] - y[vi]
        for i in range(8):
            with T.block("out"):
                vi = T.axis.spatial(8, i)
                out[vi] = x[vi + 6] + z[vi]

    sch = Schedule(three)
    names = [sch.get(b).name for b in sch.recompute_at_consumers("x", [sch.get_sblock("out"), sch.get_sblock("z")])]
    assert names == ["x", "x_z"]
    same(three, sch)
    # The copy runs for what the two of them read, the block itself for the rest.
    assert [loop.extent.value for name in names for loop in [sch.get(sch.get_loops(name)[0])]] == [8, 10]
    assert [sch.get(b).name for b in sch.get_consumers("x_z")] == ["z", "out"]
    sch.trace.apply_to_schedule(again := Schedule(three), remove_postproc=False)
    assert again.func == sch.func
    for chosen, reason in ((["y", "z", "out"], "all of the 3"), ([], "none of the 3"), (["x"], "does not read")):
        with pytest.raises(ScheduleError, match=reason):
            Schedule(three).recompute_at_consumers("x", chosen)


def test_two_outputs_have_no_common_loop(same: Same) -> None:
    sch = Schedule(two_outputs)
    (i,) = sch.get_loops("c")
    with pytest.raises(ScheduleError) as caught:
        sch.compute_at("b", i)
    assert "d is outside it" in str(caught.value)
    assert 'sch.recompute_at_consumers("b")' in caught.value.hint
    first, second = sch.recompute_at_consumers("b")
    sch.compute_at(first, i)
    sch.compute_at(second, sch.get_loops("d")[0])
    same(two_outputs, sch)


def test_nothing_to_duplicate() -> None:
    sch = Schedule(fork)
    with pytest.raises(ScheduleError, match="1 consumer: there is nothing to duplicate"):
        sch.recompute_at_consumers("y")
    with refused(ScheduleError, "output"):
        sch.recompute_at_consumers("oup")
