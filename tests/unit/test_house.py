"""The house rules: layers, imports, types, style."""

import ast
import functools
import importlib
import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("autosched", "space", "sim", "tuning_logs")
ORDER = ROOT / "tests" / "oracles" / "import_order.py"


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)


def modules() -> list[str]:
    names = []
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.submodule_search_locations is not None
        names.append(package)
        names += [m.name for m in pkgutil.walk_packages(list(spec.submodule_search_locations), package + ".")]
    return [n for n in names if not n.endswith("__main__")]


def test_layers_are_kept() -> None:
    done = run(sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_every_room_is_in_the_layers() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = " | ".join(config["tool"]["importlinter"]["contracts"][0]["layers"]).replace(" ", "")
    layers = layers.replace("(", "").replace(")", "").split("|")
    rooms = {f"autosched.{p.stem}" for p in (ROOT / "autosched").iterdir()
             if not p.name.startswith(("_", ".")) and (p.suffix == ".py" or (p / "__init__.py").exists())}
    assert rooms <= set(layers), f"not in any layer: {sorted(rooms - set(layers))}"


def test_types() -> None:
    done = run(sys.executable, "-m", "mypy")
    assert done.returncode == 0, done.stdout[-4000:]


def test_style() -> None:
    done = run(sys.executable, "-m", "ruff", "check", ".")
    assert done.returncode == 0, done.stdout[-4000:]


def imported(roots: Sequence[str], names: Sequence[str], cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    code = f"import runpy; runpy.run_path({str(ORDER)!r}, run_name='__main__')"
    return run(sys.executable, "-c", code, *roots, "--", *names, cwd=cwd)


def test_every_module_can_be_imported_first() -> None:
    # An import cycle bites only whoever comes in by the wrong door.
    done = imported(PACKAGES, modules())
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize(("files", "circle"), [
    ({"inner": "from room.other import made", "other": "made = 1"}, False),
    ({"": "from room.inner import made", "inner": "from room import other\nmade = 1", "other": ""}, False),
    ({"": "from room.inner import made", "inner": "def late():\n    from room import made\nmade = 1"}, False),
    ({"": "from room.inner import made",
      "inner": "def now():\n    from room import made\ntry: now()\nexcept ImportError: pass\nmade = 1"}, True),
    ({"": "import hall.door", "inner": "made = 1", "hall": "", "hall.door": "from room.inner import made"}, True),
    ({"": "", "inner": "import room.other\nmade = 1", "other": "from . import inner"}, True),
    ({"": "", "inner": "import importlib\nimportlib.import_module('room.other')", "other": "import room.inner"}, True),
    ({"": "", "inner": "class Made:\n    import room.other", "other": "import room.inner"}, True),
    ({"": "def __getattr__(name):\n    import room.other\n    return 1",
      "inner": "from room import made", "other": "import room.inner"}, True),
])
def test_a_circle_of_imports_is_found_whichever_comes_first(files: dict[str, str], circle: bool, tmp_path: Path) -> None:
    names = []
    for name, text in {"": "", **files}.items():
        hall = name.startswith("hall")
        names.append(name if hall else f"room.{name}".rstrip("."))
        path = tmp_path / names[-1].replace(".", "/")
        path = path / "__init__.py" if name in ("", "hall") else path.with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
    for order in (names, names[::-1]):
        done = imported(("room", "hall"), order, cwd=tmp_path)
        assert (done.returncode != 0) == circle and ("in a circle" in done.stderr) == circle, done.stderr


@pytest.mark.parametrize("module", ["autosched", "autosched.records", "autosched.kernel", "sim"])
def test_light_imports(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('optuna', 'xgboost', 'joblib') if m in sys.modules])"
    done = run(sys.executable, "-c", code)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_a_strangers_sim_is_named(tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text("x = 1\n")
    done = run(sys.executable, "-c", "import autosched", cwd=tmp_path)
    assert done.returncode == 1
    assert "'import sim' would load" in done.stderr and "rename that file" in done.stderr


def test_no_file_holds_more_than_one_family() -> None:
    long = {str(p.relative_to(ROOT)): n for package in PACKAGES for p in (ROOT / package).rglob("*.py")
            if (n := len(p.read_text().splitlines())) > 650}
    assert not long, long


def test_ci_runs_the_readme_command() -> None:
    command = (ROOT / ".ci" / "run").read_text().strip().splitlines()[-1]
    assert command in (ROOT / "README.md").read_text()


@functools.cache
def constants(path: Path) -> set[object]:
    """Numbers and strings of a module's code, docstrings aside."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    return {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in prose and n.value is not True}


@pytest.mark.parametrize(("fact", "home"), [
    ("local.inp_buffer", "autosched/ir/scopes.py"), ("local.wgt_buffer", "autosched/ir/scopes.py"),
    ("local.acc_buffer", "autosched/ir/scopes.py"), ("vta.gemm", "autosched/target/intrin.py"),
])
def test_names_of_the_machine_have_one_home(fact: str, home: str) -> None:
    rooms = [ROOT / "sim", *[ROOT / "autosched" / room for room in ("ir", "schedule", "target", "lower", "kernel", "measure")]]
    # The text comes first: to parse all files takes a second.
    named = [p for room in rooms for p in room.rglob("*.py") if fact.rpartition(".")[2] in p.read_text(encoding="utf-8")]
    found = {str(p.relative_to(ROOT)) for p in named if fact in constants(p)}
    assert found == {home}


def test_numbers_of_the_machine_have_one_home() -> None:
    """The token limit, who is executed as what, and what the GEMM is called, are written down once."""
    rooms = [p for room in ("sim", "autosched") for p in (ROOT / room).rglob("*.py")]
    written = re.compile(r"255|0x0*ff|0o0*377|0b0*1{8}", re.IGNORECASE)
    masks = {p.name for p in rooms if written.search(p.read_text(encoding="utf-8").replace("_", "")) and 255 in constants(p)}
    assert masks <= {"config.py", "_exec_kernel.py"}  # there it masks a byte
    told = {p.name for p in rooms if '"fsim" if ' in p.read_text(encoding="utf-8")}
    assert told == {"config.py"}
    composed = [p for room in ("autosched", "space") for p in (ROOT / room).rglob("*.py") if 'f"vta.gemm' in p.read_text("utf-8")]
    assert not composed, "Target.gemm_intrin"
    sizes = [p for p in rooms if "acc_elem_bytes" in p.read_text(encoding="utf-8")]
    assert {p.name for p in sizes} == {"config.py", "isa.py", "target.py"}


def test_changes_that_went_unnoticed_can_still_be_made() -> None:
    """``tests/mutation/run.py --named`` makes each and runs its test, which takes minutes; that they apply takes none."""
    for change in json.loads((ROOT / "tests" / "mutation" / "named.json").read_text()):
        assert (ROOT / change["file"]).read_text().count(change["from"]) == 1, change["from"]
        file, _, test = change["test"].partition("::")
        assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text(), change["test"]


def test_mutants_that_change_nothing_are_of_lines_that_stand() -> None:
    """A reason says nothing of a line that is another by now: then the mutant is looked at anew."""
    reasons = json.loads((ROOT / "tests" / "mutation" / "equivalent.json").read_text())
    for reason in reasons:
        lines = [line.strip() for line in (ROOT / reason["file"]).read_text().splitlines()]
        assert reason["of"] in lines and reason["line"] != reason["of"] and reason["why"], reason
    assert len({(r["file"], r["operator"], r["line"]) for r in reasons}) == len(reasons)
