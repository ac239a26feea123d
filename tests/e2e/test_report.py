"""The HTML report: one file, whole without a network, with the figures of the log; opened in a browser where there is one."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

from autosched.cli import main
from autosched.cli.exit_codes import Exit
from autosched.records import Log
from autosched.search import TuneReport, tune

NAME = "dense:m=2,k=64,n=96"
OTHER = "dense:m=1,k=32,n=64"
pytest.importorskip("matplotlib")


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
    assert main(["report", NAME, "--log", str(tmp_path / "empty"), "-o", str(tmp_path / "p.html")]) == Exit.BAD_INPUT
    assert capsys.readouterr().err.endswith(f"run: autosched tune {NAME} --log {tmp_path / 'empty'}\n")
    assert not (tmp_path / "p.html").exists()


def test_a_person_clicks_through_it(log: Path, tmp_path: Path, chromium: ModuleType) -> None:
    from matplotlib.image import imread

    tune(OTHER, trials=4, jobs=1, log=log, sampler="random")
    assert main(["report", str(log), "-o", str(tmp_path / "report.html")]) == Exit.OK
    with chromium.browser(tmp_path / "user") as tab:
        tab.screen(1200, 900, dark=False)
        tab.open(tmp_path / "report.html")
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
        assert set(tab.asked) == {(tmp_path / "report.html").as_uri()}


def test_the_browser_hears_a_complaint(tmp_path: Path, chromium: ModuleType) -> None:
    (tmp_path / "bad.html").write_text('<img src="missing.png"><script>console.error("no")</script>')
    with chromium.browser(tmp_path / "user") as tab:
        tab.open(tmp_path / "bad.html")
        assert any("no" in said for said in tab.complaints) and len(tab.complaints) >= 2 and len(tab.asked) == 2
