"""The script language: every form that is read, and what each refused one says."""

from __future__ import annotations

import pickle
import types

import numpy as np
import pytest

from autosched.errors import NotSupportedError, ProgramError
from autosched.ir import BinOp, Call, Cast, FloatImm, IntImm, PrimFunc, Var
from autosched.ir.functor import walk
from autosched.ir.interp import run
from autosched.ir.print_expr import expr_text
from autosched.ir.stmt import (
    AssertStmt,
    AttrStmt,
    Block,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    While,
)
from autosched.ir.verify import verify
from autosched.script import I, T, parse, parse_file, prim_func

HEAD = "@T.prim_func\ndef f(A: T.Buffer((16, 16), 'int32'), B: T.Buffer((16, 16), 'int32'), n: T.int32):\n"


def body(text: str) -> PrimFunc:
    """The function whose body is ``text``."""
    func = parse(HEAD + "".join("    " + line + "\n" for line in text.strip("\n").split("\n")))
    assert isinstance(func, PrimFunc)
    return func


def value(expression: str):
    """The IR of one expression, stored into B[0, 0]."""
    func = body(f"B[0, 0] = {expression}")
    return next(s for s in walk(func.body) if isinstance(s, BufferStore)).value


def first(func: PrimFunc, kind: type):
    return next(s for s in walk(func.body) if isinstance(s, kind))


# Decorators and parameters


@pytest.mark.parametrize("decorator", [
    "@T.prim_func", "@T.prim_func(s_tir=True)", "@T.prim_func(private=True, s_tir=True)",
    "@T.prim_func(check_well_formed=False)", "@tvm.script.tir", "@tir.prim_func",
])
def test_decorators(decorator: str) -> None:
    func = parse(f"{decorator}\ndef g(A: T.Buffer((4,), 'int8')) -> None:\n    A[0] = 1\n")
    assert isinstance(func, PrimFunc)
    assert func.name == "g"


def test_handles_and_match_buffer_give_the_same_program() -> None:
    a = parse("@T.prim_func\ndef f(A: T.Buffer((4, 8), 'int8'), B: T.Buffer[(4,), 'float32']):\n    B[0] = 1.0\n")
    b = parse(
        "@T.prim_func\ndef f(a: T.handle, b: T.handle):\n    A = T.match_buffer(a, [4, 8], dtype='int8')\n"
        "    B = T.match_buffer(b, 4)\n    B[0] = 1.0\n"
    )
    assert a == b


def test_symbolic_shapes_in_all_spellings() -> None:
    quoted = parse("@T.prim_func\ndef f(A: T.Buffer(('n', 'm + 1')), B: T.Buffer((n, m))):\n    B[0, 0] = A[0, 0]\n")
    handles = parse(
        "@T.prim_func\ndef f(a: T.handle, b: T.handle):\n    n, m = T.int32(), T.int32()\n"
        "    A = T.match_buffer(a, (n, m + 1))\n    B = T.match_buffer(b, (n, m))\n    B[0, 0] = A[0, 0]\n"
    )
    assert quoted == handles
    assert quoted.params[0].shape[0] is quoted.params[1].shape[0]


def test_scalar_parameters_may_follow_their_use() -> None:
    func = parse("@T.prim_func\ndef f(A: T.Buffer((n,), 'int8'), n: T.int32):\n    A[n - 1] = 0\n")
    assert func.params[0].shape[0] is func.params[1]


def test_module_and_attributes() -> None:
    module = parse(
        "from tvm.script import tirx as T, ir as I\nN = 4\n@I.ir_module\nclass Module:\n"
        "    @T.prim_func\n    def one(A: T.Buffer((N,), 'int8')):\n"
        "        T.func_attr({'global_symbol': 'uno', 'tirx.noalias': True})\n        A[0] = 1\n"
        "    @T.prim_func\n    def two(A: T.Buffer((N,), 'int8')):\n        A[0] = 2\n"
    )
    assert list(module.functions) == ["one", "two"]
    assert module["one"].name == "uno"
    assert module["one"].attrs == {"tir.noalias": True}
    assert parse(module.script()) == module


def test_value_ranges_round_trip_and_are_checked() -> None:
    text = "@T.prim_func\ndef f(A: T.Buffer((4,), 'int32'), B: T.Buffer((4,), 'int32')):\n    {}    A[0] = B[0]\n"
    attr = "T.func_attr({'autosched.value_ranges': {'B': [-16384, 16384]}})\n"
    func = parse(text.format(attr))
    assert func.value_ranges == (None, (-16384, 16384))
    assert parse(func.script()) == func
    assert parse(func.script("block")) == func
    assert parse(text.format("pass\n")) != func
    with pytest.raises(ProgramError, match="names 'C', which is no parameter; known: A, B"):
        parse(text.format(attr.replace("'B'", "'C'")))
    with pytest.raises(ProgramError, match=r"must be a pair \[lowest, highest\]"):
        parse(text.format(attr.replace("-16384", "99999")))


# Python functions


