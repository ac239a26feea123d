"""The interpreter: arguments, dtypes, views, external calls, faults."""

from __future__ import annotations

import time

import numpy as np
import pytest

from autosched.errors import NotSupportedError, ProgramError, UnknownNameError
from autosched.ir import interp
from autosched.ir.expr import BinOp, BufferData, BufferLoad, Call, Cast, FloatImm, IntImm, Ramp, StringImm, Var, cast, const
from autosched.ir.stmt import (
    TRUE,
    AssertStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IterVar,
    MatchBuffer,
    PrimFunc,
    Range,
    make_root,
    seq,
)
from autosched.workloads import workload


def loop(var, extent, body, low=0):
    return For(var, IntImm(low), extent if not isinstance(extent, int) else IntImm(extent), "serial", body)


def elementwise(dtype, formula, n=64, out=None):
    a = Buffer("A", (IntImm(n),), dtype)
    i = Var("i")
    value = formula(a[i])
    c = Buffer("C", (IntImm(n),), out or value.dtype)
    return PrimFunc((a, c), make_root(loop(i, n, BufferStore(c, (i,), value))))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_integers_wrap_like_numpy(dtype) -> None:
    x = interp.random_array(np.random.default_rng(1), (64,), dtype)
    three = np.dtype(dtype).type(3)
    formulas = (
        (lambda v: v + v, x + x),
        (lambda v: v * v, x * x),
        (lambda v: v * 3 - v * v * v, x * three - x * x * x),
        (lambda v: (v - 100) >> 1, (x - np.dtype(dtype).type(100)) >> np.dtype(dtype).type(1)),
    )
    for formula, want in formulas:
        got = interp.run(elementwise(dtype, formula), x)["C"]
        np.testing.assert_array_equal(got, want)
        assert got.dtype == x.dtype


@pytest.mark.parametrize("value", [2**63 - 1, 2**63, 2**64 - 1])
def test_uint64_constants_of_all_bits(value: int) -> None:
    """Written as they are, and such as the compiler reckons: registers are of 64 bits with a sign."""
    x = np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64)
    want = x ^ np.uint64(value)
    made = BinOp("-", Cast("uint64", const(value - 2**64 if value >= 2**63 else value, "int64")), const(0, "uint64"), "uint64")
    below = BinOp("-", const(value - 1, "uint64"), const(2**64 - 1, "uint64"), "uint64")
    for constant in (IntImm(value, "uint64"), made, below):
        got = interp.run(elementwise("uint64", lambda v, c=constant: Call("bitwise_xor", (v, c), "uint64"), 4), x)[0]
        np.testing.assert_array_equal(got, want)


def test_uint64_order_and_division_are_unsigned() -> None:
    x = np.array([1, 2**63, 2**64 - 1, 5], dtype=np.uint64)
    half = const(7, "uint64")
    for op, want in (("//", x // np.uint64(7)), ("%", x % np.uint64(7)), ("max", np.maximum(x, np.uint64(7)))):
        got = interp.run(elementwise("uint64", lambda v, op=op: BinOp(op, v, half, "uint64"), 4), x)[0]
        np.testing.assert_array_equal(got, want)
    less = interp.run(elementwise("uint64", lambda v: BinOp("<", v, half, "bool"), 4), x)[0]
    np.testing.assert_array_equal(less, x < 7)


@pytest.mark.parametrize("source", ["int32", "int64", "float32", "uint8"])
@pytest.mark.parametrize("target", ["int8", "uint8", "int32", "float32", "bool", "float16"])
def test_casts_equal_numpy(source, target) -> None:
    rng = np.random.default_rng(2)
    x = interp.random_array(rng, (64,), source, (-5000, 5000) if source.startswith("int") else None)
    if source == "float32":
        x = (x * 100).astype("float32")
    got = interp.run(elementwise(source, lambda v: cast(target, v)), x)[0]
    want = x.astype(np.int64).astype(target) if source == "float32" and "int" in target else x.astype(target)
    np.testing.assert_array_equal(got, want)


def test_lowest_divided_by_minus_one_wraps() -> None:
    for dtype in ("int8", "int32", "int64"):
        low = np.full(4, np.iinfo(dtype).min, dtype)
        for op, want in (("//", low), ("truncdiv", low), ("%", low * 0), ("truncmod", low * 0)):
            got = interp.run(elementwise(dtype, lambda v, op=op: BinOp(op, v, const(-1, v.dtype), v.dtype), 4), low)[0]
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_float_arithmetic_rounds_like_numpy(dtype) -> None:
    x = (np.random.default_rng(3).uniform(-1, 1, 64) * 50).astype(dtype)
    got = interp.run(elementwise(dtype, lambda v: (v * v + v) / FloatImm(3.0, v.dtype) - v), x)[0]
    three = np.dtype(dtype).type(3)
    np.testing.assert_array_equal(got, (x * x + x) / three - x)


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "tanh", "sin", "cos", "rsqrt", "floor", "ceil", "fabs"])
def test_intrinsics_equal_numpy(name) -> None:
    x = np.random.default_rng(4).uniform(0.1, 4, 64).astype("float32")
    got = interp.run(elementwise("float32", lambda v: Call(name, (v,), "float32")), x)[0]
    want = 1 / np.sqrt(x) if name == "rsqrt" else getattr(np, name)(x)
    np.testing.assert_allclose(got, want, rtol=3e-7)


