"""What a search reports at its end."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from autosched.measure import gap
from autosched.search.wrong import differs
from sim.markup import number, percent, table

if TYPE_CHECKING:
    from autosched.kernel import Kernel
    from autosched.schedule import Schedule
    from autosched.target import Target
    from autosched.workloads import Workload


class Interrupted(KeyboardInterrupt):
    """A search was interrupted; what it had found is in the log.

    Args:
        message: what that is and where, in one line.
    """


@dataclass(frozen=True)
class TuneReport:
    """The outcome of tuning one workload.

    Args:
        workload: its name.
        target: the target's name.
        cycles: the best schedule's cycles, or None when no trial succeeded.
        space_bound: proven lower bound over the whole space, in cycles; that of the space's arithmetic, or more where all points
            were listed and those below it measured. A best that reaches it is ``certified``.
        machine_bound: proven lower bound of every program on the machine, in cycles; ``gap`` is the distance to it.
        default_cycles: cycles of the first trial, the draft's favourite.
        point: the best point's decisions.
        explain: the same in words.
        trace: the best schedule's trace as JSON objects.
        simulated: trials that were simulated.
        from_log: trials whose cycles were in the log.
        failed: trials that failed, by kind.
        verified: whether the best schedule was executed and is bit-equal to the reference.
        seconds: wall time.
        stop: the rule that ended the search: ``certified`` (no other schedule of the space can be faster), ``gap``, ``patience``,
            ``trials``, ``time`` or ``exhausted`` (nothing new was found to try).
        engine: how candidates were chosen.
        size: number of points of the space, or None where it was not enumerated.
        history: cycles of every trial in order, None for failures.
        task: the workload itself.
        machine: the target itself.
        multiplicity: how often the workload occurs in the network it belongs to.
        damaged: lines of the log that could not be read.
        dropped: (cycles, reason) of schedules that were faster than the best and whose check failed: what is not verified is
            never the best.
        violations: (point, cycles, bound) of schedules that were faster than what was proven of them: a fault of this project.
        lack: why there was nothing to try: which memory is too small for the smallest tiles, by how much, and for what.
        layers: names of the layers of a network's file that the workload is.
    """

    workload: str
    target: str
    cycles: int | None
    space_bound: int
    machine_bound: int
    default_cycles: int | None
    point: tuple[int, ...]
    explain: str
    trace: tuple[dict[str, Any], ...]
    simulated: int
    from_log: int
    failed: dict[str, int]
    verified: bool
    seconds: float
    stop: str
    engine: str
    size: int | None
    history: tuple[int | None, ...] = field(repr=False)
    task: Workload = field(repr=False)
    machine: Target = field(repr=False)
    multiplicity: int = 1
    damaged: int = 0
    violations: tuple[tuple[tuple[int, ...], int, int], ...] = ()
    dropped: tuple[tuple[int, str], ...] = ()
    lack: str = ""
    layers: tuple[str, ...] = ()

    @property
    def gap(self) -> float | None:
        """Relative distance to the machine's bound."""
        return gap(self.cycles, self.machine_bound)

    @property
    def differs(self) -> bool:
        """Whether the bytes of some schedule were wrong, of one that was dropped: a fault of this project."""
        return differs(self.dropped)

    def as_json(self) -> dict[str, Any]:
        """The report as a JSON object; ``bound`` is the machine's."""
        data = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("task", "machine")}
        return {**data, "bound": self.machine_bound, "gap": self.gap}

    def _repr_html_(self) -> str:
        """The outcome as a table, for notebooks."""
        return table((), [
            ("workload", self.workload), ("target", self.target), ("cycles", number(self.cycles)),
            ("machine bound", number(self.machine_bound)), ("gap", percent(self.gap)),
            ("first draft", number(self.default_cycles)),
            ("trials", f"{self.simulated} simulated, {self.from_log} from the log, {sum(self.failed.values())} failed"),
            ("stopped by", self.stop), ("bytes compared", "equal" if self.verified else "no"), ("schedule", self.explain)])

    def schedule(self) -> Schedule:
        """The best schedule, applied to the program."""
        from autosched.schedule import Schedule, Trace

        sch = Schedule(self.task.func)
        Trace.from_json(list(self.trace)).apply_to_schedule(sch)
        return sch

    def kernel(self) -> Kernel:
        """The best schedule as a callable."""
        from autosched.kernel import build

        return build(self.task, self.machine, self.trace)


@dataclass(frozen=True)
class NetworkReport:
    """The outcome of tuning all layers of a network.

    Args:
        network: its name.
        tasks: one report per distinct layer, with multiplicities.
        whole: whether the network is these layers, each once; otherwise some stand for several of the others, and a sum of
            them all is nothing's.
    """

    network: str
    tasks: tuple[TuneReport, ...]
    whole: bool = True

    @property
    def cycles(self) -> int | None:
        """Weighted sum of the layers' best cycles, or None while one has none, or where that says nothing."""
        if not self.whole or any(t.cycles is None for t in self.tasks):
            return None
        return sum((t.cycles or 0) * t.multiplicity for t in self.tasks)

    @property
    def space_bound(self) -> int:
        """Weighted sum of the bounds of the layers' spaces, in cycles."""
        return sum(t.space_bound * t.multiplicity for t in self.tasks)

    @property
    def machine_bound(self) -> int:
        """Weighted sum of the machine's bounds of the layers, in cycles."""
        return sum(t.machine_bound * t.multiplicity for t in self.tasks)

    @property
    def gap(self) -> float | None:
        """Relative distance to the machine's bound."""
        return gap(self.cycles, self.machine_bound)

    @property
    def seconds(self) -> float:
        """Wall time of all tasks together."""
        return sum(t.seconds for t in self.tasks)

    def _repr_html_(self) -> str:
        """The layers as a table, for notebooks."""
        rows = [(f"{t.workload} x{t.multiplicity}", number(t.cycles), number(t.machine_bound), percent(t.gap), t.stop)
                for t in self.tasks]
        if self.whole:
            rows.append((self.network, number(self.cycles), number(self.machine_bound), percent(self.gap), ""))
        return table(["workload", "cycles", "machine bound", "gap", "stopped by"], rows, {1, 2, 3})

    def as_json(self) -> dict[str, Any]:
        """The report as a JSON object; ``bound`` is the machine's."""
        return {"network": self.network, "cycles": self.cycles, "space_bound": self.space_bound,
                "machine_bound": self.machine_bound, "bound": self.machine_bound, "gap": self.gap, "seconds": self.seconds,
                "tasks": [t.as_json() for t in self.tasks]}
