"""Traces: what was applied to a schedule, as named objects, as JSON, and as Python text that runs.

JSON of an instruction: ``{"op", "in": {parameter: handle names}, "args": {parameter: plain value}, "out": [names],
"decision"?, "stamp"?}``. Handles are named ``b0``, ``l1``, ``v2``... in order of definition, as in the Python text. A
handle inside a plain value is ``{"$rv": name}``, an index map ``{"$map": data}``; ``register_codec`` adds other
classes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from autosched.errors import AutoschedError
from autosched.schedule.kit import beginnings
from autosched.schedule.kit.base import RV, BlockRV, ExprRV, LoopRV, describe
from autosched.schedule.kit.codecs import collect_handles, decoded, encoded, name_of, value_text
from autosched.schedule.kit.shared import Shared, moved

if TYPE_CHECKING:
    from autosched.schedule.kit.base import ScheduleBase
    from autosched.schedule.kit.primitive import Primitive

    Lookup = Callable[[str], Primitive]

DecisionProvider = Callable[["Instruction", Mapping[str, Any], Any], Any]


@dataclass(frozen=True, eq=False)
class Instruction:
    """One applied primitive.

    Args:
        op: name of the primitive.
        args: every argument by parameter name, handles included.
        outputs: handles that it made.
        decision: what a sampling chose, or None.
        stamp: hash of what an argument refers to by name (a tensor intrinsic), or None.
    """

    op: str
    args: Mapping[str, Any]
    outputs: tuple[RV | None, ...] = ()
    decision: Any = None
    stamp: str | None = None

    @cached_property
    def inputs(self) -> list[RV]:
        """All handles among the arguments, in order."""
        found: list[RV] = []
        collect_handles(self.args.values(), found)
        return found

    def __str__(self) -> str:
        return _python(self, None)


@dataclass
class Trace:
    """A sequence of instructions.

    Args:
        insts: the instructions, in order.
    """

    insts: list[Instruction] = field(default_factory=list)

    def append(self, inst: Instruction) -> None:
        """Adds an instruction at the end."""
        self.insts.append(inst)

    def pop(self) -> Instruction | None:
        """Removes and returns the last instruction, or None."""
        return self.insts.pop() if self.insts else None

    def copy(self) -> Trace:
        """A trace of the same instructions."""
        return Trace(list(self.insts))

    @property
    def decisions(self) -> dict[Instruction, Any]:
        """What the sampling instructions chose."""
        return {inst: inst.decision for inst in self.insts if inst.decision is not None}

    def get_decision(self, inst: Instruction) -> Any:
        """What an instruction chose, or None."""
        return inst.decision

    def with_decision(self, index: int, decision: Any) -> Trace:
        """A trace in which instruction ``index`` decides otherwise."""
        insts = list(self.insts)
        old = insts[index]
        insts[index] = Instruction(old.op, old.args, old.outputs, decision, old.stamp)
        return Trace(insts)

    def valid(self, remove_postproc: bool = False) -> list[Instruction]:
        """The instructions, up to ``enter_postproc`` if asked."""
        if remove_postproc:
            for i, inst in enumerate(self.insts):
                if inst.op == "enter_postproc":
                    return self.insts[:i]
        return list(self.insts)

    def simplified(self, remove_postproc: bool = False) -> Trace:
        """Without pure instructions whose results nobody uses."""
        from autosched.schedule.kit.primitive import lookup

        used: set[RV] = set()
        kept: list[Instruction] = []
        for inst in reversed(self.valid(remove_postproc)):
            if lookup(inst.op).pure and not any(rv in used for rv in inst.outputs):
                continue
            used.update(inst.inputs)
            kept.append(inst)
        return Trace(kept[::-1])

    # -- JSON ----------------------------------------------------------------------------------------

    def as_json(self, remove_postproc: bool = False) -> list[dict[str, Any]]:
        """The instructions as plain objects, ready for ``json.dumps``."""
        from autosched.schedule.kit.primitive import lookup

        names: dict[RV, str] = {}
        result = []
        for inst in self.valid(remove_postproc):
            spec = lookup(inst.op)
            inputs, default = spec.inputs, spec.optional
            obj: dict[str, Any] = {"op": inst.op, "in": {}, "args": {}}
            for k, v in inst.args.items():
                # None is left out where it is the default; where an argument must be given, it is a value.
                if v is not None or k not in default:
                    bare = k in inputs
                    obj["in" if bare else "args"][k] = encoded(v, names, bare)
            obj["out"] = [name_of(rv, names) for rv in inst.outputs]
            if inst.decision is not None:
                obj["decision"] = inst.decision
            if inst.stamp is not None:
                obj["stamp"] = inst.stamp
            result.append(obj)
        return result

    @staticmethod
    def from_json(data: str | Sequence[Mapping[str, Any]]) -> Trace:
        """The trace that ``as_json`` wrote.

        Args:
            data: its objects, or their JSON text.

        Raises:
            ValueError: not a trace; the message tells the instruction.
        """
        return Trace(_instructions(_objects(data), 0, {}))

    @staticmethod
    def apply_json_to_schedule(data: str | Sequence[Mapping[str, Any]], sch: ScheduleBase) -> None:
        """Applies a JSON trace to a schedule."""
        Trace.from_json(data).apply_to_schedule(sch)

    # -- replay ------------------------------------------------------------------------------------

    def apply_to_schedule(
        self, sch: ScheduleBase, remove_postproc: bool = False, decision_provider: DecisionProvider | None = None,
        traced: bool = True,
    ) -> None:
        """Applies all instructions to a schedule.

        Args:
            sch: where to apply.
            remove_postproc: stop before ``enter_postproc``.
            decision_provider: called with (instruction, arguments, decision) and returns the decision to use.
            traced: False where only the program is wanted: the schedule's own trace may lack instructions then.

        Raises:
            ScheduleError: an instruction does not fit the program; a note tells which one.
        """
        from autosched.schedule.kit.primitive import lookup

        shared = Shared(sch, partial(_stamp_now, lookup), partial(_depends, lookup), traced)
        for i, inst in enumerate(self.valid(remove_postproc)):
            if decision_provider is not None or not shared.take(inst):
                _carried_out(shared, i, inst, lookup, decision_provider)
        shared.settle()

    @staticmethod
    def program_of_json(data: str | Sequence[Mapping[str, Any]], sch: ScheduleBase) -> None:
        """Applies a JSON trace to a schedule of which the program alone is wanted, from where another one went on otherwise.

        Args:
            data: its objects, or their JSON text.
            sch: where to apply.

        Raises:
            ValueError: not a trace; the message tells the instruction.
            ScheduleError: an instruction does not fit the program; a note tells which one.
        """
        from autosched.schedule.kit.primitive import lookup

        objs = _objects(data)
        shared = Shared(sch, partial(_stamp_now, lookup), partial(_depends, lookup), traced=False)
        keys = [beginnings.key_of(obj) for obj in objs] if shared.able else [None] * len(objs)
        root = beginnings.root_of(shared.origin, shared.trusted)
        shared.asking = root.asks
        # What is kept for other programs, too, is kept step by step.
        ends = _runs(objs, lookup) if shared.able and shared.trusted and not shared.asking else list(range(1, len(objs) + 1))
        begins = [0, *ends[:-1]]
        units = [keys[a] if b == a + 1 else _joined(keys[a:b]) for a, b in zip(begins, ends)]
        path = beginnings.path_of(root, units, shared.stamp)
        node: beginnings.Node | None = path[-1] if path else root
        rvs: dict[str, RV] = {}
        for known in path:
            rvs.update(known.names)
        first = ends[len(path) - 1] if path else 0
        insts = _instructions(objs, first, rvs)
        shared.resume(path)
        for key, begin, end in zip(units[len(path) :], begins[len(path) :], ends[len(path) :]):
            inst = insts[end - 1 - first]
            if end > begin + 1:
                _together(shared, begin, insts[begin - first : end - first], lookup)
            elif not shared.take(inst):
                _carried_out(shared, begin, inst, lookup)
            if node is None or key is None or shared.step is None:
                node = None
                continue
            names = {str(name): rv for name, rv in zip(objs[end - 1].get("out", ()), inst.outputs) if rv is not None}
            made = beginnings.Node(inst, shared.stamped, shared.step, names, shared.base, shared.program)
            node = beginnings.grown(node, key, made)
        root.asked += shared.looked
        root.taken += shared.took
        shared.settle()

    # -- text --------------------------------------------------------------------------------------

    def as_python(self, remove_postproc: bool = False, dialect: str = "autosched") -> list[str]:
        """One line of Python per instruction; ``exec`` with ``sch`` (and ``T``, for maps that call intrinsics) replays them.

        Args:
            remove_postproc: stop before ``enter_postproc``.
            dialect: ``tvm`` leaves out what TVM lacks and only names things, as ``names=`` of a split. Nothing else differs:
                without such names, and without primitives of this project's own, the text runs in TVM in any case.

        Raises:
            ValueError: another dialect.
        """
        if dialect not in ("autosched", "tvm"):
            raise ValueError(f"as_python: the dialect is autosched or tvm, not {dialect!r}")
        names: dict[RV, str] = {}
        return [_python(inst, names, dialect == "tvm") for inst in self.valid(remove_postproc)]

    def __str__(self) -> str:
        lines = self.as_python() or ["pass"]
        return "\n".join(["def apply_trace(sch) -> None:", *("  " + line for line in lines)])

    def show(self) -> None:
        """Print this trace."""
        print(self)


def _stamp_now(lookup: Lookup, inst: Instruction) -> str | None:
    """Of what arguments name, as it is defined now; empty where they name nothing, None where it depends on more."""
    found = lookup(inst.op)
    if found.draws:
        return None
    try:
        return "" if found.stamp is None else found.stamp(inst.args)
    except (AutoschedError, TypeError, KeyError):
        return None  # the primitive itself says what is wrong


def _depends(lookup: Lookup, inst: Instruction) -> str:
    """What decides an instruction where steps are trusted (``Primitive.depends``)."""
    return lookup(inst.op).depends(inst.args)


def _carried_out(
    shared: Shared, i: int, inst: Instruction, lookup: Lookup, decision_provider: DecisionProvider | None = None
) -> None:
    """Carries instruction ``i`` of a trace out."""
    shared.begin(inst)
    shared.keep(inst, _outputs(shared, i, inst, lookup, decision_provider))


def _together(shared: Shared, since: int, insts: Sequence[Instruction], lookup: Lookup) -> None:
    """Carries several instructions out that do no more than to annotate blocks, the first of them number ``since``."""
    shared.begin(*insts)
    shared.sch.gather()
    try:
        for i, inst in enumerate(insts, since):
            _outputs(shared, i, inst, lookup, None)
    finally:
        shared.sch.settle_gathered()
    shared.keep(insts[-1], (), len(insts))


def _runs(objs: Sequence[Mapping[str, Any]], lookup: Lookup) -> list[int]:
    """Where runs of instructions end that are carried out together, and every other one by itself."""
    ends: list[int] = []
    before = False
    for i, obj in enumerate(objs):
        try:
            annotates = lookup(obj["op"]).annotates and not obj.get("out") and "decision" not in obj and "stamp" not in obj
        except (TypeError, KeyError, ValueError, AttributeError):
            annotates = False  # what is wrong with it is said where it is read
        if annotates and before:
            ends[-1] = i + 1
        else:
            ends.append(i + 1)
        before = annotates
    return ends


def _joined(keys: Sequence[bytes | None]) -> bytes | None:
    """The key of several instructions; None where one of them has none."""
    found = [k for k in keys if k is not None]
    return b"".join(found) if len(found) == len(keys) else None


def _outputs(
    shared: Shared, i: int, inst: Instruction, lookup: Lookup, decision_provider: DecisionProvider | None
) -> tuple[RV | None, ...]:
    """What instruction ``i`` of a trace gives, which is applied now."""
    args = {k: moved(v, shared.rv_map) for k, v in inst.args.items()}
    decision = inst.decision
    if decision_provider is not None:
        decision = decision_provider(inst, args, decision)
    sch = shared.sch
    try:
        outputs = lookup(inst.op).invoke(sch, args, decision)
        if inst.stamp is not None and sch.trace.insts[-1].stamp not in (None, inst.stamp):
            raise ValueError(
                f"{inst.op} used {sch.trace.insts[-1].stamp} here and {inst.stamp} where the trace was made: "
                "what an argument names has changed since"
            )
        if len(outputs) != len(inst.outputs):
            raise ValueError(
                f"{inst.op} gave {len(outputs)} results here and {len(inst.outputs)} where the trace was made: "
                "the trace belongs to another program"
            )
        for n, (named, own) in enumerate(zip(inst.outputs, outputs)):
            if named is not None and own is not None and type(named) is not type(own):
                raise ValueError(
                    f"result {n} of {inst.op} is {describe(own)} here and {describe(named)} where the trace was made: "
                    "the trace belongs to another program"
                )
    except (AutoschedError, ValueError, TypeError) as error:
        error.add_note(f"in instruction {i} of the trace: {_described(inst)}")
        raise
    return outputs


def _objects(data: str | Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The objects of a JSON trace, or of its text."""
    objs = json.loads(data) if isinstance(data, str) else data
    if not isinstance(objs, Sequence):
        raise ValueError(f"a trace is a list of instructions, got {type(objs).__name__}")
    return objs


