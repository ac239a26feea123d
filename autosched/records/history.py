"""The runs of a log: what each was, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.measure import gap
from autosched.records.log import Log
from autosched.records.record import Run

_Id = tuple[str, str, str, str]  # of a run, with its task


@dataclass(frozen=True)
class Done:
    """One writer's run.

    Args:
        run: what was run.
        trials: trials that it simulated; what it took from the log is not among them.
        failed: how many of them failed.
        cycles: the lowest it knew, or None.
        bound: the machine's lower bound, or the space's where that is all that is known; in cycles, or None.
        verified: whether the bytes of its best schedule were compared.
    """

    run: Run
    trials: int
    failed: int
    cycles: int | None
    bound: int | None
    verified: bool

    @property
    def gap(self) -> float | None:
        """Relative distance of the best to the bound."""
        return gap(self.cycles, self.bound or 0)


def history(log: Log) -> list[Done]:
    """The runs of a log, in the order of their ids, which is that of time on one machine.

    What bears one id and is of several tasks (schedules that ship, those of a log of format 1) is a run for each.
    """
    runs: dict[_Id, Run] = {}
    trials: dict[_Id, list[int | None]] = {}
    bests: dict[_Id, list[tuple[int, bool, int]]] = {}
    for trial in log.all_trials():
        runs.setdefault(_id(trial.of), trial.of)
        trials.setdefault(_id(trial.of), []).append(trial.cycles)
    for best in log.all_bests():
        runs.setdefault(_id(best.of), best.of)
        bests.setdefault(_id(best.of), []).append((best.cycles, not best.verified, best.bound))
    found = []
    for ident in sorted(runs, key=lambda i: (i[0], runs[i].name, runs[i].target, i)):
        measured = trials.get(ident, [])
        known = bests.get(ident, [])
        cycles = min([c for c in measured if c is not None] + [c for c, _, _ in known], default=None)
        bound = min((b for _, _, b in known), default=runs[ident].machine_bound)
        verified = any(c == cycles and not unchecked for c, unchecked, _ in known)
        found.append(Done(runs[ident], len(measured), measured.count(None), cycles, bound, verified))
    return found


def _id(run: Run) -> _Id:
    return run.run, run.workload, run.hardware, run.version
