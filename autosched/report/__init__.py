"""Saying what a schedule does, what it costs, and what another one would."""

from __future__ import annotations

from autosched.report.ablation import Change, ablate, decided, placed
from autosched.report.account import Account, account
from autosched.report.compare import Difference, compare, figures, of_run
from autosched.report.pictures import Picture, convergence, timeline

__all__ = [
    "Account", "Change", "Difference", "Picture", "ablate", "account", "compare", "convergence", "decided", "figures", "of_run",
    "placed", "timeline",
]