def test_unknown_intrinsic_is_named() -> None:
    with pytest.raises(NotSupportedError, match="wobble"):
        interp.run(elementwise("float32", lambda v: Call("wobble", (v,), "float32")), np.zeros(64, "float32"))


def test_half_precision_survives_memory() -> None:
    x = np.arange(0, 65536, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)]
    got = interp.run(elementwise("float16", lambda v: v + FloatImm(0.0, "float16"), len(x)), x)[0]
    np.testing.assert_array_equal(got, x)
    np.testing.assert_array_equal(np.signbit(got[x != 0]), np.signbit(x[x != 0]))


# -- arguments


def add_one() -> PrimFunc:
    n = Var("n")
    a, c, i = Buffer("A", (n,), "int32"), Buffer("C", (n,), "int32"), Var("i")
    return PrimFunc((a, c), make_root(loop(i, n, BufferStore(c, (i,), a[i] + 1))), name="add_one")


def test_outputs_in_place_or_allocated_by_name_or_position() -> None:
    x = np.arange(5, dtype="int32")
    out = np.zeros(5, "int32")
    result = interp.run(add_one(), x, out)
    assert result["C"] is out
    assert result[0] is out
    np.testing.assert_array_equal(out, x + 1)
    np.testing.assert_array_equal(interp.run(add_one(), x)["C"], x + 1)
    with pytest.raises(UnknownNameError, match="'D'"):
        result["D"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((np.zeros(5, "int64"),), "A must be int32, got int64"),
        ((np.zeros((5, 1), "int32"),), "A has 1 dimensions, the array has 2"),
        (([1, 2],), "A must be a NumPy array, got list"),
        ((), "takes 2 arrays: A, C"),
        ((np.zeros(5, "int32"), np.zeros(6, "int32")), "extent n is 6 here and 5 elsewhere"),
    ],
)
def test_bad_arguments_get_one_line(arrays, message) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        interp.run(add_one(), *arrays)
    assert "\n" not in str(caught.value)


def test_read_only_output_is_refused() -> None:
    out = np.zeros(5, "int32")
    out.flags.writeable = False
    with pytest.raises(ProgramError, match="read-only"):
        interp.run(add_one(), np.zeros(5, "int32"), out)


def test_symbolic_scalar_from_symbols_or_position() -> None:
    m = Var("m")
    c, i = Buffer("C", (IntImm(4),), "int32"), Var("i")
    func = PrimFunc((m, c), make_root(loop(i, 4, BufferStore(c, (i,), i * m))))
    np.testing.assert_array_equal(interp.run(func, symbols={"m": 3})[0], [0, 3, 6, 9])
    np.testing.assert_array_equal(interp.run(func, 2)[0], [0, 2, 4, 6])
    with pytest.raises(ProgramError, match="scalar m has no value"):
        interp.run(func)


# -- faults


def test_index_outside_is_reported_with_buffer_and_value() -> None:
    a, c, i = Buffer("A", (IntImm(4),), "int32"), Buffer("C", (IntImm(4),), "int32"), Var("i")
    func = PrimFunc((a, c), make_root(loop(i, 4, BufferStore(c, (i,), a[i + 1]))))
    with pytest.raises(ProgramError, match=r"index 0 of A is 4, outside 0\.\.3"):
        interp.run(func, np.zeros(4, "int32"))
    guarded = Call("if_then_else", (BinOp("<", i, IntImm(3), "bool"), a[i + 1], IntImm(0)), "int32")
    func = PrimFunc((a, c), make_root(loop(i, 4, BufferStore(c, (i,), guarded))))
    np.testing.assert_array_equal(interp.run(func, np.arange(4, dtype="int32"))[0], [1, 2, 3, 0])


