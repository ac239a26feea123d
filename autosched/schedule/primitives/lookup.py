"""Finding blocks and loops: pure primitives, traced like all others."""

from __future__ import annotations

from typing import Any

from autosched.errors import suggest
from autosched.ir.functor import walk
from autosched.ir.stmt import Block, BlockRealize, For
from autosched.schedule.analysis.ways import inner_blocks
from autosched.schedule.kit.base import BlockRV, LoopRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.state import State
from autosched.schedule.kit.trace import Instruction


def _explicit_function(sch: Any, args: dict[str, Any]) -> None:
    args["func_name"] = sch.func_name(args["func_name"])


class Lookup(ScheduleBase):
    """Look-ups by name and by position in the program."""

    @primitive(pure=True, normalize=_explicit_function)
    def get_sblock(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block of that name.

        Args:
            name: name of the block; ``root`` is the root block.
            func_name: function to look in; default: the one being worked on.

        Raises:
            ScheduleError: no block, or several, of that name.
            NoFunctionError: several functions and none chosen.
        """
        state = self._states[self.func_name(func_name)]
        found = state.blocks_named(name)
        if not found:
            names = state.block_names()
            tail = suggest(name, names) or f"; the first are: {', '.join(names[:12])}"
            # Each in TVM's words, which people search for; the name helps at either level.
            what = "specified name" if self.error_render_level == "fast" else "name"
            self.refuse(f"Cannot find a block with the {what}: {name}{tail}", code="name")
        if len(found) > 1:
            self.refuse(f"{len(found)} blocks are named {name!r}", [b.ident for b in found], state=state,
                        hint="reach one of them with get_child_blocks, get_consumers or get_producers", code="name")
        return self.block_rv(found[0])

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """``get_sblock`` under its older name."""
        return self.get_sblock(name, func_name)

    @primitive(pure=True, local="handles")
    def get_loops(self, block: BlockRV | str) -> list[LoopRV]:
        """The loops around a block, up to the block that contains it, outermost first.

        Args:
            block: handle or name.
        """
        state, realize = self.block_at(_handle(block))
        return [self.loop_rv(loop) for loop in state.loops_of(realize.block)]

    @primitive(pure=True)
    def get_child_blocks(self, block_or_loop: BlockRV | LoopRV) -> list[BlockRV]:
        """The blocks directly below a block or a loop, in program order.

        Args:
            block_or_loop: handle (or a block's name).
        """
        if isinstance(block_or_loop, LoopRV):
            state, loop = self.loop_at(block_or_loop)
            return [self.block_rv(b) for b in state.children_of(loop)]
        state, realize = self.block_at(block_or_loop)
        return [self.block_rv(b) for b in state.children_of(realize.block)]

    @primitive(pure=True)
    def get_producers(self, block: BlockRV | str) -> list[BlockRV]:
        """The blocks of the same scope whose results a block reads (or overwrites), in program order.

        Args:
            block: handle or name.

        Raises:
            ScheduleError: the root block.
        """
        state, realize = self._inside(block)
        return [self.block_rv(b) for b in state.producers(realize.block)]

    @primitive(pure=True)
    def get_consumers(self, block: BlockRV | str) -> list[BlockRV]:
        """The blocks of the same scope that read (or overwrite) what a block writes, in program order.

        Args:
            block: handle or name.

        Raises:
            ScheduleError: the root block.
        """
        state, realize = self._inside(block)
        return [self.block_rv(b) for b in state.consumers(realize.block)]

    @primitive(pure=True)
    def get_output_blocks(self, scope_block: BlockRV | str) -> list[BlockRV]:
        """The blocks anywhere below a block that write a buffer not allocated by the block around them.

        Args:
            scope_block: handle or name of the block to search.
        """
        state, realize = self.block_at(_handle(scope_block))
        found = []
        for node in walk(realize.block.body):
            if isinstance(node, BlockRealize):
                scope = state.scope_of(node)
                assert scope is not None
                if any(w.buffer not in scope.alloc_buffers for w in node.block.writes):
                    found.append(self.block_rv(node.block))
        return found

    @primitive(pure=True, normalize=_explicit_function, sugar=True)
    def get_axis(self, name: str, block: BlockRV | str | None = None, func_name: str | None = None) -> LoopRV:
        """The loop of that name; a trace finds it by its position around a block, as TVM can.

        Args:
            name: name of the loop variable, as the program is printed.
            block: only loops around this block; default: all loops of the function.
            func_name: function to look in; default: the one being worked on.

        Raises:
            ScheduleError: no loop, or several, of that name.
        """
        if block is not None:
            state, realize = self.block_at(_handle(block))
            loops = [n for n in state.ancestors(realize) if isinstance(n, For)]
        else:
            state = self._states[self.func_name(func_name)]
            loops = list(state.loops.values())
        found = state.loops_named(name, loops)
        if not found and "=>" in name:
            hint = 'split("i => i0, i1", ...) and fuse("i, j => ij") take such strings'
            self.refuse(f"{name!r} is no name of a loop", hint=hint, code="name")
        if not found:
            known = [state.loop_name(x.var) for x in loops]
            self.refuse(f"Cannot find a loop with the name: {name}{suggest(name, known)}", code="name")
        if len(found) > 1:
            above = [", ".join(b.name for b in state.children_of(x)) for x in found]
            self.refuse(
                f"{len(found)} loops are named {name!r}: around {'; around '.join(above[:6])}"
                f"{'; ...' if len(above) > 6 else ''}", [x.var for x in found],
                hint=f'get_axis("{name}", block="{above[0].split(", ")[0]}")', code="name",
            )
        if not state.children_of(found[0]) or len(state.blocks_named(state.root.name)) > 1:
            # No block leads there.
            made = self.loop_rv(found[0])
            if self._depth == 0:
                self.trace.append(Instruction("get_axis", {"name": name, "block": block, "func_name": func_name}, (made,)))
            return made
        return self._loop_by_position(state, found[0], block)

    def _loop_by_position(self, state: State, loop: For, around: BlockRV | str | None) -> LoopRV:
        """A handle of a loop from look-ups of a block and of the loops around it."""
        inside = state.children_of(loop)[0]
        if isinstance(around, BlockRV) and any(x is loop for x in state.loops_of(self.block_at(around)[1].block)):
            handle, inside = around, self.block_at(around)[1].block
        else:
            handle = self._block_by_position(state, inside)
        position = next(k for k, x in enumerate(state.loops_of(inside)) if x is loop)
        return self.get_loops(handle)[position]

    def _block_by_position(self, state: State, block: Block) -> BlockRV:
        """A handle of a block from its name, or from its place in the block around it where others have the name."""
        scope = state.scope_of(block)
        if scope is None or len(state.blocks_named(block.name)) == 1:
            func = next(name for name, s in self._states.items() if s is state)
            return self.get_sblock(block.name, func)
        position = next(k for k, b in enumerate(state.children_of(scope)) if b is block)
        return self.get_child_blocks(self._block_by_position(state, scope))[position]

    def _inside(self, block: BlockRV | str) -> tuple[State, BlockRealize]:
        state, realize = self.block_at(_handle(block))
        if state.scope_of(realize.block) is None:
            self.refuse("the primitive does not operate on the root block", hint=inner_blocks(state), code="root")
        return state, realize

    def get_scope(self, block: BlockRV | str) -> Block:
        """The block that contains a block, given by its handle or name (not traced)."""
        if isinstance(block, str):
            traced = len(self.trace.insts)
            block = self.get_sblock(block)
            del self.trace.insts[traced:]
        state, realize = self.block_at(block)
        if state.scope_of(realize.block) is None:
            self.refuse("the root block is contained in no other", hint=inner_blocks(state), code="root")
        scope = state.scope_of(realize.block)
        assert scope is not None
        return scope


def _handle(block: BlockRV | str | None) -> BlockRV:
    # The decorator has already turned names into handles; this only tells the type checker.
    assert isinstance(block, BlockRV), block
    return block
