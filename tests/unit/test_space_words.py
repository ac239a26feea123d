"""Refusals speak of the program that the user wrote: its blocks, tensors, loops and indices, whatever primitives made of them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from autosched.errors import AutoschedError
from autosched.ir.functor import walk
from autosched.ir.stmt import BlockRealize, For, PrimFunc
from autosched.schedule.kit.names import made_of
from autosched.script import parse
from autosched.target import get_target
from space import Space, lowerable
from space.lowerable import require_lowerable
from space.normalise import normalise
from space.words import in_users_words

SUFFIXES = re.compile(r"\w+_(part|global|local|init|update|negative|diagonal|acc_buffer|inp_buffer|wgt_buffer|pad)\b|\beye\w*")


def why(func: PrimFunc) -> str:
    """Why a program is refused before any trial."""
    with pytest.raises(AutoschedError) as caught:
        require_lowerable(Space(func, "vta-de10"))
    return " ".join(str(caught.value).split())


def names(func: PrimFunc) -> set[str]:
    """All that a program gives a name to."""
    found = {b.name for b in func.params} | {func.name}
    for stmt in walk(func.body):
        if isinstance(stmt, For):
            found.add(stmt.var.name)
        elif isinstance(stmt, BlockRealize):
            found |= {stmt.block.name, *(iv.var.name for iv in stmt.block.iter_vars), *(b.name for b in stmt.block.alloc_buffers)}
    return found


def test_no_refusal_names_what_the_user_did_not_write(user_programs) -> None:
    recorded = json.loads(user_programs.TODAY.read_text())
    refused = [user_programs.program(n) for n in user_programs.names() if recorded[n]["state"] == "refused"]
    assert len(refused) > 15
    for func in refused:
        said = why(func)
        own = names(func)
        derived = names(normalise(func, get_target("vta-de10"))[0]) - own
        words = set(re.findall(r"[A-Za-z_][\w.]*", said))
        assert not words & derived - {"a"}, said
        assert not SUFFIXES.search(said), said
        assert words & own, said


TEXT = '''
@T.prim_func
def main(A: T.Buffer((16, 32), "int8"), W: T.Buffer((32, 32), "int8"), out_part: T.Buffer((16, 32), "int8")):
    C = T.alloc_buffer((16, 32), "int32")
    for i, j, k in T.grid(16, 32, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi, vk].astype("int32") * W[vj, vk].astype("int32")
    for i, j in T.grid(16, 32):
        with T.block("out_part"):
            vi, vj = T.axis.remap("SS", [i, j])
            out_part[vi, vj] = T.Cast("int8", %s)
'''


@pytest.mark.parametrize(("value", "reason"), [
    ("T.bitwise_and(C[vi, vj], 5)", r"block out_part: the ALU cannot compute T\.bitwise_and\(C\[vi, vj\], 5\)"),
    ("C[vi, vj] * C[vi, vj]", r"block out_part multiplies C\[vi, vj\] by C\[vi, vj\]"),
    ("(C[vi, vj] >> 1) - C[vi, vj] * C[vi, vj] * 5", r"block out_part multiplies C\[vi, vj\] by C\[vi, vj\]"),
])
def test_names_that_look_derived_are_the_users(value: str, reason: str) -> None:
    assert re.search(reason, re.sub(r"\[\.\.\]", "[vi, vj]", why(parse(TEXT % value))))


PRODUCTS = '''
@T.prim_func
def main(x: T.Buffer((16, 64), "int8"), y: T.Buffer((16, 64), "int8"), z: T.Buffer((16, 64), "int32"),
         out: T.Buffer((16, 64), "int8")):
    p = T.alloc_buffer((16, 64), "int8")
    for i, j in T.grid(16, 64):
        with T.block("p"):
            vi, vj = T.axis.remap("SS", [i, j])
            p[vi, vj] = (z[vi, vj] >> 4).astype("int8")
    for i, j in T.grid(16, 64):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = ((p[vi, vj].astype("int32") + %s) >> 7).astype("int8")
'''
XX, YY, ZZ, PP = ('x[vi, vj].astype("int32")', 'y[vi, vj].astype("int32")', "z[vi, vj]", 'p[vi, vj].astype("int32")')
FIRST = "store the first factor as int8 in a block before, shifted so that it fits, and multiply what that stores"


@pytest.mark.parametrize(("product", "multiplies", "instead"), [
    (f"{XX} * {XX} * {XX}", r'T.Cast("int32", x[vi, vj]) * T.Cast("int32", x[vi, vj]) by x[vi, vj]', FIRST),
    (f"({XX} * {YY} << 4) * {XX}", '* T.Cast("int32", y[vi, vj]), 4) by x[vi, vj]', FIRST),
    (f"({XX} * {YY} >> 4) * T.max({ZZ}, {XX} * {YY} >> 3)", "by what it makes of x, y and z",
     "store both factors as int8 in blocks before, shifted so that they fit, and multiply what these store"),
    (f"{XX} * {ZZ}", "x[vi, vj] by z[vi, vj]", FIRST.replace("first", "second")),
    (f"{ZZ} * {PP}", "z[vi, vj] by p[vi, vj]", FIRST),
])
def test_a_product_is_refused_with_what_to_write_instead(product: str, multiplies: str, instead: str) -> None:
    said = why(parse(PRODUCTS % product))
    assert "block out multiplies " in said and multiplies in said and said.endswith(f": {instead}"), said


def test_what_a_refused_product_should_be_written_as_is_accepted() -> None:
    require_lowerable(Space(parse(PRODUCTS % f"{PP} * {XX}"), "vta-de10"))
    require_lowerable(Space(parse(PRODUCTS % f"{XX} * {YY}"), "vta-de10"))
    require_lowerable(Space(parse(PRODUCTS % f"{PP} * {PP}"), "vta-de10"))


def test_only_what_was_lowered_for_this_very_space_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = lowerable.lower_table
    monkeypatch.setattr(lowerable, "lower_table", lambda func, target: (asked.append(target.name), real(func, target))[1])

    def times(func: PrimFunc, target: str = "vta-de10", **more: Any) -> int:
        before = len(asked)
        require_lowerable(Space(func, target, **more))
        return len(asked) - before

    func = parse(PRODUCTS % f"{XX} * {YY}")
    assert [times(func) for _ in range(3)] == [1, 0, 0]
    # Another machine, other rules, other decisions, an equal program that somebody else made.
    assert times(func, "vta-pynq") == 1 and times(func, "vta-pynq") == 0
    rules = Space(func, "vta-de10").rules
    assert times(func, rules=[r for r in rules if r.name != "banks"]) == 1
    name, choices = next((n, c) for n, c in zip(Space(func, "vta-de10").names, Space(func, "vta-de10").choices) if len(c) > 1)
    assert [times(func, fixed={name: int(c)}) for c in (choices[0], choices[-1], choices[0])] == [1, 1, 0]
    assert times(parse(PRODUCTS % f"{XX} * {YY}")) == 1 and times(func) == 0
    # What is refused is refused each time.
    wrong = parse(PRODUCTS % f"{XX} * {ZZ}")
    assert why(wrong) == why(wrong)


SUMS = '''
@T.prim_func
def main(x: T.Buffer((16, 64), "int8"), out: T.Buffer((16,), "int8")):
    s = T.alloc_buffer((16,), "int32")
    for i, k in T.grid(16, 64):
        with T.block("s"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                s[vi] = 0
            s[vi] += %s
    for i in range(16):
        with T.block("out"):
            vi = T.axis.spatial(16, i)
            out[vi] = (s[vi] >> 8).astype("int8")
'''
XK = 'x[vi, vk].astype("int32")'


IN_PLACE = '''
@T.prim_func
def main(x: T.Buffer((5, 32), "int8")):
    for i, j in T.grid(5, 32):
        with T.block("x"):
            vi, vj = T.axis.remap("SS", [i, j])
            x[vi, vj] = T.max(x[vi, vj], T.int8(0))
'''


def test_a_parameter_in_place() -> None:
    assert "block 'x' reads x, which it writes: store what it makes in a tensor of its own" in why(parse(IN_PLACE))


TWO = '''
@T.prim_func
def main(a: T.Buffer((5, 32), "%s"), y: T.Buffer((5, 32), "int8")):
    for i, j in T.grid(5, 32):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.Cast("int8", %s)
'''


@pytest.mark.parametrize(("dtype", "value", "words"), [
    ("int16", 'a[vi, vj].astype("int32") >> 9', "block 'y' reads a as int16; .* give the program a as int32"),
    ("int8", "a[vi, vj] - a[4 - vi, vj] > T.int8(0)", r"compares a\[vi, vj\] - a\[4 - vi, vj\], which wraps around in int8;"),
])
def test_an_operand_that_nothing_takes_in(dtype: str, value: str, words: str) -> None:
    assert re.search(words, why(parse(TWO % (dtype, value))))


@pytest.mark.parametrize(("term", "words"), [
    (f"{XK} * {XK} * {XK}", "block s multiplies "),
    (f"({XK} * {XK}) >> 2", "block s sums up what it makes of the product of x"),
])
def test_a_sum_of_more_than_products_is_said_of_the_users_block(term: str, words: str) -> None:
    said = why(parse(SUMS % term))
    assert words in said and "as int8 in a block before" in said and "cache_read" not in said, said


@pytest.mark.parametrize(("name", "instead"), [
    ("windows_of_both", "give the program one factor laid out by the block's own indices, its elements repeated"),
    ("running_sum", "each of its elements would wait for others of the same block: compute each from what other blocks store"),
])
def test_what_to_write_instead(user_programs, name: str, instead: str) -> None:
    assert instead in why(user_programs.program(name))


def test_a_difference_inside_a_sum_is_not_said_to_be_another_term() -> None:
    """What has been made negative has the name of the tensor: the term as the form has it would say the opposite."""
    text = TEXT.replace("C[vi, vj] += A", 'C[vi, vj] += (A[vi, vk].astype("int32") - z[vi, vk]) * z[vi, vk] #')
    said = why(parse(text.replace("out_part: T.B", 'z: T.Buffer((16, 32), "int32"), out_part: T.B') % "C[vi, vj]"))
    assert 'block C multiplies T.Cast("int32", A[vi, vk]) - z[vi, vk] by z[vi, vk]' in said and " + z" not in said


@pytest.mark.parametrize(("text", "said"), [
    ("block out_part_part reads C_global_local.acc_buffer", "block out_part reads C"),
    ("block 'out_part_1' joins what comes from out_part_part and out_part_part_1 and C",
     "block 'out_part' joins what comes from a part of out_part and C"),
    ("index 15 - v1 of C_global in block C", "an index of C in block C"), ("index 15 - vi of C_global", "index 15 - vi of C"),
    ("a condition on ax5 cuts inside an element of C_global", "a condition cuts inside an element of C"),
    ("a condition on i cuts inside", "a condition on i cuts inside"),
    ("under loop u, and loop i", "under a loop, and loop i"), ("not one loop of block 'C'", "not one loop of block 'C'"),
    ("cache_read: C[v0, D[v1]] and C[vi, 3]", "cache_read: C[..] and C[vi, 3]"),
    ("T.Select(A_global[v0] < 0, -1, 1), x_global", "T.Select(A[..] < 0, -1, 1), x_global"),
    ("Wide_part, eye_4 and local.acc_buffer", "Wide_part, eye_4 and local.acc_buffer"),
    ("index T.if_then_else(v0 < 1, 1 - v0, v0 - 1) of C_global is none", "an index of C is none"),
    ("T.if_then_else(vi < 1, 1 - vi, vi - 1) in C, and C[vi, vi]", "T.if_then_else(vi < 1, 1 - vi, vi - 1) in C, and C[vi, vi]"),
])
def test_what_is_said_in_other_words(text: str, said: str) -> None:
    assert in_users_words(text, parse(TEXT % "C[vi, vj]")) == said


def test_what_is_made_is_named_after_what_it_is_made_of(user_programs) -> None:
    """The contract of primitives that refusals stand on; constants are made of nothing."""
    for name in ("conv_grouped_flat", "dense_distance", "max_pool_padding_inline", "channel_scale_bias", "two_branches"):
        func = user_programs.program(name)
        new = normalise(func, get_target("vta-de10"))[0]
        things = [b.name for b in func.params] + [b.name for s in walk(func.body) if isinstance(s, BlockRealize)
                                                  for b in (s.block, *s.block.alloc_buffers)]
        for stmt in walk(new.body):
            if isinstance(stmt, BlockRealize) and stmt.block.name != "root":
                assert made_of(stmt.block.name, things), (name, stmt.block.name)
                assert all(made_of(w.buffer.name, things) for w in stmt.block.writes), (name, stmt.block.name)


TWICE = '''
@T.prim_func
def main(x: T.Buffer((20, 20), "int8"), y: T.Buffer((16, 16), "int8")):
    a = T.alloc_buffer((18, 18), "int8")
    for i, j in T.grid(18, 18):
        with T.block("a"):
            vi, vj = T.axis.remap("SS", [i, j])
            a[vi, vj] = T.Cast("int8", T.Cast("int32", x[vi, vj + 1]) + T.Cast("int32", x[vi + 2, vj]) >> 1)
    for i, j in T.grid(16, 16):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.Cast("int8", T.Cast("int32", a[vi, vj + 1]) + T.Cast("int32", a[vi + 2, vj]) >> 1)
'''


def test_a_stencil_over_what_a_stencil_makes_of_a_plane_is_for_another_program() -> None:
    said = why(parse(TWICE))
    assert "block 'y' reads a at another place than it writes" in said
    assert "let it be an int8 result of this program and read it in another one" in said
    assert "let a be an int8 result" not in said
