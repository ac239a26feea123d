"""The figures in docs/ are those of what ships, and the command that writes them changes nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from autosched.cli.tables import number
from autosched.lower import lower_table
from autosched.measure import Candidate, measure
from autosched.records import compile as compile_best
from autosched.workloads import workload
from sim import isa
from space import Space

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("figures", ROOT / ".ci" / "figures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_says_what_ships(figures: ModuleType) -> None:
    page = figures.PAGE.read_text()
    assert figures.with_shipped(page) == page, "python .ci/figures.py"
    broken = page.replace("| t3 | 131 ", "| t3 | 231 ").replace("| resnet18.c4 |", "| resnet18.c4 | lost |", 1)
    assert broken != page and figures.with_shipped(broken) == page


def test_its_figures_are_those_of_the_kernels(figures: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = {row[0]: row for row in figures.ships("vta-de10")}
    for name in ("resnet18.c10", "t3"):
        assert rows[name][1] == number(compile_best(name).cycles)
    times = {n: int(rows[n][1].replace(" ", "")) * count for n, count in figures.TEN.items()}
    assert rows[figures.WEIGHTED][1] == number(sum(times.values())) and sum(figures.TEN.values()) == 19


def test_a_table_made_anew_keeps_the_rows_of_others(figures: ModuleType) -> None:
    row = figures.draft("dense:m=2,k=64,n=64", "vta-de10", 80)
    assert row[:3] == ["dense:m=2,k=64,n=64", "vta-de10", "80"] and -1 <= float(row[3]) <= 1
    page = "<!-- figures: draft -->\n\n| a | b |\n|---|---|\n| x | 1 |\n| y | 2 |\n\nmore\n"
    made = figures.replaced(page, "draft", figures._merged(["a", "b"], [["x", "3"]], 1))
    assert made == "<!-- figures: draft -->\n\n| a | b |\n|---|---|\n| y | 2 |\n| x | 3 |\n\nmore\n"
    with pytest.raises(SystemExit, match="no table 'other'"):
        figures.replaced(page, "other", figures._merged(["a"], [], 1))


def test_sizes_are_next_to_that_of_the_workload(figures: ModuleType) -> None:
    found = dict(figures.sizes("resnet18.c10", 16))
    assert list(found) == ["renamed", "h, w + 1", "h, w - 1", "ci + 16", "ci - 16", "co + 16", "co - 16"]
    assert "h=15,w=15,ci=256,co=512" in found["h, w + 1"] and "h=14,w=14,ci=240,co=512" in found["ci - 16"]
    assert "ci=272,co=272" in dict(figures.sizes("mobilenet.d5", 16))["groups + 1"]
    pooled = figures.sizes("resnet18.mean", 16)
    assert [what for what, _ in pooled] == ["renamed", "h, w, k + 1", "h, w, k - 1", "c + 16", "c - 16"] and "k=6" in pooled[2][1]
    assert "k=3" in dict(figures.sizes("resnet18.max_pool", 16))["h, w - 1"]
    assert list(dict(figures.sizes("t2", 16))) == ["renamed", "m + 1", "k + 16", "k - 16", "n + 16", "n - 16"]
    row = figures.moved("dense:m=1,k=16,n=16", "vta-de10", 4)[1]
    assert row[:4] == ["dense:m=1,k=16,n=16", "vta-de10", "4", "m + 1"] and row[6].endswith(" %")


def test_traffic_is_another_estimate(figures: ModuleType) -> None:
    bench = figures._benchmark()
    task = workload("dense:m=4,k=64,n=64")
    space, other = Space(task.func, "vta-de10"), bench.Traffic(task.func, "vta-de10")
    points = space.sample(np.random.default_rng(0), 40)
    moved, again = other.draft(points), other.draft(points, np.zeros(len(points)))
    assert np.array_equal(moved, again) and not np.array_equal(moved, space.draft(points))
    # Bytes, and 8192 for every DMA.
    for point, said in zip(points[:5], moved):
        counted = measure(Candidate("dense:m=4,k=64,n=64", "vta-de10", tuple(space.trace(point).as_json()))).stats
        table = lower_table(space.schedule(point).func, "vta-de10").table
        dmas = (np.isin(table[:, isa.OPCODE], (isa.OP_LOAD, isa.OP_STORE)) & (table[:, isa.X_SIZE] > 0)
                & (table[:, isa.MEM] != isa.MEM_UOP)).sum()
        size = sum(v for k, v in counted.items() if k.endswith("_nbytes") and not k.startswith("uop"))
        # Stores are counted as the rule does that limits a program's length: at the worst.
        assert size + 8192 * dmas <= said <= 2 * (size + 8192 * dmas), space.explain(point)