def test_iterator_outside_its_domain_is_reported() -> None:
    a, i, vi = Buffer("A", (IntImm(16),), "int32"), Var("i"), Var("vi")
    block = Block("fill", (IterVar(vi, Range(IntImm(0), IntImm(10))),), (), (), BufferStore(a, (vi,), vi))
    good = BlockRealize((i,), BinOp("<", i, IntImm(10), "bool"), block)
    np.testing.assert_array_equal(interp.run(PrimFunc((a,), make_root(loop(i, 12, good))))[0][:10], np.arange(10))
    with pytest.raises(ProgramError, match=r"block fill: iterator vi is 10, outside its domain 0\.\.9"):
        interp.run(PrimFunc((a,), make_root(loop(i, 12, BlockRealize((i,), TRUE, block)))))


def test_assertion_and_division_by_zero() -> None:
    c = Buffer("C", (IntImm(1),), "int32")
    m = Var("m")
    store = BufferStore(c, (IntImm(0),), IntImm(6) // m)
    func = PrimFunc((m, c), make_root(AssertStmt(BinOp("<", m, IntImm(5), "bool"), "m is small", store)))
    assert interp.run(func, 2)[0][0] == 3
    with pytest.raises(ProgramError, match="division by zero"):
        interp.run(func, 0)
    with pytest.raises(ProgramError, match="m is small"):
        interp.run(func, 7)


def test_memory_nobody_wrote_shows() -> None:
    t, c = Buffer("T", (IntImm(2),), "float32"), Buffer("C", (IntImm(2),), "float32")
    func = PrimFunc(
        (c,),
        make_root(
            seq(
                BufferStore(t, (IntImm(0),), FloatImm(1.0)),
                BufferStore(c, (IntImm(0),), t[0]),
                BufferStore(c, (IntImm(1),), t[1]),
            ),
            (t,),
        ),
    )
    out = interp.run(func)[0]
    assert out[0] == 1
    assert np.isnan(out[1])


# -- views, vectors, external calls


def gemm_desc(m, n, k):
    c, a, b = (
        Buffer(x, s, t)
        for x, s, t in (
            ("C", (IntImm(m), IntImm(n)), "int32"),
            ("A", (IntImm(m), IntImm(k)), "int8"),
            ("B", (IntImm(n), IntImm(k)), "int8"),
        )
    )
    i, j, p = Var("i"), Var("j"), Var("p")
    vi, vj, vp = Var("vi"), Var("vj"), Var("vp")
    term = cast("int32", a[vi, vp]) * cast("int32", b[vj, vp])
    iters = (
        IterVar(vi, Range(IntImm(0), IntImm(m))),
        IterVar(vj, Range(IntImm(0), IntImm(n))),
        IterVar(vp, Range(IntImm(0), IntImm(k)), "reduce"),
    )
    block = Block("update", iters, (), (), BufferStore(c, (vi, vj), c[vi, vj] + term))
    body = loop(i, m, loop(j, n, loop(p, k, BlockRealize((i, j, p), TRUE, block))))
    return PrimFunc((c, a, b), make_root(body))


def tensorized(name="test.gemm"):
    """A 4x8x6 product by external calls on 2x4x6 tiles seen through views."""
    a, b, c = (
        Buffer("A", (IntImm(4), IntImm(1), IntImm(6)), "int8"),
        Buffer("B", (IntImm(8), IntImm(6)), "int8"),
        Buffer("C", (IntImm(4), IntImm(8)), "int32"),
    )
    io, jo, vi, vj = Var("io"), Var("jo"), Var("vi"), Var("vj")

    def view(of, shape, region):
        buffer = Buffer(of.name + "_1", tuple(map(IntImm, shape)), of.dtype)
        return MatchBuffer(
            buffer,
            BufferRegion(
                of, tuple(Range(lo if not isinstance(lo, int) else IntImm(lo), IntImm(n)) for lo, n in region)
            ),
        )

    views = (
        view(a, (2, 6), [(vi * 2, 2), (0, 1), (0, 6)]),
        view(b, (4, 6), [(vj * 4, 4), (0, 6)]),
        view(c, (2, 4), [(vi * 2, 2), (vj * 4, 4)]),
    )
    va, vb, vc = (m.buffer for m in views)
    call = Evaluate(Call("call_extern", (StringImm(name), BufferData(va), BufferData(vb), BufferData(vc)), "int32"))
    iters = (IterVar(vi, Range(IntImm(0), IntImm(2))), IterVar(vj, Range(IntImm(0), IntImm(2))))
    block = BlockRealize((io, jo), TRUE, Block("tile", iters, (), (BufferRegion(c, ()),), call, match_buffers=views))
    return PrimFunc((a, b, c), make_root(loop(io, 2, loop(jo, 2, block))))


def test_external_call_means_its_description() -> None:
    interp.register_call("test.gemm", gemm_desc(2, 4, 6), ("A", "B", "C"))
    a, b, c = interp.random_inputs(PrimFunc(tensorized().params, make_root(Evaluate(IntImm(0)))), 5)
    c = c // 2
    want = c + a[:, 0].astype("int32") @ b.T.astype("int32")
    np.testing.assert_array_equal(interp.run(tensorized(), a, b, c)["C"], want)
    with pytest.raises(ProgramError, match=r"'test\.gem'.*did you mean 'test\.gemm'"):
        interp.run(tensorized("test.gem"), a, b, c)
    with pytest.raises(ProgramError, match="once"):
        interp.register_call("test.twice", gemm_desc(2, 4, 6), ("A", "A", "C"))


def test_view_of_another_shape_is_refused() -> None:
    a = Buffer("A", (IntImm(4), IntImm(4)), "int32")
    view = Buffer("V", (IntImm(2), IntImm(3)), "int32")
    for n, good in ((3, True), (4, False)):
        match = MatchBuffer(view, BufferRegion(a, (Range(IntImm(1), IntImm(2)), Range(IntImm(0), IntImm(n)))))
        block = Block("b", (), (), (), BufferStore(view, (IntImm(1), IntImm(2)), IntImm(9)), match_buffers=(match,))
        func = PrimFunc((a,), make_root(BlockRealize((), TRUE, block)))
        if good:
            assert interp.run(func)[0][2, 2] == 9
        else:
            with pytest.raises(ProgramError, match="does not have the shape"):
                interp.run(func)


def test_vector_store_reads_all_lanes_first() -> None:
    a = Buffer("A", (IntImm(8),), "int32")
    value = BufferLoad(a, (Ramp(IntImm(0), IntImm(1), 4, "int32x4"),), "int32x4")
    func = PrimFunc((a,), make_root(BufferStore(a, (Ramp(IntImm(1), IntImm(1), 4, "int32x4"),), value)))
    x = np.arange(10, 18, dtype="int32")
    np.testing.assert_array_equal(interp.run(func, x)[0], [10, 10, 11, 12, 13, 15, 16, 17])


def test_running_sum_stays_sequential() -> None:
    a, i = Buffer("A", (IntImm(6),), "int32"), Var("i")
    func = PrimFunc((a,), make_root(loop(i, 5, BufferStore(a, (i + 1,), a[i + 1] + a[i] * a[i]))))
    x = np.array([1, 1, 0, 2, 0, 1], dtype="int32")
    want = x.copy()
    for k in range(5):
        want[k + 1] += want[k] * want[k]
    np.testing.assert_array_equal(interp.run(func, x)[0], want)


def test_largest_layer_runs_in_seconds() -> None:
    layer = workload("resnet18.c2")
    inputs = layer.inputs(0)
    interp.run(workload("t1").func, *workload("t1").inputs(0))  # compile or load the machine first
    start = time.perf_counter()
    got = interp.run(layer.func, *inputs)["out"]
    assert time.perf_counter() - start < 5
    np.testing.assert_array_equal(got, layer.reference(*inputs))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_divisions_of_all_signs(dtype) -> None:
    x = np.arange(-32, 32, dtype=dtype)
    for y in (-7, -3, -1, 1, 3, 7):
        floor, rest = x // np.dtype(dtype).type(y), x % np.dtype(dtype).type(y)
        toward = np.trunc(x / y).astype(dtype)
        wanted = {"//": floor, "%": rest, "truncdiv": toward, "truncmod": x - toward * np.dtype(dtype).type(y)}
        for op, want in wanted.items():
            got = interp.run(elementwise(dtype, lambda v, op=op, y=y: BinOp(op, v, const(y, v.dtype), v.dtype)), x)[0]
            np.testing.assert_array_equal(got, want, err_msg=f"{op} {y}")


def test_extents_may_depend_on_outer_loops_and_be_zero() -> None:
    a, i, j = Buffer("A", (IntImm(5), IntImm(5)), "int32"), Var("i"), Var("j")
    func = PrimFunc((a,), make_root(loop(i, 5, loop(j, i, BufferStore(a, (i, j), IntImm(1))))))
    np.testing.assert_array_equal(interp.run(func)[0], np.tril(np.ones((5, 5), "int32"), -1))


def test_products_into_the_next_element() -> None:
    # Looks like a multiply-accumulate, but what is added to is not what is written.
    x, y, c = (Buffer(n, (IntImm(6),), t) for n, t in (("X", "int8"), ("Y", "int8"), ("C", "int32")))
    i = Var("i")
    term = cast("int32", x[i]) * cast("int32", y[i])
    func = PrimFunc((x, y, c), make_root(loop(i, 5, BufferStore(c, (i + 1,), c[i] + term))))
    a, b = interp.random_inputs(func, 1)
    want = np.concatenate([[0], np.cumsum(a[:5].astype("int32") * b[:5])])
    np.testing.assert_array_equal(interp.run(func, a, b)["C"], want)
