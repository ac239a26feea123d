"""Charts for notebooks: what the units did, and how a search went. They need matplotlib."""

from __future__ import annotations

from dataclasses import dataclass, field

from autosched.kernel import Kernel
from autosched.report import charts
from autosched.search.result import TuneReport
from sim import timing
from sim.stats import activity


@dataclass(frozen=True)
class Picture:
    """A chart as SVG text, which notebooks show.

    Args:
        svg: the chart.
    """

    svg: str = field(repr=False)

    def _repr_html_(self) -> str:
        return f'<div style="max-width:60em">{self.svg}</div>'


def timeline(*kernels: Kernel, names: tuple[str, ...] = ()) -> Picture:
    """What the units did under schedules, on one scale: full bars work, hatched ones wait, empty is idle.

    Args:
        kernels: the schedules, at least one.
        names: what they are called; their workloads' names where none are given.

    Raises:
        NotSupportedError: matplotlib is not installed.
    """
    shown = []
    for k, kernel in enumerate(kernels):
        lowered = kernel.lowered
        ran = timing.simulate(lowered.table, lowered.config, lowered.insn_address, semantics=kernel.target.mode)
        shown.append((names[k] if k < len(names) else kernel.workload.name, activity(ran), ran.cycles))
    return Picture(charts.gantt(shown))


def convergence(*reports: TuneReport) -> Picture:
    """The best cycles over the trials of runs, with the machine's bound.

    Args:
        reports: runs of one workload, at least one.

    Raises:
        NotSupportedError: matplotlib is not installed.
    """
    runs = [charts.Course(f"run {k}" if len(reports) > 1 else "run", r.history) for k, r in enumerate(reports)]
    return Picture(charts.convergence(runs, [("machine bound", reports[0].machine_bound)]))
