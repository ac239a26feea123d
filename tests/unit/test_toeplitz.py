"""toeplitz and repeat_read: sums over windows as products with banded operands, and copies that have elements several times."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused

from autosched.errors import ScheduleError
from autosched.ir import IRModule, PrimFunc
from autosched.schedule import Schedule
from autosched.script import parse

Verify = Callable[[Schedule, PrimFunc | IRModule], Schedule]
Same = Callable[..., None]

HEAD = "from autosched.script import T\n\n@T.prim_func\n"


def window(
    results: int = 14, taps: int = 3, step: int = 1, stride: int = 1, start: int = 0, size: int | None = None, rows: int = 7,
    weight: int | None = None, swapped: bool = False, data: str = "", other: str = "", kind: str = "int8", out: str = "int32",
    more: str = "",
) -> PrimFunc:
    """A sum over a window of rows of two planes; ``size``: of the data, by default up to the last span's end."""
    last = (results - 1) // rows * rows * step + (rows - 1) * step + (taps - 1) * stride + start
    at = data or f"A[vc, vi * {step} + vk * {stride} + {start}]"
    a, w = f"T.cast({at}, '{out}')", f"T.cast({other or 'W[vc, vk]'}, '{out}')"
    term = f"{w} * {a}" if swapped else f"{a} * {w}{more}"
    return parse(HEAD + f"""def main(A: T.Buffer((2, {last + 1 if size is None else size}), "{kind}"),
         W: T.Buffer((2, {taps if weight is None else weight}), "{kind}"), C: T.Buffer((2, {results}), "{out}")):
    for c, i, k in T.grid(2, {results}, {taps}):
        with T.block("C"):
            vc, vi, vk = T.axis.remap("SSR", [c, i, k])
            with T.init():
                C[vc, vi] = T.cast(0, "{out}")
            C[vc, vi] = C[vc, vi] + {term}
""")  # type: ignore[return-value]


@pytest.mark.parametrize("given", [
    {}, {"results": 13}, {"results": 15}, {"results": 5}, {"rows": 1}, {"rows": 14}, {"rows": 20}, {"step": 2}, {"stride": 2},
    {"step": 2, "stride": 3, "start": 4}, {"step": 3, "stride": 2, "taps": 5, "rows": 4}, {"taps": 1}, {"swapped": True},
    {"step": 4, "taps": 2, "rows": 3},  # gaps between windows
])
def test_a_banded_operand_sums_up_the_same(given: dict[str, int], same: Same, verify_trace_roundtrip: Verify) -> None:
    func = window(**given)  # type: ignore[arg-type]
    sch = Schedule(func)
    rows, taps = given.get("rows", 7), given.get("taps", 3)
    made = sch.get(sch.toeplitz("C", 1, 2, rows))
    span = (rows - 1) * given.get("step", 1) + (taps - 1) * given.get("stride", 1) + 1
    (band,) = [w.buffer for w in made.writes]
    assert [int(e.value) for e in band.shape] == [2, rows, span]
    same(func, sch)
    verify_trace_roundtrip(sch, func)


def test_both_axes_of_a_plane_one_after_the_other(same: Same) -> None:
    func = parse(HEAD + """def main(A: T.Buffer((10, 12), "int8"), W: T.Buffer((3, 4), "int8"), C: T.Buffer((8, 9), "int32")):
    for y, x, p, q in T.grid(8, 9, 3, 4):
        with T.block("C"):
            vy, vx, vp, vq = T.axis.remap("SSRR", [y, x, p, q])
            with T.init():
                C[vy, vx] = 5
            C[vy, vx] += T.cast(A[vy + vp, vx + vq], "int32") * T.cast(W[vp, vq], "int32")
""")
    sch = Schedule(func)
    sch.toeplitz("C", 1, 3, 3)
    sch.toeplitz("C", 0, 2, 4)
    assert "A[vy // 4 * 4 + vp, vx // 3 * 3 + vq]" in sch.script() and "W_band_band[vy % 4, vp, vx % 3, vq]" in sch.script()
    same(func, sch)


@pytest.mark.parametrize(("given", "args", "code"), [
    ({"size": 15}, (1, 2, 7), "domain"), ({"results": 13, "size": 15}, (1, 2, 7), "domain"),
    ({"start": -1, "size": 16}, (1, 2, 7), "domain"),
    ({}, (1, 2, 0), "argument"), ({}, (2, 1, 7), "argument"), ({}, (3, 2, 7), "argument"), ({}, (1, 1, 7), "argument"),
    ({"weight": 4}, (1, 2, 7), "index"), ({"other": "W[vc, 2 - vk]"}, (1, 2, 7), "index"),
    ({"other": "W[vk % 2, vk]"}, (1, 2, 7), "index"), ({"other": "W[vc, (vi + vk) % 3]"}, (1, 2, 7), "index"),
    ({"data": "A[vc, vi]"}, (1, 2, 7), "index"), ({"data": "A[vc, vk]"}, (1, 2, 7), "index"),
    ({"data": "A[vi % 2, vi + vk]"}, (1, 2, 7), "index"), ({"data": "A[vc, (vi + vk) % 8]"}, (1, 2, 7), "index"),
    ({"data": "A[vc, vi + vk * vk]"}, (1, 2, 7), "index"), ({"data": "A[vc, 13 - vi + vk]"}, (1, 2, 7), "index"),
    ({"data": "A[vc, vi + 2 - vk]"}, (1, 2, 7), "index"), ({"other": "A[vc, vi + vk]"}, (1, 2, 7), "index"),
    ({"more": " + 1"}, (1, 2, 7), "form"), ({"more": " * vk"}, (1, 2, 7), "form"),
    ({"kind": "float32", "out": "float32"}, (1, 2, 7), "form"),
])
def test_what_is_no_sum_over_a_window_is_refused(given: dict[str, int], args: tuple[int, int, int], code: str) -> None:
    with refused(ScheduleError, code):
        Schedule(window(**given)).toeplitz("C", *args)  # type: ignore[arg-type]


