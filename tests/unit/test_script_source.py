"""Where ``@T.prim_func`` finds the text of a function, and that it never takes the text of another one."""

from __future__ import annotations

import doctest
import linecache
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from autosched.errors import ProgramError
from autosched.ir import PrimFunc
from autosched.script import T, parse, prim_func
from autosched.script.locate import same_code

ROOT = Path(__file__).resolve().parents[2]
TEXT = "from autosched.script import T\n@T.prim_func\ndef q(A: T.Buffer((4,), 'int8')):\n    A[0] = 111\n"
SHOW = "print('READ', q.name, q.body.block.body)\n"
READ = "READ q A[0] = T.int8(111)"
NONE = r"source of function 'q' is not available .*autosched\.script\.parse\('''\.\.\.'''\)$"


def python(*arguments: str, text: str | None = None, stdin: object = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *arguments], input=text, stdin=stdin, capture_output=True, text=True,  # type: ignore[call-overload]
                          env=environment, timeout=60)


def stored(func: object) -> str:
    assert isinstance(func, PrimFunc)
    return str(func).strip().rsplit("\n", 1)[-1].strip()


@pytest.mark.parametrize("option", ["-c", "-Ic"])
def test_python_c(option: str) -> None:
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    assert READ in python(option, path + TEXT + SHOW).stdout


def test_standard_input_that_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "q.txt"
    file.write_text(TEXT + SHOW)
    with file.open() as stdin:
        assert READ in python("-", stdin=stdin).stdout


def test_a_pipe_keeps_no_text_and_the_error_is_one_line_without_a_chain() -> None:
    done = python("-", text=TEXT + SHOW)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    last = done.stderr.strip().rsplit("\n", 1)[-1]
    assert "source of function 'q' is not available (it was read from a pipe" in last


def test_the_prompt(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    pytest.importorskip("readline")
    lines = [
        *TEXT.split("\n"), SHOW.strip(), "for k in (1, 2):", "    @T.prim_func", "    def q(A: T.Buffer((4,), 'int8')):",
        "        for i in range(4):", "            A[i] = k", "", SHOW.strip(), "exit()",
    ]
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update({"PYTHONPATH": str(ROOT), "TERM": "dumb", "HOME": str(tmp_path)})
        os.execv(sys.executable, [sys.executable, "-q"])
    seen = ""
    for line in lines:
        # The prompt is shown when the statement before it is done.
        end = time.time() + 30
        while not seen.endswith((">>> ", "... ")) and time.time() < end:
            seen += os.read(fd, 4096).decode()
        os.write(fd, (line + "\n").encode())
        seen += "\n"
    try:
        while data := os.read(fd, 4096):
            seen += data.decode()
    except OSError:
        pass  # The end of a terminal.
    os.waitpid(pid, 0)
    shown = seen.replace("\r", "")
    assert READ in shown and "READ q for i in range(4):\n    A[i] = T.int8(2)" in shown, shown


def test_exec_of_a_text_that_the_caller_holds() -> None:
    names: dict[str, object] = {}
    exec(TEXT, names)
    assert stored(names["q"]) == "A[0] = T.int8(111)"
    indented = textwrap.indent(TEXT.replace("111", "112"), "    ")
    exec(textwrap.dedent(indented), names)
    assert stored(names["q"]) == "A[0] = T.int8(112)"
    exec(TEXT.replace("prim_func", "prim_func(lazy=True)").replace("111", "113"), names)
    with pytest.raises(ProgramError, match=NONE):
        _ = names["q"].body  # type: ignore[attr-defined]
    lazy = TEXT.replace("prim_func", "prim_func(lazy=True)").replace("111", "114")
    exec(lazy, names)
    del lazy
    assert stored(names["q"].force()) == "A[0] = T.int8(114)"  # type: ignore[attr-defined]


def test_exec_of_a_text_that_nobody_holds() -> None:
    with pytest.raises(ProgramError, match=NONE) as caught:
        exec(TEXT.replace("111", str(100 + 13)), {})
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert isinstance(parse(TEXT.replace("111", str(100 + 13))), PrimFunc)


def test_doctests() -> None:
    text = "".join((">>> " if not line.startswith((" ", "def")) else "... ") + line + "\n" for line in TEXT.strip().split("\n"))
    found = doctest.DocTestParser().get_doctest(text + ">>> q.name\n'q'\n", {}, "q", None, 0)
    said: list[str] = []
    assert doctest.DocTestRunner().run(found, out=said.append).failed == 0, said


def test_another_text_under_the_name_of_a_module_or_file_is_not_taken(tmp_path: Path) -> None:
    """The text of the main module used to stand in for a cell that had none: another function was read, silently."""
    file = tmp_path / "main.py"
    file.write_text(
        TEXT + "A = 'from autosched.script import T\\n@T.prim_func\\ndef other(A: T.Buffer((4,), \"int8\")):\\n    A[0] = '\n"
        "for name in ('cell-3', __file__):\n"
        "    try:\n"
        "        exec(compile(A + str(200 + 22), name, 'exec'), {'__name__': '__main__'})\n"
        "    except Exception as error:\n"
        "        print(error)\n"
    )
    said = python(str(file)).stdout.strip().split("\n")
    assert len(said) == 2
    assert "source of function 'other' is not available (it was read from a pipe" in said[0]
    assert "source of function 'other' is not available (line 2 of main.py does not hold it" in said[1]


def test_of_several_functions_on_the_same_lines_the_code_decides() -> None:
    name = "<cell of several>"
    text = "@T.prim_func\ndef q(A: T.Buffer((4,), 'int8')):\n    A[0] = 5\n"
    names: dict[str, object] = {"T": T}
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), names)
    assert stored(names["q"]) == "A[0] = T.int8(5)"
    for other in ("A[0] = " + str(3 + 3), "A[1] = 5", "A[0] = 5.0", "A[0] = True"):
        with pytest.raises(ProgramError, match=NONE):
            exec(compile(text.replace("A[0] = 5", other), name, "exec"), names)


