"""A program of one vector: its nest has no axes, and one point or few."""

from __future__ import annotations

import numpy as np
import pytest
from spaces import computes

from autosched import te
from space import Space


@pytest.mark.parametrize("target", ["vta-de10", "vta-de10-portable"])
def test_a_nest_without_axes_has_points(target: str) -> None:
    x = te.placeholder((16,), "int32", name="x")
    func = te.create_prim_func([x, te.compute((16,), lambda i: te.max(x[i] + 1, te.const(0, "int32")), name="y")])
    space, rng = Space(func, target), np.random.default_rng(0)
    assert not space.sketches[0].model.nest.axes
    points = space.sample(rng, 4)
    assert len(points) == space.count()[0]
    for rows in (space.eager(rng, 8), space.varied(np.repeat(points, 4, axis=0), rng)):
        fixed, inside = space.repair(rows)
        assert inside.all() and space.valid(fixed).all()
    computes(func, target, 4)
