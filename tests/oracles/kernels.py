"""Compiled kernels for the processes of one test run: each is compiled by one of them, all are loaded before tests begin.

Run as a program it compiles them, for a test run that is still to come: it needs nothing but numba.
"""

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
    """Runs what measuring, estimating and checking a candidate run, for the copies of this process that check candidates as well.

    Args:
        backwards: estimates come first, so that of two processes each compiles its half.
    """
    import numpy as np

    import space
    from autosched.ir.interp import random_inputs, run
    from autosched.measure import Candidate, measure
    from autosched.workloads import workload
    from sim.config import VTAConfig
    from sim.isa import Finish, table_of
    from sim.program import Program
    from sim.semantics import execute

    name = "dense:m=1,k=16,n=16"
    func = workload(name).func
    own = space.Space(func, "vta-de10")
    candidate = Candidate(name, "vta-de10", tuple(own.trace(own.sample(np.random.default_rng(0), 1)[0]).as_json()))

    def executed() -> None:
        run(func, *random_inputs(func, 0))
        execute(Program("nothing", VTAConfig(), table_of([Finish()]), 0x1000, ()))

    steps = (lambda: measure(candidate), executed, space.warm)
    for step in reversed(steps) if backwards else steps:
        step()
    measure(candidate, execute=True)


if __name__ == "__main__":
    compiled_once()
    # Last what a test run that has begun meanwhile compiles first.
    load(backwards=True)
