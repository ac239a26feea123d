"""AutoTVM's logs, version 0.2: one JSON object a line, with a template's name, its arguments and the values of its knobs.

Nothing that is read is believed, and nothing of it is run: every field that is used is checked by type, size and range.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from autosched.errors import NotSupportedError, RecordError
from autosched.records.line import MOST
from autosched.records.reading import Fault
from sim.files import read_bytes

FAILED = 1e9  # seconds that AutoTVM writes for a trial that did not run
_LINE = 1 << 16  # bytes of a record; real ones have 700
_MODEL = re.compile(r"-model=\w+?_(\d+)x(\d+)_i(\d+)w(\d+)a(\d+)_(\d+)_(\d+)_(\d+)_(\d+)(?:\s|$)", re.ASCII)


@dataclass(frozen=True)
class Hardware:
    """The VTA that a record's target string names.

    Args:
        batch: rows of the matrix unit.
        block: its columns, and the depth of its products.
        bits: of inputs, weights and accumulators.
        buffers: bytes of the buffers of micro-ops, inputs, weights and accumulators, as powers of two.
    """

    batch: int
    block: int
    bits: tuple[int, int, int]
    buffers: tuple[int, int, int, int]

    def __str__(self) -> str:
        return f"{self.batch}x{self.block} with buffers of 2^{', 2^'.join(map(str, self.buffers))} bytes"


@dataclass(frozen=True)
class Tuned:
    """One record.

    Args:
        line: its number in the file, from 1.
        hardware: the VTA it is for; None where it is for another kind of machine.
        target: the target string.
        template: name of the tuned template, e.g. ``conv2d_packed.vta``.
        args: the template's arguments.
        knobs: inner factors of splits, and values of other knobs, by name; 0 for one that is no number.
        seconds: what the schedule took when it was measured; None where it did not run.
    """

    line: int
    hardware: Hardware | None
    target: str
    template: str
    args: tuple[Any, ...]
    knobs: Mapping[str, int]
    seconds: float | None


def read(path: str | Path) -> list[Tuned | Fault]:
    """The records of a file in order; in the place of one that is none, its line and the reason.

    Args:
        path: the file; lines that begin with ``#`` are remarks.

    Raises:
        RecordError: it cannot be read.
    """
    try:
        data = read_bytes(path)
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error
    found: list[Tuned | Fault] = []
    for number, raw in enumerate(data.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith(b"#"):
            continue
        try:
            found.append(replace(_record(line), line=number))
        except RecordError as error:
            found.append(Fault(Path(path), number, str(error)))
    return found


def _record(line: bytes) -> Tuned:
    if len(line) > _LINE:
        raise RecordError(f"a line of {len(line)} bytes")
    try:
        obj = json.loads(line)
    except (ValueError, RecursionError):
        raise RecordError("not JSON") from None
    if not isinstance(obj, dict) or not {"input", "config", "result", "version"} <= obj.keys():
        raise RecordError("not a record of AutoTVM: input, config, result or version is missing")
    if obj["version"] != 0.2 or isinstance(obj["version"], bool):
        raise RecordError(f"version {str(obj['version'])[:20]} of AutoTVM's log is not one that this version reads (0.2)")
    head = _list(obj["input"], "input", 3)
    target, template = _word(head[0], "target"), _word(head[1], "template")
    config = obj["config"]
    knobs = _knobs(config.get("entity") if isinstance(config, dict) else None)
    return Tuned(0, _hardware(target), target, template, tuple(_list(head[2], "arguments")), knobs, _seconds(obj["result"]))


def _hardware(target: str) -> Hardware | None:
    found = _MODEL.search(target)
    if found is None or "-device=vta" not in target:
        return None
    n = [int(text) for text in found.groups() if len(text) < 6]
    return Hardware(n[0], n[1], (n[2], n[3], n[4]), (n[5], n[6], n[7], n[8])) if len(n) == 9 else None


def _knobs(entity: object) -> dict[str, int]:
    """Splits come as [outer, inner]; the outer one follows from the axis, and may be -1."""
    knobs = {}
    for item in _list(entity, "config's entity"):
        name, kind, value = _list(item, "a knob", 3)[:3]
        name = _word(name, "a knob's name")
        if kind == "sp":
            value = _list(value, f"knob {name[:40]}", 2)[-1]
        # Orders and annotations belong to other machines' templates; VTA's have none.
        knobs[name] = _count(value, f"knob {name[:40]}") if kind in ("sp", "ot") else 0
    return knobs


def _seconds(result: object) -> float | None:
    parts = _list(result, "result", 2)
    costs = [c for c in _list(parts[0], "result's costs") if isinstance(c, int | float) and not isinstance(c, bool)]
    # What is no cost of a run that ended may be an integer that no float holds.
    if parts[1] != 0 or not costs or any(abs(c) > FAILED * len(costs) for c in costs):
        return None
    mean = sum(costs) / len(costs)
    return mean if 0 < mean < FAILED else None


def _fail(what: str, value: object, wanted: str) -> NoReturn:
    raise RecordError(f"{what} is {str(value)[:40]!r}, expected {wanted}")


def _list(value: object, what: str, least: int = 0) -> list[Any]:
    if not isinstance(value, list) or not least <= len(value) <= 1024:
        _fail(what, value, f"a list of at least {least}" if least else "a list")
    return value


def _word(value: object, what: str) -> str:
    if not isinstance(value, str) or len(value) > 4096:
        _fail(what, value, "a string")
    return value


def _count(value: object, what: str) -> int:
    if type(value) is not int or not 0 < value < MOST:
        _fail(what, value, "a positive integer")
    return value


# -- what a record is about ---------------------------------------------------------------------------------------------


def spec_of(record: Tuned) -> str:
    """The workload of a record as ``autosched.workloads.workload`` spells it.

    AutoTVM tunes the operator; what follows it (shift, clip, cast) comes from the network. Here it has the usual tail: a shift, a
    bias per channel where the operator is a convolution, a clip, and the cast.

    Raises:
        NotSupportedError: there is no such workload; the message says why.
        RecordError: the arguments are not those of the template.
    """
    template = record.template.partition(".")[0]
    made = _SPECS.get(template)
    if made is None:
        raise NotSupportedError(f"template {record.template} has no workload here; known: {', '.join(_SPECS)}")
    try:
        return made(record.args)
    except (IndexError, TypeError, ValueError):
        raise RecordError(f"arguments of {record.template} are not those of that template") from None


def _tensor(value: object, dimensions: int) -> list[int]:
    kind, shape, dtype = _list(value, "a tensor", 3)[:3]
    if kind != "TENSOR" or dtype != "int8":
        raise NotSupportedError(f"a tensor of {str(dtype)[:20]}; VTA multiplies int8")
    shape = [_count(n, "an extent") for n in _list(shape, "a shape")]
    if len(shape) != dimensions:
        raise RecordError(f"a tensor has {len(shape)} dimensions, expected {dimensions}")
    return shape


def _one(values: Iterable[object], what: str) -> int:
    """What a list of equal numbers is full of."""
    found = set(_list(values, what, 1))
    if len(found) != 1 or type(value := found.pop()) is not int or value < 0:
        raise NotSupportedError(f"{what} that differs from side to side: {str(values)[:40]}")
    return value


def _others(**values: int) -> str:
    """What is not at its default."""
    usual = {"n": 1, "stride": 1, "pad": 0, "groups": 1, "opad": 0}
    return "".join(f",{name}={value}" for name, value in values.items() if value != usual[name])


def _convolution(args: tuple[Any, ...], groups: int = 1) -> str:
    data, kernel = _tensor(args[0], 6), _tensor(args[1], 6)
    if kernel[2] != kernel[3]:
        raise NotSupportedError(f"a kernel of {kernel[2]}x{kernel[3]}; kernels are square here")
    if _one(args[4], "a dilation") != 1:
        raise NotSupportedError(f"a dilation of {args[4][0]}")
    ci, co = data[1] * data[5], kernel[0] * kernel[4]
    text = f"conv2d:h={data[2]},w={data[3]},ci={ci},co={co},k={kernel[2]}"
    return text + _others(n=data[0] * data[4], stride=_one(args[2], "a stride"), pad=_one(args[3], "a padding"), groups=groups)


def _grouped(args: tuple[Any, ...]) -> str:
    return _convolution(args, _count(args[5], "groups"))


def _transposed(args: tuple[Any, ...]) -> str:
    data, kernel = _tensor(args[0], 6), _tensor(args[1], 6)
    if kernel[2] != kernel[3]:
        raise NotSupportedError(f"a kernel of {kernel[2]}x{kernel[3]}; kernels are square here")
    text = f"conv2d_transpose:h={data[2]},w={data[3]},ci={data[1] * data[5]},co={kernel[0] * kernel[4]},k={kernel[2]}"
    opad = _one(args[5], "an output padding") if len(args) > 5 else 0
    stride, pad = _one(args[2], "a stride"), _one(args[3], "a padding")
    return text + _others(n=data[0] * data[4], stride=stride, pad=pad, opad=opad)


def _dense(args: tuple[Any, ...]) -> str:
    data, weight = _tensor(args[0], 4), _tensor(args[1], 4)
    return f"dense:m={data[0] * data[2]},k={data[1] * data[3]},n={weight[0] * weight[2]}"


_SPECS = {
    "conv2d_packed": _convolution, "group_conv2d_packed": _grouped, "conv2d_transpose_packed": _transposed,
    "dense_packed": _dense,
}
