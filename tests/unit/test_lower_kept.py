"""What statements become is kept for the next program, as it was built, whatever became of the one before."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from autosched.errors import LoweringError
from autosched.ir import PrimFunc
from autosched.kernel import program_hash
from autosched.lower import lower_table, parts, program, tree
from autosched.lower.affine import Loop
from autosched.lower.classify import leaves
from autosched.lower.tree import Tree
from autosched.script import parse
from autosched.workloads import workload
from space import Space

TARGET = "vta-de10"


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    parts.forget()
    yield
    parts.forget()


# Its loops are fused, its value takes a temporary, and its result the place of an operand.
CHANGED = """
@T.prim_func
def changed(x: T.Buffer((2, 24, 1, 16), "int32"), y: T.Buffer((2, 24, 1, 16), "int32"), out: T.Buffer((2, 24, 1, 16), "int8")):
    for n in range(2):
        with T.sblock("outer"):
            vn = T.axis.spatial(2, n)
            xs = T.sblock_alloc_buffer((2, 24, 1, 16), "int32", scope="local.acc_buffer")
            ys = T.sblock_alloc_buffer((2, 24, 1, 16), "int32", scope="local.acc_buffer")
            z = T.sblock_alloc_buffer((2, 24, 1, 16), "int32", scope="local.acc_buffer")
            for f, l in T.grid(48, 16):
                with T.sblock("xs"):
                    vi = T.axis.spatial(2, f // 24)
                    vj = T.axis.spatial(24, f % 24)
                    vl = T.axis.spatial(16, l)
                    xs[vi, vj, 0, vl] = x[vi, vj, 0, vl]
            for i, j, l in T.grid(2, 24, 16):
                with T.sblock("ys"):
                    vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                    ys[vi, vj, 0, vl] = y[vi, vj, 0, vl]
            for i, j, l in T.grid(2, 24, 16):
                with T.sblock("z"):
                    vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                    z[vi, vj, 0, vl] = T.max(xs[vi, vj, 0, vl], ys[vi, vj, 0, vl]) + T.min(xs[vi, vj, 0, vl], ys[vi, vj, 0, vl])
            for i, j, l in T.grid(2, 24, 16):
                with T.sblock("store"):
                    vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                    out[vi, vj, 0, vl] = T.Cast("int8", z[vi, vj, 0, vl])
"""


def form(node: Any) -> Any:
    """A loop or a site with all that is in it."""
    if isinstance(node, Loop):
        return node.name, node.extent, [form(n) for n in node.body]
    forms = [(a.buffer.name, str(a.indices)) for a in (node.write, *node.reads)], node.conds, node.pads
    count = len(list(leaves(node.value))) if node.value else 0
    return node.kind, node.name, count, re.sub(" object at 0x[0-9a-f]+", "", str(forms))


@pytest.fixture(scope="module")
def funcs() -> list[PrimFunc]:
    names = ("conv2d:h=9,w=9,ci=32,co=32,k=3,pad=1", "residual:h=6,w=6,c=48")
    found = []
    for name in names:
        space = Space(workload(name).func, TARGET)
        found += [space.schedule(p).func for p in space.sample(np.random.default_rng(2), 3)]
    return found


def lowered(func: PrimFunc) -> str:
    return program_hash(lower_table(func, TARGET))


def kept(func: PrimFunc) -> list[parts.Part]:
    """The parts of a program that are there to be taken."""
    found = [parts._PARTS.get(id(s)) for s in getattr(func.body.block.body, "stmts", (func.body.block.body,))]
    return [part for part in found if part is not None]


def test_a_program_lowered_again_takes_the_same_parts(funcs: list[PrimFunc]) -> None:
    for func in funcs:
        first = lowered(func)
        made = kept(func)
        assert made and lowered(func) == first
        assert all(a is b for a, b in zip(kept(func), made, strict=True))


def test_a_part_is_put_back_whatever_happens(funcs: list[PrimFunc], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(built: Tree, *_: object) -> None:
        changed_to.append([form(node) for node in built.root.body])
        raise LoweringError("capacity", "no room")

    changed = parse(CHANGED)
    assert isinstance(changed, PrimFunc)
    changed_to: list[Any] = []
    for func in (*funcs, changed):
        alone = lowered(func)
        as_built = [form(node) for part in kept(func) for node in part.nodes]
        parts.forget()
        assert as_built == [form(node) for node in tree.build(func).root.body]
        with monkeypatch.context() as patched:
            patched.setattr(program, "allocate", fails)  # behind all passes that change the tree
            with pytest.raises(LoweringError, match="no room"):
                lower_table(func, TARGET)
        assert as_built == [form(node) for part in kept(func) for node in part.nodes]
        assert lowered(func) == alone
    assert changed_to[-1] != as_built


def test_no_two_programs_have_a_part_at_once(funcs: list[PrimFunc], monkeypatch: pytest.MonkeyPatch) -> None:
    """While a program is lowered, others of the same statements are: before each pass behind the first, and in other threads."""
    alone = [lowered(func) for func in funcs]
    unfuse, busy, inner = program.normalise.unfuse, threading.local(), []

    def interrupted(tree: object, lanes: object) -> None:
        if not getattr(busy, "now", False):
            busy.now = True
            assert not kept(funcs[0]) or len(inner)
            inner.append([lowered(func) for func in funcs])
            busy.now = False
        unfuse(tree, lanes)  # type: ignore[arg-type]

    monkeypatch.setattr(program.normalise, "unfuse", interrupted)
    assert lowered(funcs[0]) == alone[0] and inner == [alone]
    threads = [threading.Thread(target=lambda: inner.append([lowered(func) for func in funcs])) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(inner) > 3 and all(found == alone for found in inner)


def test_no_more_than_the_limit_is_kept(funcs: list[PrimFunc], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST", 3)
    for func in funcs:
        lowered(func)
        assert len(parts._PARTS) <= 3
