"""From a name to a workload: ``t3``, ``resnet18.c2``, ``dense:m=1,k=256,n=256``, ``conv2d:...``, ``FILE.py:FUNC``."""

from __future__ import annotations

import copyreg
import dataclasses
import re
from functools import lru_cache, partial
from typing import Any

from autosched import arguments
from autosched.arguments import decimal
from autosched.errors import ProgramError, UnknownNameError, shortened, suggest
from autosched.workloads.catalogue import ALIASES, NETWORKS
from autosched.workloads.conv2d import Conv2d
from autosched.workloads.conv2d_transpose import Conv2dTranspose
from autosched.workloads.dense import Dense
from autosched.workloads.elementwise import VectorAdd
from autosched.workloads.pooling import AvgPool2d, MaxPool2d, Residual
from autosched.workloads.user_file import from_file
from autosched.workloads.workload import Network, Workload

Operator = Conv2d | Conv2dTranspose | Dense | VectorAdd | MaxPool2d | AvgPool2d | Residual
OPERATORS: dict[str, type[Operator]] = {
    "dense": Dense,
    "conv2d": Conv2d,
    "conv2d_transpose": Conv2dTranspose,
    "max_pool2d": MaxPool2d,
    "avg_pool2d": AvgPool2d,
    "residual": Residual,
    "add": VectorAdd,
}
TAILS = ("requant", "cast")
_FILE = re.compile(r".*\.py:[^:/\\]*")
_MAX = 1 << 20  # no extent of a real layer comes near; above it a typing error would build for minutes


def names() -> tuple[str, ...]:
    """All workloads that have a name of their own."""
    return tuple(ALIASES)


def networks() -> tuple[str, ...]:
    """All networks."""
    return tuple(NETWORKS)


def workload(name: str, batch: int = 1, block: int = 16) -> Workload:
    """The workload of a name.

    Args:
        name: a named workload (``names()``); ``dense:m=,k=,n=[,bias=0,tail=requant|cast]``;
            ``conv2d:h=,w=,ci=,co=,k=[,n=1,stride=1,pad=0,groups=1,bias=1,tail=requant|cast]``; ``conv2d_transpose:`` likewise
            with ``opad=0`` and ``bias=0``; ``max_pool2d:h=,w=,c=,k=[,n=1,stride=1,pad=0]``; ``avg_pool2d:`` likewise;
            ``residual:h=,w=,c=[,n=1,relu=1]``; ``add:[m=1,n=1024]``; or ``FILE.py:FUNC``, a program or a function without
            arguments that returns one.
        batch: batch lanes of the packed layout, elements.
        block: channel lanes of the packed layout, elements.

    Raises:
        UnknownNameError: no such workload, parameter or function; names the nearest.
        ProgramError: a parameter's value is not usable.
        NotSupportedError: an operator or an option that this version does not have.
        BadArgumentError: a name that is no text.
    """
    text = arguments.text("the workload", name, "a name").strip()
    if _FILE.fullmatch(text):
        return from_file(text, *text.rsplit(":", 1))
    if text.endswith(".py"):
        raise ProgramError(f"{text}: say which of its programs, as in {text}:main")
    if text.lower().endswith(".onnx"):
        raise ProgramError(f"{text!r} is a network, not one workload; tune, run, best, report and export take such files")
    return named_workload(text, batch, block)


def named_workload(name: str, batch: int = 1, block: int = 16) -> Workload:
    """The workload of a name that stands for itself; nobody's file is opened. For names that were read from somewhere.

    Args:
        name: as ``workload`` takes it, but for ``FILE.py:FUNC``.
        batch: batch lanes of the packed layout, elements.
        block: channel lanes of the packed layout, elements.

    Raises:
        UnknownNameError, ProgramError, NotSupportedError: as ``workload``.
    """
    for value, what in ((batch, "batch"), (block, "block")):
        if value < 1:
            raise ProgramError(f"{what} must be a positive number of lanes, got {value}")
    text = name.strip()
    spec = ALIASES.get(text, text)
    kind, colon, rest = spec.partition(":")
    if kind not in OPERATORS or not colon:
        if text in NETWORKS:
            layers = ", ".join(layer for layer, _ in NETWORKS[text])
            raise ProgramError(f"{text!r} is a network of {len(NETWORKS[text])} workloads, not one; name one of them: {layers}")
        if colon and re.fullmatch(r"\w+", kind):
            raise UnknownNameError("operator", kind, OPERATORS)
        raise UnknownNameError("workload", text, (*ALIASES, *NETWORKS, *(f"{o}:" for o in OPERATORS)))
    return _build(text, kind, OPERATORS[kind](**_parameters(kind, rest)), batch, block)


def _pickled(task: Workload) -> tuple[Any, ...]:
    """A workload that has a name travels as its name: the other process makes it, and has it made once."""
    if task.recipe is not None:
        return workload, task.recipe
    return Workload, (task.name, task.func, task.reference, task.macs, task.spec, task.layouts)


copyreg.pickle(Workload, _pickled)


@lru_cache(maxsize=64)
def _build(name: str, kind: str, operator: Operator, batch: int, block: int) -> Workload:
    spec = ",".join(f"{f.name}={getattr(operator, f.name)}" for f in dataclasses.fields(operator))
    return Workload(
        name,
        operator.func(batch, block),
        partial(operator.compute, batch, block),
        operator.macs,
        f"{kind}:{spec}",
        operator.layouts(batch, block),
        (name, batch, block),
    )


def network(name: str, batch: int = 1, block: int = 16) -> Network:
    """The workloads of a network with their multiplicities; a single workload is a network of one.

    Args:
        name: a network (``networks()``) or anything that ``workload`` takes.
        batch: batch lanes of the packed layout.
        block: channel lanes of the packed layout.

    Raises:
        UnknownNameError: no such network or workload.
        BadArgumentError: a name that is no text.
    """
    tasks = NETWORKS.get(arguments.text("the network", name, "a name").strip(), ((name, 1),))
    return Network(name, tuple((workload(n, batch, block), times) for n, times in tasks))


def _parameters(kind: str, text: str) -> dict[str, Any]:
    """``a=1,b=x`` as keyword arguments of an operator, checked against its fields."""
    fields = {f.name: f for f in dataclasses.fields(OPERATORS[kind])}
    given: dict[str, Any] = {}
    said = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (s.strip() for s in item.partition("="))
        if key not in fields:
            raise UnknownNameError(f"parameter of {kind}", key, fields)
        if not equals or not value:
            raise ProgramError(f"{kind}: {key} has no value; write {key}=...")
        if key in given:
            raise ProgramError(f"{kind}: {key} is given twice")
        given[key] = _value(kind, key, value)
        said.append(f"{key}={value}")
    missing = [n for n, f in fields.items() if f.default is dataclasses.MISSING and n not in given]
    if missing:
        raise ProgramError(f"{kind}: {', '.join(missing)} missing; write {kind}:{','.join([*said, *(f'{n}=' for n in missing)])}")
    return given


def _value(kind: str, key: str, text: str) -> int | str:
    if key == "tail":
        if text not in TAILS:
            raise ProgramError(f"{kind}: tail must be requant or cast, got {shortened(text, 60)!r}{suggest(text, TAILS)}")
        return text
    low, high = (0, 1) if key in ("bias", "relu") else (0, _MAX) if key in ("pad", "opad") else (1, _MAX)
    value = decimal(text, low, high)
    if value is None:
        raise ProgramError(f"{kind}: {key} must be an integer from {low} to {high}, got {shortened(text, 60)!r}")
    return value