def test_decorated_function_takes_closure_constants_and_helpers() -> None:
    n, scale = 16, 3

    def helper(x):
        return T.max(x * scale, 0)

    @T.prim_func
    def f(A: T.Buffer((n, 2 * n), "int32"), B: T.Buffer((n, 2 * n), "int32")):
        for i, j in T.grid(n, 2 * n):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = helper(A[vi, vj])

    text = f.script()
    assert "B[vi, vj] = T.max(A[vi, vj] * 3, 0)" in text
    assert "(16, 32)" in text


def test_lazy_functions_are_read_at_first_use_with_the_constants_of_their_definition() -> None:
    made = []
    for n in (4, 8):
        @prim_func(lazy=True)
        def f(A: T.Buffer((n,), "int32")):
            for i in range(n):  # noqa: B023 - the loop is what is tested
                A[i] = 0
        made.append(f)
    assert all(isinstance(f, PrimFunc) for f in made)
    assert [f.buffers[0].shape[0].value for f in made] == [4, 8]
    assert type(made[0]) is PrimFunc
    assert pickle.loads(pickle.dumps(made[1])) == made[1]


def test_lazy_errors_surface_when_used() -> None:
    @prim_func(lazy=True)
    def f(A: T.Buffer((4,), "int32")):
        A[0] = no_such_name  # noqa: F821

    with pytest.raises(ProgramError, match="'no_such_name' is not defined") as caught:
        _ = f.body
    assert caught.value.line is not None
    with pytest.raises(ProgramError):
        pickle.dumps(f)


def test_ir_module_decorator() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            A[0] = 1

    assert list(Module.functions) == ["main"]
    with pytest.raises(ProgramError, match="holds no function"):
        I.ir_module(type("Empty", (), {}))


def test_functions_without_source_say_what_to_do() -> None:
    names: dict[str, object] = {"T": T}
    with pytest.raises(ProgramError, match=r"source of function 'f' is not available.*pass its text"):
        exec("".join(["@T.prim_func\ndef f(A: T.Buffer((4,), 'int8')):\n    A[0] =", " 1\n"]), names)


def test_notebook_cells_are_read_through_linecache() -> None:
    import linecache

    text = "@T.prim_func\ndef f(A: T.Buffer((4,), 'int8')):\n    A[0] = 1\n"
    name = "<cell 1>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names: dict[str, object] = {"T": T}
    exec(compile(text, name, "exec"), names)
    assert isinstance(names["f"], PrimFunc)


