"""Tables of a state: what is known of a statement is known of that statement alone."""

from autosched.ir.stmt import SeqStmt
from autosched.schedule.kit.state import State
from autosched.workloads import workload


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
