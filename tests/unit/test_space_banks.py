"""Banks: how many a buffer may have, and what a third one is worth."""

from __future__ import annotations

import numpy as np
import pytest
from decided import cut, run, settled

from autosched.errors import ProgramError
from autosched.lower import lower_table
from autosched.workloads import workload
from space import Space

DENSE = "dense:m=6,k=64,n=64,bias=1"


def copies(space: Space, point: np.ndarray) -> dict[str, int]:
    """By memory, the most copies that a buffer has there."""
    found: dict[str, int] = {}
    for storage in lower_table(space.schedule(point).func, space.target).storages:
        found[storage.scope] = max(storage.copies, found.get(storage.scope, 1))
    return found


@pytest.mark.parametrize("banks", [1, 2, 3])
def test_a_buffer_has_as_many_copies(banks: int) -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    point = space.point(tile_m=2, load_data=1, banks_data=banks, banks_acc=banks)
    assert copies(space, point) == {"local.acc_buffer": banks, "local.inp_buffer": banks, "local.wgt_buffer": 1}
    assert (f"data@m x{banks}" in space.explain(point)) == (banks > 1) == (f"acc x{banks}" in space.explain(point))
    assert run(space, DENSE, point, execute=True).ok


def test_it_has_no_more_than_it_is_filled_times() -> None:
    space = Space(workload(DENSE).func, "vta-de10")
    for tile, most in ((6, 1), (3, 2), (2, 3), (1, 3)):
        point = settled(space, tile_m=tile, load_data=1, banks_data=3, banks_weight=3, banks_acc=3)
        found = dict(zip(space.names, point.tolist()))
        assert (found["banks_data"], found["banks_acc"], found["banks_weight"]) == (most, most, 1), tile
    with pytest.raises(ProgramError, match="simpler twin"):
        space.point(tile_m=3, load_data=1, banks_data=3)
    with pytest.raises(ProgramError, match="choose one of 1, 2, 3"):
        space.point(tile_m=1, load_data=1, banks_data=4)


def test_the_part_that_is_filled_most_often_counts() -> None:
    """The last one is of one tile, and has one copy."""
    space = Space(workload("dense:m=7,k=64,n=64,bias=1").func, "vta-de10")
    point = settled(space, tile_m=2, cut=cut(space, "m", 1), load_data=1, banks_data=3, banks_acc=3)
    assert point[space.names.index("cut")]
    found = copies(space, point)
    assert found["local.inp_buffer"] == found["local.acc_buffer"] == 3


def test_a_third_bank_lets_loads_run_further_ahead() -> None:
    """Weights come in small pieces, and now and then all data of a tile between them: with two banks the products wait then."""
    name = "conv2d:h=6,w=6,ci=128,co=64,k=3,pad=1"
    space = Space(workload(name).func, "vta-de10")
    given = {"tile_co": 1, "tile_ky": 1, "tile_kx": 1, "drop_zeros": 1, "load_kernel": 8, "load_data": 0, "banks_acc": 2}
    cycles = []
    for banks in (1, 2, 3):
        point = settled(space, **given, banks_kernel=banks)
        assert point[space.names.index("banks_kernel")] == banks
        found = run(space, name, point, execute=True)
        assert found.ok and found.cycles is not None
        assert abs(space.draft(point[None])[0] / found.cycles - 1) < 0.03
        cycles.append(found.cycles)
    assert cycles[2] < cycles[1] < cycles[0], cycles
