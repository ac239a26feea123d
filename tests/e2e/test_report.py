"""The HTML report: one file, whole without a network, with the figures of the log; opened in a browser where there is one."""

from __future__ import annotations

import re
from contextlib import nullcontext
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from brief import brief_breeding

from autosched.cli import main
from autosched.cli.exit_codes import Exit
from autosched.kernel import build
from autosched.records import Known, Log, best_or_fail
from autosched.records.line import open_line, seal
from autosched.report import ablate, ablation, account
from autosched.search import TuneReport, tune, worker
from autosched.target import get_target
from autosched.workloads import workload
from space import Space

NAME = "dense:m=2,k=64,n=96"
OTHER = "dense:m=1,k=32,n=64"
pytest.importorskip("matplotlib")
from autosched.report import charts, page  # noqa: E402


class Page(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    # What the first run simulated, the second takes from the log.
    for seed, trials in ((0, 12), (1, 40)):
        # Of the second run the best and what is around it is looked at.
        with brief_breeding() if seed == 0 else nullcontext():
            report = tune(NAME, trials=trials, jobs=1, seed=seed, cold=True, log=directory)
        assert isinstance(report, TuneReport) and report.simulated > 0
    return directory


@pytest.fixture(scope="module")
def text(log: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["report", NAME, "--log", str(log), "-o", str(path)]) == Exit.OK
    return path.read_text()


def test_the_page_needs_nothing_from_anywhere(text: str) -> None:
    page = Page(text)
    loads = {"script", "link", "img", "iframe", "object", "embed", "audio", "video", "source"}
    assert not [tag for tag, _ in page.tags if tag in loads]
    # Names of XML dialects are no addresses that a browser would ask.
    for tag, attrs in page.tags:
        for name, value in attrs.items():
            if name in ("href", "src", "xlink:href", "data", "action"):
                assert value is not None and value.startswith("#"), (tag, name, value)
    assert "url(http" not in text and "@import" not in text


def test_the_page_shows_the_log(text: str, log: Path) -> None:
    page = Page(text)
    words = " ".join(page.words)
    known = Log.open(log)
    trials = sorted(t.cycles for t in known.all_trials() if t.cycles is not None)
    assert f"{trials[0]:,}".replace(",", " ") in words
    for run in {t.run for t in known.all_trials()}:
        assert run in words
    assert "seed 0" in words and "seed 1" in words and "numpy" in words
    assert sum(tag == "svg" for tag, _ in page.tags) == 4
    rows = re.findall(r"<h3>The best (\d+) trials</h3>.*?<tbody>(.*?)</tbody>", text, re.S)
    assert len(rows) == 1 and rows[0][0] == "10"
    shown = [int(n.replace(" ", "")) for n in re.findall(r"<tr><td class=n>([\d ]+)</td>", rows[0][1])]
    assert shown == trials[:10]
    # Legends, axes and units say in words what colours show.
    for word in ("machine bound", "trial", "FETCH", "LOAD", "COMPUTE", "STORE", "first draft", "best", "roof", "seconds"):
        assert word in words, word


def test_the_same_log_gives_the_same_page(text: str, log: Path, tmp_path: Path) -> None:
    assert main(["report", NAME, "--log", str(log), "-o", str(tmp_path / "again.html")]) == Exit.OK
    assert (tmp_path / "again.html").read_text() == text


def test_every_trial_says_what_it_moved_and_the_roofline_takes_it(
    text: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of many layers does not simulate again what a run has simulated; of an older log it simulates some, and says so."""
    task, target = workload(NAME), get_target("vta-de10")
    space = Space(task.func, target)
    held = list(Log.open(log).all_trials())
    assert len(held) > page.AGAIN
    for t in (held[0], held[-1]):
        kernel = build(task, target, space.trace(np.array(t.point, dtype=np.int32)))
        ran = account(kernel).stats
        assert (t.moved, t.macs) == (sum(ran.bytes_read.values()) + ran.bytes_written, ran.macs)
    drawn: list[list[tuple[float, float]]] = []
    roofline = charts.roofline
    monkeypatch.setattr(charts, "roofline", lambda dots, *roofs: (
        drawn.append([(d.intensity, d.speed) for d in dots]), roofline(dots, *roofs))[1])
    asked: list[int] = []
    measure = worker.measure
    monkeypatch.setattr(worker, "measure", lambda candidate: (asked.append(1), measure(candidate))[1])
    known = Known.open(target, log)
    page.page("p", target, [(task, 1)], known, jobs=1)
    only_decisions = len(asked)
    assert len(drawn[0]) == 2 + sum(t.cycles is not None for t in held) and "trials are shown" not in text
    for path in sorted(log.glob("*.jsonl")):
        lines = [open_line(raw) for raw in path.read_bytes().splitlines()]
        kept = [{k: v for k, v in x.items() if k not in ("moved", "macs", "crc", "kind", "format")} for x in lines]
        (tmp_path / path.name).write_text("".join(seal(x["kind"], body) for x, body in zip(lines, kept)))
    asked.clear()
    older = page.page("p", target, [(task, 1)], Known.open(target, tmp_path), jobs=1)
    assert len(asked) == only_decisions + page.AGAIN
    assert f"{page.AGAIN} of the {len(held)} trials are shown" in older
    assert set(drawn[1]) <= set(drawn[0]) and len(drawn[1]) == 2 + page.AGAIN


@pytest.fixture(scope="module")
def both(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a log of two workloads."""
    tune(OTHER, trials=4, jobs=1, log=log, sampler="random")
    path = tmp_path_factory.mktemp("both") / "report.html"
    assert main(["report", str(log), "-o", str(path), "--jobs", "1"]) == Exit.OK
    return path


def test_the_page_is_the_same_whatever_the_jobs(both: Path, log: Path, tmp_path: Path) -> None:
    assert main(["report", str(log), "-o", str(tmp_path / "p.html"), "--jobs", "2"]) == Exit.OK
    assert (tmp_path / "p.html").read_text() == both.read_text()


def test_what_the_log_knows_of_a_decision_is_not_simulated(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, target = workload(NAME), get_target("vta-de10")
    record, _ = best_or_fail(task, target, log)
    asked: list[int] = []
    measure = ablation.measure
    monkeypatch.setattr(ablation, "measure", lambda candidate: (asked.append(1), measure(candidate))[1])
    plain = {c.decision: c for c in ablate(task, target, record.point, record.cycles, 1)}
    alone = len(asked)
    logged = {t.point: t.cycles for t in Log.open(log).all_trials() if t.cycles is not None}
    more = {c.decision: c for c in ablate(task, target, record.point, record.cycles, 1, logged)}
    assert len(asked) < 2 * alone and more.keys() == plain.keys()
    assert all(more[d].tried >= c.tried and (more[d].cycles or 0) <= (c.cycles or 0) for d, c in plain.items() if c.cycles)
    assert any(c.tried > plain[d].tried for d, c in more.items()), "what the log knows comes on top"


def test_names_are_text_and_never_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (Path(__file__).resolve().parents[2] / "examples" / "kernels.py").read_text()
    folder = tmp_path / "<b>"
    folder.mkdir()
    (folder / "k&.py").write_text(source.replace("256", "16"))
    monkeypatch.chdir(tmp_path)
    name = "<b>/k&.py:relu_add"
    tune(name, trials=2, jobs=1, log="log", sampler="random")
    for what in (name, "log"):
        assert main(["report", what, "--log", "log", "-o", "p.html"]) == Exit.OK
        page = (tmp_path / "p.html").read_text()
        assert "<b>" not in page and "&lt;b&gt;/k&amp;.py:relu_add" in page


def test_what_is_not_logged_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["report", NAME, "--log", str(tmp_path / "empty"), "-o", str(tmp_path / "p.html")]) == Exit.NO_SCHEDULE
    assert capsys.readouterr().err.endswith(f"run: autosched tune {NAME} --log {tmp_path / 'empty'}\n")
    assert not (tmp_path / "p.html").exists()


def test_a_person_clicks_through_it(both: Path, tmp_path: Path, chromium: ModuleType) -> None:
    from matplotlib.image import imread

    with chromium.browser(tmp_path / "user") as tab:
        tab.screen(1200, 900, dark=False)
        tab.open(both)
        links = tab.value("[...document.querySelectorAll('nav a')].map(a => a.textContent)")
        assert sorted(links) == sorted([NAME, OTHER])
        seen = set()
        for k, name in enumerate(links, 1):
            tab.click(f"nav a:nth-of-type({k})")
            seen.add(tab.value("location.hash"))
            top, heading = tab.value("(s => [s.getBoundingClientRect().top, s.querySelector('h2').textContent])"
                                     "(document.querySelector(location.hash))")
            # The last sections of a page cannot come to the top.
            end = tab.value("Math.abs(scrollY + innerHeight - document.documentElement.scrollHeight) < 2")
            assert heading == name and (abs(top) < 2 or end)
        assert len(seen) == 2
        for width in (240, 390, 1200):
            for dark in (False, True):
                tab.screen(width, 900, dark)
                # What is wider than the screen scrolls by itself; the page never does.
                assert tab.value("document.documentElement.scrollWidth <= innerWidth")
                smallest = tab.value("Math.min(...[...document.querySelectorAll('text, p, td, figcaption')]"
                                     ".filter(e => e.textContent.trim()).map(e => e.getBoundingClientRect().height))")
                assert smallest > 8, "letters too small to be read"
                tab.shot(tmp_path / "shot.png")
                light = imread(tmp_path / "shot.png")[..., :3].mean()
                assert light < 0.35 if dark else light > 0.8, (dark, light)
        assert tab.complaints == []
        assert set(tab.asked) == {both.as_uri()}


def test_the_browser_hears_a_complaint(tmp_path: Path, chromium: ModuleType) -> None:
    (tmp_path / "bad.html").write_text('<img src="missing.png"><script>console.error("no")</script>')
    with chromium.browser(tmp_path / "user") as tab:
        tab.open(tmp_path / "bad.html")
        assert any("no" in said for said in tab.complaints) and len(tab.complaints) >= 2 and len(tab.asked) == 2