def load(file: Path, body: str) -> object:
    """The function of a module written now; nobody keeps its text."""
    names: dict[str, object] = {}
    file.write_text(f"from autosched.script import T\n\ndef q(A: T.Buffer((4,), 'int8')):\n    {body}\n")
    exec(compile(file.read_text(), str(file), "exec"), names)
    return names["q"]


def test_a_file_that_changed_since_it_was_imported(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    q = load(file, "A[0] = 5")
    assert stored(parse(q)) == "A[0] = T.int8(5)"  # type: ignore[arg-type]
    other = load(file, "A[0] = 77")
    assert stored(parse(other)) == "A[0] = T.int8(77)"  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match=r"line 3 of kernels.py does not hold it: the file was changed"):
        parse(q)  # type: ignore[arg-type]
    file.write_text(file.read_text().replace("(4,)", "(16,)"))
    linecache.checkcache(str(file))
    with pytest.raises(ProgramError, match=r"line 3.*type of parameter A reads otherwise now than when 'q' was defined"):
        parse(other)  # type: ignore[arg-type]


def test_a_name_in_a_signature_that_changed_is_refused() -> None:
    made = []
    for n in (4, 8):
        def q(A: T.Buffer((n,), "int8")):  # type: ignore[valid-type]
            A[0] = 1
        q.__annotations__ = {"A": T.Buffer((n,), "int8")}
        made.append(q)
    first, last = made
    with pytest.raises(ProgramError, match="type of parameter A reads otherwise"):
        parse(first, n=8)
    assert isinstance(parse(last, n=8), PrimFunc)


def test_assertions_that_a_test_runner_rewrites_do_not_hide_the_text() -> None:
    @prim_func
    def checked(A: T.Buffer((4,), "int8"), n: T.int32):
        assert n > 0, "positive"
        A[0] = 1

    assert "assert n > 0" in str(checked)


def test_lambdas_hold_no_program() -> None:
    with pytest.raises(ProgramError, match="write it as an ordinary def"):
        parse(lambda A: A)


def test_codes_are_compared_down_to_constants_and_lines() -> None:
    def code(text: str):
        return compile(text, "<text>", "exec")

    text = "def f(a, b):\n    return {1, 2}, a + 0.0, lambda: b\n"
    assert same_code(code(text), code(text + "# more\n"))
    for old, new in (("0.0", "-0.0"), ("1, 2", "1, 3"), ("a, b", "b, a"), ("a + ", "a - "), ("lambda: b", "lambda: a"),
                     ("\n", "\n\n"), ("1, 2", "True, 2"), ("f(", "g(")):
        assert not same_code(code(text), code(text.replace(old, new, 1))), new
