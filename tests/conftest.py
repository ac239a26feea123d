"""Fixtures shared by all tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ORACLES = Path(__file__).parent / "oracles"


def load_oracle(name: str) -> ModuleType:
    """Import tests/oracles/NAME.py, which is no test module and no package."""
    full = f"oracle_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, ORACLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        spec.loader.exec_module(module)
    return sys.modules[full]


@pytest.fixture(scope="session")
def plain_vta() -> ModuleType:
    """VTA in plain Python integers: the oracle of execution, races and hazards."""
    return load_oracle("plain_vta")
