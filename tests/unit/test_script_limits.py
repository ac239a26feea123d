"""The text of a program is data: it reaches nothing of Python, and reading it costs little whatever it asks for."""

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autosched.errors import ProgramError
from autosched.script import parse
from autosched.script.limits import BITS, ITEMS, STEPS

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
@T.prim_func
def f(a: T.Buffer((16,), "int32")):
    for i in T.serial(16):
        with T.block("b"):
            v = T.axis.spatial(16, i)
            a[v] = {}
"""
# Names that are computed while the text is read, and used nowhere: the program is the same without them.
ASIDE = """
@T.prim_func
def f(a: T.Buffer((16,), "int32")):
    for i in T.serial(16):
        with T.block("b"):
            v = T.axis.spatial(16, i)
            T.block_attr({{"note": {}}})
            a[v] = 1
"""


def aside(expression: str) -> object:
    return parse(ASIDE.format(expression))


@pytest.mark.parametrize(("expression", "said"), [
    ('"{0.__class__}".format(1)', "'format' of Python's str is not part of the language"),
    ('"{0.__class__}".format_map({"0": 1})', "'format_map' of Python's str"),
    ('str.format("{0.__class__}", 1)', "'format' of Python's type str|'format' of Python's str"),
    ('(1).to_bytes(4)', "'to_bytes' of Python's int"), ("int.from_bytes", "'from_bytes' of Python's int"),
    ('[].append(1)', "'append' of Python's list"), ('{"a": 1}.update({})', "'update' of Python's dict"),
    ('"a".ljust(10**9)', "'ljust' of Python's str"), ('"a".__class__', "underscore"), ("T.serial.__globals__", "underscore"),
    ("open('x')", "name 'open' is not defined"), ("__import__('os')", "name '__import__' is not defined"),
    ("getattr(1, 'real')", "name 'getattr' is not defined"), ("(x for x in [1]).gi_frame", "Python's list"),
])
def test_python_is_out_of_reach(expression: str, said: str) -> None:
    with pytest.raises(ProgramError, match=said) as caught:
        aside(expression)
    assert caught.value.line == 7


EXPENSIVE = [
    "9**9**9", "2**(10**9)", "(-2)**(10**9)", "1 << 10**10", "1 << (1 << 40)", '"a" * 10**10', "10**10 * 'a'", "[0] * 10**9",
    "(0,) * 10**9",
    '"%9999999999d" % 1', '"%*d" % (10**9, 1)', 'f"{1:9999999999}"', 'f"{1:{10**9}}"', "list(range(10**12))",
    "sum(range(10**12))",
    "[i for i in range(10**12)]", "max(range(10**12))", "sorted(range(10**9))", "10**9 in range(10**12)",
    "[j for i in range(10**5) for j in range(10**5)]", "str([[[0] * 4096] * 4096] * 4096)", "f'{[[[0] * 4096] * 4096] * 4096}'",
    "[[[0] * 4096] * 4096] * 4096 == [[[0] * 4096] * 4096] * 4096", "'a'.join(['a' * 60000] * 60000)",
    "(lambda f: f(f))(lambda f: f(f))", "(lambda f: f(f, 60))(lambda f, n: 0 if n == 0 else f(f, n - 1) + f(f, n - 1))",
    "zip(range(10**12))", "tuple(enumerate(range(10**12)))", "all(i >= 0 for i in range(10**12))",
    " ** ".join(["9"] * 50), " * ".join(["(2 ** 4000)"] * 50), "-(-(9**9**9))",
]


@pytest.mark.parametrize("expression", EXPENSIVE, ids=lambda e: str(e)[:40])
def test_what_costs_too_much_is_refused_at_once(expression: str) -> None:
    begun, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ProgramError) as caught:
        aside(expression)
    assert caught.value.line == 7 and len(str(caught.value)) < 300
    # Far above what it takes, far below what it would take: no measurement of speed.
    assert time.process_time() - begun < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


@pytest.mark.parametrize(("inside", "beyond"), [
    (f"2**{BITS - 1} > 0", f"2**{BITS} > 0"), (f"1 << {BITS - 1} > 0", f"1 << {BITS} > 0"),
    (f'len("a" * {ITEMS})', f'len("a" * {ITEMS + 1})'), ("2**-3", "2**(-10**6)"),
    (f"len([0 for i in range({STEPS}) if i < 9])", f"len([0 for i in range({STEPS + 1}) if i < 9])"),
    ('f"{7:999}"', 'f"{7:1000}"'), ('"%3d|%05.2f" % (1, 2.0)', '"%3000d" % 1'),
    ("3 in range(9)", f"3 in range({ITEMS + 2})"),
])
def test_at_the_limits(inside: str, beyond: str) -> None:
    aside(inside)
    with pytest.raises(ProgramError, match="more than"):
        aside(beyond)


@pytest.mark.parametrize("expression", [
    '"_".join(["a", "b"]).upper()', '{"a": 1}.get("a")', "[2 * i for i in range(4)][1]", 'f"n{3:02d}"', "sum([1, 2, 3])",
    "max(len([1]), 2)", "[a + b for a, b in zip([1], [2])][0]", "2**31 - 1", "sorted({3: 1, 2: 1}.keys())[0]", "'x' * 3 + 'y'",
])
def test_what_programs_compute_is_computed(expression: str) -> None:
    aside(expression)


def test_what_classes_and_modules_of_the_surroundings_offer_is_theirs() -> None:
    class Sizes:
        n = 16

    import math

    text = PROGRAM.format("T.int32(math.prod([2, 8]) + Sizes.n)")
    assert parse(text, math=math, Sizes=Sizes) == parse(PROGRAM.format("32"))


def test_nothing_that_is_parsed_runs(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    text = f"import os\nopen({str(mark)!r}, 'w')\nos.system('touch {mark}')\n" + PROGRAM.format("1")
    code = (f"import autosched\ntry:\n    autosched.script.parse({text!r})\n"
            "except autosched.errors.ProgramError as e:\n    print(e)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0 and not mark.exists(), done.stderr