def test_errors_of_files_give_the_line_of_the_file(tmp_path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(
        "from autosched.script import T\n\nN = 8\n\n\n@T.prim_func\ndef good(A: T.Buffer((N,), 'int8')):\n    A[0] = 1\n\n\n"
        "@T.prim_func\ndef bad(A: T.Buffer((N,), 'int8')):\n    A[0] = B[1]\n"
    )
    assert parse_file(file, "good").buffers[0].shape == (IntImm(8),)
    with pytest.raises(ProgramError, match=r"line 13, column 12: name 'B' is not defined.*\[kernels.py\]"):
        parse_file(file, "bad")
    with pytest.raises(Exception, match="did you mean 'good'"):
        parse_file(file, "goud")


def test_a_foreign_tvm_module_is_replaced_by_this_language() -> None:
    foreign = types.ModuleType("tvm.script.tirx")
    scope = {"T": foreign, "__name__": "x"}
    from autosched.script.source import adopt

    assert adopt(scope)["T"] is T
    assert adopt({"T": 3})["T"] == 3


# Loops


@pytest.mark.parametrize(("head", "kind", "lo", "extent"), [
    ("range(8)", "serial", 0, 8), ("range(2, 8)", "serial", 2, 6), ("T.serial(2, 8)", "serial", 2, 6),
    ("T.parallel(8)", "parallel", 0, 8), ("T.unroll(8)", "unrolled", 0, 8), ("T.vectorized(8)", "vectorized", 0, 8),
    ("T.thread_binding(8, thread='vthread')", "thread_binding", 0, 8),
    ("T.thread_binding(1, 8, thread='vthread')", "thread_binding", 1, 7), ("T.grid(8)", "serial", 0, 8),
])
def test_loops(head: str, kind: str, lo: int, extent: int) -> None:
    loop = first(body(f"for i in {head}:\n    B[i, 0] = 1"), For)
    assert (loop.kind, loop.min, loop.extent) == (kind, IntImm(lo), IntImm(extent))
    assert loop.thread == ("vthread" if kind == "thread_binding" else None)


@pytest.mark.parametrize("ends", [(0, 16, 4), (1, 16, 4), (0, 15, 7), (15, -1, -1), (14, 2, -5), (3, 3, 2), (2, 9, -3)])
def test_a_loop_with_a_step_counts_its_steps(ends: tuple[int, int, int]) -> None:
    for head in ("range({}, {}, {})", "T.serial({}, {}, step={})"):
        func = body(f"for i in {head.format(*ends)}:\n    B[i, 0] = i + 100")
        loop = first(func, For)
        assert (loop.min, loop.extent) == (IntImm(0), IntImm(len(range(*ends)))) and parse(func.script()) == func
        if loop.extent != IntImm(0):
            a, b = np.zeros((16, 16), np.int32), np.zeros((16, 16), np.int32)
            run(func, a, b, 0)
            assert {(int(y), int(b[y, 0])) for y in np.flatnonzero(b[:, 0])} == {(i, i + 100) for i in range(*ends)}


def test_a_step_of_a_range_with_variables_rounds_up() -> None:
    loop = first(body("for i in range(n, 16, 4):\n    B[i, 0] = 1"), For)
    assert expr_text(loop.extent) == "(19 - n) // 4"


def test_loop_annotations_and_grid_targets() -> None:
    loop = first(body("for i in T.serial(4, annotations={'a': [1, {'b': 'c'}]}):\n    B[i, 0] = 1"), For)
    assert loop.annotations == {"a": [1, {"b": "c"}]}
    same = body("for i, j, k in T.grid(2, 3, 4):\n    B[i, j] = k")
    assert body("for ijk in T.grid(2, 3, 4):\n    B[ijk[0], ijk[1]] = ijk[2]") == same
    assert body("for i, *jk in T.grid(2, 3, 4):\n    B[i, jk[0]] = jk[1]") == same
    assert body("for i in range(2):\n    for j, k in T.grid(3, 4):\n        B[i, j] = k") == same


def test_wide_loop_variables_follow_their_extent() -> None:
    func = body("for i in range(T.int64(4)):\n    B[i, T.int64(0)] = 1")
    loop = first(func, For)
    assert loop.var.dtype == "int64"
    assert loop.min == IntImm(0, "int64")


# Blocks


def test_block_parts_in_both_dialects_and_all_spellings() -> None:
    text = """
for i, j, k in T.grid(16, 16, 16):
    with T.{block}("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        T.where(i * 2 + j < 20)
        T.reads({reads})
        T.writes(B[vi, vj])
        T.{attr}({{"note": 1}})
        with T.init():
            B[vi, vj] = 0
        B[vi, vj] {store}
"""
    new = body(text.format(block="sblock", attr="sblock_attr", reads="A[vi, vk], A[vj, 0:16]",
                           store="= B[vi, vj] + A[vi, vk] * A[vj, vk]"))
    old = body(text.format(block="block", attr="block_attr", reads="[A[vi, vk], A[vj, :]]",
                           store="+= A[vi, vk] * A[vj, vk]"))
    assert new == old
    block = next(b for b in blocks_of(new) if b.name == "C")
    assert [iv.kind for iv in block.iter_vars] == ["spatial", "spatial", "reduce"]
    assert block.annotations == {"note": 1}
    assert block.init is not None


def blocks_of(func: PrimFunc) -> list[Block]:
    return [s for s in walk(func.body) if isinstance(s, Block)]


def test_axes_spelled_out() -> None:
    func = body("""
for i in range(4):
    with T.sblock("x"):
        a = T.axis.S(16, i * 4)
        b = T.axis.R((2, 10), i + 2)
        c = T.axis.scan(4, i)
        d = T.axis.opaque(4, i)
        e = T.axis.remap("S", [i])
        B[a, b] = c + d + e
""")
    block = next(b for b in blocks_of(func) if b.name == "x")
    assert [(iv.kind, iv.dom.min.value, iv.dom.extent.value) for iv in block.iter_vars] == [
        ("spatial", 0, 16), ("reduce", 2, 8), ("scan", 0, 4), ("opaque", 0, 4), ("spatial", 0, 4)
    ]


def test_regions_are_derived_where_the_text_has_none() -> None:
    func = body("""
for i in range(4):
    with T.sblock("x"):
        vi = T.axis.spatial(4, i)
        for j in range(3):
            B[vi, j + 1] = A[vi * 2, j] + A[vi * 2 + 1, j]
""")
    assert "T.reads(A[vi * 2:vi * 2 + 2, 0:3])" in func.script()
    assert "T.writes(B[vi, 1:4])" in func.script()
    # One of both is enough to state; the other is still derived.
    stated = body("""
for i in range(4):
    with T.sblock("x"):
        vi = T.axis.spatial(4, i)
        T.reads(A)
        B[vi, 0] = A[vi, 0]
""")
    assert "T.reads(A[0:16, 0:16])" in stated.script()
    assert "T.writes(B[vi, 0])" in stated.script()


def test_root_block_is_implicit_or_explicit() -> None:
    inner = "C = T.{alloc}((16,), 'int8', scope='local')\nfor i in range(16):\n    B[i, 0] = C[i]"
    implicit = body(inner.format(alloc="sblock_alloc_buffer"))
    explicit = body("with T.block('root'):\n    " + inner.format(alloc="alloc_buffer").replace("\n", "\n    "))
    assert implicit == explicit
    assert implicit.body.block.alloc_buffers[0].scope == "local"
    noted = body("with T.block('root'):\n    T.block_attr({'a': 1})\n    B[0, 0] = 1")
    assert noted.body.block.annotations == {"a": 1}
    assert parse(noted.script()) == noted


def test_nested_blocks_views_and_separators() -> None:
    func = body("""
C = T.alloc_buffer((2, 4, 8), "int8", axis_separators=[1], align=128)
for i in range(4):
    with T.block("outer"):
        vi = T.axis.spatial(4, i)
        T.reads(A[vi * 4:vi * 4 + 4, 0:16])
        T.writes(B[vi, 0])
        sub = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:16], (4, 16), "int32", strides=["s0", "s1"], offset_factor=4)
        D = T.alloc_buffer((4,), "int32")
        for j in range(4):
            with T.block("inner"):
                vj = T.axis.spatial(4, j)
                D[vj] = sub[vj, 0] + sub.strides[0] + sub.elem_offset
        B[vi, 0] = D[0]
""")
    text = func.script()
    assert "axis_separators=[1]" in text
    assert "sub.strides[0] + sub.elem_offset" in text
    assert 'strides=("s0", "s1"), offset_factor=4' in text
    assert parse(text) == func


def test_the_oldest_dialect_makes_its_own_loops() -> None:
    func = parse("""
        @tvm.script.tir
        def matmul(x: ty.handle, y: ty.handle, z: ty.handle) -> None:
            X = tir.match_buffer(x, [128, 128], "float32")
            Y = tir.match_buffer(y, [128, 128], "float32")
            Z = tir.match_buffer(z, [128, 128], "float32")
            with tir.block([128, 128, tir.reduce_axis(0, 128)], "Z") as [i, j, k]:
                with tir.init():
                    Z[i, j] = tir.float32(0)
                Z[i, j] = Z[i, j] + (X[i, k] * Y[k, j])
    """)
    modern = parse("""
        @T.prim_func
        def matmul(X: T.Buffer((128, 128)), Y: T.Buffer((128, 128)), Z: T.Buffer((128, 128))):
            for a, b, c in T.grid(128, 128, 128):
                with T.block("Z"):
                    i, j, k = T.axis.remap("SSR", [a, b, c])
                    with T.init():
                        Z[i, j] = 0.0
                    Z[i, j] = Z[i, j] + X[i, k] * Y[k, j]
    """)
    assert func == modern


# Other statements


def test_statements() -> None:
    func = body("""
\"\"\"a docstring\"\"\"
T.evaluate(A[0, 0])
T.call_extern("int32", "go", A.data, 3, "x")
assert n > 0, "n must be positive"
x: T.int32 = n * 2
y: T.let = x + 1
z: T.let[T.int64] = T.Cast("int64", y)
if x < 3:
    B[0, 0] = y
elif x == 4:
    pass
else:
    B[0, 0] = T.Cast("int32", z)
while n < 3:
    B[0, 1] = n
with T.attr(A.data, "pragma", 1):
    B[0, 2] = 1
T.attr(0, "key", "value")
B[0, 3] = 1
""")
    assert first(func, AssertStmt).message == "n must be positive"
    assert [s.var.dtype for s in walk(func.body) if isinstance(s, LetStmt)] == ["int32", "int32", "int64"]
    assert isinstance(first(func, IfThenElse).else_case, IfThenElse)
    assert first(func, While).condition == BinOp("<", func.params[2], IntImm(3), "bool")
    assert [s.key for s in walk(func.body) if isinstance(s, AttrStmt)] == ["pragma", "key"]
    assert first(func, Evaluate)
    assert parse(func.script()) == func


def test_a_scope_that_ends_early_is_printed_as_one() -> None:
    func = body("with T.LetStmt(n + 1) as x:\n    B[0, 0] = x\nwith T.Assert(n > 1, 'm'):\n    B[0, 1] = 2\nB[0, 2] = 3")
    assert "with T.LetStmt(n + 1) as x:" in func.script()
    assert parse(func.script()) == func
    assert parse(func.script()) != body("x: T.int32 = n + 1\nB[0, 0] = x\nassert n > 1, 'm'\nB[0, 1] = 2\nB[0, 2] = 3")


def test_threads_become_bound_loops() -> None:
    func = body("tx = T.launch_thread('threadIdx.x', 8)\nB[tx, 0] = 1")
    loop = first(func, For)
    assert (loop.kind, loop.thread, loop.extent) == ("thread_binding", "threadIdx.x", IntImm(8))


def test_lowered_memory_becomes_buffers() -> None:
    func = body("""
C_data = T.allocate([256], "int32", "local")
C = T.Buffer((256,), "int32", data=C_data, scope="local")
A_1 = T.Buffer((256,), "int32", data=A.data)
for i in range(256):
    C[i] = A_1[i]
""")
    assert "C_data[i] = A[i // 16, i % 16]" in func.script()
    with pytest.raises(ProgramError, match="do not have the same number of elements"):
        body("A_1 = T.Buffer((255,), 'int32', data=A.data)")
    with pytest.raises(ProgramError, match="only the shape may change"):
        body("A_1 = T.Buffer((256,), 'int8', data=A.data)")


def test_python_conditions_are_decided_while_reading() -> None:
    assert body("if 3 > 2:\n    B[0, 0] = 1\nelse:\n    B[0, 0] = 2") == body("B[0, 0] = 1")
    assert body("B[0, 0] = 1 if not True else 2") == body("B[0, 0] = 2")
    assert body("B[0, 0] = sum([n for _ in range(3)])") == body("B[0, 0] = 0 + n + n + n")


# Expressions


@pytest.mark.parametrize(("text", "printed"), [
    ("n * 2 + 0", "n * 2"), ("(3 + 4) * n", "7 * n"), ("-n", "n * -1"), ("n // 1 % 1", "0"),
    ("n << 2", "T.shift_left(n, 2)"), ("n >> 2", "T.shift_right(n, 2)"), ("n & 1 | n ^ 3",
     "T.bitwise_or(T.bitwise_and(n, 1), T.bitwise_xor(n, 3))"), ("~n", "T.bitwise_not(n)"),
    ("T.ceildiv(n, 16)", "(n + 16 - 1) // 16"), ("T.floordiv(n, 3) + T.floormod(n, 3)", "n // 3 + n % 3"),
    ("T.truncdiv(n, 3)", "T.Div(n, 3)"), ("T.truncmod(n, 3)", "T.truncmod(n, 3)"), ("T.max(n, 3)", "T.max(n, 3)"),
    ("min(n, 3, 4)", "T.min(T.min(n, 3), 4)"), ("T.Add(n, 0)", "T.Add(n, 0)"), ("T.FloorMod(0, 2)", "T.FloorMod(0, 2)"),
    ("T.if_then_else(n < 3, n, 0)", "T.if_then_else(n < 3, n, 0)"), ("n if n < 3 else 0", "T.if_then_else(n < 3, n, 0)"),
    ("T.Select(n < 3 and not n == 1, n, 0)", "T.Select(n < 3 and not n == 1, n, 0)"),
    ("T.Select(0 < n < 3 or n != 7, n, 0)", "T.Select(0 < n and n < 3 or n != 7, n, 0)"),
    ("T.cast(A[0, 0], 'int32')", "A[0, 0]"), ("T.Cast('int32', A[0, 0])", "T.Cast(\"int32\", A[0, 0])"),
    ("A[0, 0].astype('int8').astype('int32')", 'T.Cast("int32", T.Cast("int8", A[0, 0]))'),
    ("T.min_value('int32')", "-2147483648"), ("T.max_value('int8')", "127"), ("T.int32(7)", "7"),
    ("n - (n - n)", "n - (n - n)"), ("n - n - n", "n - n - n"), ("(n + 1) * 2", "(n + 1) * 2"),
    ("T.likely(n < 3)", 'T.Cast("int32", T.likely(n < 3))'), ("T.Let(x + 1, where={x: n})", None),
    ("T.call_extern('go', n, dtype='int32')", 'T.call_extern("int32", "go", n)'),
    ("T.call_intrin('int32', 'tir.popcount', n)", "T.popcount(n)"), ("A.shape[1] + A.strides[0]", "32"),
    ("T.q_multiply_shift(n, 1, 2, 3)", 'T.q_multiply_shift(n, 1, 2, 3)'),
])
def test_expressions(text: str, printed: str | None) -> None:
    func = body(f"x = T.int32()\nB[0, 0] = {text}" if "x" in text.split("(")[-1] else f"B[0, 0] = {text}")
    store = func.script().rstrip().splitlines()[-1].strip()
    if printed is not None:
        assert store == f"B[0, 0] = {printed}"
    assert parse(func.script()) == func


def test_float_expressions() -> None:
    text = "@T.prim_func\ndef f(A: T.Buffer((4,)), B: T.Buffer((4,))):\n    B[0] = {}\n"
    for given, printed in [
        ("A[0] * 2", "A[0] * T.float32(2.0)"), ("A[0] / 3 + 1.5", "A[0] / T.float32(3.0) + T.float32(1.5)"),
        ("T.exp(A[0], dtype='float32')", "T.exp(A[0])"), ("T.float32('inf')", 'T.float32("inf")'),
        ("T.float32('-inf')", 'T.float32("-inf")'), ("T.sqrt(T.fabs(A[0]))", "T.sqrt(T.fabs(A[0]))"),
        ("T.min_value('float32')", "T.float32(-3.4028234663852886e+38)"), ("3", "T.float32(3.0)"),
        ("T.float16(1)", "T.float32(1.0)"), ("T.pow(A[0], 2.0)", "T.pow(A[0], T.float32(2.0))"),
    ]:
        func = parse(text.format(given))
        assert func.script().rstrip().splitlines()[-1].strip() == f"B[0] = {printed}"
        assert parse(func.script()) == func


def test_access_ptr_and_types_of_calls() -> None:
    call = value('T.tvm_access_ptr(T.type_annotation("int32"), A.data, 0, 256, 1, dtype="int32")')
    assert isinstance(call, Call)
    assert call.dtype == "int32"
    func = body('T.evaluate(A.access_ptr("rw"))')
    assert 'T.tvm_access_ptr(T.type_annotation("int32"), A.data, 0, 256, 3)' in func.script()
    assert isinstance(value("T.Cast('int32', 3)"), Cast)
    assert value("T.if_then_else(True, 1, 2)") == IntImm(1)


def test_constants_at_the_ends_of_their_types() -> None:
    for text in ("A[0, 0].astype('int8') + 127", "A[0, 0].astype('int8') * -128", "2147483647", "T.cast(300, 'int8')",
                 "-2147483648", "T.int64(1) + 2147483648"):
        assert not [v for v in verify(body(f"B[0, 0] = {text}")) if v.rule == "constant"]


# Refusals: what is wrong, where, and the nearest valid name


@pytest.mark.parametrize(("text", "line", "column", "message"), [
    ("with T.sblokc('x'):\n    pass", 4, 6, "unknown name in T: 'sblokc'; did you mean 'sblock'"),
    ("for i in T.gird(4):\n    pass", 4, 10, "unknown name in T: 'gird'; did you mean 'grid'?"),
    ("B[0, 0] = a[0, 0]", 4, 11, "name 'a' is not defined"),
    ("Acc = 1\nB[0, 0] = Ac[0, 0]", 5, 11, "name 'Ac' is not defined; did you mean 'Acc'"),
    ("B[0, 0] = T.int8(300)", 4, 11, "300 does not fit T.int8"),
    ("B[0, 0] = n + 2147483648", 4, 11, "constant 2147483648 does not fit int32"),
    ("B[0, 0] = 2147483648", 4, 11, "constant 2147483648 does not fit int32; B holds int32"),
    ("B[0, 0] = T.max(T.int8(0), T.min(A[0, 0].astype('int8'), 300))", 4, 28, "constant 300 does not fit int8"),
    ("if A[0, 0].astype('int8') > -129:\n    B[0, 0] = 1", 4, 4, "constant -129 does not fit int8"),
    ("h = lambda x: (x, x + 128)\nB[0, 0] = h(A[0, 0].astype('int8'))[1]", 4, 19, "constant 128 does not fit int8"),
    ("B[0] = 1", 4, 1, "buffer B has 2 dimensions, 1 indices given"),
    ("B[0, 0:4] = 1", 4, 1, "a slice of B cannot be assigned"),
    ("B[0, 0] = A[0, 0:4] + 1", 4, 11, "a region of the buffer A is not a value"),
    ("B[0, 0] = A + 1", 4, 11, "the buffer A is not a value"),
    ("B[0, 0] = n / 2", 4, 11, "for integers use '//'"),
    ("B[0, 0] = n // 0", 4, 11, "the divisor of '//' is zero"),
    ("B[0.5, 0] = 1", 4, 1, "index of buffer B must be an integer, got float32"),
    ("for i in [1, 2]:\n    pass", 4, 10, "cannot loop over list; expected range, T.grid"),
    ("for i in T.serial(0, 8, step=n):\n    pass", 4, 10, "a step is a constant"),
    ("for i in range(8, 0, 0):\n    pass", 4, 10, "the step of range is zero"),
    ("for i in T.thread_binding(8):\n    pass", 4, 10, "needs a thread tag"),
    ("for i, j in T.grid(8):\n    pass", 4, 5, "2 names for 1 values"),
    ("T.reads(A[0, 0])", 4, 1, "T.reads cannot stand here; expected it inside a block"),
    ("with T.sblock('x'):\n    T.reads(3)\n    B[0, 0] = 1", 5, 5, "expected a buffer or a part of one"),
    ("with T.sblock('x'):\n    T.writes()\n    T.writes()\n    pass", 6, 5, "T.writes stands twice in block 'x'"),
    ("with T.sblock('x'):\n    T.func_attr({})\n    pass", 5, 5, "expected it at the top of the function"),
    ("with T.init():\n    pass", 4, 1, "T.init() stands inside a block"),
    ("with T.sblock('x') as v:\n    pass", 4, 23, 'a block has no "as"'),
    ("T.sblock('x')", 4, 1, "a block opens a suite"),
    ("with T.grid(3):\n    pass", 4, 6, "a loop range opens no suite"),
    ("v = T.axis.spatial(3, 0)", 4, 1, "a block axis cannot stand here"),
    ("with T.sblock('x'):\n    v = T.axis.remap('SS', [n])\n    pass", 5, 9, "2 kinds ('SS') for 1 loop variables"),
    ("with T.sblock('x'):\n    v = T.axis.remap('S', [n])\n    pass", 5, 5, "n is not the variable of an enclosing loop"),
    ("with T.sblock('x'):\n    v = T.axis.spatail(3, n)\n    pass", 5, 9, "did you mean 'spatial'"),
    ("with T.sblock('x'):\n    v = T.axis.remap('Q', [n])\n    pass", 5, 9, "unknown axis kind 'Q'"),
    ("with T.sblock('x'):\n    T.call_extern('int32', 'go', B.data)", 4, 1, "add T.reads(...) and T.writes(...)"),
    ("C = T.Buffer((3,), 'int8')", 4, 1, "allocated with T.sblock_alloc_buffer"),
    ("C = T.alloc_buffer((3,), 'imt8')", 4, 1, 'expected a type such as "int8", got str \'imt8\''),
    ("C = T.alloc_buffer((3,), 'int8', axis_separators=[4])", 4, 1, "axis separator 4 is not inside"),
    ("C = T.match_buffer(A[0:2, 0:2])", 4, 1, "a region can only be matched inside a block"),
    ("x: T.int32 = n\nx = x + 1", 5, 1, "x already has a value, and values do not change"),
    ("n += T.max(n, 1)", 4, 1, "a value of the program cannot be changed"),
    ("return n", 4, 1, "return is not part of the language; expected a loop"),
    ("import os", 4, 1, "import is not part of the language"),
    ("B[0, 0] = (lambda: 1).__class__", 4, 11, "names that start with an underscore"),
    ("n + 1", 4, 1, "use T.evaluate(...)"),
    ("T.reads", 4, 1, "has no effect as a statement"),
    ("n()", 4, 1, "cannot be called"),
    ("B[0, 0] = T.exp()", 4, 11, "T.exp() missing 1 required positional argument"),
    ("B[0, 0] = A.shap", 4, 11, "a buffer has no attribute 'shap'; did you mean 'shape'"),
    ("B[0, 0] = n.astyp('int8')", 4, 11, "an expression has no attribute 'astyp'; did you mean 'astype'"),
    ("T.func_attr([1])", 4, 1, "T.func_attr takes a dictionary"),
    ("assert 1 > 2, 'no'", 4, 1, "the assertion is false: no"),
    ("C = T.allocate_const([1], 'int8', [2])", 4, 1, "constant C of shape (2,) has 2 elements, 1 given"),
    ("C = T.allocate_const([128], 'int8', [1])", 4, 1, "constant C"),
    ("C = T.allocate_const([0.5], 'int8', [1])", 4, 1, "element 0 of constant C is 0.5"),
    ("C = T.allocate_const('@', 'int8', [1])", 4, 1, "not in base 64"),
    ("C = T.allocate_const('AAAA', 'int8', [1])", 4, 1, "has 3 bytes, its shape asks for 1"),
    ("C = T.allocate_const(1, 'int8', [1])", 4, 5, "takes a list of numbers"),
    ("for i in range(4):\n    C = T.allocate_const([1], 'int8', [1])", 5, 5, "it at the top of the function"),
    ("A.access_ptr('x')", 4, 1, "access_ptr takes 'r', 'w' or 'rw'"),
])
def test_refusals(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        body(text)
    error = caught.value
    assert message in error.message
    assert (error.line, error.column) == (line - 1, column + 4)
    assert "\n" not in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)


@pytest.mark.parametrize(("text", "message"), [
    ("x = 3", "no program found"), ("def f(A: T.Buffer((4,), 'int8'):\n    pass", "not Python"),
    ("@T.prim_func\ndef f(A):\n    pass", "parameter A has no type; expected T.Buffer"),
    ("@T.prim_func\ndef f(A: 3):\n    pass", "parameter A: expected T.Buffer"),
    ("@T.prim_func\ndef f(a: T.handle, A: T.Buffer((4,), 'int8')):\n    A[0] = 1", "no T.match_buffer gives a shape"),
    ("@T.prim_func\ndef f(A: T.Buffer((4,), 'int8') = 3):\n    pass", "without defaults"),
    ("@T.prim_func\ndef f(A: T.Buffer(('n +',), 'int8')):\n    pass", "'n +' is not an expression"),
    ("@T.prim_func\ndef f(A: T.Bufer((4,), 'int8')):\n    pass", "did you mean 'Buffer'"),
])
def test_refused_texts(text: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message.replace("(", r"\(").replace("+", r"\+")):
        parse(text)


def test_names_without_a_program_are_type_errors() -> None:
    with pytest.raises(TypeError, match="expected program text or a function"):
        parse(3)  # type: ignore[arg-type]
    assert not hasattr(T, "no_such_form")
    assert hasattr(T, "sblock")


def test_extern_names_and_constants() -> None:
    func = parse("@T.prim_func\ndef f(A: T.Buffer((n,), 'float32')):\n    A[0] = scale\n", n=8, scale=2.5)
    assert func.buffers[0].shape == (IntImm(8),)
    assert next(s for s in walk(func.body) if isinstance(s, BufferStore)).value == FloatImm(2.5)


def test_steps_of_variables_are_refused_as_unsupported_where_python_calls_them() -> None:
    with pytest.raises(NotSupportedError):
        T.serial(0, 4, step=Var("n", "int32"))


# Faults that used to be accepted, or that were told without a place

ONE = "@T.prim_func\ndef f(A: T.Buffer((16,), 'int32'), k: T.int32):\n"


@pytest.mark.parametrize(("text", "said"), [
    ("def f(A: T.Buffer((16,), 'int33')):\n    A[0] = 1\n",
     r"line 1, column 10: expected a type such as \"int8\", got str 'int33'; did you mean 'int32'"),
    ("def f(A: T.Buffer((16,), 'int8x0')):\n    A[0] = 1\n", "line 1, column 10: expected a type .*'int8x0'"),
    (ONE + "    A[0] = T.cast(k, 'flot32')\n", "line 3, column 12: expected a type .*'flot32'; did you mean 'float32'"),
    ("def f(A: T.Buffer((4, -4), 'int8')):\n    A[0, 0] = 1\n",
     "line 1, column 10: dimension 1 of buffer A is -4; an extent is not negative"),
    (ONE + "    V = T.alloc_buffer((4.5,), 'int8')\n    A[0] = 1\n",
     "line 3, column 5: dimension 0 of buffer V must be an integer, got float32"),
    ("def f(A: T.Buffer((4,), 'int8'), A: T.int32):\n    A[0] = 1\n",
     "line 1, column 34: two parameters are named A; expected one name for each"),
    (ONE + "    for i in range(16):\n        with T.sblock('B'):\n            vi = T.axis.spatial(i, 16)\n"
           "            A[vi] = 1\n",
     r"line 5, column 13: T.axis.spatial takes the extent first.*expected T.axis.spatial\(16, i\)"),
    (ONE + "    for i in range(k):\n        with T.sblock('B'):\n            vi = T.axis.reduce(i, k)\n            A[vi] = 1\n",
     r"line 5, column 13: T.axis.reduce takes the extent first.*expected T.axis.reduce\(k, i\)"),
    (ONE + "    A[16] = 1\n", "line 3, column 5: index 16 is outside dimension 0 of buffer A; expected 0 to 15"),
    (ONE + "    A[-1] = 1\n", "line 3, column 5: index -1 is outside dimension 0 of buffer A; expected 0 to 15"),
    (ONE + "    A[0] = A[1] + A[8 * 2]\n", "line 3, column 12: index 16 is outside dimension 0 of buffer A"),
    (ONE + "    A[0] = 1\0\n", r"line 3, column 13: not Python: the character '\\x00' cannot stand in a text"),
    (ONE + "    A[0] = '\ud800'\n", r"line 3, column 13: not Python: the character '\\ud800' cannot stand"),
    (ONE + "    V = T.alloc_buffer((4,), scoope='local')\n    A[0] = 1\n",
     r"line 3, column 9: T.alloc_buffer\(\) got an unexpected keyword argument 'scoope'; did you mean 'scope'"),
    (ONE + "    for i in T.serial(4, anotations={}):\n        A[i] = 1\n", "'anotations'; did you mean 'annotations'"),
    (ONE + "    for i in range(4):\n        A[i] = 1\n    A[i] = 2\n",
     "line 5, column 7: name 'i' is not defined here: the loop, block or condition that defined it has ended"),
    (ONE + "    A[0] = j\n", "line 3, column 12: name 'j' is not defined; known: k, A"),
    (ONE + "    A[0] = 'x'\n", "line 3, column 12: expected an expression or a number, got str 'x'"),
    (ONE + "    A[0] = 1\n    A[0] += A\n", "line 4, column .*the buffer A is not a value"),
])
def test_faults_are_told_with_their_place_and_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(ProgramError, match=said) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [
    "def f(A: T.Buffer((0, 4), 'float8_e4m3fn')):\n    T.evaluate(0)\n",
    "def f(A: T.Buffer((4,), 'bfloat16'), B: T.Buffer((4,), 'uint1'), C: T.Buffer((4,), 'int8x16')):\n    T.evaluate(0)\n",
    ONE + "    for i, j in T.grid(4, 4):\n        with T.sblock('B'):\n"
          "            vi, vj = T.axis.spatial(4, i), T.axis.spatial(k, 3)\n"
          "            A[vi * 4 + vj] = 1\n",
    ONE + "    for i in range(16):\n        for j in range(i):\n            with T.sblock('B'):\n"
          "                vi, vj = T.axis.spatial(16, i), T.axis.spatial(i, j)\n                A[vj] = 1\n",
    ONE + "    A[15] = A[0]\n",
    ONE + "    if k > 16:\n        A[16] = A[17]\n",
    ONE + "    A[0] = T.if_then_else(k > 16, A[16], 0)\n",
    ONE + "    A[0] = T.Select(k > 16, A[16], 0)\n",
    ONE + "    for i in range(16):\n        with T.sblock('B'):\n            vi = T.axis.spatial(16, i)\n"
          "            T.where(i < k)\n            A[0] = A[16]\n",
    ONE + "    for i in range(4):\n        A[i] = 1\n    for i in range(4):\n        A[i] = 2\n",
])
def test_what_is_near_to_those_faults_and_right(text: str) -> None:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    assert parse(str(func)) == func
