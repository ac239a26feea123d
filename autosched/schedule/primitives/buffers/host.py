"""Host stages: blocks that the host runs before or after the accelerator."""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.host import HOST_STAGE, PACK, UNPACK, host_faults, kind_of
from autosched.ir.stmt import Block
from autosched.schedule.kit.base import BlockRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.state import State


class HostStages(ScheduleBase):
    """The primitive that gives a block to the host."""

    @primitive
    def host_stage(self, block: BlockRV | str) -> None:
        """Lets the host run a block: before the accelerator, on parameters only, or after it, on what it has stored.

        The block keeps its meaning and its place; lowering leaves it out, and a kernel runs it when it packs its arguments, or
        hands out its results. Permuting and filling with zeros is what any host does while it copies arguments; other work is
        measured by ``Kernel.host_work``.

        Args:
            block: handle or name of a block directly in the root block, in loops of its own. It reads nothing but parameters
                that the program only reads, constants and results of other such stages (then it packs), or writes nothing but
                parameters and what later such stages read (then it unpacks).

        Raises:
            ScheduleError: the block depends on the accelerator and the accelerator on it, or it shares its loops.

        After: the same block with ``T.sblock_attr({"host_stage": "pack"})`` (or ``"unpack"``).

        Before::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] * 2
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + 1

        After ``sch.host_stage("B")``::

            B = T.sblock_alloc_buffer((16,), "int32")
            for i in range(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    T.sblock_attr({"host_stage": "pack"})
                    B[vi] = A[vi] * 2
            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + 1
        """
        assert isinstance(block, BlockRV)
        state, realize = self.block_at(block)
        node = realize.block
        if state.scope_of(node) is not state.root:
            self.refuse(f"block {node.name} is inside another block; the host runs whole stages", [node.ident],
                        hint="give a block directly in the root block", code="place")
        reasons: list[str] = []
        for kind in (PACK, UNPACK):
            marked = replace(node, annotations={**node.annotations, HOST_STAGE: kind})
            func = replace(state.func, body=state.rewrite({id(node): marked}))
            faults = [message for message, at in host_faults(func) if at.name == node.name or kind_of(at) == kind]
            if not faults:
                self.commit(state, func=func)
                return
            reasons.append(faults[0])
        self.refuse(f"the host cannot run block {node.name}: {reasons[_ends(state, node)]}", [node.ident],
                    hint="a pack stage reads parameters only; an unpack stage makes parameters of what is stored", code="form")


def _ends(state: State, block: Block) -> bool:
    """Whether a block writes a parameter, so that it can only be meant to unpack."""
    return any(w.buffer in state.func.params for w in block.writes)
