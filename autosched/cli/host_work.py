"""What a schedule leaves to the host, for ``tune`` and ``apply``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.cli.tables import number, tell
from autosched.ir.host import split_host
from autosched.ir.stmt import PrimFunc
from autosched.kernel import Kernel, scheduled
from autosched.kernel.kernel import TraceLike
from autosched.lower import HostWork

Array = np.ndarray[Any, Any]


def host_work(kernel: Kernel, inputs: Sequence[Array]) -> list[HostWork]:
    """What a run costs the host beyond bringing tensors into order and filling up with zeros.

    Args:
        kernel: the program.
        inputs: its arguments.
    """
    split = kernel.lowered.host
    return [w for w in kernel.host_work(*inputs) if not w.free] if split.pack or split.unpack else []


def leaves_work(func: PrimFunc, trace: TraceLike) -> bool:
    """Whether a schedule that has been checked leaves the host anything to do: mostly not, which takes no program to see.

    Args:
        func: the unscheduled program.
        trace: the schedule.
    """
    split = split_host(scheduled(func, trace, check=False))
    return bool(split.pack or split.unpack)


def tell_host_work(kernel: Kernel, inputs: Sequence[Array]) -> None:
    """Says so, a line for each stage; arguments as for ``host_work``."""
    for work in host_work(kernel, inputs):
        of = f" of {', '.join(work.reads)}" if work.reads else ""
        tell(f"the host's own work, in no cycle count: {work.stage} makes {', '.join(work.writes)}{of}, "
             f"{number(work.bytes)} bytes in {work.milliseconds:.1f} ms of the interpreter")
