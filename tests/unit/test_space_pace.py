"""Of very many visits the estimate plays some, and takes their pace for that of the others."""

from __future__ import annotations

import numpy as np
import pytest
from decided import off, settled

from autosched.workloads import workload
from space import Space


@pytest.mark.parametrize(("order", "near"), [(1, 0.02), (0, 0.005)])
def test_the_pace_is_not_that_of_the_border(order: int, near: float) -> None:
    """The tiles of the first rows, which leave out a row of taps, are more visits than are played, and a third of all."""
    name = "conv2d:h=28,w=28,ci=128,co=384,k=3,pad=1"
    space = Space(workload(name).func, "vta-de10")
    point = settled(space, drop_zeros=1, tile_co=1, tile_y=10, tile_ci=1, tile_ky=1, tile_kx=1, load_data=5, load_kernel=7,
                    banks_data=2, banks_kernel=2, banks_acc=2, order=order)
    (part,) = [p for p in space.meaning(point[None])[1].parts if p.on[0]]
    assert part.outer[0].tolist() == [1, 24, 3, 1, 8, 3, 3]
    assert np.abs(off(space, name, point[None])[0]) < near
