"""What replays of traces share: the programs after instructions that were met before, which are immutable and need be made once.

A search replays one trace per candidate on the same program, and the traces differ in a few places. What an instruction makes of
a program is decided by the program and its arguments, so where both are known the program after it is taken as it is. Where steps
are trusted, less has to be known: an instruction that says so (``Primitive.local``) is decided by the statements below the root
that its handles stand in. A part of the output that two candidates tile alike is thus made once, whatever the other parts are.

What an argument only names (a tensor intrinsic) counts as it is defined now, by its stamp. Instructions that draw (a decision)
are never kept, nor is what was refused: that a step is refused does not depend on what was replayed before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from threading import Lock
from typing import TYPE_CHECKING, Any

from autosched.ir.expr import Var
from autosched.ir.index_map import IndexMap
from autosched.ir.stmt import BlockRealize, Buffer, Ident, PrimFunc
from autosched.schedule.kit import beginnings
from autosched.schedule.kit.base import RV, BlockRV, LoopRV, ScheduleBase
from autosched.schedule.kit.changes import Each, Program, Some, Whole, replaced_runs, same_but_root, with_root
from autosched.schedule.kit.names import Lineage
from autosched.schedule.kit.state import State, below
from autosched.schedule.kit.walks import Walk, walked

if TYPE_CHECKING:
    from autosched.schedule.kit.trace import Instruction

LIMIT = 4096  # steps kept, the least recently used go; each holds what its instruction made anew, some 10 KB

Key = tuple[object, ...]
PLAIN = frozenset({int, str, bool, float, type(None)})
NEIGHBOURS, WRITERS, EACH = "neighbours", "writers", "each"  # of ``Primitive.local``


@dataclass(frozen=True, eq=False)
class Step:
    """What an instruction made.

    Args:
        held: what its key names by address.
        made: the instruction as it was traced then.
        sources: which input of the instruction each of its handles was.
        values: what the handles that it gave stand for.
        change: of the statements below the root and what the root allocates.
        base: the function, but for these.
        affine: blocks that are known to be bound affinely from then on.
        lineage: what is known of loops from then on.
    """

    held: object
    made: Instruction
    sources: Mapping[RV, int]
    values: tuple[Any, ...]
    change: Whole | Some | Each
    base: PrimFunc
    affine: frozenset[Ident]
    lineage: Lineage


@dataclass(frozen=True, eq=False)
class Asked:
    """What decides an instruction.

    Args:
        key: all that does; None where that cannot be told.
        inputs: the handles among its arguments.
        mode: of its primitive, where steps are trusted (``Primitive.local``).
        places: positions of the statements that decide it, where some do.
    """

    key: Key | None = None
    inputs: Sequence[RV] = ()
    mode: str = ""
    places: tuple[int, ...] = ()


_STEPS: OrderedDict[Key, Step] = OrderedDict()
_LOCK = Lock()


def forget() -> None:
    """Drops all that was kept."""
    with _LOCK:
        _STEPS.clear()
    beginnings.forget()


class Shared:
    """One replay, as far as others have been there before.

    An instruction is either taken over (``take``), or carried out between ``begin`` and ``keep``. The schedule holds the program
    that was taken over after ``settle``, which ``begin`` calls.

    Args:
        sch: a schedule.
        stamp: of what the arguments of an instruction name, empty where they name nothing; None where it depends on more.
        local: what decides an instruction where steps are trusted (``Primitive.depends``).
        traced: whether the schedule gets handles and a trace of what is taken over; else its program alone is wanted.
    """

    def __init__(
        self, sch: ScheduleBase, stamp: Callable[[Instruction], str | None], local: Callable[[Instruction], str],
        traced: bool = True,
    ) -> None:
        self.sch = sch
        self.stamp, self.local, self.traced = stamp, local, traced
        self.rv_map: dict[RV, RV] = {}  # this schedule's handles by those of the trace
        self.values: dict[RV, Any] = {}  # what those of the trace stand for
        self.settled = True
        self.name, state = next(iter(sch._states.items()))
        self.trusted = state.trusted
        self.origin = self.base = state.func
        self.program: Program = (), ()
        self.asked = Asked()
        self.step: Step | None = None  # what the last instruction made, where that is kept
        self.stamped: str | None = None  # of what its arguments name
        self.before = 0, set(sch._affine), sch._lineage
        self.able = True
        self.asking = True  # whether what is not a known beginning is looked for by what decides it
        self.looked, self.took = 0, 0  # how often, and with success
        self._look(state.func)
        # What was begun has a history that decides, too; steps on several functions are rare.
        if len(sch._states) > 1 or sch.trace.insts or sch._symbols or sch._depth:
            self.able = False

    def resume(self, path: Sequence[beginnings.Node]) -> None:
        """Takes over what a trace's first instructions are known to make, where no handles are wanted."""
        for node in path:
            if node.inst is not None and node.step is not None and node.base is not None:
                self._take(node.inst, node.step)
                self.base, self.program = node.base, node.program
                self.settled = False

    def take(self, inst: Instruction) -> bool:
        """Takes over what an instruction is known to make, and says whether it is."""
        self.step = None
        if not self.asking:
            self.asked, self.stamped = Asked(), None if inst.decision is not None else self.stamp(inst)
            return False
        self.looked += 1
        self.asked = self._ask(inst) if self.able else Asked()
        with _LOCK:
            step = None if self.asked.key is None else _STEPS.get(self.asked.key)
            if step is None or self.asked.key is None:
                return False
            _STEPS.move_to_end(self.asked.key)
        changed = step.change.of(self.program, self.asked.places)
        if changed is None:
            return False
        self.took += 1
        self.base, self.program = step.base, changed
        self.settled = False
        self._take(inst, step)
        if self.traced:
            sch = self.sch
            taken = {rv: self.rv_map[self.asked.inputs[k]] for rv, k in step.sources.items()}
            made = step.made
            args = {k: moved(v, taken) for k, v in made.args.items()}
            outputs = tuple(None if rv is None else self._handle(rv) for rv in inst.outputs)
            sch.trace.append(type(made)(made.op, args, outputs, made.decision, made.stamp))
        return True

    def _take(self, inst: Instruction, step: Step) -> None:
        """Takes over all but the program."""
        self.step = step
        sch, lineage = self.sch, step.lineage
        # Most say nothing of these: replays begin with many steps that are known.
        if step.affine:
            sch._affine |= step.affine
        if lineage.parts or lineage.fused:
            sch._lineage.parts.update(lineage.parts)
            sch._lineage.fused.update(lineage.fused)
        for rv, value in zip(inst.outputs, step.values):
            if rv is not None:
                self.values[rv] = value

    def begin(self, *insts: Instruction) -> None:
        """Before an instruction that has to be carried out, or several that are kept as one step."""
        self.settle()
        if len(insts) > 1:
            self.step, self.asked, self.stamped = None, Asked(), ""
        sch = self.sch
        for inst in insts:
            for rv in inst.inputs:
                if rv in self.values and rv not in self.rv_map:
                    self._handle(rv)
        sch._far = False
        self.before = len(sch.trace.insts), set(sch._affine), sch._lineage.copy()

    def settle(self) -> None:
        """Gives the schedule the program that was taken over."""
        if not self.settled:
            self.sch._states = {self.name: State(with_root(self.base, *self.program), self.trusted)}
            self.settled = True

    def keep(self, inst: Instruction, outputs: Sequence[RV | None], steps: int = 1) -> None:
        """Keeps what an instruction made, which the schedule has just carried out.

        Args:
            inst: the instruction.
            outputs: the handles that it gave.
            steps: how many were carried out since ``begin``; this is the last of them.
        """
        sch = self.sch
        for rv, own in zip(inst.outputs, outputs):
            if rv is not None and own is not None:
                self.rv_map[rv], self.values[rv] = own, sch._symbols[own]
        if not self.able:
            return
        base, program, asked = self.base, self.program, self.asked
        self._look(next(iter(sch._states.values())).func)
        traced, affine, lineage = self.before
        if not self.able or len(sch.trace.insts) != traced + steps:
            return
        made = sch.trace.insts[-1]
        values = tuple(None if rv is None else sch._symbols[rv] for rv in outputs)
        beyond = frozenset(sch._affine - affine), sch._lineage.beyond(lineage)
        if not self.asking and self.stamped is not None and inst.stamp in (None, self.stamped):
            self.step = Step(None, made, {}, values, Whole(self.program), self.base, *beyond)  # of a beginning, without a key
        if asked.key is None:
            return
        sources = {self.rv_map[rv]: k for k, rv in enumerate(asked.inputs)}
        change = self._change(base, program)
        # Names that it had to look up are instructions of their own.
        if change is None or any(rv not in sources for rv in made.inputs):
            return
        held = self.origin, base, program[0]
        step = self.step = Step(held, made, sources, values, change, self.base, *beyond)
        with _LOCK:
            _STEPS[asked.key] = step
            while len(_STEPS) > LIMIT:
                _STEPS.popitem(last=False)

    def _change(self, base: PrimFunc, program: Program) -> Whole | Some | Each | None:
        """What the instruction has changed of a program; None where that is more than it says."""
        (old, given), (new, allocs), asked = program, self.program, self.asked
        if not asked.mode:
            return Whole(self.program)
        if self.sch._far or self.base is not base:
            return None
        if asked.mode != EACH:
            runs = replaced_runs(old, asked.places, new)
            return Some(runs, allocs[len(given) :]) if runs is not None and allocs[: len(given)] == given else None
        first = len(new) - len(old)
        if first < 0 or asked.key is None:
            return None
        known = {id(a): (a, b) for a, b in zip(old, new[first:])}
        with _LOCK:
            before = _STEPS.get(asked.key)
        if before is not None and isinstance(before.change, Each):
            front = before.change.front
            # Else what it made then was forgotten, and is not what it makes now.
            if before.change.allocs == allocs and len(front) == first and all(map(is_, front, new)):
                known = {**before.change.known, **known}
        return Each(new[:first], allocs, known)

    def _handle(self, rv: RV) -> RV:
        """The schedule's handle for one of the trace."""
        sch, kind = self.sch, type(rv)
        make: Callable[[Any], RV] = sch.block_rv if kind is BlockRV else sch.loop_rv if kind is LoopRV else sch.expr_rv
        own = self.rv_map[rv] = make(self.values[rv])
        return own

    def _look(self, func: PrimFunc) -> None:
        """Notes a program: its statements and allocations, and the rest of it where that is another."""
        body = func.body
        self.able = self.able and isinstance(body, BlockRealize) and body.block.init is None
        if isinstance(body, BlockRealize):
            self.program = below(body.block), body.block.alloc_buffers
        if not same_but_root(func, self.base):
            self.base = func

    def _ask(self, inst: Instruction) -> Asked:
        """What decides an instruction; no key where that cannot be told."""
        stamp = self.stamped = None if inst.decision is not None else self.stamp(inst)
        inputs, known = inst.inputs, self.values
        values = {rv: known[rv] for rv in inputs if rv in known}
        if stamp is None or inst.stamp not in (None, stamp) or any(rv not in values for rv in inputs):
            return Asked()  # the primitive itself says what is wrong
        args = frozen(inst.args, values)
        if args is None:
            return Asked()
        stmts, allocs = self.program
        # What a trace takes its results for is not believed: who takes them for something else is refused (``trace.py``).
        outputs = tuple(map(type, inst.outputs))
        common = id(self.origin), id(self.base), self.trusted, inst.op, outputs, stamp, args
        mode = self.local(inst) if self.trusted else ""
        walks = [walked(s) for s in stmts] if mode else []
        found = places_of(values.values(), walks) if mode else None
        if not found:
            return Asked((*common, *map(id, stmts), "allocates", *allocs), inputs)
        if mode == EACH:
            blocks = [walks[k].realizes[v].block for v, k in found.items() if isinstance(v, Ident)]
            touched = [r.buffer for b in blocks for r in (*b.reads, *b.writes)]
            sizes = [n for b in blocks for n in (len(b.reads), len(b.writes))]
            return Asked((*common, EACH, *sizes, *touched, *allocs), inputs, mode)
        chosen = set(found.values())
        new = set(chosen) if mode == WRITERS else set()
        while new:
            wanted = frozenset[Buffer]().union(*(walks[k].reads for k in new))
            new = {k for k, w in enumerate(walks) if k not in chosen and not wanted.isdisjoint(w.writes)}
            chosen |= new
        places = tuple(sorted(chosen))
        apart = [b > a + 1 for a, b in zip((-1, *places), places)]
        near = neighbours(found, places, walks) if mode == NEIGHBOURS else []
        return Asked((*common, *apart, *[id(stmts[k]) for k in places], *near), inputs, mode, places)


