"""Epilogue: what is added after a shift moves in front of it, into the initial value of the sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from space.rule import StructuralRule

if TYPE_CHECKING:
    from autosched.schedule import Schedule
    from autosched.target import Target


class Epilogue(StructuralRule):
    """``fold_epilogue`` wherever the primitive takes it, and behind it ``raise_epilogue`` where a machine has no moves."""

    name = "epilogue"

    def apply(self, sch: Schedule, target: Target) -> Sequence[tuple[str, Schedule]]:
        """Every block that can be folded is; elsewhere than under ``chisel`` every one that can be raised as well."""
        folded = _everywhere(sch, "fold_epilogue")
        if folded is None:
            return []
        found = [("init by copy" if target.semantics == "chisel" else "addend in front", folded)]
        if target.semantics != "chisel":
            raised = _everywhere(folded, "raise_epilogue")
            if raised is not None:
                found.append(("init by maximum", raised))
        return found


def _everywhere(sch: Schedule, primitive: str) -> Schedule | None:
    """A copy with a primitive on every block that it takes; None where there is none."""
    other = sch.copy()
    done = False
    for block in other.get_child_blocks(other.get_sblock("root")):
        try:
            getattr(other, primitive)(block)
            done = True
        except ScheduleError:
            continue  # nothing to do here, or ranges that do not prove it
    return other if done else None
