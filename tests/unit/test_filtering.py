"""One filter that slides over what the program makes: a product with a banded matrix that the host makes."""

from __future__ import annotations

import pytest
from spaces import computes, formed
from turns import in_turn

from autosched import te
from autosched.errors import SpaceError
from autosched.ir.functor import walk
from autosched.ir.host import split_host
from autosched.ir.stmt import BlockRealize, PrimFunc
from autosched.schedule import Schedule
from autosched.target import get_target
from space import Space
from space.normalise import Wanted, filtering, normalise

DE10 = "vta-de10"
FILTERED = Wanted(filtered=True)


def narrow(t: te.Tensor, shift: int, name: str) -> te.Tensor:
    return te.compute(t.shape, lambda *i: te.max(te.min(t(*i) >> shift, 127), -128).astype("int8"), name=name)


def means(planes: int = 6, wide: int = 16, high: int = 1) -> tuple[te.Tensor, te.Tensor]:
    """What is given, and (high, wide) of its sums over planes, as int8."""
    x, c = te.placeholder((planes, high, wide), "int8", name="x"), te.reduce_axis((0, planes), name="c")
    return x, narrow(te.compute((high, wide), lambda i, j: te.sum(x[c, i, j].astype("int32"), axis=c), name="m"), 2, "m8")


def zeros_around(m: te.Tensor, high: int, wide: int) -> te.Tensor:
    h, w = (int(n.value) for n in m.shape)
    return te.compute((h + 2 * high, w + 2 * wide), lambda i, j: te.if_then_else(
        te.all(i >= high, i < h + high, j >= wide, j < w + wide), m[i - high, j - wide], te.const(0, "int8")), name="p")


def slid(taps: int = 3, step: int = 1, stride: int = 1, pad: int = 0, rows: int = 1, **given: int) -> PrimFunc:
    """A filter of (rows, taps) over what is made of planes, with zeros around or without."""
    x, m = means(**given)
    m = zeros_around(m, rows // 2, pad) if pad else m
    w = te.placeholder((rows, taps), "int8", name="w")
    k, r = te.reduce_axis((0, taps), name="k"), te.reduce_axis((0, rows), name="r")
    high, wide = (int(n.value) for n in m.shape)
    g = te.compute((high - rows + 1, (wide - (taps - 1) * stride - 1) // step + 1), lambda i, j: te.sum(
        m[i + r, j * step + k * stride].astype("int32") * w[r, k].astype("int32"), axis=[r, k]), name="g")
    return te.create_prim_func([x, w, narrow(g, 5, "y")])


@pytest.mark.parametrize(("given", "target"), in_turn((
    {}, {"pad": 1}, {"taps": 5, "pad": 2, "wide": 20}, {"rows": 3, "high": 6}, {"rows": 3, "high": 5, "pad": 1}, {"step": 2},
    {"stride": 2, "taps": 4}, {"step": 3, "stride": 2, "wide": 33}, {"taps": 15}, {"wide": 40, "taps": 7},
)))
def test_a_filter_slides_over_what_is_made(given: dict[str, int], target: str) -> None:
    computes(slid(**given), target, 1, FILTERED)


def test_the_matrix_is_the_hosts() -> None:
    new = formed(slid(pad=1), DE10, FILTERED)
    host = split_host(new)
    packed = {s.block.name for stage in host.pack for s in walk(stage.body) if isinstance(s, BlockRealize)}
    assert any(name.startswith("w_band") for name in packed), packed


def test_a_filter_of_what_is_given_is_banded_otherwise() -> None:
    """The twin: the host lays a parameter out again, so its windows are no products with all of it."""
    x, w, k = te.placeholder((4, 18), "int8", name="x"), te.placeholder((3,), "int8", name="w"), te.reduce_axis((0, 3), name="k")
    g = te.compute((4, 16), lambda i, j: te.sum(x[i, j + k].astype("int32") * w[k].astype("int32"), axis=k), name="g")
    func = te.create_prim_func([x, w, narrow(g, 5, "y")])
    assert filtering.apart(Schedule(func, seed=0), get_target(DE10)) is None


def test_as_many_filters_as_channels_are_lanes() -> None:
    """The twin: a filter for each plane that is made has lanes without."""
    x, d = te.placeholder((18, 16), "int8", name="x"), te.placeholder((32, 16), "int8", name="d")
    r = te.reduce_axis((0, 16), name="r")
    s = te.compute((18, 32), lambda t, c: te.sum(x[t, r].astype("int32") * d[c, r].astype("int32"), axis=r), name="s")
    a = narrow(s, 7, "a")
    w, k = te.placeholder((3, 32), "int8", name="w"), te.reduce_axis((0, 3), name="k")
    g = te.compute((16, 32), lambda t, c: te.sum(a[t + k, c].astype("int32") * w[k, c].astype("int32"), axis=k), name="g")
    func = te.create_prim_func([x, d, w, narrow(g, 5, "y")])
    assert filtering.apart(Schedule(func, seed=0), get_target(DE10)) is None
    computes(func, DE10)


def test_a_filter_that_is_made_has_no_matrix() -> None:
    """The twin: of what the accelerator stores the host makes nothing in between."""
    x, m = means()
    h, k = te.placeholder((3,), "int32", name="h"), te.reduce_axis((0, 3), name="k")
    w = te.compute((3,), lambda i: (h[i] >> 4).astype("int8"), name="w")
    g = te.compute((1, 14), lambda i, j: te.sum(m[i, j + k].astype("int32") * w[k].astype("int32"), axis=k), name="g")
    func = te.create_prim_func([x, h, narrow(g, 5, "y")])
    assert normalise(func, get_target(DE10), FILTERED) == (func, ())
    with pytest.raises(SpaceError, match="the program makes both"):
        Space(func, DE10)


@pytest.mark.parametrize(("most", "there"), [(14 * 16, True), (14 * 16 - 1, False)])
def test_a_matrix_has_so_many_elements(most: int, there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering, "MOST", most)
    assert (filtering.apart(Schedule(slid(), seed=0), get_target(DE10)) is not None) == there


def test_attention_by_neighbours_of_channels_has_a_space() -> None:
    """All the way: no other form leads to one."""
    x, p = te.placeholder((32, 9), "int8", name="x"), te.reduce_axis((0, 9), name="p")
    m = narrow(te.compute((1, 32), lambda i, c: te.sum(x[c, p].astype("int32"), axis=p), name="s"), 3, "m")
    w, k, z = te.placeholder((3,), "int8", name="w"), te.reduce_axis((0, 3), name="k"), zeros_around(m, 0, 1)
    g = te.compute((1, 32), lambda i, c: te.sum(z[i, c + k].astype("int32") * w[k].astype("int32"), axis=k), name="g")
    gate = te.compute((1, 32), lambda i, c: te.min(te.max((g[i, c] >> 6) + 32, 0), 64).astype("int8"), name="gate")
    y = te.compute((32, 9), lambda c, i: ((x[c, i].astype("int32") * gate[0, c].astype("int32")) >> 6).astype("int8"), name="y")
    computes(te.create_prim_func([x, w, y]), DE10)
