"""What an analysis says when it says no."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.errors import ScheduleCode
from autosched.ir.expr import Var
from autosched.ir.stmt import Ident, Stmt


class Refusal(Exception):
    """A primitive's analysis says no; the primitive turns it into a ``ScheduleError`` with an excerpt.

    Args:
        reason: why, in one line.
        marks: statements, idents or loop variables at fault.
        hint: what to do instead.
        code: what kind of refusal it is.
    """

    def __init__(self, reason: str, marks: Sequence[Stmt | Ident | Var] = (), hint: str = "", *, code: ScheduleCode) -> None:
        super().__init__(reason, marks, hint)
        self.code: ScheduleCode = code
        self.reason = reason
        self.marks = list(marks)
        self.hint = hint
