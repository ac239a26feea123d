"""Tables of a state: what is known of a statement is known of that statement alone."""

from dataclasses import replace

import numpy as np
import pytest

from autosched.ir.expr import IntImm
from autosched.ir.stmt import SeqStmt
from autosched.schedule.analysis.pipeline import broken_pipeline
from autosched.schedule.kit.state import State
from autosched.script import T, parse
from autosched.workloads import workload
from space import Space


def test_a_statement_that_nobody_holds_is_not_taken_for_another() -> None:
    """The address of one that has gone is given to the next."""
    state = State(workload("dense:m=2,k=64,n=64").func)
    blocks = state.children_of(state.root)
    realizes = [state.realizes[block.ident] for block in blocks]
    assert len(blocks) > 2
    for n in range(40):
        at = n % (len(blocks) - 1)
        assert state.children_of(SeqStmt((realizes[at],))) == [blocks[at]]
        found = state.dependences(SeqStmt((realizes[at], realizes[at + 1])))
        whole = state.dependences(state.root)
        pair = {blocks[at].ident, blocks[at + 1].ident}
        assert found == [d for d in whole if {d.src, d.dst} == pair]


@T.prim_func
def halves(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.sblock_alloc_buffer((16,), "int32")
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * 2
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + 1


@pytest.mark.parametrize(("block", "extent", "broken"), [
    ("B", 8, False), ("B", 9, False), ("B", 7, True), ("C", 8, False), ("C", 7, False), ("C", 9, True),
])
def test_a_pipeline_is_asked_about_again_where_either_side_is_another(block: str, extent: int, broken: bool) -> None:
    """The other side is the same statement as before."""
    state = State(halves)
    assert broken_pipeline(state, state.root) is None
    (loop,) = state.loops_of(state.blocks_named(block)[0])
    after = state.replaced({id(loop): replace(loop, extent=IntImm(extent))})
    for _ in range(2):
        found = broken_pipeline(after, after.root)
        assert (found is not None) == broken
        assert found is None or found[0] == "C reads more of B than B has written by then"


@pytest.mark.parametrize(("written", "value", "read", "where", "broken"), [
    (8, "B[vi] + A[vi, vk]", "B[vi]", "1 <= i", None),
    (8, "B[vi] + A[vi, vk]", "B[vi]", "k < i", None),
    (7, "B[vi] + A[vi, vk]", "B[vi]", "1 <= i", "init"),  # one element is written by nobody
    (8, "A[vi, vk]", "B[vi]", "1 <= i", "update"),  # it goes on with nothing: what it leaves out might be meant
    (8, "B[vi] + A[vi, vk]", "B[vi] + B[7 - vi]", "1 <= i", "update"),  # what a later iteration goes on with
])
def test_what_goes_on_under_a_condition_with_what_stands_further_out_leaves_no_hole(
    written: int, value: str, read: str, where: str, broken: str | None
) -> None:
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((8, 3), "int32"), C: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    for i in range({written}):
        with T.sblock("init"):
            vi = T.axis.spatial(8, i)
            B[vi] = 0
    for i in range(8):
        for k in range(3):
            with T.sblock("update"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where({where})
                T.reads(B[vi], A[vi, vk])
                B[vi] = {value}
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = {read}
""".replace("T.reads(B[vi], A[vi, vk])", "T.reads(B[vi], A[vi, vk])" if value.startswith("B") else "T.reads(A[vi, vk])"))
    state = State(func)
    found = broken_pipeline(state, state.root)
    assert found is None if broken is None else found is not None and found[0].endswith(f"than {broken} has written by then")


@pytest.mark.parametrize(("where", "place", "broken"), [
    ("1 <= o * 4 + i", "o * 4 + i", False),  # each iteration of the shared loop has results of its own
    ("o == 1", "i", True),  # the second one goes on with all results, the first with none
    ("i // 4 == 1 - o", "i", True), ("1 <= o * 4 + i", "i", True), ("1 <= o * 4 + i", "o * 3 + i", True),
])
def test_a_condition_about_a_loop_that_a_reader_shares_leaves_nothing_for_later(where: str, place: str, broken: bool) -> None:
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((8, 3), "int32"), C: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    for i in range(8):
        with T.sblock("init"):
            vi = T.axis.spatial(8, i)
            B[vi] = 0
    for o in range(2):
        for i, k in T.grid({4 if "o" in place else 8}, 3):
            with T.sblock("update"):
                vi = T.axis.spatial(8, {place})
                vk = T.axis.reduce(3, k)
                T.where({where})
                B[vi] = B[vi] + A[vi, vk]
        for j in range(4):
            with T.sblock("C"):
                vi = T.axis.spatial(8, o * {3 if "3" in place else 4} + j)
                C[vi] = B[vi] + 1
""")
    state = State(func)
    assert (broken_pipeline(state, state.root) is not None) == broken


@pytest.mark.parametrize(("copied", "where", "missing"), [
    ("o * 4 + i", "True", None),
    ("o * 4 + i", "i < 3", "D"),  # the copy beside the sum has to hold all that is read of it
    ("o * 4 + i", "1 <= o * 4 + i", "D"),
    ("o * 3 + i", "True", "D"),
])
def test_what_stands_beside_a_sum_that_goes_on_is_asked_for_itself(copied: str, where: str, missing: str | None) -> None:
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((8, 3), "int32"), W: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    D = T.sblock_alloc_buffer((8,), "int32")
    for i in range(8):
        with T.sblock("init"):
            vi = T.axis.spatial(8, i)
            B[vi] = 0
    for o in range(2):
        for i in range(4):
            with T.sblock("D"):
                vi = T.axis.spatial(8, {copied})
                T.where({where})
                D[vi] = W[vi]
        for i, k in T.grid(4, 3):
            with T.sblock("update"):
                vi = T.axis.spatial(8, o * 4 + i)
                vk = T.axis.reduce(3, k)
                T.where(1 <= o * 4 + i)
                B[vi] = B[vi] + A[vi, vk]
        for i in range(4):
            with T.sblock("C"):
                vi = T.axis.spatial(8, o * 4 + i)
                C[vi] = B[vi] + D[vi]
""")
    state = State(func)
    found = broken_pipeline(state, state.root)
    assert found is None if missing is None else found is not None and f"more of {missing} than" in found[0], found


@pytest.mark.parametrize("name", ["residual:h=6,w=6,c=96", "max_pool2d:h=12,w=12,c=16,k=3,stride=2,pad=1"])
def test_who_makes_and_who_reads_follows_from_dependences(name: str) -> None:
    """Blocks that a block depends on, and that depend on it, but for what it only overwrites once it was read."""
    space = Space(workload(name).func, "vta-de10")
    found = 0
    for point in space.sample(np.random.default_rng(0), 4):
        state = State(space.schedule(point).func)
        for block in [realize.block for realize in state.realizes.values()][1:]:
            scope = state.scope_of(block)
            assert scope is not None
            deps = [d for d in state.dependences(scope) if d.kind != "WAR"]
            before, behind = ([d.src for d in deps if d.dst is block.ident], [d.dst for d in deps if d.src is block.ident])
            assert [b.ident for b in state.producers(block)] == list(dict.fromkeys(before))
            assert [b.ident for b in state.consumers(block)] == list(dict.fromkeys(behind))
            found += len(before) + len(behind)
    assert found > 100
