"""Charts as SVG text, by matplotlib: no script, no network. Lines and text take the page's colour, for light and dark pages."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.errors import NotSupportedError
from autosched.report.ablation import Change
from sim.markup import number
from sim.stats import FIRST_WAIT, UNITS, Activity

INK = "#123456"  # stands for the page's own text colour until the SVG is written
COLOURS = ("#3b75af", "#d1641c", "#3d923a", "#a03d92", "#8c6d31", "#7f7f7f")
STYLES = ("-", "--", "-.", ":")  # runs and marks differ without colour, too
MARKS = ("o", "s", "^", "v", "D", "x")
COLUMNS = 240  # of a Gantt chart: a column shows what a unit did most of its time


@dataclass(frozen=True)
class Dot:
    """A schedule in the roofline.

    Args:
        name: how it is called.
        intensity: multiply-accumulates per byte that crosses the bus.
        speed: multiply-accumulates per cycle.
    """

    name: str
    intensity: float
    speed: float


@dataclass(frozen=True)
class Course:
    """The trials of a run, in order.

    Args:
        name: how the run is called.
        cycles: of each trial; None where it failed.
        seconds: when each was known, from the run's begin; empty where nobody wrote it.
    """

    name: str
    cycles: Sequence[int | None]
    seconds: Sequence[float] = ()


def convergence(runs: Sequence[Course], bounds: Sequence[tuple[str, int]]) -> str:
    """The best cycles over the trials of every run, and below over its seconds where they are known, with bounds.

    Args:
        runs: the runs; dots are their trials.
        bounds: (name, cycles).
    """
    timed = [r for r in runs if len(r.seconds) == len(r.cycles) > 0]
    figure, all_axes = _figures(2 if timed else 1, 7, 5.6 if timed else 3.2)
    for axes, shown, label in zip(all_axes, (runs, timed), ("trial", "seconds")):
        for run in shown:
            k = runs.index(run)
            at = np.arange(1, len(run.cycles) + 1) if label == "trial" else np.asarray(run.seconds)
            best = np.minimum.accumulate([np.inf if c is None else float(c) for c in run.cycles])
            style = {"color": COLOURS[k % len(COLOURS)], "ls": STYLES[k % len(STYLES)]}
            axes.step(at, best, where="post", label=run.name, **style)
            axes.plot(at, [np.nan if c is None else c for c in run.cycles], MARKS[k % len(MARKS)], ms=3,
                      color=style["color"], alpha=0.5)
        for k, (name, cycles) in enumerate(bounds):
            axes.axhline(cycles, color=INK, lw=1, ls=("--", ":")[k % 2], label=name)
        finite = [c for r in runs for c in r.cycles if c is not None]
        if finite:
            low = min([*finite, *(c for _, c in bounds)])
            # Bad trials may be a hundred times slower; what matters is close to the bound.
            axes.set_ylim(low * 0.98, max(float(np.quantile(finite, 0.9)), low) * 1.02)
        axes.set_xlabel(label)
        if label == "trial":
            axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylabel("cycles")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}".replace(",", " "))
    _legend(all_axes[0])
    return _svg(figure)


def roofline(dots: Sequence[Dot], peak: float, bandwidth: float) -> str:
    """Speed over intensity, under the two roofs of the machine.

    Args:
        dots: the schedules; the first two are named in the chart.
        peak: multiply-accumulates per cycle of the GEMM unit.
        bandwidth: bytes per cycle of the bus.
    """
    figure, axes = _figure(7, 3.2)
    some = [d for d in dots if d.speed > 0]
    high = max([d.intensity for d in some] + [2 * peak / bandwidth])
    low = min([d.intensity for d in some] + [peak / bandwidth / 4])
    x = np.geomspace(low / 1.5, high * 1.5, 100)
    roof = f"roof: {peak:g} per cycle, {bandwidth:g} bytes per cycle"
    axes.plot(x, np.minimum(peak, bandwidth * x), color=INK, lw=1, label=roof)
    if some[2:]:
        axes.plot([d.intensity for d in some[2:]], [d.speed for d in some[2:]], ".", color=COLOURS[5], alpha=0.6, label="trials")
    for k, dot in enumerate(some[:2]):
        axes.plot([dot.intensity], [dot.speed], ("*", "s")[k], ms=(9, 7)[k], zorder=4 - k, color=COLOURS[k],
                  label=dot.name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("multiply-accumulates per byte")
    axes.set_ylabel("multiply-accumulates per cycle")
    _legend(axes)
    return _svg(figure)


def gantt(runs: Sequence[tuple[str, Activity, int]]) -> str:
    """What the units did, one schedule above the other: full for work, hatched for waiting, empty for idle.

    Args:
        runs: (name, activity, cycles).
    """
    figure, all_axes = _figures(len(runs), 7, 1.5 * len(runs))
    longest = max(cycles for _, _, cycles in runs)
    for axes, (name, spans, cycles) in zip(all_axes, runs):
        width = longest / COLUMNS
        for row, unit in enumerate(UNITS):
            mine = spans.unit == row
            for working, style in ((True, {"color": COLOURS[row], "lw": 0}),
                                   (False, {"facecolor": "none", "edgecolor": COLOURS[row], "hatch": "////", "lw": 0})):
                kind = mine & ((spans.kind < FIRST_WAIT) == working)
                share = _shares(spans.begin[kind], spans.end[kind], width)
                bars = _merged(share > 0.5)
                axes.broken_barh([(a * width, (b - a) * width) for a, b in bars], (len(UNITS) - row - 0.9, 0.8), **style)
            axes.text(-0.01, (len(UNITS) - row - 0.5) / len(UNITS), unit, transform=axes.transAxes, ha="right", va="center",
                      color=INK, fontsize=8)
        axes.set_xlim(0, longest)
        axes.set_ylim(0, len(UNITS))
        axes.set_yticks([])
        # A dollar would begin a formula.
        named = name.replace("$", r"\$")
        axes.set_title(f"{named}: {number(cycles)} cycles", loc="left", fontsize=9, color=INK)
    all_axes[-1].set_xlabel("cycle")
    return _svg(figure)


def importance(changes: Sequence[Change]) -> str:
    """What every decision costs when it alone is changed, the dearest first; the figures stand beside the bars."""
    shown = [c for c in changes if c.difference is not None][::-1]
    figure, axes = _figure(7, 0.6 + 0.28 * len(shown))
    values = [c.difference or 0 for c in shown]
    axes.barh(range(len(shown)), values, color=COLOURS[0])
    axes.set_yticks(range(len(shown)), [c.decision for c in shown])
    for k, value in enumerate(values):
        axes.annotate(f" {value:+,}".replace(",", " "), (max(value, 0), k), va="center", fontsize=8, color=INK)
    axes.set_xlabel("cycles more, when it alone is changed")
    axes.margins(x=0.18)
    return _svg(figure)


def _shares(begin: Any, end: Any, width: float) -> Any:
    """The share of every column that spans cover."""
    edges = np.arange(COLUMNS + 1) * width
    covered = np.zeros(COLUMNS)
    for a, b in zip(begin, end):
        first, last = int(a / width), min(COLUMNS - 1, int((b - 1e-9) / width))
        for k in range(first, last + 1):
            covered[k] += max(0.0, min(b, edges[k + 1]) - max(a, edges[k]))
    return covered / width


def _merged(on: Any) -> list[tuple[int, int]]:
    """The runs of True as (first, one past the last)."""
    edges = np.flatnonzero(np.diff(np.r_[0, on.astype(int), 0]))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2])]


def _figure(width: float, height: float) -> tuple[Any, Any]:
    figure, axes = _figures(1, width, height)
    return figure, axes[0]


def _figures(n: int, width: float, height: float) -> tuple[Any, list[Any]]:
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NotSupportedError("charts need matplotlib; run: pip install 'autosched[plot]'") from error
    with rc_context({"text.color": INK, "axes.edgecolor": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
                     "font.size": 9}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = [figure.add_subplot(n, 1, k + 1) for k in range(n)]
    for one in axes:
        one.patch.set_alpha(0)
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _legend(axes: Any) -> None:
    legend = axes.legend(frameon=False, fontsize=8)
    for text in legend.get_texts():
        text.set_color(INK)


def _svg(figure: Any) -> str:
    """The figure as an SVG element whose ink is the page's; without dates and random names: equal data give equal text."""
    from matplotlib import rc_context

    out = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "autosched"}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg"):].replace(INK, "currentColor")
    return re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