def _instructions(objs: Sequence[Mapping[str, Any]], since: int, rvs: dict[str, RV]) -> list[Instruction]:
    """The instructions of a JSON trace from one on; their outputs join the handles that are known."""
    found = []
    for i in range(since, len(objs)):
        obj = objs[i]
        if not isinstance(obj, Mapping) or "op" not in obj:
            raise ValueError(f"instruction {i} of the trace is not an object with a field 'op': {obj!r}")
        try:
            found.append(_instruction(obj, i, rvs))
        except (TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError) as error:
            said = str(error) or type(error).__name__
            raise ValueError(f"instruction {i} of the trace ({str(obj['op'])[:40]}) is malformed: {said[:80]}") from error
    return found


def _instruction(obj: Mapping[str, Any], i: int, rvs: dict[str, RV]) -> Instruction:
    """Instruction ``i`` of a JSON trace; its outputs join the handles that are known."""
    args = {k: decoded(v, rvs, True, i) for k, v in obj.get("in", {}).items()}
    args.update({k: decoded(v, rvs, False, i) for k, v in obj.get("args", {}).items()})
    outputs: list[RV | None] = []
    for name in obj.get("out", ()):
        if name == "_":
            outputs.append(None)
            continue
        rv = {"b": BlockRV, "l": LoopRV, "v": ExprRV}.get(str(name)[:1])
        if rv is None:
            raise ValueError(f"instruction {i} ({obj['op']}): an output is named b.., l.. or v.., not {name!r}")
        rvs[name] = rv()
        outputs.append(rvs[name])
    return Instruction(str(obj["op"]), args, tuple(outputs), obj.get("decision"), obj.get("stamp"))


