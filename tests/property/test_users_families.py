"""Random programs of families that users write: in form they compute the same, and a point of their spaces does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from spaces import computes, formed
from turns import in_turn

from autosched import te
from autosched.errors import SpaceError
from autosched.ir.stmt import PrimFunc
from autosched.script import parse
from autosched.target import get_target
from space import Space, sketch
from space.normalise import Wanted, normal_forms, normalise

DE10, PORTABLE = "vta-de10", "vta-de10-portable"


def wide(x: te.Tensor, *at):
    return x[at].astype("int32")


def narrow(e, shift: int):
    return te.max(te.min(e >> shift, 127), -128).astype("int8")


# -- choices by place of int32 parameters, and shifts by 0 ---------------------------------------------------------------

CONDITIONS: dict[str, Callable] = {
    "rows": lambda i, j: i < 5, "columns": lambda i, j: j >= 7, "third": lambda i, j: te.equal(j % 3, 0),
    "frame": lambda i, j: te.all(i > 0, i < 9, j > 0, j < 20), "odd rows": lambda i, j: te.equal(i % 2, 1),
}


def chosen(condition: str, other: bool, dtype: str, own: bool, shifted: bool, shape: tuple[int, ...] = (10, 24)) -> PrimFunc:
    """Elements of an int32 tensor where a condition holds, and zeros or those of another one elsewhere.

    Args:
        condition: which.
        other: whether there is another tensor.
        dtype: of the result.
        own: whether what is chosen has a tensor of its own.
        shifted: whether the result is shifted by 0.
        shape: of all.
    """
    x, z = te.placeholder(shape, "int32", name="x"), te.placeholder(shape, "int32", name="z")

    def choice(*at):
        i, j = at if len(at) == 2 else (0, at[0])
        return te.if_then_else(CONDITIONS[condition](i, j), x[at], z[at] if other else te.const(0, "int32"))

    read = te.compute(shape, choice, name="t") if own else choice

    def value(*at):
        e = read(*at) >> 0 if shifted else read(*at)
        return e.astype("int8") if dtype == "int8" else e

    return te.create_prim_func([x, *([z] if other else []), te.compute(shape, value, name="y")])


@settings(max_examples=12)
@given(st.sampled_from([*CONDITIONS]), st.booleans(), st.sampled_from(["int8", "int32"]), st.booleans(), st.booleans(),
       st.sampled_from([(10, 24), (3, 16), (40,)]))
def test_choices_by_place_have_a_form(
    condition: str, other: bool, dtype: str, own: bool, shifted: bool, shape: tuple[int, ...]
) -> None:
    if len(shape) == 1 and condition in ("rows", "odd rows", "frame"):
        condition = "third"
    formed(chosen(condition, other, dtype, own, shifted, shape), DE10, Wanted())


@pytest.mark.parametrize(("condition", "other", "dtype", "own", "shifted", "target"), in_turn([
    ("columns", False, "int32", False, False), ("third", True, "int8", False, False), ("frame", False, "int8", True, True),
    ("rows", True, "int8", True, False), ("rows", False, "int32", False, False), ("odd rows", False, "int32", True, False)]))
def test_choices_by_place_have_points(condition: str, other: bool, dtype: str, own: bool, shifted: bool, target: str) -> None:
    computes(chosen(condition, other, dtype, own, shifted), target, 1, Wanted())


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_the_host_lays_out_what_is_only_chosen(dtype: str, own: bool) -> None:
    """Limits by place would be two operations a vector, and loads of these."""
    _, steps = normalise(chosen("odd rows", False, dtype, own, False), get_target(DE10))
    assert not any(step.op == "choose_by_limits" for step in steps)


@pytest.mark.parametrize(("own", "shifted"), [(False, False), (False, True), (True, False), (True, True)])
def test_the_bytes_of_what_the_host_chooses_share_one_load(own: bool, shifted: bool) -> None:
    """Each would have a nest and a load of its own: twice the cycles."""
    func = chosen("third", False, "int32", own, shifted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sketch, "normal_forms", lambda func, target, *_: normal_forms(func, target, Wanted()))
        space = Space(func, DE10)
    assert [len(s.models) for s in space.sketches] == [1]
    computes(func, DE10, 1, Wanted())


@pytest.mark.parametrize("shape", [(16, 32), (37,)])
def test_what_is_only_shifted_by_nothing_has_points(shape: tuple[int, ...]) -> None:
    x = te.placeholder(shape, "int32", name="x")
    t = te.compute(shape, lambda *at: x[at] >> 0, name="t")
    computes(te.create_prim_func([x, te.compute(shape, lambda *at: t[at] << 0, name="y")]), DE10, 1, Wanted())


def test_a_choice_by_data_is_refused() -> None:
    x, z = te.placeholder((10, 24), "int32", name="x"), te.placeholder((10, 24), "int32", name="z")
    func = te.create_prim_func([x, z, te.compute(x.shape, lambda i, j: te.if_then_else(z[i, j] > 3, x[i, j], z[j % 10, i]).astype(
        "int8"), name="y")])
    with refused(SpaceError, "choice") as caught:
        Space(func, DE10)
    assert "chooses by data" in str(caught.value)


# -- zero points from which elements are taken away ----------------------------------------------------------------------

ZEROS = ["3", "-200", "zi[i]", "zj[j]", "zk[k]", "z1[0]", "zj[j] * 2 + 1"]


def quantised(of_x: str, of_w: str, away: tuple[bool, bool], made: bool = False) -> PrimFunc:
    """A product whose factors have zero points, taken away from their elements or the other way round.

    Args:
        of_x: the first factor's; empty for none.
        of_w: the second factor's.
        away: of each, whether the element is taken away from it.
        made: whether another product makes the first factor.
    """
    m, n, deep = 6, 20, 18
    tensors = {name: te.placeholder(shape, dtype, name=name) for name, shape, dtype in (
        ("x", (m, deep), "int8"), ("w", (n, deep), "int8"), ("v", (deep, deep), "int8"), ("zi", (m,), "int32"),
        ("zj", (n,), "int32"), ("zk", (deep,), "int32"), ("z1", (1,), "int32"))}
    k, r = te.reduce_axis((0, deep), name="k"), te.reduce_axis((0, deep), name="r")
    x, w = tensors["x"], tensors["w"]
    if made:
        p = te.compute((m, deep), lambda i, j: te.sum(wide(tensors["x"], i, r) * wide(tensors["v"], j, r), axis=r), name="p")
        x = te.compute(p.shape, lambda *at: narrow(p[at], 6), name="h")

    def factor(e, zero: str, from_zero: bool, i, j):
        z = eval(zero, {**tensors, "i": i, "j": j, "k": k}) if zero else 0
        return e if not zero else z - e if from_zero else e - z

    s = te.compute((m, n), lambda i, j: te.sum(
        factor(wide(x, i, k), of_x, away[0], i, j) * factor(wide(w, j, k), of_w, away[1], i, j), axis=k), name="s")
    used = ["x", "w", *(["v"] if made else []), *(n for n in ("zi", "zj", "zk", "z1") if n in of_x + of_w)]
    return te.create_prim_func([*(tensors[n] for n in used), te.compute(s.shape, lambda *at: narrow(s[at], 7), name="y")])


@settings(max_examples=15)
@given(st.sampled_from(["", *ZEROS]), st.sampled_from(["", *ZEROS]), st.tuples(st.booleans(), st.booleans()))
def test_zero_points_of_parameters(of_x: str, of_w: str, away: tuple[bool, bool]) -> None:
    if of_x or of_w:
        formed(quantised(of_x, of_w, away), DE10, Wanted())


@settings(max_examples=6)
@given(st.sampled_from(ZEROS), st.booleans())
def test_zero_points_of_what_the_program_makes(of_x: str, away: bool) -> None:
    formed(quantised(of_x, "", (away, False), made=True), DE10, Wanted())


@pytest.mark.parametrize(("of_x", "of_w", "away", "made", "target"), in_turn([
    ("", "zj[j]", (False, True), False), ("z1[0]", "zj[j]", (True, True), False), ("zk[k]", "", (False, False), False),
    ("z1[0]", "", (True, False), True)]))
def test_zero_points_have_points(of_x: str, of_w: str, away: tuple[bool, bool], made: bool, target: str) -> None:
    computes(quantised(of_x, of_w, away, made), target, 1, Wanted())


@pytest.mark.parametrize("away", [False, True])
def test_a_wide_zero_point_multiplies_nothing_that_the_program_makes(away: bool) -> None:
    with refused(SpaceError, "layout") as caught:
        Space(quantised("", "zj[j]", (False, away), made=True), DE10)
    assert "which is no product of two int8 elements" in str(caught.value)


# -- reductions that start with int8 -------------------------------------------------------------------------------------

STARTED = '''
@T.prim_func
def f(A: T.Buffer((9, 24), "int8"), W: T.Buffer((40, 24), "int8"), b: T.Buffer((40,), "int8"), R: T.Buffer((9, 40), "int8"),
      D: T.Buffer((9, 40), "int8")):
    C = T.alloc_buffer((9, 40), "int32")
    for i, j, k in T.grid(9, 40, 24):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = {init}
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
    for i, j in T.grid(9, 40):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.Cast("int8", T.max(T.min(C[vi, vj] >> 7, 127), -128))
'''
WIDE_B, WIDE_R = 'T.Cast("int32", b[vj])', 'T.Cast("int32", R[vi, vj])'


@settings(max_examples=6)
@given(st.sampled_from([WIDE_B, WIDE_R, f"{WIDE_B} << 3", f"{WIDE_R} * 5", f"{WIDE_R} + {WIDE_B}", f"{WIDE_R} - {WIDE_B}",
                        f"T.max({WIDE_R}, 3)"]))
def test_sums_that_start_with_int8_have_a_form(init: str) -> None:
    formed(parse(STARTED.format(init=init)), DE10, Wanted())


@pytest.mark.parametrize(("init", "target"), in_turn([WIDE_B, WIDE_R, f"{WIDE_R} + ({WIDE_B} << 2)"]))
def test_sums_that_start_with_int8_have_points(init: str, target: str) -> None:
    computes(parse(STARTED.format(init=init)), target, 1, Wanted())


@pytest.mark.parametrize("op", ["max", "min"])
def test_extrema_of_int8_that_start_with_int8(op: str) -> None:
    computes(parse(f'''
@T.prim_func
def f(A: T.Buffer((12, 40), "int8"), b: T.Buffer((40,), "int8"), C: T.Buffer((40,), "int8")):
    for j, k in T.grid(40, 12):
        with T.block("C"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                C[vj] = b[vj]
            C[vj] = T.{op}(C[vj], A[vk, vj])
'''), DE10, 1, Wanted())


def test_a_sum_that_starts_with_a_float_is_refused() -> None:
    func = parse(STARTED.format(init=WIDE_B).replace('b: T.Buffer((40,), "int8")', 'b: T.Buffer((40,), "float32")'))
    with refused(SpaceError, "type") as caught:
        Space(func, DE10)
    assert "reads b as float32" in str(caught.value)


# -- extrema that are changed before they are joined ---------------------------------------------------------------------

JOINS: dict[str, Callable] = {
    "shifted": lambda m, s: te.max(m >> 1, s >> 5), "clipped": lambda m, s: te.min(te.max(m, -7), 90) + (s >> 6),
    "raised": lambda m, s: te.max(m + 3, s >> 5), "added": lambda m, s: (m >> 1) + (s >> 6),
    "plain": lambda m, s: te.min(m, s >> 5),
}


def reduced(x: te.Tensor, kind: Callable, name: str, across: bool) -> te.Tensor:
    """What is made of the elements of each row, or of each column."""
    k = te.reduce_axis((0, 20 if across else 24), name=f"k{name}")
    return te.compute((24,) if across else (20,), lambda i: kind(wide(x, k, i) if across else wide(x, i, k), axis=k), name=name)


@pytest.mark.parametrize(("join", "first", "across"), [(join, n % 2 > 0, n % 3 == 0) for n, join in enumerate(JOINS)])
def test_extrema_are_changed_before_they_are_joined(join: str, first: bool, across: bool) -> None:
    """Over the rows or the columns, the sum made first or the extremum."""
    x = te.placeholder((20, 24), "int8", name="x")
    if first:
        m, s = reduced(x, te.max, "m", across), reduced(x, te.sum, "s", across)
    else:
        s, m = reduced(x, te.sum, "s", across), reduced(x, te.max, "m", across)
    y = te.compute(s.shape, lambda i: JOINS[join](m[i], s[i]).astype("int8"), name="y")
    computes(te.create_prim_func([x, y]), DE10, 1, Wanted(lone=True))


def test_extrema_of_int32_are_stored_nowhere_whatever_changes_them() -> None:
    x = te.placeholder((20, 24), "int32", name="x")
    k, r = te.reduce_axis((0, 20), name="k"), te.reduce_axis((0, 20), name="r")
    m = te.compute((24,), lambda i: te.max(x[k, i], axis=k), name="m")
    n = te.compute((24,), lambda i: te.min(x[r, i], axis=r), name="n")
    func = te.create_prim_func([x, te.compute(m.shape, lambda i: te.max(m[i] >> 1, n[i] >> 2).astype("int8"), name="y")])
    with refused(SpaceError, "join") as caught:
        Space(func, DE10)
    assert "let what it makes be a result of the program, as int8" in str(caught.value)
