"""The HTML report: one file, whole without a network, with the figures of the log; opened in a browser where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from autosched.cli import main
from autosched.cli.exit_codes import Exit
from autosched.records import Log
from autosched.search import TuneReport, tune

NAME = "dense:m=2,k=64,n=96"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
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
    for word in ("machine bound", "trial", "FETCH", "LOAD", "COMPUTE", "STORE", "first draft", "best", "roof"):
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
    tune(name, trials=2, jobs=1, log="log")
    for what in (name, "log"):
        assert main(["report", what, "--log", "log", "-o", "p.html"]) == Exit.OK
        page = (tmp_path / "p.html").read_text()
        assert "<b>" not in page and "&lt;b&gt;/k&amp;.py:relu_add" in page


def test_what_is_not_logged_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["report", NAME, "--log", str(tmp_path / "empty"), "-o", str(tmp_path / "p.html")]) == Exit.BAD_INPUT
    assert capsys.readouterr().err.endswith(f"run: autosched tune {NAME} --log {tmp_path / 'empty'}\n")
    assert not (tmp_path / "p.html").exists()


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize("width", [390, 1200])
def test_a_browser_opens_it(width: int, text: str, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(text)
    shot = tmp_path / "shot.png"
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'u'}", f"--window-size={width},2400", f"--screenshot={shot}",
         (tmp_path / "report.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and shot.stat().st_size > 20_000, done.stderr[-2000:]
    assert "CONSOLE" not in done.stderr, done.stderr