def neighbours(found: Mapping[Var | Ident, int], places: Sequence[int], walks: Sequence[Walk]) -> list[tuple[int, int]]:
    """Other statements with what blocks read or write: how many of the chosen are before them, and their address.

    Args:
        found: where what is given stands; the blocks are those given, or all that stand with given loops.
        places: positions of the chosen statements.
        walks: of all statements.
    """
    given = [walks[k].realizes[v] for v, k in found.items() if isinstance(v, Ident)]
    blocks = [r.block for r in given or (r for k in places for r in walks[k].realizes.values())]
    reads = {r.buffer for b in blocks for r in b.reads}
    writes = {r.buffer for b in blocks for r in b.writes}
    return [
        (sum(p < k for p in places), id(w.top)) for k, w in enumerate(walks)
        if k not in places and not (w.writes.isdisjoint(reads) and w.touched.isdisjoint(writes))
    ]


def places_of(values: Iterable[Any], walks: Sequence[Walk]) -> dict[Var | Ident, int] | None:
    """Where loops and blocks stand; None where one stands nowhere (the root, or something gone).

    Args:
        values: what handles stand for.
        walks: of statements.
    """
    found: dict[Var | Ident, int] = {}
    last = 0
    for value in values:
        if isinstance(value, Var | Ident):
            # Most stand where the one before does.
            at = last if walks[last].holds(value) else next((k for k, w in enumerate(walks) if w.holds(value)), None)
            if at is None:
                return None
            found[value] = last = at
    return found


def moved(value: Any, handles: Mapping[RV, Any]) -> Any:
    """An argument with other handles for some."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, RV):
        return handles.get(value, value)
    if isinstance(value, list):
        return [moved(v, handles) for v in value]
    if isinstance(value, tuple):
        return tuple(moved(v, handles) for v in value)
    if isinstance(value, dict):
        return {k: moved(v, handles) for k, v in value.items()}
    return value


def frozen(value: Any, handles: Mapping[RV, Any]) -> object:
    """An argument as a key, the same for all traces that say the same; None for one that is not plain data.

    Args:
        value: the argument.
        handles: what each handle stands for.
    """
    kind = type(value)
    if kind in PLAIN:
        return kind, value
    if isinstance(value, RV):
        return handles.get(value)
    if isinstance(value, Mapping):
        # Nothing else is a text by itself.
        parts = [k if type(k) is str else frozen(k, handles) for k in value] + [frozen(v, handles) for v in value.values()]
    elif isinstance(value, list | tuple):
        parts = [frozen(v, handles) for v in value]
    elif isinstance(value, IndexMap):
        return "map", str(value.to_data())
    else:
        return None
    for part in parts:
        if part is None:
            return None
    return (kind, *parts)
