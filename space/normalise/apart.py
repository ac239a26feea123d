"""What several stored tensors need and no nest makes together is computed for each of them."""

from __future__ import annotations

from autosched.errors import ProgramError
from autosched.ir.host import split_host
from autosched.schedule import Schedule
from autosched.target import Target
from space.nest import shared

MOST = 16  # copies of blocks; a program of more results than that is beyond a space


def apply(sch: Schedule, target: Target) -> None:
    """Gives every stored tensor a copy of its own of a block that several of them need, from the last such block on."""
    for _ in range(MOST):
        try:
            found = shared(split_host(sch.func).device, target)
        except ProgramError:
            return  # analysis says it better
        if found is None:
            return
        name, groups = found
        if all(len(group) == 1 for group in groups):
            sch.recompute_at_consumers(sch.get_sblock(name))
            continue
        for group in groups[1:]:
            sch.recompute_at_consumers(sch.get_sblock(name), [sch.get_sblock(reader) for reader in group])