def test_loops_that_are_not_the_iterators_are_refused() -> None:
    sch = Schedule(window())
    sch.split(sch.get_loops("C")[1], [2, None])
    with refused(ScheduleError, "domain"):
        sch.toeplitz("C", 1, 2, 7)
    sch = Schedule(window())
    sch.decompose_reduction("C", sch.get_loops("C")[2])
    with refused(ScheduleError, "place"):
        sch.toeplitz("C_update", 1, 2, 7)


READS = HEAD + """def main(A: T.Buffer((18,), "int8"), B: T.Buffer((16,), "int8"), C: T.Buffer((16, 3), "int8")):
    D = T.alloc_buffer((18,), "int8")
    for i in range(18):
        with T.block("D"):
            vi = T.axis.spatial(18, i)
            D[vi] = A[vi] + T.int8(1)
    for i in range(16):
        with T.block("E"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.int8(2)
    for i, j in T.grid(16, 3):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = D[vi + vj] + {more}
"""


def reads(more: str = "T.int8(1)") -> PrimFunc:
    return parse(READS.replace("{more}", more))  # type: ignore[return-value]


@pytest.mark.parametrize(("there", "origin", "shape"), [
    (lambda i, j: (i // 4, i % 4 + j), lambda a, b: (a * 4 + b,), [4, 6]),
    (lambda i, j: (i, j), lambda a, b: (a + b,), [16, 3]),
    (lambda i, j: (i + j + 2,), lambda a: (a - 2,), [20]),  # two elements nobody reads are 0
    (lambda i, j: (j, i + j), lambda a, b: (b,), [3, 18]),  # an index that the operand does not depend on
])
def test_a_copy_has_what_the_block_reads(
    there: Callable[..., tuple[object, ...]], origin: Callable[..., tuple[object, ...]], shape: list[int], same: Same,
    verify_trace_roundtrip: Verify,
) -> None:
    func = reads()
    sch = Schedule(func)
    made = sch.repeat_read("C", "D", there, origin)
    assert [int(e.value) for e in sch.get(made).writes[0].buffer.shape] == shape
    names = [sch.get(b).name for b in sch.get_child_blocks(sch.get_sblock("root"))]
    assert names == ["D", "D_repeat", "E", "C"]  # behind what fills it, in front of others
    same(func, sch)
    verify_trace_roundtrip(sch, func)


def test_a_parameter_is_copied_in_front_of_all(same: Same) -> None:
    func = parse(READS.replace("D[vi + vj]", "A[vi + vj]").replace("{more}", "T.int8(1)"))
    sch = Schedule(func)
    sch.repeat_read("C", "A", lambda i, j: (i, j), lambda a, b: (a + b,))
    assert [sch.get(b).name for b in sch.get_child_blocks(sch.get_sblock("root"))] == ["A_repeat", "D", "E", "C"]
    same(func, sch)


@pytest.mark.parametrize(("there", "origin", "code"), [
    (lambda i, j: (i // 4, i % 4 + j), lambda a, b: (a * 4 + b + 1,), "layout"),
    (lambda i, j: (i // 4, i % 4 + j), lambda a, b: (a * 3 + b,), "layout"),
    (lambda i, j: (i, j), lambda a, b: (a, b), "layout"),
    (lambda i, j: (i, j), lambda a, b: (a + b, b), "layout"),
    (lambda i, j: (i + j - 1,), lambda a: (a + 1,), "domain"),
])
def test_maps_that_lead_elsewhere_are_refused(
    there: Callable[..., tuple[object, ...]], origin: Callable[..., tuple[object, ...]], code: str,
) -> None:
    with refused(ScheduleError, code):
        Schedule(reads()).repeat_read("C", "D", there, origin)


def test_what_is_read_twice_or_written_is_refused() -> None:
    with refused(ScheduleError, "reader"):
        Schedule(reads("D[vi]")).repeat_read("C", "D", lambda i, j: (i, j), lambda a, b: (a + b,))
    with refused(ScheduleError, "argument"):
        Schedule(reads()).repeat_read("C", "D", lambda i, j: (i, j), lambda a: (a,))
    func = parse(READS.replace("{more}", "C[vi, vj]"))
    with refused(ScheduleError, "writer"):
        Schedule(func).repeat_read("C", "C", lambda i, j: (i, j), lambda a, b: (a, b))

