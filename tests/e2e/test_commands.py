"""Every command: its help, its example, what it lists, what it hints at."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pyte
import pytest
from brief import brief_breeding

from autosched.cli import main
from autosched.cli.commands import COMMANDS, build_parser
from autosched.cli.exit_codes import Exit
from autosched.search import tune
from autosched.target import names as target_names
from autosched.workloads import names, networks

ROOT = Path(__file__).resolve().parents[2]
SMALL = "dense:m=2,k=64,n=96"


def ran(*words: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(w) for w in words])
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    with brief_breeding():
        tune(SMALL, trials=3, jobs=1, seed=2**32 - 1, log=directory)
    return directory


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_an_example_that_parses(name: str) -> None:
    code, out, _ = ran(name, "--help")
    example = COMMANDS[name].example
    assert code == Exit.OK and f"example: {example}\n" in out
    words = shlex.split(example)
    assert words[:2] == ["autosched", name]
    args = build_parser(words[1:]).parse_args(words[1:])
    assert args.command == name and callable(args.run)


def test_an_example_with_a_word_too_many_does_not_parse() -> None:
    code, _, err = ran(*shlex.split(COMMANDS["best"].example)[1:], "more")
    assert code == Exit.BAD_INPUT and "unknown argument 'more'" in err


@pytest.mark.parametrize("words", ["--help", "--version"])
def test_help_and_version_load_nothing_heavy(words: str) -> None:
    code = ("import sys\nfrom autosched.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
            "print(sorted({m.split('.')[0] for m in sys.modules} & {'numpy', 'numba', 'rich', 'optuna', 'xgboost', 'joblib'}))")
    done = subprocess.run([sys.executable, "-c", code, words], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_workloads_and_targets_are_listed() -> None:
    _, out, _ = ran("list", "workloads")
    assert all(any(line.split()[:1] == [n] for line in out.splitlines()) for n in (*names(), *networks()))
    data = json.loads(ran("list", "workloads", "--format", "json")[1])
    assert [row["workload"] for row in data] == [*names(), *networks()]
    assert next(row for row in data if row["workload"] == "t2") == {
        "workload": "t2", "what": "dense:m=1,k=256,n=256,bias=0,tail=cast", "products": 256 * 256}
    # 19 convolutions without the first; 1.69 billion products.
    (whole,) = [row for row in data if row["workload"] == "resnet18"]
    assert whole["products"] == 1_695_547_392 and "19 layers, 10 of them different" in whole["what"]
    assert [row["target"] for row in json.loads(ran("list", "targets", "--format", "json")[1])] == list(target_names())
    code, _, err = ran("list", "workload")
    assert code == Exit.BAD_INPUT and "did you mean 'workloads'?" in err


def test_runs_are_listed(log: Path, tmp_path: Path) -> None:
    best = json.loads(ran("best", SMALL, "--log", log, "--format", "json")[1])[0]
    (row,) = json.loads(ran("list", "runs", "--log", log, "--format", "json")[1])
    assert row["run"] == best["run"] and row["workload"] == SMALL and row["target"] == "vta-de10"
    assert (row["simulated"], row["failed"], row["seed"], row["checked"]) == (3, 0, 2**32 - 1, True)
    assert (row["cycles"], row["bound"], row["gap"]) == (best["cycles"], best["bound"], best["gap"])
    _, out, _ = ran("list", "runs", "--log", log)
    assert "4294967295" in out and best["run"] in out
    assert ran("list", "runs", "--log", tmp_path) == (Exit.OK, "no runs\n", "")


@pytest.mark.parametrize("command", ["show", "apply", "export"])
def test_hints_repeat_the_flags_that_were_given(command: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = ("-o", "x.json") if command == "export" else ()
    folder = tmp_path / "a log"
    folder.mkdir()
    code, _, err = ran(command, SMALL, "--target", "vta-pynq", "--log", folder, *more)
    assert code == Exit.NO_SCHEDULE
    assert err.endswith(f"run: autosched tune {SMALL} --target vta-pynq --log '{folder}'\n")
    monkeypatch.chdir(tmp_path)
    assert ran(command, SMALL, *more)[2].endswith(f"run: autosched tune {SMALL}\n")
    code, _, err = ran("best", SMALL, "--log", folder)
    assert code == Exit.NO_SCHEDULE and err.endswith(f"run: autosched tune {SMALL} --log '{folder}'\n")


@pytest.mark.parametrize("command", ["show", "apply", "export", "space"])
def test_a_network_is_told_which_layers_to_name(command: str) -> None:
    more = ("-o", "x.json") if command == "export" else ()
    code, _, err = ran(command, "resnet18", *more)
    assert code == Exit.BAD_INPUT and err.count("\n") == 1
    assert all(f"resnet18.c{n}" in err for n in range(2, 12))


def test_a_new_folder_lists_what_ships(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = ran("best")
    assert code == Exit.OK
    assert all(any(line.split()[:1] == [f"resnet18.c{n}"] for line in out.splitlines()) for n in range(2, 12))


def test_warnings_are_remarks(log: Path, tmp_path: Path) -> None:
    for path in log.glob("*.jsonl"):
        # A record that says more than it holds: its check fails when it is used.
        from autosched.records import Log
        from autosched.records.line import best_line, run_line

        best = min(Log.open(log).all_bests(), key=lambda b: (b.cycles, not b.verified))
        from dataclasses import replace

        (tmp_path / path.name).write_text(run_line(best.of) + best_line(replace(best, cycles=best.cycles - 1), "0" * 8))
    code, _, err = ran("apply", SMALL, "--log", tmp_path)
    assert code == Exit.NO_SCHEDULE
    lines = err.splitlines()
    assert len(lines) == 2 and all(line.startswith("autosched: ") for line in lines) and "was passed over" in lines[0]


def test_help_is_that_of_the_command() -> None:
    for words in (["tune"], ["db", "fsck"], []):
        assert ran("help", *words) == ran(*words, "--help") and ran("help", *words)[0] == Exit.OK
    code, out, err = ran("help", "tnue")
    assert (code, out) == (Exit.BAD_INPUT, "") and "did you mean 'tune'?" in err


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_a_shell_completes_commands_options_and_names(tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    code, script, _ = ran("completion", "bash")
    assert code == Exit.OK
    (tmp_path / "mine.json").write_text("{}")
    (tmp_path / "a log").mkdir()
    asked = {
        "tu": {"tune"}, "db fs": {"fsck"}, "db fsck --re": {"--repair"}, "show t2 --as g": {"gantt"},
        "tune resnet18.c1": {"resnet18.c1", "resnet18.c10", "resnet18.c11"}, "list w": {"workloads"},
        "tune t2 --target vta-py": {"vta-pynq", "vta-pynq-portable"}, "tune t2 --target mi": {"mine.json"},
        "tune t2 --log a": {"a log"}, "tune --trails": set(),
    }
    lines = [script, *(f"COMP_WORDS=(autosched {words}); COMP_CWORD={len(words.split())}; COMPREPLY=(); _shtab_autosched\n"
                       "printf '%s\\n' \"${COMPREPLY[@]}\" ---" for words in asked)]
    done = subprocess.run(["bash"], input="\n".join(lines), cwd=tmp_path, capture_output=True, text=True, check=True)
    got = [set(part.split("\n")) - {""} for part in done.stdout.split("---\n")[:-1]]
    assert dict(zip(asked, got)) == asked, done.stderr
    code, _, err = ran("completion", "fish")
    assert code == Exit.BAD_INPUT and "unknown shell 'fish'" in err


SHELLS = {
    "zsh": ("zsh -f -i", "PS1='=> '; autoload -Uz compinit && compinit -u -D; eval \"$(cat SCRIPT)\"; clear"),
    "tcsh": ("tcsh -f", "set prompt='=> '; source SCRIPT; clear"),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_with_a_terminal_completes_what_is_typed(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    code, script, _ = ran("completion", shell)
    assert code == Exit.OK
    (tmp_path / "script").write_text(script)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "mine.json").touch()
    start, setup = SHELLS[shell]
    child = pexpect.spawn(start, cwd=str(tmp_path / "here"), dimensions=(50, 150), timeout=60,
                          env={**os.environ, "TERM": "xterm", "HOME": str(tmp_path)})
    screen = pyte.Screen(150, 50)
    stream = pyte.ByteStream(screen)

    def wait(line: str) -> None:
        """Until the screen has a line; the shell says nothing more where it never comes."""
        while line not in (found := [" ".join(x.split()) for x in screen.display]):
            try:
                stream.feed(child.read_nonblocking(4096, timeout=60))
            except (pexpect.TIMEOUT, pexpect.EOF):
                pytest.fail(f"{line!r} is not on the screen:\n" + "\n".join(x for x in found if x))

    child.sendline(setup.replace("SCRIPT", str(tmp_path / "script")))
    wait("=>")  # what is typed before the shell asks for it stands where it likes
    for typed, completed in {
        "tu": "tune ", "db fs": "db fsck ", "db fsck --re": "db fsck --repair ", "show t2 --as g": "show t2 --as gantt ",
        "list w": "list workloads ", "tune resnet18.c1": "tune resnet18.c1",
        "tune t2 --target vta-py": "tune t2 --target vta-pynq", "tune t2 --target min": "tune t2 --target mine.json ",
        "best min": "best mine.json ",
        "run mi": "run mine.json ", "help ve": "help verify ", "tune --trails": "tune --trails", "tune nothing": "tune nothing",
    }.items():
        # A letter behind it shows where the shell thinks that the word ends.
        child.send(f"autosched {typed}\tX")
        wait(f"=> autosched {completed}X")
        child.send("\x15")  # the line is thrown away
    child.close(force=True)
