"""Fixtures shared by all tests."""

from __future__ import annotations

import functools
import gc
import importlib.util
import json
import lzma
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from autosched.ir import IRModule, PrimFunc
    from autosched.schedule import Schedule
    from sim.program import Program

# What is imported, collected and compiled from here on stays: looking for garbage meanwhile took a third of the time.
gc.disable()
# No test depends on time: a busy or a cold machine is no failure.
# Nor on luck: each run draws the same, and ``--hypothesis-profile fuzz`` others.
settings.register_profile("house", deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None)
settings.load_profile("house")
# Tests start some hundred interpreters: where bytecode is not kept, as in many containers, each compiles all modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the cases of ``long_runs.txt``; one that is nowhere in a file that was collected whole is a mistake in that list."""
    if config.getoption("--update-golden"):
        return  # what is written anew is written of all
    whole = not any("::" in given for given in config.args)
    found: dict[str, list[pytest.Item]] = {}
    for item in items:
        found.setdefault(item.path.relative_to(LONG_RUNS.parent).as_posix(), []).append(item)
    # What is left of a test's cases is dealt out when those that stand here by name are gone.
    for line in sorted(LONG_RUNS.read_text(encoding="utf-8").splitlines(), key=lambda line: ONE_IN in line):
        file, _, said = line.partition("::")
        name, _, share = said.partition(ONE_IN)
        if line.startswith("#") or file not in found:
            continue
        asked = [item for item in found[file] if name in (item.name, getattr(item, "originalname", None), EACH_ONCE)]
        mine = _but_one(asked) if name == EACH_ONCE else _but_some(asked, int(share)) if share else asked
        for item in mine:
            item.add_marker(pytest.mark.slow)
        if whole and not mine:
            raise pytest.UsageError(f"{LONG_RUNS.name}: {line} is no test")


