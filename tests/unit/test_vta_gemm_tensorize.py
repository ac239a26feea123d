"""VTA's matrix multiply on a 1 x 16 by 16 x 16 intrinsic: unit dimensions match, and a refusal tells what stands in the way."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from refusals import refused

from autosched.errors import ScheduleError, UnknownNameError
from autosched.ir.interp import run
from autosched.ir.printer import script
from autosched.ir.stmt import PrimFunc
from autosched.schedule import Schedule, Trace
from autosched.schedule.primitives.tensorize.intrin import TensorIntrin
from autosched.script import T


@T.prim_func
def gemm_desc(
    local_wgt_buffer: T.Buffer((16, 16), "int8"), local_inp_buffer: T.Buffer((1, 16), "int8"),
    out: T.Buffer((1, 16), "int32"),
) -> None:
    with T.block("root"):
        T.reads(out[0:1, 0:16], local_inp_buffer[0:1, 0:16], local_wgt_buffer[0:16, 0:16])
        T.writes(out[0:1, 0:16])
        for i, j, k in T.grid(1, 16, 16):
            with T.block("out"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                out[v_i, v_j] += T.Cast("int32", local_inp_buffer[v_i, v_k]) \
                    * T.Cast("int32", local_wgt_buffer[v_j, v_k])


@T.prim_func
def gemm_impl(
    local_wgt_buffer: T.Buffer((16, 16), "int8"), local_inp_buffer: T.Buffer((1, 16), "int8"),
    out: T.Buffer((1, 16), "int32"),
) -> None:
    with T.block("root"):
        T.reads(out[0:1, 0:16], local_inp_buffer[0:1, 0:16], local_wgt_buffer[0:16, 0:16])
        T.writes(out[0:1, 0:16])
        T.evaluate(T.call_extern("int32", "gemm_1x16x16", out.data, local_inp_buffer.data, local_wgt_buffer.data))


TensorIntrin.register("test.gemm.1x16x16", gemm_desc, gemm_impl)


def sized(n: int) -> str:
    """Registers and names an intrinsic of n x 16 by 16 x 16."""
    @T.prim_func
    def desc(A: T.Buffer((16, 16), "int8"), B: T.Buffer((n, 16), "int8"), C: T.Buffer((n, 16), "int32")) -> None:
        with T.block("root"):
            T.reads(C[0:n, 0:16], B[0:n, 0:16], A[0:16, 0:16])
            T.writes(C[0:n, 0:16])
            for i, j, k in T.grid(n, 16, 16):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] += B[vi, vk].astype("int32") * A[vj, vk].astype("int32")

    @T.prim_func
    def impl(A: T.Buffer((16, 16), "int8"), B: T.Buffer((n, 16), "int8"), C: T.Buffer((n, 16), "int32")) -> None:
        with T.block("root"):
            T.reads(A[0:16, 0:16], B[0:n, 0:16], C[0:n, 0:16])
            T.writes(C[0:n, 0:16])
            T.evaluate(T.call_extern("int32", f"gemm_{n}_rows", A.data, B.data, C.data))

    TensorIntrin.register(f"test.rows.{n}", desc, impl, override=True)
    return f"test.rows.{n}"


@T.prim_func
def gemm(
    A: T.Buffer((1, 4, 1, 16), "int8"), B: T.Buffer((3, 4, 16, 16), "int8"), D: T.Buffer((1, 3, 1, 16), "int8")
):
    C = T.alloc_buffer((1, 3, 1, 16), "int32")
    for I_1, J, i, j, K, k in T.grid(1, 3, 1, 16, 4, 16):
        with T.block("C"):
            v_I, v_J, v_i, v_j, v_K, v_k = T.axis.remap("SSSSRR", [I_1, J, i, j, K, k])
            with T.init():
                C[v_I, v_J, v_i, v_j] = 0
            C[v_I, v_J, v_i, v_j] += T.Cast("int32", A[v_I, v_K, v_i, v_k]) * T.Cast("int32", B[v_J, v_K, v_j, v_k])
    for I_1, J, i, j in T.grid(1, 3, 1, 16):
        with T.block("D"):
            v_I, v_J, v_i, v_j = T.axis.remap("SSSS", [I_1, J, i, j])
            D[v_I, v_J, v_i, v_j] = T.Cast("int8", C[v_I, v_J, v_i, v_j])


@T.prim_func
def plain(A: T.Buffer((32, 32), "int8"), B: T.Buffer((32, 32), "int8"), C: T.Buffer((32, 32), "int32")) -> None:
    for i, j, k in T.grid(32, 32, 32):
        with T.block("update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] += B[vi, vk].astype("int32") * A[vj, vk].astype("int32")


def packed(func: PrimFunc) -> np.ndarray:
    rng = np.random.default_rng(5)
    a = rng.integers(-128, 128, (1, 4, 1, 16)).astype(np.int8)
    return run(func, a, rng.integers(-128, 128, (3, 4, 16, 16)).astype(np.int8))["D"]


def square(func: PrimFunc) -> bool:
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-128, 128, (32, 32)).astype(np.int8) for _ in range(2))
    c = np.zeros((32, 32), np.int32)
    run(func, a, b, c)
    return np.array_equal(c, b.astype(np.int32) @ a.astype(np.int32).T)


def as_first_written() -> Schedule:
    """K between j and k, with the initialisation and both caches under j."""
    sch = Schedule(gemm)
    block = sch.get_block("C")
    a_cache = sch.reindex_cache_read(block, 0, "global", lambda b, J, i, j, K, k: (b, K, i, k))
    b_cache = sch.reindex_cache_read(block, 1, "global", lambda b, J, i, j, K, k: (J, K, j, k))
    _, _, _, _, K, _ = sch.get_loops(block)
    sch.compute_at(a_cache, K)
    sch.compute_at(b_cache, K)
    sch.decompose_reduction(block, K)
    sch.reorder_block_iter_var(block, (4, 0, 1, 2, 3, 5))
    return sch


@pytest.mark.parametrize("target", ["block", "j", "k", "K"])
def test_as_first_written_it_is_refused_with_names_and_lines(target: str) -> None:
    sch = as_first_written()
    site = sch.get_block("C_update")
    if target != "block":
        site = next(rv for rv in sch.get_loops(site) if sch.get(rv).var.name == target)
    before = sch.func
    with pytest.raises(ScheduleError) as caught:
        sch.tensorize(site, "test.gemm.1x16x16")
    text = str(caught.value)
    assert "but loop K, C_init, A_global and B_global stand between j and k" in text
    assert len(text.splitlines()) <= 15
    assert str(pickle.loads(pickle.dumps(caught.value))) == text
    assert sch.func is before
    lines = [line.strip() for line in caught.value.hint.splitlines()[1:]]
    assert lines == [
        "sch.reorder(K, j, k)", 'sch.compute_at("A_global", K)', 'sch.compute_at("B_global", K)',
        'sch.decompose_reduction("C", K)', 'sch.tensorize(j, "test.gemm.1x16x16")',
    ]


def test_the_lines_to_add_work() -> None:
    with pytest.raises(ScheduleError) as caught:
        sch = as_first_written()
        sch.tensorize("C_update", "test.gemm.1x16x16")
    sch = Schedule(gemm)
    block = sch.get_block("C")
    sch.cache_read(block, 0, "global")
    sch.cache_read(block, 1, "global")
    names = dict(zip(("I", "J", "i", "j", "K", "k"), sch.get_loops(block)))
    for line in caught.value.hint.splitlines()[1:]:
        exec(line.strip(), {"sch": sch, **names})
    assert "gemm_1x16x16" in script(sch.func)
    assert np.array_equal(packed(sch.func), packed(gemm))


@pytest.mark.parametrize("site", ["i", "j", "block"])
@pytest.mark.parametrize("when", ["last", "before the initialisation", "before the caches"])
def test_with_the_loops_together_it_works_in_every_order(site: str, when: str) -> None:
    sch = Schedule(gemm)
    block = sch.get_block("C")
    _, J, i, j, K, k = sch.get_loops(block)
    sch.reorder(K, i, j, k)
    target = {"i": i, "j": j, "block": block}[site]
    if when == "before the caches":
        sch.tensorize(target, "test.gemm.1x16x16")
    caches = [sch.cache_read(block, n, "global") for n in (0, 1)]
    for cache, loop in zip(caches, (K, J)):
        sch.compute_at(cache, loop)
    if when == "before the initialisation":
        sch.tensorize(target, "test.gemm.1x16x16")
    sch.decompose_reduction(block, K)
    if when == "last":
        sch.tensorize(target, "test.gemm.1x16x16")
    sch.reverse_compute_at("D", J)
    assert script(sch.func).count("gemm_1x16x16") == 1
    assert np.array_equal(packed(sch.func), packed(gemm))
    again = Schedule(gemm)
    Trace.from_json(sch.trace.as_json()).apply_to_schedule(again)
    assert again.func == sch.func


@pytest.mark.parametrize("n", [4, 2, 1])
@pytest.mark.parametrize("site", ["loop", "blockized", "block"])
@pytest.mark.parametrize("preserve", [True, False])
def test_rows_of_every_number_match(n: int, site: str, preserve: bool) -> None:
    name = sized(n)
    sch = Schedule(plain)
    block = sch.get_block("update")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, (32 // n, n))
    j0, j1 = sch.split(j, (2, 16))
    k0, k1 = sch.split(k, (2, 16))
    sch.reorder(i0, j0, k0, i1, j1, k1)
    target = {"loop": i1, "block": block}.get(site) or sch.blockize(i1, preserve_unit_iters=preserve)
    sch.tensorize(target, name, preserve_unit_iters=preserve)
    assert script(sch.func).count(f"gemm_{n}_rows") == 1
    assert square(sch.func)
    if site != "blockized":
        # The handle of the block now means the block of the intrinsic.
        assert sch.get(block).name == "update_o"


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_order_of_the_covered_loops_does_not_matter(order: tuple[int, ...]) -> None:
    name = sized(4)
    sch = Schedule(plain)
    pairs = [sch.split(loop, (None, f)) for loop, f in zip(sch.get_loops("update"), (4, 16, 16))]
    inner = [pairs[n][1] for n in order]
    sch.reorder(*(p[0] for p in pairs), *inner)
    sch.tensorize(inner[0], name)
    assert square(sch.func)


def test_a_loop_too_many_or_too_few() -> None:
    name = sized(4)
    sch = Schedule(plain)
    i0, j0, k0, i1, j1, k1 = (rv for pair in zip(*[
        sch.split(loop, (None, f)) for loop, f in zip(sch.get_loops("update"), (4, 16, 16))
    ]) for rv in pair)
    sch.reorder(i0, j0, k0, i1, j1, k1)
    with pytest.raises(ScheduleError, match=r"covers loops i_1 \(4\), j_1 \(16\), k_1 \(16\) around update, not k_0"):
        sch.tensorize(k0, name)
    with pytest.raises(ScheduleError, match=r"needs loops i_1 \(4\), j_1 \(16\), k_1 \(16\) around update; j_1 leaves"):
        sch.tensorize(j1, name)
    sch.tensorize(i1, name)
    with refused(ScheduleError, "intrinsic"):
        sch.tensorize("update_o", name)


def test_untiled_loops_get_the_splits_to_add() -> None:
    sch = Schedule(plain)
    name = sized(2)
    with pytest.raises(ScheduleError) as caught:
        sch.tensorize("update", name)
    assert "i runs 32 times, the intrinsic 2" in str(caught.value)
    i, j, k = sch.get_loops("update")
    scope = {"sch": sch, "i": i, "j": j, "k": k}
    for line in caught.value.hint.split("; "):
        exec(line, scope)
    assert square(sch.func)


def test_what_differs_is_told() -> None:
    @T.prim_func
    def minus(A: T.Buffer((16, 16), "int8"), B: T.Buffer((4, 16), "int8"), C: T.Buffer((4, 16), "int32")):
        for i, j, k in T.grid(4, 16, 16):
            with T.sblock("u"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] - B[vi, vk].astype("int32") * A[vj, vk].astype("int32")

    name = sized(4)
    with pytest.raises(ScheduleError, match=r"computes C.*-.* where the intrinsic computes"):
        Schedule(minus).tensorize("u", name)

    @T.prim_func
    def transposed(A: T.Buffer((16, 16), "int8"), B: T.Buffer((4, 16), "int8"), C: T.Buffer((4, 16), "int32")):
        for i, j, k in T.grid(4, 16, 16):
            with T.sblock("u"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] += B[vi, vk].astype("int32") * A[vk, vj].astype("int32")

    with refused(ScheduleError, "intrinsic"):
        Schedule(transposed).tensorize("u", name)

    @T.prim_func
    def swapped(A: T.Buffer((16, 16), "int8"), B: T.Buffer((4, 16), "int8"), C: T.Buffer((4, 16), "int32")):
        for i, j, k in T.grid(4, 16, 16):
            with T.sblock("u"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = A[vj, vk].astype("int32") * B[vi, vk].astype("int32") + C[vi, vj]

    sch = Schedule(swapped)
    sch.tensorize("u", name)
    assert "gemm_4_rows" in script(sch.func)


def test_the_scope_of_a_buffer_counts() -> None:
    sch = Schedule(gemm)
    block = sch.get_block("C")
    *_, K, _ = sch.get_loops(block)
    _, _, i, j, _, k = sch.get_loops(block)
    sch.reorder(K, i, j, k)
    sch.cache_read(block, 0, "local.inp_buffer")
    with pytest.raises(ScheduleError, match=r"A_local.inp_buffer is in local.inp_buffer, the intrinsic wants it in global"):
        sch.tensorize(block, "test.gemm.1x16x16")


def test_a_partial_tile_is_refused() -> None:
    sch = Schedule(plain)
    i, j, k = sch.get_loops("update")
    i0, i1 = sch.split(i, (None, 5))
    j0, j1 = sch.split(j, (None, 16))
    k0, k1 = sch.split(k, (None, 16))
    sch.reorder(i0, j0, k0, i1, j1, k1)
    with refused(ScheduleError, "domain"):
        sch.tensorize(i1, sized(5))


def test_an_unknown_intrinsic_gets_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'test\.gemm\.1x16x16'"):
        Schedule(gemm).tensorize("C", "test.gemm.1x16x17")
