"""What a program would look like if what one reader reads were made for it alone: told before any block is made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.ir.expr import Expr
from autosched.ir.functor import free_vars
from autosched.ir.stmt import Block, PrimFunc
from autosched.schedule import Schedule
from autosched.script import T
from space.normalise import alone
from space.normalise.blocks import device_blocks, loads_of, store_of

SIZE = 16


def product(a: te.Tensor, b: te.Tensor, name: str) -> te.Tensor:
    r = te.reduce_axis((0, SIZE), name="r_" + name)
    s = te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, r].astype("int32") * b[j, r].astype("int32"), axis=r), name=name)
    return te.compute(s.shape, lambda i, j: (s[i, j] >> 7).astype("int8"), name=name + "_shifted")


def larger(a: te.Tensor, b: te.Tensor, part: int = 1):
    return lambda i, j: te.max(a[i // part, j], b[i, j])


def shared(draw: np.random.Generator) -> PrimFunc:
    """Stages and products, each of one or two of all that stands in front of it; some read the first rows alone."""
    made = [te.placeholder((SIZE, SIZE), "int8", name=name) for name in "xw"]
    for n in range(6):
        a, b = (made[k] for k in draw.integers(len(made), size=2))
        if draw.random() < 0.4:
            made.append(product(a, b, f"s{n}"))
        else:
            made.append(te.compute((SIZE, SIZE), larger(a, b, int(draw.integers(1, 3))), name=f"v{n}"))
    return te.create_prim_func([*made[:2], te.compute((SIZE, SIZE), larger(*made[-2:]), name="out")])


def drawn(seed: int) -> tuple[Schedule, list[str]]:
    """A program, and two of its readers."""
    draw = np.random.default_rng(seed)
    sch = Schedule(shared(draw))
    blocks = device_blocks(sch.func)
    return sch, [blocks[k].name for k in (-1, draw.integers(len(blocks)))]


@pytest.mark.parametrize("seed", range(6))
def test_too_many_blocks_are_counted_as_they_would_be_made(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sch, readers = drawn(seed)
    told, made = [], []
    for most in range(0, 40, 3):
        monkeypatch.setattr(alone, "AGAIN", most)
        told.append(alone.too_many(device_blocks(sch.func), readers))
        trial = sch.copy()
        try:
            for name in readers:
                alone.apart(trial, name, set())
        except ScheduleError as error:
            assert error.reason == f"more than {most} blocks would be computed again"
            made.append(True)
        else:
            made.append(False)
            break
    assert told == made and made[0] and not made[-1]


def told_of(blocks: list[Block], copies: frozenset[str]) -> list[tuple[object, ...]]:
    """Each block without names: whose results it reads, at which of its iterators, and whether it is one of some."""
    at = {store_of(b).buffer: n for n, b in reversed([*enumerate(blocks)])}

    def places(block: Block, indices: tuple[Expr, ...]) -> list[list[int]]:
        own = [iv.var for iv in block.iter_vars]
        return [[own.index(v) for v in free_vars(i)] for i in indices]

    return [(
        block.name in copies, block.init is None, places(block, store_of(block).indices),
        [(at.get(x.buffer, x.buffer.name), places(block, x.indices)) for x in loads_of(block)],
        [at.get(region.buffer, region.buffer.name) for region in block.reads],
    ) for block in blocks]


@pytest.mark.parametrize("seed", range(8))
def test_the_blocks_that_are_foreseen_are_those_that_are_made(seed: int) -> None:
    sch, readers = drawn(seed)
    before = device_blocks(sch.func)
    some = {b.name for b in before[::2]}
    if alone.too_many(before, readers):
        readers = readers[1:]
    found = alone.foreseen(before, readers, some)
    assert found is not None and some <= found[1]
    copies = {*some}
    for name in readers:
        alone.apart(sch, name, copies)
    made = device_blocks(sch.func)
    assert told_of(found[0], found[1]) == told_of(made, frozenset(copies))
    assert len({b.name for b in found[0]}) == len({b.ident for b in found[0]}) == len(made)


def heads(rows: int, part: int) -> PrimFunc:
    """Scores of two heads, of which one reader reads all, and one as many rows of as many heads."""
    q, k = (te.placeholder((2, SIZE, SIZE), "int8", name=name) for name in "qk")
    d = te.reduce_axis((0, SIZE), name="d")
    s = te.compute((2, SIZE, SIZE), lambda h, i, j: te.sum(
        q[h, i, d].astype("int32") * k[h, j, d].astype("int32"), axis=d), name="s")
    p = te.compute((2, SIZE, SIZE), lambda h, i, j: (s[h, i, j] >> 7).astype("int8"), name="p")
    a = te.compute((part, rows, SIZE), lambda h, i, j: te.max(p[h, i, j], te.const(0, "int8")), name="a")
    b = te.compute((2, SIZE, SIZE), lambda h, i, j: te.max(p[h, i, j], te.const(1, "int8")), name="b")
    return te.create_prim_func([q, k, a, b])


@pytest.mark.parametrize(("rows", "part", "known"), [(SIZE, 2, True), (SIZE // 2, 2, False), (SIZE, 1, False)])
def test_of_what_might_be_by_element_no_part_is_foreseen(rows: int, part: int, known: bool) -> None:
    """How much a product fills of lanes depends on its domain, which may be less where less is read."""
    blocks = device_blocks(heads(rows, part))
    # One has a copy, and what it is a copy of is left to the other.
    assert all((alone.foreseen(blocks, [reader], ()) is not None) == known for reader in "ab")
    assert alone.foreseen(blocks, ["s"], ()) is not None  # nothing is computed again
    assert alone.foreseen([*blocks[:2], replace(blocks[2], name="p"), blocks[3]], ["b"], ()) is None  # whose name is it?


@T.prim_func
def in_place(t: T.Buffer((16,), "int8")):
    u = T.alloc_buffer((16,), "int8")
    for i in range(16):
        with T.block("u"):
            vi = T.axis.spatial(16, i)
            u[vi] = t[vi] >> 1
    for i in range(16):
        with T.block("t"):
            vi = T.axis.spatial(16, i)
            t[vi] = u[vi]


def test_of_what_is_made_behind_its_reader_nothing_is_foreseen() -> None:
    blocks = device_blocks(in_place)
    assert alone.foreseen(blocks, ["t"], ()) is None and not alone.too_many(blocks, ["u", "t"])
