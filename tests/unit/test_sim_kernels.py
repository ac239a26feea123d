"""A cached kernel is compiled anew when something it calls changes in another file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sim import _kernels

ROOT = Path(__file__).parents[2]

CALLEE = "from numba import njit\n@njit(cache=True)\ndef inner(x):\n    return x + {0}\n"
CALLER = (
    "from numba import njit\n"
    "from sim._kernels import refresh\n"
    "import {0}\n"
    "from {0} import inner\n"
    "refresh(__file__{1})\n"
    "@njit(cache=True)\n"
    "def outer(x):\n    return inner(x) * 10\n"
)


def outer(folder: Path, module: str) -> tuple[int, bool]:
    """Return what outer(1) gives in a fresh interpreter, and whether it came from the cache."""
    code = (
        f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]\n"
        f"from {module} import outer\n"
        "print(outer(1), sum(outer.stats.cache_hits.values()))"
    )
    # Bytecode knows its source by size and second.
    done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=True)
    value, hits = done.stdout.split()
    return int(value), hits != "0"


def test_a_change_of_a_dependency_recompiles(tmp_path: Path) -> None:
    (tmp_path / "callee.py").write_text(CALLEE.format(1))
    (tmp_path / "caller.py").write_text(CALLER.format("callee", ", 'callee'"))
    assert outer(tmp_path, "caller") == (20, False)
    assert outer(tmp_path, "caller") == (20, True)
    (tmp_path / "callee.py").write_text(CALLEE.format(4))
    assert outer(tmp_path, "caller") == (50, False)


KERNELS = """
import math
import numpy as np
from sim._kernels import ZERO, kernel, lean, refresh

refresh(__file__)

@lean
def share(total, parts):
    return total // parts

@kernel
def curve(n):
    found = np.zeros(n)
    for k in range(n):
        found[k] = math.log1p(k) + math.ldexp(0.5, k) + np.rint(k / 3)
    return found[n - 1] + share(n, ZERO + 2)

@kernel(nogil=True)
def ordered(values):
    return np.sort(values)[::-1].copy()
"""


def test_what_is_compiled_needs_nothing_of_what_compiles(tmp_path: Path) -> None:
    """Kernels that allocate, call others and the C library, raise and sort: from the cache as when they were compiled."""
    (tmp_path / "some.py").write_text(KERNELS)
    code = f"""
import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]
import numpy as np
import some
said = [some.curve(5)]
try:
    some.share(7, 0)
except ZeroDivisionError as error:
    said.append(str(error))
light = "numba.np.linalg" not in sys.modules
said += some.ordered(np.array([2, 9, 4])).tolist()
hits = [sum(k.stats.cache_hits.values()) for k in (some.curve, some.ordered, some.share)]
# Another signature is compiled, in the same process.
said.append(some.share(7.0, 2.0))
print(repr(said), light, hits)
"""
    runs = [subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=True).stdout for _ in "12"]
    first, second = (run.rpartition("]")[0].partition("] ") for run in runs)
    assert first[0] == second[0] and "division by zero" in first[0] and first[0].endswith(", 3.0")
    assert first[2].startswith("False [0, 0, ") and second[2].startswith("True [1, 1, 1")


def test_only_kernels_of_ours_are_said_to_be_compiled_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def dispatcher(module: str) -> SimpleNamespace:
        return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))})

    listener, told, said = _kernels._Compiling(), [], []
    monkeypatch.setattr(_kernels, "tell", told.append)
    for module in ("numpy.linalg", "simulated.kernel", "sim._timing_kernel", "space._play_kernel"):
        listener.on_start(dispatcher(module))
        said.append(len(told))
    assert said == [0, 0, 1, 1] and "compiling kernels" in told[0]
