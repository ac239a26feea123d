"""Saying what a schedule does, what it costs, and what another one would."""

from __future__ import annotations

from autosched.report.ablation import Change, ablate
from autosched.report.account import Account, account
from autosched.report.compare import Difference, compare, figures, of_run

__all__ = ["Account", "Change", "Difference", "ablate", "account", "compare", "figures", "of_run"]
