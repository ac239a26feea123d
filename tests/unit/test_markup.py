"""What notebooks show: well-formed HTML with the figures of the object, and text that is never a tag."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from autosched.kernel import Kernel, build
from autosched.report import timeline
from autosched.schedule import Schedule
from autosched.search.result import NetworkReport, TuneReport
from autosched.target import get_target
from autosched.workloads import workload
from sim import timing
from sim.markup import listing, number, percent, table
from space import Space

NAME = "dense:m=2,k=32,n=64"
TARGET = get_target("vta-de10")


class Words(HTMLParser):
    """The text of HTML whose tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    task = workload(NAME)
    space = Space(task.func, TARGET)
    return build(task, TARGET, space.trace(space.point()))


def report(kernel: Kernel, name: str = NAME) -> TuneReport:
    return TuneReport(name, "vta-de10", 1234, 1000, 1000, 2345, (0,), "tile n=1 | <b>", (), 3, 4, {"lowering": 1}, True, 1.0,
                      "trials", "scan", None, (1,), kernel.workload, TARGET, 2)


SHOWN: list[tuple[Callable[[Kernel], Any], tuple[str, ...]]] = [
    (lambda k: k, (NAME, "weight", "int8", "cycles")),
    (lambda k: k.func, ("T.prim_func", 'T.Buffer((2, 2, 1, 16), "int8")')),
    (lambda k: k.schedule, ("T.prim_func", "vta.gemm")),
    (lambda k: Space(k.func, TARGET), ("tile_n", "1, 2, 3, 4", "No schedule is faster than")),
    (report, ("1 234", "23.40 %", "tile n=1 | <b>", "3 simulated, 4 from the log, 1 failed", "equal")),
    (lambda k: NetworkReport("<net>", (report(k), report(k, "other"))), ("<net>", "other x2", number(4 * 1234))),
    (lambda k: timing.simulate(k.lowered.table, k.lowered.config, k.lowered.insn_address), ("COMPUTE |", "wait token LOAD")),
]


@pytest.mark.parametrize(("make", "said"), SHOWN)
def test_what_a_notebook_shows(make: Callable[[Kernel], Any], said: tuple[str, ...], kernel: Kernel) -> None:
    words = Words(make(kernel)._repr_html_()).words
    assert all(word in words for word in said), words


def test_a_decision_with_one_value_is_none() -> None:
    space = Space(workload("t1").func, TARGET)
    shown = space._repr_html_()
    assert {n: f"<td>{n}</td>" in shown for n in space.names} == {n: len(c) > 1 for n, c in zip(space.names, space.choices)}
    assert "<td>tile_m</td>" not in shown and "<td>tile_n</td>" in shown


def test_a_chart_for_a_notebook(kernel: Kernel) -> None:
    pytest.importorskip("matplotlib")
    shown = timeline(kernel, kernel, names=("<one> $x$",))._repr_html_()
    words = Words(shown).words
    assert "<one> $x$: " in words and f"{NAME}: " in words and shown.count("<svg") == 1 and "<one" not in shown


def test_text_is_never_a_tag() -> None:
    made = table(["<i>", "n"], [["<script>&", 1], ['"', 22]], {1}) + listing("a < b")
    assert Words(made).words == '<i>n<script>&1"22a < b' and made.count('class=n') == 3
    assert (number(-1234567), number(None), percent(0.12345), percent(None)) == ("-1 234 567", "-", "12.35 %", "-")


def test_a_program_of_a_user_is_shown() -> None:
    func = workload(NAME).func
    assert Words(Schedule(func)._repr_html_()).words == Words(func._repr_html_()).words == func.script()
