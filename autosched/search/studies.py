"""The trials of a log as studies of Optuna, for its dashboard and its importances. Nothing here chooses a point."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import optuna
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy.pool import StaticPool

from autosched.errors import AutoschedError, RecordError
from autosched.records import Known, Log, TrialRecord
from autosched.target import Target
from space import VERSION, Space

JOURNAL = ".journal"
SUFFIXES = (JOURNAL, ".db", ".sqlite", ".sqlite3")
Task = tuple[str, str, str, int]  # workload, hardware, version of lowering and simulator, version of the space


def export(
    log: Log, path: Path, targets: list[Target], most: int | None = None, only: str | None = None
) -> list[tuple[str, int, str]]:
    """Writes a study per workload, target and version into a file that Optuna opens: its journal, or an SQLite database.

    Decisions stand under their names where the space of this version gave the points; of older ones only the cycles are known.
    What is the same in all trials of a study is no parameter.

    Args:
        log: the log.
        path: the file; it must not exist. With the suffix ``.journal`` it is a journal, which takes a hundredth of the time.
        targets: the machines whose workloads are looked up to name the decisions.
        most: trials of a study, the fastest; None for all.
        only: key of the machine whose trials are written; None for all machines.

    Returns:
        Names of the studies, their numbers of trials, and why decisions have no names in them, or empty.

    Raises:
        RecordError: the file exists, or cannot be written.
    """
    if path.exists():
        raise RecordError(f"{path} exists already; studies are written into a new file")
    known = Known((log,))
    by_task: dict[Task, dict[tuple[int, ...], TrialRecord]] = {}
    for t in log.all_trials():
        if t.point and t.status != "environment" and only in (None, t.hardware):
            by_task.setdefault((t.workload, t.hardware, t.version, t.space), {}).setdefault(t.point, t)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        storage = _storage(unfinished, path.suffix == JOURNAL)
        done: list[tuple[str, int, str]] = []
        for task, found in by_task.items():
            trials = sorted(found.values(), key=lambda t: (t.cycles is None, t.cycles or 0, t.trial))[:most]
            name = _name(task, trials[0], {n for n, *_ in done})
            study = optuna.create_study(storage=storage, study_name=name, direction="minimize")
            names, why = _names(known, task, trials[0], targets)
            first = trials[0].of
            for key, value in {"workload": first.name, "target": first.target, "machine bound": first.machine_bound,
                               "version": task[2], "space": task[3]}.items():
                study.set_user_attr(key, value)
            study.add_trials(list(_trials(sorted(trials, key=lambda t: (t.run, t.trial)), names)))
            done.append((name, len(trials), why))
        if isinstance(storage, RDBStorage):
            storage.remove_session()
            connection = storage.engine.raw_connection()
            connection.execute("VACUUM INTO ?", (str(unfinished),))
            connection.close()
        os.replace(unfinished, path)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror}") from error
    except sqlite3.Error as error:
        raise RecordError(f"cannot write {path}: {error}") from error
    finally:
        optuna.logging.set_verbosity(verbosity)
        unfinished.unlink(missing_ok=True)
    return done


def _storage(path: Path, journal: bool) -> JournalStorage | RDBStorage:
    """Where studies are built; a database in memory: on a disk, every one of a trial's dozens of transactions would wait."""
    if not journal:
        return RDBStorage("sqlite://", engine_kwargs={"poolclass": StaticPool})
    return JournalStorage(JournalFileBackend(str(path), lock_obj=JournalFileOpenLock(str(path))))


def _name(task: Task, first: TrialRecord, taken: set[str]) -> str:
    name = f"{first.name} on {first.target}"
    return name if name not in taken else f"{name}, version {task[2]}, space {task[3]}, {task[0][:8]}"


def _names(known: Known, task: Task, first: TrialRecord, targets: list[Target]) -> tuple[tuple[str, ...], str]:
    """What the columns of the points are called, and why that is not known where this version cannot tell."""
    target = next((t for t in targets if t.key() == task[1]), None)
    if target is None:
        return (), f"another machine than {first.target} is here; name its file with --target"
    if task[3] != VERSION:
        return (), f"points of version {task[3]} of the space; this one is {VERSION}"
    workload = known.workload(first.name, task[0], target)
    try:
        return ((), "the program is not in the log") if workload is None else (Space(workload.func, target).names, "")
    except AutoschedError as error:
        return (), str(error)


def _trials(trials: list[TrialRecord], names: tuple[str, ...]) -> Iterator[FrozenTrial]:
    widths = {len(t.point) for t in trials}
    shown = range(len(names)) if widths == {len(names)} else range(0)
    values = {k: [t.point[k] for t in trials] for k in shown}
    varied: dict[int, BaseDistribution] = {k: IntDistribution(min(v), max(v)) for k, v in values.items() if len(set(v)) > 1}
    for t in trials:
        attributes = {"run": t.run, "trial": t.trial, "seed": t.seed, "bound": t.bound, "draft": t.draft, "status": t.status,
                      "point": " ".join(map(str, t.point))}
        if t.reason:
            attributes["reason"] = t.reason
        yield create_trial(
            state=TrialState.FAIL if t.cycles is None else TrialState.COMPLETE,
            value=None if t.cycles is None else float(t.cycles), user_attrs=attributes,
            params={names[k]: t.point[k] for k in varied}, distributions={names[k]: d for k, d in varied.items()},
        )
