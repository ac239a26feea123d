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
    """``fold_epilogue`` wherever the primitive takes it: the initial value costs an operation, the addition goes away."""

    name = "epilogue"

    def apply(self, sch: Schedule, target: Target) -> Sequence[tuple[str, Schedule]]:
        """One alternative: every block that can be folded is."""
        folded = sch.copy()
        done = False
        for block in folded.get_child_blocks(folded.get_sblock("root")):
            try:
                folded.fold_epilogue(block)
                done = True
            except ScheduleError:
                continue  # nothing to fold here, or ranges that do not prove it
        return [("init by copy", folded)] if done else []
