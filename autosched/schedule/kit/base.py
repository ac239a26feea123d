"""What every family of primitives stands on: handles (``handles``), the symbol table, and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import ref

from autosched.errors import MOST_LINES, ScheduleCode, ScheduleError, folded, suggest
from autosched.ir.expr import Expr, IntImm, Var
from autosched.ir.stmt import (
    Annotations,
    Block,
    BlockRealize,
    Buffer,
    Evaluate,
    For,
    Ident,
    PrimFunc,
    Range,
    Stmt,
    with_func_body,
)
from autosched.schedule.kit.handles import (
    AT_INLINE,
    AT_ROOT,
    MAKERS,
    NUMBERS,
    RV,
    ArgumentError,
    BlockRV,
    ExprRV,
    LoopRV,
    NoFunctionError,
    Special,
    StaleRVError,
    UnknownRVError,
    describe,
)
from autosched.schedule.kit.limits import Overflow, bounds, check_indices
from autosched.schedule.kit.names import Lineage
from autosched.schedule.kit.once import afresh, once
from autosched.schedule.kit.state import State

if TYPE_CHECKING:
    from autosched.schedule.kit.trace import Trace

# Who writes a primitive finds the handles that it takes and gives here as well.
__all__ = [
    "AT_INLINE", "AT_ROOT", "MOST_EXCERPT", "RV", "ArgumentError", "BlockRV", "ExprRV", "LoopRV", "NoFunctionError",
    "ScheduleBase", "Special", "StaleRVError", "UnknownRVError", "describe",
]
MOST_EXCERPT = 11  # lines of a program in one refusal


class ScheduleBase:
    """Symbol table and program; families of primitives are mixins over this class.

    Attributes:
        trace: what has been applied so far.
        error_render_level: ``detail`` (excerpt and hint), ``fast`` (reason only) or ``none``.
    """

    trace: Trace
    error_render_level: str
    _states: dict[str, State]
    _symbols: dict[RV, Any]
    _working_on: str | None
    _op: str
    _depth: int
    _decision: Any
    _rng_state: int
    _affine: set[Ident]
    _lineage: Lineage
    _far: bool = False  # whether a step that says what it depends on has looked at more
    _gathered: dict[Ident, tuple[Annotations, tuple[object, ...]]] | None = None  # annotations that wait (``gather``)

    # -- the program -------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The function being worked on, with its tables."""
        return self._states[self.func_name()]

    def func_name(self, name: str | None = None) -> str:
        """The function that a primitive without handles works on.

        Args:
            name: an explicit choice, or None.

        Raises:
            NoFunctionError: several functions, and no ``work_on`` yet; or no such function.
        """
        name = name if name is not None else self._working_on
        if name is None:
            raise NoFunctionError(
                f"{self._op or 'the schedule'} does not know which function to be working on; "
                f"call work_on(name) first; functions: {', '.join(self._states)}"
            )
        if name not in self._states:
            raise NoFunctionError(f"no function {name!r} in the module{suggest(name, self._states)}")
        return name

    def commit(self, state: State, body: Stmt | None = None, func: PrimFunc | None = None) -> State:
        """Makes a rewritten function the current program.

        Args:
            state: the state that the rewrite started from.
            body: its new body, or
            func: its new function.
        """
        if func is None:
            func = state.func if body is None else with_func_body(state.func, body)
        new = State(func, state.trusted)
        try:
            if not state.trusted:
                check_indices(state, new)
        except Overflow as error:
            self.refuse(str(error), hint="smaller factors, or extents declared as int64", code="range")
        self._states = {n: new if s is state else s for n, s in self._states.items()}
        return new

    def commit_nodes(self, state: State, table: Mapping[int, Stmt | None]) -> State:
        """``commit`` of ``state.rewrite(table)``."""
        return self.commit(state, state.rewrite(table))

    def commit_rewrite(
        self, state: State, table: Mapping[int, Stmt | None], allocs: Mapping[int, tuple[Buffer, ...]],
        inserts: Mapping[int, tuple[int, Stmt]],
    ) -> State:
        """``commit`` of ``state.rewrite`` with new allocations and insertions."""
        return self.commit(state, state.rewrite(table, allocs, inserts))

    def keeps_host_stages(self, before: Mapping[str, State]) -> None:
        """Refuses a step after which the host could not run what it is given: a stage that shares its loops, say.

        A copy in global memory that a pack stage reads may be given to the host next (``host_stage``).

        Args:
            before: the functions before the step; what was wrong there already is not this step's.
        """
        for name, new in self._states.items():
            old = before.get(name, new)
            found = None if old is new or new.trusted else new.host_fault
            if found is not None and old.host_fault is None and not new.packs_copies:
                message, block = found
                self.refuse(message, [block.ident] if block.ident in old.realizes else [], state=old, code="place")

    def commit_annotations(self, state: State, block: Block, annotations: Annotations, *about: object) -> None:
        """Gives a block other annotations.

        Args:
            state: the state that the block is in.
            block: the block.
            annotations: all that it has then.
            about: what, with the block, decides them.
        """
        if self._gathered is not None:
            before, known = self._gathered.get(block.ident, ({}, ()))
            self._gathered[block.ident] = {**before, **annotations}, (*known, *about)
            return
        again = once if state.trusted else afresh
        self.commit_nodes(state, {id(block): again(partial(replace, block, annotations=annotations), "annotated", block, *about)})

    def gather(self) -> None:
        """From now on ``commit_annotations`` waits for ``settle_gathered``: several steps in a row make one new program."""
        self._gathered = {}

    def settle_gathered(self) -> None:
        """Gives blocks the annotations that wait."""
        gathered, self._gathered = self._gathered or {}, None
        state = self.state
        realizes = [state.realizes[ident] for ident in gathered]
        if any(isinstance(n, Block) and n.ident in gathered for r in realizes for n in state.ancestors(r)):
            for ident, (annotations, about) in gathered.items():
                self.commit_annotations(self.state, self.state.block(ident), annotations, *about)
        elif gathered:
            table: dict[int, Stmt | None] = {}
            again = once if state.trusted else afresh
            for block, (annotations, about) in zip([r.block for r in realizes], gathered.values()):
                table[id(block)] = again(partial(replace, block, annotations=annotations), "annotated", block, *about)
            self.commit_nodes(state, table)

    def looks_far(self) -> None:
        """Says of the step that is made that more decides what it makes than its primitive says (``Primitive.local``)."""
        self._far = True

    # -- handles -----------------------------------------------------------------------------------

    def block_rv(self, block: Block | Ident) -> BlockRV:
        """A new handle of a block."""
        rv = BlockRV()
        MAKERS[rv] = (ref(self), next(NUMBERS))
        self._symbols[rv] = block if isinstance(block, Ident) else block.ident
        return rv

    def loop_rv(self, loop: For | Var | Special) -> LoopRV:
        """A new handle of a loop."""
        rv = LoopRV()
        MAKERS[rv] = (ref(self), next(NUMBERS))
        self._symbols[rv] = loop.var if isinstance(loop, For) else loop
        return rv

    def expr_rv(self, value: int) -> ExprRV:
        """A new handle of an integer."""
        rv = ExprRV()
        MAKERS[rv] = (ref(self), next(NUMBERS))
        self._symbols[rv] = value
        return rv

    def own(self, rvs: Iterable[RV]) -> None:
        """Takes handles that a copy made for this schedule's: what it has become is what they show."""
        for rv in rvs:
            MAKERS[rv] = ref(self), MAKERS[rv][1] if rv in MAKERS else next(NUMBERS)

    def header(self, rv: RV) -> str:
        """What a handle stands for now, in one line of script; a handle of something gone says so.

        Args:
            rv: handle of this schedule.
        """
        value = self._symbols.get(rv)
        if not isinstance(rv, BlockRV | LoopRV) or isinstance(value, Special) or value is None:
            return str(value.name if isinstance(value, Special) else value)
        try:
            node = self.loop_at(rv)[1] if isinstance(rv, LoopRV) else self.block_at(rv)[1]
        except ScheduleError:
            return f"{'loop' if isinstance(rv, LoopRV) else 'block'} that is no longer in the program"
        if isinstance(node, For):
            alone = replace(node, var=Var(self.label(rv), node.var.dtype), body=Evaluate(IntImm(0)))
            return str(alone).partition("\n")[0].removesuffix(":")
        return str(node).partition("\n")[0].removeprefix("with ").removesuffix(":")

    def label(self, rv: RV) -> str:
        """The name that a handle stands for now, as the program is printed; the value of a sampled integer.

        Args:
            rv: handle of this schedule.
        """
        value = self._symbols.get(rv)
        if value is None:
            return "forgotten"
        if isinstance(value, Special):
            return value.name
        for state in self._in_order():
            if isinstance(rv, LoopRV) and value in state.loops:
                return state.loop_name(value)
            if isinstance(rv, BlockRV) and value in state.realizes:
                return state.realizes[value].block.name
        return str(value) if isinstance(rv, ExprRV) else "no longer in the program"

    def _value(self, rv: RV) -> Any:
        try:
            return self._symbols[rv]
        except KeyError:
            kind = {"b": "block", "l": "loop", "v": "integer"}[rv.prefix]
            raise UnknownRVError(
                self._op, f"the {kind} handle was not made by this schedule (or was removed)", "",
                "use handles that this schedule returned; look the block up again with get_block",
            ) from None

    def block_at(self, rv: BlockRV) -> tuple[State, BlockRealize]:
        """The state and the realize of the block behind a handle.

        Raises:
            UnknownRVError: not a handle of this schedule.
            StaleRVError: the block is no longer in the program.
        """
        if not isinstance(rv, BlockRV):
            self.refuse(f"expected a block, got {describe(rv)}", error=ArgumentError, hint="get_block(name) gives a block",
                        code="handle")
        ident = self._value(rv)
        for state in self._in_order():
            realize = state.realizes.get(ident)
            if realize is not None:
                return state, realize
        return self.refuse(f"the block is no longer in the program{self._consumed(rv)}", error=StaleRVError,
                           hint="look it up again with get_block(name)", code="handle")

    def loop_at(self, rv: LoopRV) -> tuple[State, For]:
        """The state and the loop behind a handle.

        Raises:
            UnknownRVError: not a handle of this schedule.
            StaleRVError: the loop is no longer in the program.
        """
        if not isinstance(rv, LoopRV):
            self.refuse(f"expected a loop, got {describe(rv)}", error=ArgumentError,
                        hint="get_loops(block) gives the loops around a block", code="handle")
        var = self._value(rv)
        if isinstance(var, Special):
            self.refuse(f"a real loop is needed here, not the place '{var.name}'", code="handle")
        for state in self._in_order():
            loop = state.loops.get(var)
            if loop is not None:
                return state, loop
        return self.refuse(f"loop {var.name} no longer exists in the program{self._consumed(rv)}", error=StaleRVError,
                           hint="use the loops that the later primitive returned, or get_loops(block)", code="handle")

    def loops_at(self, rvs: Sequence[LoopRV]) -> tuple[State, list[For]]:
        """The loops behind several handles of one function."""
        found = [self.loop_at(rv) for rv in rvs]
        if any(state is not found[0][0] for state, _ in found):
            self.refuse("the loops belong to different functions", hint="give loops of one function", code="handle")
        return found[0][0], [loop for _, loop in found]

    def int_of(self, value: int | ExprRV) -> int:
        """A Python integer, or the integer behind a handle."""
        return int(self._value(value)) if isinstance(value, ExprRV) else int(value)

    def decide(self, decision: Any) -> None:
        """Records what a sampling primitive chose."""
        self._decision = decision

    def _in_order(self) -> list[State]:
        return list(self._states.values())

    def _consumed(self, rv: RV) -> str:
        for inst in reversed(self.trace.insts):
            if rv in inst.inputs:
                return f" (last used by {inst.op})"
        return ""

    # -- refusals ----------------------------------------------------------------------------------

    def refuse(
        self, reason: str, marks: Sequence[Stmt | Ident | Var] = (), hint: str = "", state: State | None = None,
        error: type[ScheduleError] = ScheduleError, *, code: ScheduleCode,
    ) -> NoReturn:
        """Raises a ``ScheduleError`` of the primitive that is running.

        Args:
            reason: why, in one line, naming blocks, loops and buffers.
            marks: statements (or idents, or loop variables) at fault; they are marked in the excerpt.
            hint: what to do instead.
            state: the function that the marks are in; default: the one that holds the first mark.
            error: a subclass to raise.
            code: what kind of refusal it is.
        """
        if self.error_render_level == "none":
            raise error(self._op or "schedule", "refused (not rendered)", code=code) from None
        if self.error_render_level == "fast" or not marks:
            raise error(self._op or "schedule", reason, "", hint, code) from None
        from autosched.ir.excerpt import excerpt

        room = MOST_LINES - len(folded(reason.split("\n"), 3)) - (1 + hint.count("\n") if hint else 0)
        lines = partial(excerpt, (state or self._holder(marks[0])).func, list(marks), max_lines=max(4, min(MOST_EXCERPT, room)))
        # What was caught on the way is said in the reason: users see one error.
        raise error(self._op, reason, lines, hint, code) from None

    def way_out(self, known: str, find: Callable[[], str]) -> str:
        """A hint: the one that is known, else one that is looked for, where it is going to be shown.

        Args:
            known: may be empty.
            find: tries alternatives, which takes time.
        """
        return find() if not known and self.error_render_level == "detail" else known

    def indices_fit(self, indices: Iterable[Expr], dom: Mapping[Var, Range], marks: Sequence[Stmt | Ident | Var] = ()) -> None:
        """Refuses indices that may leave their integer type; what depends on symbolic sizes is taken to fit.

        Args:
            indices: the new indices.
            dom: ranges of their variables.
            marks: what is at fault.
        """
        try:
            for index in indices:
                bounds(index, dom)
        except Overflow as error:
            self.refuse(str(error), marks, hint="keep these dimensions apart, or declare extents as int64", code="range")

    def _holder(self, mark: Stmt | Ident | Var) -> State:
        for state in self._in_order():
            if isinstance(mark, Ident | Var):
                if mark in state.realizes or mark in state.loops:
                    return state
            elif state.parent(mark) is not None or mark is state.func.body:
                return state
        return self._in_order()[0]

    # -- small conveniences for primitives ---------------------------------------------------------

    def block_region_buffer(self, block: Block, index: int | str | Buffer, kind: str) -> int:
        """The position of a buffer among a block's reads or writes.

        Args:
            block: the block.
            index: position, name or the buffer itself.
            kind: ``read`` or ``write``.
        """
        regions = block.reads if kind == "read" else block.writes
        names = [r.buffer.name for r in regions]
        if isinstance(index, int):
            if not 0 <= index < len(regions):
                listed = ", ".join(f"{i}: {n}" for i, n in enumerate(names)) or "none"
                reason = f"block {block.name} has no {kind} buffer {index}; its {kind} buffers are {listed}"
                self.refuse(reason, [block.ident], self._buffers_there(block, kind), code="argument")
            return index
        hits = [i for i, r in enumerate(regions) if r.buffer is index or r.buffer.name == index]
        if not hits:
            name = index if isinstance(index, str) else index.name
            self.refuse(f"block {block.name} has no {kind} buffer {name!r}{suggest(name, names)}", [block.ident],
                        self._buffers_there(block, kind), code="name")
        if len(hits) > 1 and any(regions[i].buffer is not regions[hits[0]].buffer for i in hits):
            reason = f"block {block.name} has several {kind} buffers named {index!r}; give a position"
            self.refuse(reason, [block.ident], code="argument")
        return hits[0]

    def _buffers_there(self, block: Block, kind: str) -> str:
        names = [r.buffer.name for r in (block.reads if kind == "read" else block.writes)]
        if names:
            return f"{', '.join(f'{i} or {n!r}' for i, n in enumerate(names))}"
        others = block.writes if kind == "read" else block.reads
        return f"it only {'writes' if kind == 'read' else 'reads'} {others[0].buffer.name}" if others else ""
