"""Tensor definitions become programs: names, order of axes, regions, results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched import te
from autosched.errors import NotSupportedError, ProgramError
from autosched.ir import PrimFunc, interp
from autosched.ir.expr import Expr, binary
from autosched.ir.functor import walk
from autosched.ir.stmt import Block, For
from autosched.schedule import Schedule
from autosched.script import parse


def blocks(func: PrimFunc) -> dict[str, Block]:
    return {b.name: b for b in walk(func.body) if isinstance(b, Block)}


def run(func: PrimFunc, *arrays: np.ndarray, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    out = np.zeros(shape, dtype)
    interp.run(func, *arrays, out)
    return out


def test_packed_gemm_prints_as_it_should() -> None:
    o, n, m = 1, 16, 16
    K, k = te.reduce_axis((0, n), name="K"), te.reduce_axis((0, 16), name="k")
    A = te.placeholder((o, n, 1, 16), name="A", dtype="int8")
    B = te.placeholder((m, n, 16, 16), name="B", dtype="int8")
    C = te.compute(
        (o, m, 1, 16),
        lambda I, J, i, j: te.sum(A[I, K, i, k].astype("int32") * B[J, K, j, k].astype("int32"), axis=[K, k]), name="C")  # noqa: E741
    D = te.compute((o, m, 1, 16), lambda I, J, i, j: C(I, J, i, j).astype("int8"), name="D")  # noqa: E741
    func = te.create_prim_func([A, B, D]).with_attr({"global_symbol": "gemm"})
    assert func == parse("""
        @T.prim_func
        def gemm(A: T.Buffer((1, 16, 1, 16), "int8"), B: T.Buffer((16, 16, 16, 16), "int8"),
                 D: T.Buffer((1, 16, 1, 16), "int8")):
            T.func_attr({"tir.noalias": True})
            C = T.alloc_buffer((1, 16, 1, 16), "int32")
            for I_1, J, i, j, K, k in T.grid(1, 16, 1, 16, 16, 16):
                with T.block("C"):
                    v_I, v_J, v_i, v_j, v_K, v_k = T.axis.remap("SSSSRR", [I_1, J, i, j, K, k])
                    T.reads(A[v_I, v_K, v_i, v_k], B[v_J, v_K, v_j, v_k])
                    T.writes(C[v_I, v_J, v_i, v_j])
                    with T.init():
                        C[v_I, v_J, v_i, v_j] = 0
                    C[v_I, v_J, v_i, v_j] = C[v_I, v_J, v_i, v_j] + T.Cast("int32", A[v_I, v_K, v_i, v_k]) * T.Cast(
                        "int32", B[v_J, v_K, v_j, v_k])
            for I_1, J, i, j in T.grid(1, 16, 1, 16):
                with T.block("D"):
                    v_I, v_J, v_i, v_j = T.axis.remap("SSSS", [I_1, J, i, j])
                    D[v_I, v_J, v_i, v_j] = T.Cast("int8", C[v_I, v_J, v_i, v_j])
    """)
    assert func.name == "gemm"
    text = func.script()
    assert "for I_1, J, i, j, K, k in T.grid(1, 16, 1, 16, 16, 16):" in text
    assert 'v_I, v_J, v_i, v_j, v_K, v_k = T.axis.remap("SSSSRR", [I_1, J, i, j, K, k])' in text


def test_spatial_axes_come_before_reduction_axes_in_the_order_given() -> None:
    k1, k0 = te.reduce_axis((0, 3), name="k1"), te.reduce_axis((1, 5), name="k0")
    A = te.placeholder((4, 5, 3), name="A")
    B = te.compute((4,), lambda i: te.max(A[i, k0, k1], axis=[k1, k0]), name="B")
    func = te.create_prim_func([A, B])
    loops = [s.var.name for s in walk(func.body) if isinstance(s, For)]
    assert loops == ["i", "k1", "k0"]
    ivs = blocks(func)["B"].iter_vars
    assert [(iv.var.name, iv.kind, iv.dom.min.value, iv.dom.extent.value) for iv in ivs] == [
        ("v_i", "spatial", 0, 4), ("v_k1", "reduce", 0, 3), ("v_k0", "reduce", 1, 4)
    ]
    a = np.random.default_rng(0).standard_normal((4, 5, 3)).astype("float32")
    np.testing.assert_array_equal(run(func, a, shape=(4,), dtype="float32"), a[:, 1:].max((1, 2)))


def test_padded_convolution_equals_numpy_and_reads_only_what_exists() -> None:
    A = te.placeholder((4, 6, 6), dtype="int8", name="data")
    W = te.placeholder((3, 4, 3, 3), dtype="int8", name="w")
    P = te.compute((4, 8, 8), lambda c, h, w: te.if_then_else(
        te.all(h >= 1, h < 7, w >= 1, w < 7), A[c, h - 1, w - 1], te.const(0, "int8")), name="pad")
    rc, ry, rx = (te.reduce_axis((0, e), name=n) for n, e in (("rc", 4), ("ry", 3), ("rx", 3)))
    C = te.compute((3, 6, 6), lambda f, y, x: te.sum(
        P[rc, y + ry, x + rx].astype("int32") * W[f, rc, ry, rx].astype("int32"), axis=[rc, ry, rx]), name="conv")
    S = te.compute((3, 6, 6), lambda *i: te.max(te.min(te.shift_right(C(*i), 2), 127), 0), name="clip")
    out = te.compute((3, 6, 6), lambda *i: S(*i).astype("int8"), name="out")
    func = te.create_prim_func([A, W, out])
    assert list(blocks(func)) == ["root", "pad", "conv", "clip", "out"]
    assert "T.reads(data[v_c, v_h - 1, v_w - 1])" in func.script()
    assert [b.name for b in func.body.block.alloc_buffers] == ["pad", "conv", "clip"]
    rng = np.random.default_rng(1)
    a, w = (rng.integers(-128, 128, s).astype("int8") for s in ((4, 6, 6), (3, 4, 3, 3)))
    p = np.pad(a.astype("int32"), ((0, 0), (1, 1), (1, 1)))
    want = np.zeros((3, 6, 6), "int32")
    for y in range(3):
        for x in range(3):
            want += np.einsum("chw,fc->fhw", p[:, y:y + 6, x:x + 6], w[:, :, y, x].astype("int32"))
    want = np.clip(want >> 2, 0, 127).astype("int8")
    np.testing.assert_array_equal(run(func, a, w, shape=(3, 6, 6), dtype="int8"), want)
    assert parse(func.script()) == func


def test_one_producer_of_two_consumers() -> None:
    n = 8
    inp = te.placeholder((n, n), name="inp")
    x = te.compute((n, n), lambda i, j: inp[i, j] + 1, name="x")
    j = te.reduce_axis((0, n), name="j")
    y = te.compute((n,), lambda i: te.sum(te.sin(x[i, j]), axis=[j]), name="y")
    j = te.reduce_axis((0, n), name="j")
    z = te.compute((n,), lambda i: te.sum(te.cos(x[i, j]), axis=[j]), name="z")
    oup = te.compute((n,), lambda i: y[i] * z[i], name="oup")
    func = te.create_prim_func([inp, oup])
    assert list(blocks(func)) == ["root", "x", "y", "z", "oup"]
    a = np.random.default_rng(2).standard_normal((n, n)).astype("float32")
    want = np.sin(a + 1).sum(1) * np.cos(a + 1).sum(1)
    np.testing.assert_allclose(run(func, a, shape=(n,), dtype="float32"), want, rtol=1e-5)


def test_a_printed_lowering_equals_its_definition() -> None:
    """Flat memory, views by address and shared subexpressions, as an older TVM printed them, mean what the definition means."""
    a, b, c = (te.placeholder(s, dtype=d, name=n) for s, d, n in (
        ((8, 16), "int8", "a_in"), ((16, 4), "int8", "b_in"), ((8, 4), "int32", "bias_in")))
    rk = te.reduce_axis((0, 16), name="k_o")
    res = te.compute((8, 4), lambda i, j: te.sum(a[i, rk] * b[rk, j] + c[i, j].astype("int8"), axis=rk), name="res")
    func = te.create_prim_func([a, b, c, res])
    lowered = parse("""
        @T.prim_func
        def main(a_in: T.Buffer((8, 16), "int8"), b_in: T.Buffer((16, 4), "int8"), bias_in: T.Buffer((8, 4), "int32"),
                 res: T.Buffer((8, 4), "int8")):
            T.func_attr({"from_legacy_te_schedule": T.bool(True), "global_symbol": "main", "tir.noalias": T.bool(True)})
            acc = T.allocate([32], "int8", "local.accumulator")
            acc_1 = T.Buffer((32,), "int8", data=acc, scope="local.accumulator", align=4)
            for i, j in T.grid(8, 4):
                acc_1[i * 4 + j] = T.int8(0)
                for k in range(16):
                    cse_var_1: T.int32 = i * 4 + j
                    a_in_1 = T.Buffer((128,), "int8", data=a_in.data)
                    b_in_1 = T.Buffer((64,), "int8", data=b_in.data)
                    bias_in_1 = T.Buffer((32,), "int32", data=bias_in.data)
                    acc_1[cse_var_1] = acc_1[cse_var_1] + (
                        a_in_1[i * 16 + k] * b_in_1[k * 4 + j] + T.Cast("int8", bias_in_1[cse_var_1]))
            for i, j in T.grid(8, 4):
                cse_var_2: T.int32 = i * 4 + j
                res_1 = T.Buffer((32,), "int8", data=res.data)
                res_1[cse_var_2] = acc_1[cse_var_2]
    """)
    assert parse(lowered.script()) == lowered
    rng = np.random.default_rng(3)
    arrays = [rng.integers(-100, 100, s).astype(d) for s, d in (((8, 16), "int8"), ((16, 4), "int8"), ((8, 4), "int32"))]
    np.testing.assert_array_equal(
        run(lowered, *arrays, shape=(8, 4), dtype="int8"), run(func, *arrays, shape=(8, 4), dtype="int8"))


def test_symbolic_extents() -> None:
    M, K, N = te.var("M", "int32"), te.var("K"), te.size_var("N")
    k = te.reduce_axis((0, K), "k")
    A, B = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
    C = te.compute((M, N), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")
    func = te.create_prim_func([A, B, C])
    assert "for m, n, k in T.grid(M, N, K):" in func.script()
    assert parse(func.script()) == func
    assert parse(func.script("block")) == func
    assert te.create_prim_func([M, A, B, C]).params[0] is M


def test_block_names_are_unique_and_scalars_have_an_instance() -> None:
    A = te.placeholder((16,), name="A")
    k = te.reduce_axis(16, name="k")
    B = te.compute((), lambda: te.sum(A[k], axis=k), name="B")
    C = te.compute((16,), lambda i: A[i] - B(), name="B", attrs={"note": 1})
    func = te.create_prim_func([A, C])
    assert list(blocks(func)) == ["root", "B", "B_1"]
    assert blocks(func)["B_1"].annotations == {"note": 1}
    D = te.compute((), lambda: A[3] * 2, name="D")
    assert [iv.var.name for iv in blocks(te.create_prim_func([A, D]))["D"].iter_vars] == ["vi"]


def test_conditional_reduction() -> None:
    A = te.placeholder((4, 8), dtype="int32", name="A")
    k = te.reduce_axis((0, 8), name="k")
    B = te.compute((4,), lambda i: te.min(A[i, k], axis=k, where=te.equal(k % 2, 0)), name="B")
    a = np.arange(32, dtype="int32").reshape(4, 8)[:, ::-1].copy()
    np.testing.assert_array_equal(
        run(te.create_prim_func([A, B]), a, shape=(4,), dtype="int32"), a[:, ::2].min(1))


def test_axis_separator_is_that_of_index_maps() -> None:
    from autosched.ir.index_map import AXIS_SEPARATOR

    assert te.AXIS_SEPARATOR is AXIS_SEPARATOR


def test_programs_of_one_definition_share_nothing() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1, name="B")
    one, two = te.create_prim_func([A, B]), te.create_prim_func([A, B])
    assert one == two
    assert not set(one.params) & set(two.params)


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda A, k: te.compute((4,), lambda i, j: A[i, j]), ProgramError, "takes 2 indices, the shape has 1 dimension"),
    (lambda A, k: te.compute((4,), lambda i: A), ProgramError, r"returned the tensor A; take an element, as in A\[...\]"),
    (lambda A, k: te.compute((4,), lambda i: "x"), ProgramError, "returned str"),
    (lambda A, k: te.compute((4,), lambda i: (A[i, 0], A[i, 1])), NotSupportedError, "define one tensor for each"),
    (lambda A, k: te.compute((4,), lambda i: te.sum(A[i, k], axis=k) + 1), NotSupportedError, "tensor of its own"),
    (lambda A, k: te.compute((4,), lambda i: A[i, k]), ProgramError, "reduction axis k is not one of its own; use it in"),
    (lambda A, k: te.compute((4,), lambda i: te.sum(A[i, k], axis=i)), ProgramError, "axis must be made by te.reduce_axis"),
    (lambda A, k: te.compute((4,), lambda i: te.sum(A[i, k], axis=[k, k])), ProgramError, "an axis is given twice"),
    (lambda A, k: te.compute((4,), lambda i: A[i]), IndexError, "2 dimensions, 1 indices"),
    (lambda A, k: te.reduce_axis((0, 1, 2), "z"), ProgramError, "expected .first, one past the last."),
    (lambda A, k: te.create_prim_func([te.compute((4,), lambda i: A[i, 0], name="B")]), ProgramError,
     "the input A is not among the arguments"),
    (lambda A, k: te.create_prim_func([A]), ProgramError, "nothing to compute"),
    (lambda A, k: te.create_prim_func([A, 3]), ProgramError, "takes tensors and variables, got int"),
    (lambda A, k: te.create_prim_func([A, te.compute((4,), lambda i: A[i, 0] * te.var("s"), name="B")]), ProgramError,
     "variable s of B is neither an argument nor an extent of one"),
    (lambda A, k: te.create_schedule(None), NotSupportedError, "schedule that with autosched.Schedule"),
    (lambda A, k: te.plaecholder((4,)), AttributeError, "did you mean 'placeholder'"),
])
def test_refusals(make, error, message) -> None:
    with pytest.raises(error, match=message):
        make(te.placeholder((4, 4), name="A"), te.reduce_axis((0, 4), name="k"))


@pytest.mark.parametrize(("dtype", "divide"), [
    ("int8", lambda v: v / 2), ("uint8", lambda v: 2 / v), ("int32", lambda v: v / v), ("int8", lambda v: (v > 1) / (v > 2)),
    ("int8", lambda v: binary("/", v, 1)),
])
def test_integers_are_divided_in_a_way_that_says_how_it_rounds(dtype: str, divide: Callable[[Expr], Expr]) -> None:
    a = te.placeholder((8,), dtype, name="a")
    with pytest.raises(TypeError, match=r"for integers use '//' \(rounds down\) or truncdiv \(rounds to zero\)"):
        te.compute((8,), lambda i: divide(a[i]))


@pytest.mark.parametrize(("dtype", "divide", "wanted"), [
    ("float32", lambda v: v / 2, [-1.5, 1.5]), ("float32", lambda v: 6 / v, [-2.0, 2.0]),
    ("int8", lambda v: v / 2.0, [-1.5, 1.5]), ("int8", lambda v: v // 2, [-2, 1]),
    ("int8", lambda v: te.truncdiv(v, 2), [-1, 1]), ("int8", lambda v: te.div(v, 2), [-1, 1]),
])
def test_what_is_divided_otherwise_is_a_program(dtype: str, divide: Callable[[Expr], Expr], wanted: list[float]) -> None:
    a = te.placeholder((2,), dtype, name="a")
    b = te.compute((2,), lambda i: divide(a[i]), name="b")
    func = te.create_prim_func([a, b])
    assert parse(func.script()) == func
    assert run(func, np.array([-3, 3], dtype), shape=(2,), dtype=b.dtype).tolist() == wanted


def test_python_compares_no_expressions_of_te() -> None:
    a = te.placeholder((8,), "int8", name="a")
    k = te.reduce_axis((0, 8), "k")
    makers: list[Callable[..., object]] = [
        lambda i: te.if_then_else(i % 2 == 0, a[i], te.const(0, "int8")), lambda i: te.Select(i % 2 == 0, a[i], a[i]),
        lambda i: te.if_then_else(te.all(i > 1, i % 2 != 0), a[i], a[i]), lambda i: te.if_then_else(te.any(i == 2), a[i], a[i]),
        lambda i: te.sum(a[k], axis=k, where=k == i), lambda i: a[i] == a[i],
    ]
    for maker in makers:
        with pytest.raises(ProgramError, match=r"te\.equal"):
            te.compute((8,), maker)
    made = te.compute((8,), lambda i: te.if_then_else(te.equal(i % 2, 0), te.clip(a[i], -3, 4), te.const(0, "int8")), name="made")
    x = np.arange(-4, 4, dtype=np.int8)
    assert run(te.create_prim_func([a, made]), x, shape=(8,), dtype="int8").tolist() == [-3, 0, -2, 0, 0, 0, 2, 0]


@pytest.mark.usefixtures("brief")
def test_tensors_of_one_name_have_buffers_of_different_names(tmp_path: Path) -> None:
    """Arguments keep theirs first; what two blocks copy is told apart by them."""
    x, w = te.placeholder((5, 16), "int8"), te.placeholder((16, 16), "int8")
    k, r = (te.reduce_axis((0, 16), name="k") for _ in range(2))
    dense = te.compute((5, 16), lambda i, j: te.sum(x[i, k].astype("int32") * w[k, j].astype("int32"), axis=k),
                       name="placeholder")
    small = te.compute((5, 16), lambda *i: te.max(te.min(dense(*i) >> 7, 127), -128).astype("int8"))
    again = te.compute((5, 16), lambda i, j: te.sum(small[i, r].astype("int32") * w[r, j].astype("int32"), axis=r))
    func = te.create_prim_func([x, w, again])
    names = [b.name for b in (*func.buffers, *blocks(func)["root"].alloc_buffers)]
    assert len(set(names)) == 5 and names[:3] == ["placeholder", "placeholder_1", "compute"], names
    sch = Schedule(func)
    sch.cache_read("compute_1", "compute_1", "local")
    assert parse(func.script()) == func
    report = autosched.tune(func, trials=1, jobs=1, log=tmp_path, cold=True)
    assert report.verified
    a, b = (np.random.default_rng(n).integers(-20, 20, s, np.int8) for n, s in enumerate(((5, 16), (16, 16))))
    q = np.clip(a.astype(np.int32) @ b >> 7, -128, 127)
    assert np.array_equal(autosched.compile(func, log=tmp_path)(a, b), q @ b.astype(np.int32))


def test_constants_fit_their_types() -> None:
    a = te.placeholder((4,), "int8", name="a")
    te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 127, name="most")])
    with pytest.raises(ProgramError, match="more: constant 128 does not fit int8"):
        te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 128, name="more")])
