"""Extrema of sums of what has lanes and what has none: the host repeats that along the lanes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusals import refused
from spaces import computes
from turns import in_turn

from autosched import te
from autosched.errors import SpaceError
from autosched.ir.expr import Expr
from autosched.ir.stmt import PrimFunc
from autosched.measure import Candidate, measure
from autosched.target import Target
from sim.config import VTAConfig
from space import Space, nest

DEEP = 6


def extremum(kind: Callable[..., Expr], take: Callable[..., Expr], dtype: str = "int8", n: int = 5, m: int = 20) -> PrimFunc:
    """Of what is made of a row of ``a``, a column of ``b`` and an element of ``c`` for each of their places."""
    a, b, c = (te.placeholder(s, dtype, name=x) for s, x in (((n, DEEP), "a"), ((DEEP, m), "b"), ((DEEP,), "c")))
    k = te.reduce_axis((0, DEEP), name="k")
    s = te.compute((n, m), lambda i, j: kind(take(*(
        x.astype("int32") if dtype == "int8" else x for x in (a[i, k], b[k, j], c[k])), k), axis=k), name="s")
    return te.create_prim_func([a, b, c, te.compute((n, m), lambda i, j: te.max(te.min(s[i, j] >> 1, 127), -128).astype("int8"),
                                                    name="y")])


TAKEN: dict[str, Callable[..., Expr]] = {
    "a and b": lambda a, b, c, k: a + b, "a, b and c": lambda a, b, c, k: (a << 1) + b + c,
    "c and its place": lambda a, b, c, k: b + c + (k - 2) * 8, "b and its place": lambda a, b, c, k: (b << 2) + k,
    "the larger of two": lambda a, b, c, k: te.max(a, b) + te.min(b, c),
}


@pytest.mark.parametrize(("kind", "take", "dtype", "target"), in_turn((
    ("max", "a and b", "int8"), ("min", "a and b", "int8"), ("max", "a, b and c", "int8"), ("min", "c and its place", "int8"),
    ("max", "b and its place", "int8"), ("max", "the larger of two", "int8"), ("max", "a and b", "int32"),
    ("min", "a, b and c", "int32"),
)))
def test_an_extremum_takes_in_what_lies_in_no_lanes(kind: str, take: str, dtype: str, target: str) -> None:
    computes(extremum(getattr(te, kind), TAKEN[take], dtype), target, 1)


def test_a_sum_does_not() -> None:
    """The twin: of what a sum takes in products are the GEMM's, and all else is summed up by itself."""
    with refused(SpaceError, "layout"):
        Space(extremum(te.sum, lambda a, b, c, k: te.max(a, b)), "vta-de10")


def test_what_the_program_makes_is_not_repeated_by_the_host() -> None:
    """The twin: scores that a product makes lie in lanes of their own, of which no other lane reads."""
    x, w, b = (te.placeholder(s, "int8", name=n) for s, n in (((5, 32), "x"), ((DEEP, 32), "w"), ((DEEP, 20), "b")))
    r, k = te.reduce_axis((0, 32), name="r"), te.reduce_axis((0, DEEP), name="k")
    p = te.compute((5, DEEP), lambda i, j: te.sum(x[i, r].astype("int32") * w[j, r].astype("int32"), axis=r), name="p")
    q = te.compute(p.shape, lambda *i: te.max(te.min(p(*i) >> 8, 127), -128).astype("int8"), name="q")
    s = te.compute((5, 20), lambda i, j: te.max(q[i, k].astype("int32") + b[k, j].astype("int32"), axis=k), name="s")
    func = te.create_prim_func([x, w, b, te.compute(s.shape, lambda *i: (s(*i) >> 1).astype("int8"), name="y")])
    with pytest.raises(SpaceError):
        Space(func, "vta-de10")


@pytest.mark.parametrize("reckoned", [True, False])
def test_what_is_worked_out_ahead_of_a_step_has_places(reckoned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An extremum takes in a sum, which is made for every step before any is taken in: where that is forgotten nothing fits."""
    if not reckoned:
        monkeypatch.setattr(nest, "ahead", lambda site: 0)
    small = Target("small", VTAConfig(LOG_BLOCK=3, LOG_ACC_BUFF_SIZE=12), "chisel")
    func = extremum(te.max, TAKEN["a and b"], "int32", 8, 32)
    space = Space(func, small)
    drawn = space.sample(np.random.default_rng(0), 24)
    results = [measure(Candidate(func, small, tuple(space.trace(p).as_json())), execute=reckoned) for p in drawn]
    assert all(r.ok for r in results) == reckoned
    assert all(r.ok or "local.acc_buffer holds" in str(r.reason) for r in results)