def _described(inst: Instruction) -> str:
    """An instruction as Python, or its name where its arguments are nothing that Python text shows."""
    try:
        return str(inst)
    except (TypeError, ValueError, AttributeError, IndexError, KeyError):
        return inst.op


def _python(inst: Instruction, names: dict[RV, str] | None, plain: bool = False) -> str:
    from autosched.schedule.kit.primitive import lookup

    spec = lookup(inst.op)
    parts: list[str] = []
    for p in spec.parameters:
        value = inst.args.get(p.name)
        if p.name == "decision" or (plain and p.name in spec.labels):
            continue
        if p.variadic:
            parts = [value_text(v, names) for v in (value if isinstance(value, list | tuple) else ())] + parts
        elif value is None and p.default is None and p.name not in spec.keep_none:
            continue
        else:
            parts.append(f"{p.name}={spec.texts[p.name](value) if p.name in spec.texts else value_text(value, names)}")
    if inst.decision is not None:
        parts.append(f"decision={value_text(inst.decision, names)}")
    outs = ["_" if names is None else name_of(rv, names) for rv in inst.outputs]
    left = "" if not outs else ", ".join(outs) + ("," if spec.returns == "list" and len(outs) == 1 else "") + " = "
    return f"{left}sch.{inst.op}({', '.join(parts)})"
