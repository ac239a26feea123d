"""Stores outside of blocks beside blocks that are moved, inlined or copied: where their order matters, steps are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autosched.errors import ScheduleError
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule
from autosched.script import parse

Same = Callable[..., None]


def program(before: str = "", between: str = "", behind: str = "", inside: str = "") -> PrimFunc:
    """B of A, D of B, C of stores alone: in front, between, behind, or in the loop of B."""
    func = parse(f'''
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    {_loop(before)}
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2
        {inside}
    {_loop(between)}
    for i in range(8):
        with T.sblock("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] + 1
    {_loop(behind)}
''')
    assert isinstance(func, PrimFunc)
    return func


def _loop(store: str) -> str:
    return f"for k in range(8):\n        {store}" if store else ""


READ, WRITE = "C[k] = B[k]", "B[k] = C[k]"
STEPS: dict[str, Callable[[Schedule], object]] = {
    "compute_at": lambda s: s.compute_at("B", s.get_loops("D")[0]),
    "reverse_compute_at": lambda s: s.reverse_compute_at("D", s.get_loops("B")[0]),
    "compute_inline": lambda s: s.compute_inline("B"),
    "reverse_compute_inline": lambda s: s.reverse_compute_inline("D"),
    "merge": lambda s: s.merge(s.get_loops("B")[0], s.get_loops("D")[0]),
    "cache_read": lambda s: s.cache_read("D", "B", "shared"),
    "cache_read of A": lambda s: s.cache_read("B", "A", "shared"),
    "cache_write": lambda s: s.cache_write("B", "B", "shared"),
    "reindex": lambda s: s.reindex("B", "B"),
    "reindex_cache_read": lambda s: s.reindex_cache_read("D", "B", "shared", lambda i: (i,)),
    "reindex_cache_write": lambda s: s.reindex_cache_write("B", "B", "shared", lambda i: (i,)),
    "read_at": lambda s: s.read_at(s.get_loops("D")[0], "D", "B", "shared"),
    "write_at": lambda s: s.write_at(s.get_loops("B")[0], "B", "B", "shared"),
    "set_scope": lambda s: s.set_scope("B", 0, "shared"),
    "transform_layout": lambda s: s.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4)),
}
ANYWHERE = {"compute_inline", "reverse_compute_inline"}  # nothing of the buffer is left
TURNED = {"compute_at", "merge"}  # what stands between comes before what it stood behind


@pytest.mark.parametrize(
    ("where", "refusing"),
    [
        ({"between": READ}, {*TURNED, *ANYWHERE, "cache_write", "reindex_cache_write"}),
        ({"between": WRITE}, {*TURNED, *ANYWHERE, "reverse_compute_at", "cache_write", "reindex_cache_write"}),
        ({"before": WRITE}, {"compute_at", *ANYWHERE}),
        ({"before": "A[k] = C[k]"}, {"cache_read of A"}),
        ({"between": "A[k] = C[k]"}, {*TURNED, "compute_inline"}),
        ({"behind": READ}, {"compute_at", *ANYWHERE}),  # only what D reads would be computed
        ({"inside": "C[i] = B[i]"}, {"compute_at", *ANYWHERE, "cache_write", "reindex", "reindex_cache_write"}),
        ({"between": "C[k] = A[k]"}, set()),
        ({"before": "C[k] = A[k]", "behind": "C[k] = D[k]"}, set()),
        ({"between": "D[k] = C[k]"}, {"reverse_compute_at", "reverse_compute_inline", "merge"}),
    ],
)
@pytest.mark.parametrize("step", STEPS)
def test_stores_outside_of_blocks(where: dict[str, str], refusing: set[str], step: str, same: Same) -> None:
    func = program(**where)
    sch = Schedule(func)
    if step in refusing:
        with pytest.raises(ScheduleError, match="outside of blocks"):
            STEPS[step](sch)
        assert sch.func is func
    else:
        STEPS[step](sch)
        same(func, sch)


@pytest.mark.parametrize("check", [True, False])
def test_layouts_of_buffers_that_stores_use(check: bool, same: Same) -> None:
    func = program(between=READ)
    sch = Schedule(func, enable_check=check)
    STEPS["transform_layout"](sch)
    same(func, sch)


def test_the_way_out_makes_blocks_of_them(same: Same) -> None:
    func = program(between="C[k] = B[k]")
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match=r'try: sch.blockize_stores\("root"\) first'):
        STEPS["cache_write"](sch)
    sch.blockize_stores("root")
    STEPS["cache_write"](sch)
    same(func, sch)


def test_copies_are_made_for_readers_that_are_blocks(same: Same) -> None:
    text = '''
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32"), E: T.Buffer((8,), "int32")):
    B = T.sblock_alloc_buffer((8,), "int32")
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2
    for i in range({first}):
        with T.sblock("C"):
            vi = T.axis.spatial({first}, i)
            C[vi] = B[vi] + 1
    for i in range(8):
        with T.sblock("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] + 2
    for i in range(8):
        E[i] = B[i]
'''
    with pytest.raises(ScheduleError, match="B is read outside of blocks"):
        Schedule(parse(text.format(first=4))).recompute_at_consumers("B")
    func = parse(text.format(first=8))
    sch = Schedule(func)
    sch.recompute_at_consumers("B")
    same(func, sch)
