"""Every primitive that rewrites a program shows one before and after in its docstring, and that is what it does.

    python tests/unit/test_primitive_examples.py

writes the programs of tests/oracles/primitive_examples.py into the docstrings and into docs/primitives_by_example.md anew.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What looks at a program, chooses a number, or marks a place in the trace rewrites nothing.
READ_ONLY = {
    "get_sblock", "get_loops", "get_child_blocks", "get_producers", "get_consumers", "get_output_blocks", "get_axis",
    "sample_categorical", "sample_perfect_tile", "sample_partitioned_tile", "sample_compute_location", "enter_postproc",
}
SHOWN = re.compile(r"^Before::\n\n(?:    [^\n]*\n)+\nAfter ``[^\n]*``::\n\n(?:    [^\n]*\n?)+", re.M)


def examples() -> ModuleType:
    from autosched.target import get_target

    get_target("vta-de10")  # its intrinsics
    spec = importlib.util.spec_from_file_location("primitive_examples", ROOT / "tests" / "oracles" / "primitive_examples.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def methods() -> dict[str, object]:
    import autosched.schedule  # noqa: F401  it registers all families
    from autosched.schedule.kit.primitive import PRIMITIVES

    return {name: p.method for name, p in PRIMITIVES.items()}


EXAMPLES = examples()


def test_every_primitive_that_rewrites_has_an_example() -> None:
    assert set(methods()) - READ_ONLY == set(EXAMPLES.EXAMPLES)


@pytest.mark.parametrize("name", sorted(EXAMPLES.EXAMPLES))
def test_a_docstring_shows_what_happens(name: str) -> None:
    doc = inspect.getdoc(methods()[name]) or ""
    shown = [m[0].strip() for m in SHOWN.finditer(doc)]
    before, after = EXAMPLES.before_and_after(EXAMPLES.EXAMPLES[name])
    assert before != after, "an example in which nothing happens"
    hint = "write it anew with: python tests/unit/test_primitive_examples.py"
    assert shown == [EXAMPLES.paragraph(EXAMPLES.EXAMPLES[name])], hint


def with_example(doc: str, text: str) -> str:
    """A docstring without indentation with its example in the place of the old one, or at its end."""
    old = SHOWN.search(doc)
    if old is None:
        lines = doc.split("\n")
        start = next((n for n, line in enumerate(lines) if line.startswith("Before: ")), None)
        if start is None:
            return f"{doc.rstrip()}\n\n{text}\n"
        end = next((n for n in range(start, len(lines)) if lines[n].startswith("Raises:")), len(lines))
        rest = "\n".join(lines[end:]).rstrip()
        return "\n".join(lines[:start]).rstrip() + f"\n\n{text}\n" + (f"\n{rest}\n" if rest else "")
    rest = doc[old.end():].strip("\n")
    return doc[: old.start()].rstrip() + f"\n\n{text}\n" + (f"\n{rest}\n" if rest else "")


def rewrite(name: str, method: object) -> None:
    path = Path(inspect.getsourcefile(inspect.unwrap(method)) or "")  # type: ignore[arg-type]
    source = path.read_text()
    (node,) = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef) and n.name == name and any(
        "primitive" in ast.dump(d) for d in n.decorator_list)]
    literal = node.body[0]
    lines = source.split("\n")
    pad = " " * literal.col_offset
    doc = with_example(inspect.getdoc(method) or "", EXAMPLES.paragraph(EXAMPLES.EXAMPLES[name]))
    body = [(pad + line).rstrip() for line in doc.rstrip().split("\n")]
    raw = "r" if lines[literal.lineno - 1].strip().startswith("r") else ""
    body[0] = f'{pad}{raw}"""{body[0].strip()}'
    lines[literal.lineno - 1 : literal.end_lineno] = [*body, f'{pad}"""']
    path.write_text("\n".join(lines))


HEAD = """# Primitives by example

A small program before and after each primitive, as their docstrings show it (`help(autosched.Schedule.split)`); regions of
blocks are left out where they are not the point. This page is made by `python tests/unit/test_primitive_examples.py`; what the
primitives do and take is in [primitives](primitives.md).
"""


def page() -> str:
    """docs/primitives_by_example.md."""
    parts = [HEAD]
    for name, example in EXAMPLES.EXAMPLES.items():
        before, after = EXAMPLES.before_and_after(example)
        parts.append(f"## {name}\n\n```text\n{before}\n```\n\n`{example.call}`\n\n```text\n{after}\n```\n")
    return "\n".join(parts)


def test_the_page_shows_all_of_them() -> None:
    assert (ROOT / "docs" / "primitives_by_example.md").read_text() == page(), "python tests/unit/test_primitive_examples.py"


if __name__ == "__main__":
    for one in EXAMPLES.EXAMPLES:
        rewrite(one, methods()[one])
    (ROOT / "docs" / "primitives_by_example.md").write_text(page())
    print("rewritten; look at the difference")
