"""Compiled kernels for the processes of one test run: each is compiled by one of them, all are loaded before tests begin."""

from __future__ import annotations

from typing import Any


def compiled_once() -> None:
    """From now on a process that wants a kernel which another one is compiling waits, and finds it in numba's cache."""
    import fcntl

    from numba.core.dispatcher import Dispatcher

    compiled, held = Dispatcher.compile, set[str]()

    def once(self: Any, sig: Any) -> Any:
        path = self.py_func.__code__.co_filename
        if self.py_func.__module__.partition(".")[0] not in ("sim", "space", "autosched") or path in held:
            return compiled(self, sig)
        # The sources of kernels use each other in one direction only, so that nobody waits for ever.
        with open(path, "rb") as source:
            fcntl.flock(source, fcntl.LOCK_EX)
            held.add(path)
            try:
                return compiled(self, sig)
            finally:
                held.discard(path)

    Dispatcher.compile = once


def load(backwards: bool) -> None:
    """Runs what measuring and checking a candidate run, for the copies of this process that check candidates as well.

    Args:
        backwards: what is executed comes first, so that of two processes each compiles its half.
    """
    import numpy as np

    from autosched.ir.interp import random_inputs, run
    from autosched.measure import Candidate, measure
    from autosched.workloads import workload
    from sim.config import VTAConfig
    from sim.isa import Finish, table_of
    from sim.program import Program
    from sim.semantics import execute
    from space import Space

    name = "dense:m=1,k=16,n=16"
    func = workload(name).func
    space = Space(func, "vta-de10")
    candidate = Candidate(name, "vta-de10", tuple(space.trace(space.sample(np.random.default_rng(0), 1)[0]).as_json()))

    def executed() -> None:
        run(func, *random_inputs(func, 0))
        execute(Program("nothing", VTAConfig(), table_of([Finish()]), 0x1000, ()))

    for step in (executed, lambda: measure(candidate)) if backwards else (lambda: measure(candidate), executed):
        step()
    measure(candidate, execute=True)