def _but_one(items: list[pytest.Item]) -> list[pytest.Item]:
    """Of each case that several machines run all but one, which is another one for the next case."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in _in_every_run(items):
        target = item.callspec.params.get("target") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
        if target is not None:
            cases.setdefault(item.name.replace(str(target), ""), []).append(item)
    return [item for n, own in enumerate(cases.values()) for k, item in enumerate(own) if k != n % len(own)]


def _but_some(items: list[pytest.Item], share: int) -> list[pytest.Item]:
    """Of a test's cases all but one in so many, each at another place among these than the one before."""
    return [item for k, item in enumerate(_in_every_run(items)) if k % share != k // share % share]


def _in_every_run(items: list[pytest.Item]) -> list[pytest.Item]:
    return [item for item in items if item.get_closest_marker("slow") is None]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tests that were collected stay: the collector of garbage need not look at them again, and seldom at anything."""
    from autosched.child import look_seldom
    from sim._kernels import COMPILING

    if COMPILING.said:
        raise pytest.UsageError("a test module runs kernels where it is imported: every process would compile them, one by one")
    # Which test is the first to need a kernel is up to the order of tests and to numba's cache: it is said to none of them.
    COMPILING.said = True
    worker = getattr(session.config, "workerinput", None)
    if worker is not None and sys.platform != "win32":
        from kernels import compiled_once, load

        compiled_once()
        load(backwards=worker["workerid"] == "gw1")
    gc.collect()
    gc.freeze()
    look_seldom()
    gc.enable()


def pytest_runtest_setup() -> None:
    """Each test draws the same networks and images, whatever ran before it."""
    written = sys.modules.get("written_networks")
    if written is not None:
        written.RNG.bit_generator.state = written.START


def pytest_sessionfinish() -> None:
    """What is left is not looked at again: pytest collects garbage several times before it ends."""
    gc.freeze()


ORACLES = Path(__file__).parent / "oracles"
LONG_RUNS = Path(__file__).parent / "long_runs.txt"
EACH_ONCE = "each case on one machine"
ONE_IN = ", one case in "
DATA = Path(__file__).parent / "data"


def load_oracle(name: str) -> ModuleType:
    """Import tests/oracles/NAME.py, which is no test module and no package."""
    full = f"oracle_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, ORACLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        spec.loader.exec_module(module)
    return sys.modules[full]


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], list[Program]]:
    """The programs of tests/data/NAME.json.xz: words, memory, expected bytes and cycles, as the RTL had and gave them."""

    @functools.cache
    def read(name: str) -> list[Program]:
        from sim.program import loads

        with lzma.open(DATA / f"{name}.json.xz", "rt", encoding="utf-8") as file:
            return loads(file.read(), name)

    return read


@pytest.fixture(scope="session")
def plain_vta() -> ModuleType:
    """VTA in plain Python integers: the oracle of execution, races and hazards."""
    return load_oracle("plain_vta")


@pytest.fixture(scope="session")
def stepped() -> ModuleType:
    """The accelerator stepped register by register: the oracle of cycles."""
    return load_oracle("stepped")


@pytest.fixture(scope="session")
def vta_programs() -> ModuleType:
    """Random machines and programs for the cycle models, drawn by any ``choose``."""
    return load_oracle("vta_programs")


@pytest.fixture(scope="session")
def plain_interp() -> ModuleType:
    """Programs run one scalar at a time in plain Python: the oracle of the interpreter."""
    return load_oracle("plain_interp")


@pytest.fixture(scope="session")
def verify_trace_roundtrip() -> Callable[[Schedule, PrimFunc | IRModule], Schedule]:
    """Replays a schedule's trace from JSON text and from its Python text: equal program, equal trace text."""

    def verify(sch: Schedule, mod: PrimFunc | IRModule) -> Schedule:
        from autosched.ir.index_map import AXIS_SEPARATOR
        from autosched.schedule import Schedule, Trace

        text = json.dumps(sch.trace.as_json())
        replayed = Schedule(mod)
        Trace.apply_json_to_schedule(text, replayed)
        executed = Schedule(mod)
        exec("\n".join(sch.trace.as_python()), {"sch": executed, "AXIS_SEPARATOR": AXIS_SEPARATOR})
        for other in (replayed, executed):
            assert str(other.trace) == str(sch.trace)
            assert other.mod == sch.mod
            assert other.script() == sch.script()
        return replayed

    return verify


@pytest.fixture
def brief(unguarded: None) -> Iterator[None]:
    """Runs in this process breed a few generations only; ``brief.brief_breeding`` for fixtures of modules."""
    from brief import brief_breeding

    with brief_breeding():
        yield


@pytest.fixture
def unguarded() -> Iterator[None]:
    """Runs in this process check their best schedules here as well, and not in a copy that may be harmed."""
    from brief import checks_here

    with checks_here():
        yield


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command ``autosched`` in this process: exit code, stdout, stderr."""
    from autosched.cli import main

    def run(*args: str | Path) -> tuple[int, str, str]:
        code = main([str(a) for a in args])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command ``autosched`` in this process and a folder (the root of the tree), as ``subprocess.run`` would give it.

    Where the process itself is no part of what is tested: it costs its imports each time.
    """
    from autosched.cli import main

    def run(*args: str | Path, cwd: Path = ORACLES.parent.parent) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(cwd)
        words = [str(a) for a in args]
        try:
            code = main(words)
        except SystemExit as end:
            # As argparse ends a command.
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(words, code, out, err)

    return run


@pytest.fixture(scope="session")
def same() -> Callable[..., None]:
    """Two programs of one signature (or a schedule of the first) give the same, whatever inputs, memory and outputs hold."""

    def check(func: PrimFunc, other: PrimFunc | Schedule, seed: int = 0, sound: bool = True) -> None:
        import numpy as np

        from autosched.ir.interp import random_inputs, run, written
        from autosched.ir.verify import verify
        from autosched.schedule import Schedule
        from autosched.script import parse

        found = other.func if isinstance(other, Schedule) else other
        # Where a test hides accesses from a block's regions, the new program cannot be well formed.
        assert not verify(found) or not sound, verify(found)
        assert parse(found.script()) == found
        outputs = set(written(func))
        for turn, (pattern, stale) in enumerate(((0x80, 77), (0x7F, -77))):
            inputs = iter(random_inputs(func, seed + turn))
            # Sums of floats depend on their order, unless they are of small whole numbers.
            rng = np.random.default_rng(seed + turn)
            given = []
            for b in func.buffers:
                shape = [int(e.value) for e in b.shape]
                array = np.full(shape, stale, b.dtype) if b in outputs else next(inputs)
                given.append(rng.integers(-20, 20, shape).astype(b.dtype) if array.dtype.kind == "f" else array)
            wanted, got = ([a.copy() for a in given] for _ in range(2))
            run(func, *wanted, pattern=pattern)
            run(found, *got, pattern=pattern)
            for a, b in zip(wanted, got):
                np.testing.assert_array_equal(a, b)

    return check


@pytest.fixture(scope="session")
def vta_schedules() -> ModuleType:
    """Random schedules of named workloads, and the check that lowering keeps their meaning."""
    return load_oracle("vta_schedules")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` rewrites the files of tests/golden."""
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compares a text with tests/golden/FILE.TEST.txt, where FILE and TEST are the calling test's names."""
    path = Path(__file__).parent / "golden" / f"{request.path.stem}.{request.node.name}.txt"

    def check(text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert path.exists(), f"{path} is missing: run this test with --update-golden"
        assert text == path.read_text(), f"differs from {path}; if that is right, run with --update-golden"

    return check


@pytest.fixture(scope="session")
def affine_programs() -> ModuleType:
    """Random programs of one to four blocks, as text."""
    return load_oracle("affine_programs")


@pytest.fixture(scope="session")
def schedule_steps() -> ModuleType:
    """Random steps of a schedule, as text that looks its blocks and loops up by itself."""
    return load_oracle("schedule_steps")


@pytest.fixture(scope="session")
def onnx_models() -> ModuleType:
    """Small quantized networks in the forms that exporters write."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    return load_oracle("onnx_models")


@pytest.fixture(scope="session")
def damaged_networks() -> ModuleType:
    """Random changes of a model's file."""
    pytest.importorskip("onnx")
    return load_oracle("damaged_networks")


@pytest.fixture(scope="session")
def random_networks() -> ModuleType:
    """Random small networks on the builder of ``onnx_models``."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    return load_oracle("random_networks")


@pytest.fixture(scope="session")
def user_programs() -> ModuleType:
    """Programs as users write them, and what becomes of each."""
    return load_oracle("user_programs")


@pytest.fixture(scope="session")
def chromium() -> ModuleType:
    """A browser without a window; skips where there is none."""
    pytest.importorskip("websocket")
    module = load_oracle("chromium")
    if module.FOUND is None:
        pytest.skip("no Chromium here")
    return module
