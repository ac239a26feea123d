"""Kernels that are needed late, compiled in a process of its own while the search has begun."""

from __future__ import annotations

import os
import subprocess
import sys

from autosched.child import undisturbed

_CODE = """
import importlib, sys
from autosched.child import begin_worker
begin_worker(int(sys.argv[1]))
importlib.import_module(sys.argv[2]).warm()
"""


class Beside:
    """Compiles the kernels of a module into numba's cache, in a process that starts once this one compiles as well.

    Args:
        module: a module with a function ``warm``.
    """

    def __init__(self, module: str) -> None:
        self.module = module
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def started(self) -> bool:
        """Whether it has been."""
        return self._process is not None

    def start(self) -> None:
        """Starts, unless it has."""
        if self._process is None:
            with undisturbed():
                environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _CODE, str(os.getpid()), self.module], env=environment, stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )

    def wait(self) -> None:
        """Until it is done; what it could not do is compiled where it is needed."""
        if self._process is not None:
            self._process.wait()

    def stop(self) -> None:
        """Ends it."""
        if self._process is not None:
            with undisturbed():
                self._process.kill()
                self._process.wait()
            self._process = None
