"""Traces in TVM's shapes: positional instructions, kinds in capitals, lists as JSON. Only spelling is translated here."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from autosched.ir.expr import Expr, FloatImm, IntImm, StringImm, Var
from autosched.schedule import BlockRV, ExprRV, LoopRV
from autosched.schedule import Instruction as OurInstruction
from autosched.schedule import Trace as OurTrace
from autosched.schedule.kit.codecs import name_of
from autosched.schedule.kit.primitive import PRIMITIVES, Parameter, plain_argument

_HEAD = "# from tvm import s_tir\ndef apply_trace(sch: s_tir.Schedule) -> None:"
# Names as TVM 0.18 spells them.
LEGACY = False
# TVM hands these over among the inputs of an instruction, though no handles are meant.
_AS_INPUT = {"split": ("loop", "factors"), "annotate": ("block_or_loop", "ann_val")}


class InstructionKind:
    """A primitive under TVM's name of it."""

    _known: ClassVar[dict[str, InstructionKind]] = {}

    def __init__(self, name: str, op: str) -> None:
        self.name = name
        self.op = op

    @staticmethod
    def get(name: str) -> InstructionKind:
        """The kind of a name such as ``ComputeInline``."""
        known = InstructionKind._known
        for op in PRIMITIVES:
            full = "".join("SBlock" if part == "sblock" else part.capitalize() for part in op.split("_"))
            full = full.replace("SBlock", "Block") if LEGACY else full
            known.setdefault(full, InstructionKind(full, op))
        return known[name]

    @property
    def is_pure(self) -> bool:
        """It changes no program."""
        return PRIMITIVES[self.op].pure

    def same_as(self, other: object) -> bool:
        """Identity."""
        return self is other


def kind_of(inst: OurInstruction) -> InstructionKind:
    """The kind of one of our instructions."""
    InstructionKind.get("EnterPostproc")
    return next(k for k in InstructionKind._known.values() if k.op == inst.op)


def _fields(op: str) -> tuple[list[Parameter], list[Parameter]]:
    params = [p for p in PRIMITIVES[op].parameters if p.name != "decision"]
    first = _AS_INPUT.get(op)
    inputs = [p for p in params if (p.name in first if first else p.is_input)]
    # Parameters that are ours alone stay out as long as they have their defaults.
    return inputs, [p for p in params if p not in inputs]


def Instruction(
    kind: InstructionKind, inputs: Sequence[Any], attrs: Sequence[Any], outputs: Sequence[Any], decision: Any = None
) -> OurInstruction:
    """One of our instructions out of TVM's positions."""
    ins, rest = _fields(kind.op)
    args: dict[str, Any] = {}
    given = list(inputs)
    for i, p in enumerate(ins):
        many = p.variadic or "list[" in p.annotation or "Sequence[" in p.annotation or p.name == "factors"
        if many and i == len(ins) - 1:
            args[p.name] = [_number(v) for v in given[i:]]
        else:
            args[p.name] = _number(given[i])
    for p, value in zip(rest, attrs):
        args[p.name] = _number(value)
    for p in (*ins, *rest):
        if p.name not in args and p.default is not inspect.Parameter.empty:
            args[p.name] = p.default
    outs = tuple(_VARS.setdefault(o, ExprRV()) if isinstance(o, Var) else o for o in outputs)
    return OurInstruction(kind.op, args, outs, decision)


_VARS: dict[Var, ExprRV] = {}


def attrs_of(inst: OurInstruction) -> list[Any]:
    """The arguments that TVM calls attributes."""
    return [inst.args[p.name] for p in _fields(inst.op)[1] if inst.args.get(p.name) is not None]


def _number(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_number(v) for v in value]
    if isinstance(value, Mapping):
        return {k: _number(v) for k, v in value.items()}
    return plain_argument(value) if isinstance(value, Expr) else value


class _Float(float):
    """A float that prints as TVM prints a boxed constant."""

    def __repr__(self) -> str:
        return f"T.float32({float(self)})"


class Trace(OurTrace):
    """Our trace with TVM's constructor, head line and JSON."""

    def __init__(self, insts: Sequence[OurInstruction] = (), decisions: Mapping[Any, Any] | None = None) -> None:
        super().__init__(list(insts))

    def __str__(self) -> str:
        head = _HEAD.replace("s_tir", "tir") if LEGACY else _HEAD
        return "\n".join([head, *("  " + line for line in self.as_python() or ["pass"])])

    def as_python(self, remove_postproc: bool = False, dialect: str = "autosched") -> list[str]:
        """One line per instruction."""
        lines = super().as_python(remove_postproc, dialect)
        return [line.replace("sch.get_sblock(", "sch.get_block(") for line in lines] if LEGACY else lines

    def copy(self) -> Trace:
        """A trace of the same instructions."""
        return Trace(self.insts)

    def simplified(self, remove_postproc: bool = False) -> Trace:
        """Without unused pure instructions."""
        return Trace(super().simplified(remove_postproc).insts)

    def as_json(self, remove_postproc: bool = False) -> Any:
        """TVM's lists: instructions as [kind, inputs, attributes, outputs], then decisions."""
        names: dict[Any, str] = {}
        rows, decisions = [], []
        for i, inst in enumerate(self.valid(remove_postproc)):
            ins, _ = _fields(inst.op)
            inputs = [inst.args[p.name] for p in ins if inst.args.get(p.name) is not None]
            row = [kind_of(inst).name, _listed(inputs, names), _listed(attrs_of(inst), names),
                   [name_of(o, names) for o in inst.outputs]]
            rows.append(row)
            if inst.decision is not None:
                decisions.append([i, inst.decision])
        return [rows, decisions]

    @staticmethod
    def apply_json_to_schedule(json_obj: Any, sch: Any) -> None:
        """Applies TVM's lists."""
        rows, decisions = json_obj
        chosen = dict(decisions)
        known: dict[str, Any] = {}
        insts = []
        for i, (kind, inputs, attrs, outputs) in enumerate(rows):
            outs = []
            for name in outputs:
                known[name] = {"b": BlockRV, "l": LoopRV, "v": ExprRV}[name[0]]()
                outs.append(known[name])
            ins, _ = _fields(InstructionKind.get(kind).op)
            given = [known.get(v, v) if isinstance(v, str) and _is_handle(ins, j) else v for j, v in enumerate(inputs)]
            insts.append(Instruction(InstructionKind.get(kind), given, attrs, outs, chosen.get(i)))
        OurTrace(insts).apply_to_schedule(sch)


def _is_handle(ins: list[Parameter], position: int) -> bool:
    return ins[min(position, len(ins) - 1)].is_input


def _listed(values: Sequence[Any], names: dict[Any, str]) -> list[Any]:
    def one(v: Any) -> Any:
        if isinstance(v, BlockRV | LoopRV | ExprRV):
            return name_of(v, names)
        if isinstance(v, list | tuple):
            return [one(x) for x in v]
        if isinstance(v, float):
            return _Float(v)
        return v.value if isinstance(v, IntImm | FloatImm | StringImm) else v

    return [one(v) for v in values]


__all__ = ["Instruction", "InstructionKind", "Trace", "attrs_of", "kind_of"]
