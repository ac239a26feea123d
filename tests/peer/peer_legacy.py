"""The names of TVM 0.18 on top of the stand-in: ``tvm.tir``, ``T.block``, classes of before and after."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import peer_shim as shim
import peer_trace
import pytest

from autosched import schedule, script
from autosched.errors import ScheduleError
from autosched.ir.expr import Expr
from autosched.ir.index_map import AXIS_SEPARATOR, IndexMap
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Block, BlockRealize, IRModule, PrimFunc


class CompareBeforeAfter:
    """A test class whose members ``before``, ``transform`` and ``expected`` are one comparison."""

    def __init_subclass__(cls) -> None:
        for name in ("before", "expected"):
            member = next((vars(cls)[n] for n in (name, name.capitalize()) if n in vars(cls)), None)
            if member is not None and not _is_fixture(member):
                setattr(cls, name, _program_fixture(member))
        transform = vars(cls).get("transform")
        if transform is not None and not _is_fixture(transform):
            cls.transform = pytest.fixture(transform)  # type: ignore[attr-defined]

    def test_compare(self, before: Any, expected: Any, transform: Any) -> None:
        """Equal after the transformation, or refused where an exception is expected."""
        module = before if isinstance(before, IRModule) else IRModule({"main": before})
        if isinstance(expected, type) and issubclass(expected, Exception):
            with pytest.raises(expected):
                transform(module)
            return
        wanted = expected if isinstance(expected, IRModule) else IRModule({"main": expected})
        shim.assert_structural_equal(transform(module), wanted)


def _is_fixture(member: Any) -> bool:
    return hasattr(member, "_pytestfixturefunction") or type(member).__name__ == "FixtureFunctionDefinition"


def _program_fixture(member: Any) -> Any:
    def inner(self: Any) -> Any:
        if isinstance(member, PrimFunc | IRModule) or (isinstance(member, type) and issubclass(member, Exception)):
            return member
        if inspect.isclass(member):
            parts = {n: f for n, f in vars(member).items() if not n.startswith("_")}
            return IRModule({n: f if isinstance(f, PrimFunc) else script.parse(f) for n, f in parts.items()})
        if "self" in inspect.signature(member).parameters:
            return member(self)
        return script.parse(member)

    return pytest.fixture(inner)


def _fixture(func: Any = None, **_: Any) -> Any:
    return pytest.fixture(func) if func is not None else pytest.fixture


def _needs_device(*args: Any, **_: Any) -> Any:
    mark = pytest.mark.skip(reason="needs a device")
    return mark(args[0]) if len(args) == 1 and callable(args[0]) else mark


def install() -> None:
    """Adds the old modules beside today's."""
    peer_trace.LEGACY = True
    IndexMap.AXIS_SEPARATOR = AXIS_SEPARATOR  # type: ignore[attr-defined]
    tvm, testing = sys.modules["tvm"], sys.modules["tvm.testing"]
    for name in ("requires_matrixcore", "requires_cuda_compute_version", "requires_cuda", "requires_gpu"):
        setattr(testing, name, _needs_device)
    testing.CompareBeforeAfter = CompareBeforeAfter  # type: ignore[attr-defined]
    testing.fixture = _fixture  # type: ignore[attr-defined]
    tvm.build = shim.compile_  # type: ignore[attr-defined]
    tvm.nd = SimpleNamespace(array=shim.tensor)  # type: ignore[attr-defined]
    sys.modules["tvm.ir"].structural_hash = shim._hash  # type: ignore[attr-defined]
    sys.modules["tvm.te"].AXIS_SEPARATOR = AXIS_SEPARATOR  # type: ignore[attr-defined]
    shim.module("tvm.arith", Analyzer=Analyzer)
    for name in ("tirx", "s_tir"):
        for full, old in list(sys.modules.items()):
            if full == f"tvm.{name}" or full.startswith(f"tvm.{name}."):
                new = "tvm.tir" + full.removeprefix(f"tvm.{name}")
                values = {k: v for k, v in vars(old).items() if not k.startswith("__") and not isinstance(v, ModuleType)}
                shim.module(new, **values)
    common = {"Block": Block, "BlockRealize": BlockRealize, "PrimExpr": Expr, "BlockRV": schedule.BlockRV,
              "ScheduleError": ScheduleError}
    for name in ("tvm.tir", "tvm.tir.schedule", "tvm.tir.expr"):
        shim.module(name, **common)
    t = sys.modules["tvm.script.tirx"]
    sys.modules["tvm.script.tir"] = t
    shim.module("tvm.script", tir=t)
