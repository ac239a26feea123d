"""Results that the program reads as well: the host moves them from tensors in between, which may be several or have more axes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused
from spaces import computes, formed
from turns import in_turn

from autosched import te
from autosched.errors import SpaceError
from autosched.ir.functor import walk
from autosched.ir.host import UNPACK, kind_of
from autosched.ir.stmt import BlockRealize, PrimFunc
from autosched.target import get_target
from space import Space
from space.normalise import Wanted, normal_forms

DE10 = "vta-de10"
ROWS, DEEP = 6, 16
RANGED = Wanted(digits=True, ranged=True, returned=True)


def narrowed(s: te.Tensor, shift: int, name: str, low: int = -128) -> te.Tensor:
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a: te.Tensor, b: te.Tensor, name: str, at: int = 0, turned: bool = False) -> te.Tensor:
    """Of the columns of ``b`` from one on, or of its rows, of those of ``a``'s depth."""
    n, k = (int(e.value) for e in a.shape)
    m = int(b.shape[0].value) if turned else DEEP
    r = te.reduce_axis((0, DEEP if turned else k), name="r" + name)
    return te.compute((n, m), lambda i, j: te.sum(a[i, r].astype("int32") * (
        b[j, at + r] if turned else b[r, at + j]).astype("int32"), axis=r), name=name)


def joint(also: Callable[[te.Tensor], te.Tensor] | None) -> PrimFunc:
    """Attention of one head whose queries, keys and values one product makes; it, or what is made of it, is a result."""
    x, w = te.placeholder((ROWS, 24), "int8", name="x"), te.placeholder((24, 3 * DEEP), "int8", name="w")
    r = te.reduce_axis((0, 24), name="r")
    s = te.compute((ROWS, 3 * DEEP), lambda i, j: te.sum(x[i, r].astype("int32") * w[r, j].astype("int32"), axis=r), name="s")
    qkv = narrowed(s, 8, "qkv")
    p = narrowed(product(qkv, qkv, "t", DEEP, True), 7, "p", 0)
    y = narrowed(product(p, qkv, "u", 2 * DEEP), 7, "y")
    return te.create_prim_func([x, w, y, *([] if also is None else [also(qkv)])])


def copied(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *i: x(*i), name="copy")


def changed(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *i: x(*i) >> 1, name="half")


def itself(x: te.Tensor) -> te.Tensor:
    return x


ALSO = {"itself": itself, "copied": copied}


@pytest.mark.parametrize(("also", "target"), in_turn(tuple(ALSO)))
def test_what_is_read_in_ranges_may_be_a_result(also: str, target: str) -> None:
    computes(joint(ALSO[also]), target, 1, RANGED)


def test_the_host_makes_the_result_of_its_ranges() -> None:
    new = formed(joint(itself), DE10, RANGED)
    stages = [s.block for s in walk(new.body) if isinstance(s, BlockRealize) and kind_of(s.block) == UNPACK]
    assert sum(stage.writes[0].buffer.name == "qkv" for stage in stages) == 3


@pytest.mark.parametrize("also", [None, changed])
def test_what_no_result_is_or_copies_has_no_such_form(also: Callable[[te.Tensor], te.Tensor] | None) -> None:
    assert not any(sch.trace.insts for _, sch in normal_forms(joint(also), get_target(DE10), RANGED))


def test_what_is_computed_of_all_ranges_is_refused() -> None:
    with refused(SpaceError, "layout") as caught:
        Space(joint(changed), DE10)
    assert "multiplies qkv by qkv, and the program makes both" in str(caught.value)
