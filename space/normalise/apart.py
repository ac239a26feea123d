"""What several results need is computed for each of them: a nest of the space stores one tensor."""

from __future__ import annotations

from autosched.errors import ProgramError
from autosched.ir.host import split_host
from autosched.schedule import Schedule
from autosched.target import Target
from space.nest import shared

MOST = 16  # copies of blocks; a program of more results than that is beyond a space


def apply(sch: Schedule, target: Target) -> None:
    """Gives every reader of a block that feeds several stored tensors a copy of its own, from the last such block on."""
    for _ in range(MOST):
        try:
            name = shared(split_host(sch.func).device, target)
        except ProgramError:
            return  # analysis says it better
        if name is None:
            return
        sch.recompute_at_consumers(sch.get_sblock(name))
