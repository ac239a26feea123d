"""Populations that load elsewhere than the best, where memories are small."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from small_machine import SMALL

from autosched.search import proposer as module
from autosched.search.proposer import Proposer
from autosched.workloads import workload
from space import Space
from space.brood import Brood
from space.distinct import are_new, keys

DENSE = "dense:m=49,k=256,n=1000,bias=1"


def proposed(space: Space, seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Proposer, list[frozenset[bytes]]]:
    """A proposer with its first population, and what each of the populations it bred was barred from."""
    bred: list[frozenset[bytes]] = []
    breed = Proposer._breed

    def counted(self: Proposer, generations: int, population: Any, barred: frozenset[bytes] = frozenset(), **more: Any) -> int:
        bred.append(frozenset(barred))
        return breed(self, generations, population, barred, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Proposer, "_breed", counted)
        patch.setattr(Proposer, "_polish", lambda self: None)
        patch.setattr(module, "_FIRST", type(module._FIRST)())
        found = Proposer(space, seed)
        found.batch(8)
    return found, bred


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_valley_between_two_places_of_a_load_is_crossed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of a whole reduction on chip, with small tiles: the best there is a few per cent above that with parts of it."""
    space = Space(workload(DENSE).func, SMALL)
    with monkeypatch.context() as patch:
        patch.setattr(module, "ELSEWHERE", 0)
        settled, once = proposed(space, seed, monkeypatch)
    found, bred = proposed(space, seed, monkeypatch)
    assert once == [frozenset()] * len(once)
    assert found._drafts.min() < 0.97 * settled._drafts.min()
    # What is better has its generations in the open in the end.
    assert bred[-1] == frozenset()
    # What was barred first is where the first of them had settled, and every later population is barred from more.
    later = bred[len(once) : -1]
    best = settled._pool[settled._drafts == settled._drafts.min()]
    assert len(later[0]) == 1 and later[0] <= set(keys(space.same_loads(best)))
    assert [len(barred) for barred in later] == list(range(1, 1 + len(later)))
    assert all(one < two for one, two in pairwise(later))
    assert are_new(space.same_loads(found._pool[[int(found._drafts.argmin())]]), later[0]).all()


def test_the_same_seed_breeds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(workload(DENSE).func, SMALL)
    for name, value in (("GENERATIONS", 4), ("ENOUGH", 1), ("EAGER", 512), ("ELSEWHERE", 1)):
        monkeypatch.setattr(module, name, value)
    one, two = (proposed(space, 3, monkeypatch)[0] for _ in range(2))
    np.testing.assert_array_equal(one._pool, two._pool)
    np.testing.assert_array_equal(one._drafts, two._drafts)


def test_what_is_near_its_bound_is_not_looked_for_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boundaries: at the share of its bound, and the cycles that ends may take, nothing more is bred; a cycle above it is."""
    space = Space(workload("dense:m=16,k=128,n=160").func, "vta-de10")
    for name, value in (("GENERATIONS", 4), ("ENOUGH", 1), ("EAGER", 256), ("DEAR", 1.0), ("ELSEWHERE", 0)):
        monkeypatch.setattr(module, name, value)
    plain, once = proposed(space, 0, monkeypatch)
    best = int(plain._drafts.argmin())
    over = float(plain._drafts[best]) - int(space.bound(plain._pool[[best]])[0])
    assert over > 1
    monkeypatch.setattr(module, "ELSEWHERE", 1)
    monkeypatch.setattr(module, "ENDS", over)
    assert len(proposed(space, 0, monkeypatch)[1]) == len(once)
    monkeypatch.setattr(module, "ENDS", over - 1)
    found, bred = proposed(space, 0, monkeypatch)
    assert len(bred) == len(once) + 1 + (found._drafts.min() < plain._drafts[best])


def test_where_no_product_reads_anything_there_is_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of tensors have no loads of products: all points are alike."""
    space = Space(workload("add:m=40,n=256").func, "vta-de10")
    for name, value in (("GENERATIONS", 4), ("ENOUGH", 1), ("EAGER", 256), ("DEAR", 0.0), ("ENDS", 0)):
        monkeypatch.setattr(module, name, value)
    found, bred = proposed(space, 0, monkeypatch)
    assert space.same_loads(found._pool).shape == (len(found._pool), 0)
    assert all(not barred for barred in bred)


def test_where_nothing_fits_nothing_is_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(workload("dense:m=16,k=128,n=160").func, "vta-de10")
    none = space.sample(np.random.default_rng(0), 1)[:0]
    for name in ("sample", "eager"):
        monkeypatch.setattr(Space, name, lambda self, rng, n: none)
    monkeypatch.setattr(module, "fitted", lambda space, rng, n: none)
    assert proposed(space, 0, monkeypatch)[0].batch(8) == []


def test_loads_are_those_of_what_products_read() -> None:
    space = Space(workload("resnet18.c8").func, "vta-de10")
    points = space.sample(np.random.default_rng(0), 64)
    names = [name for name in space.names if name.startswith("load_")]
    assert sorted(names) == ["load_bias", "load_data", "load_kernel"]
    columns = sorted(space.names.index(name) for name in names if name != "load_bias")
    np.testing.assert_array_equal(space.same_loads(points), points[:, columns])


def test_loads_of_several_nests_are_all_told_apart() -> None:
    space = Space(workload("max_pool2d:h=6,w=6,c=16,k=2,stride=1,pad=0").func, "vta-de10")
    points = space.sample(np.random.default_rng(0), 16)
    columns = [n for n, name in enumerate(space.names) if name.rpartition(".")[2].startswith("load_")]
    assert {"pool_part.load_data", "out.load_pool_part", "load_data"} <= {space.names[n] for n in columns}
    np.testing.assert_array_equal(space.same_loads(points), points[:, columns])


def test_no_child_is_where_it_is_barred_from() -> None:
    space = Space(workload("resnet18.c8").func, "vta-de10")
    parents = space.sample(np.random.default_rng(1), 64)

    def all_of_it(points: np.ndarray) -> np.ndarray:
        return np.full(len(points), np.inf)

    every = sorted(set(keys(space.same_loads(parents))))
    barred = set(every[::2])
    free, held = Brood(space, parents), Brood(space, parents, barred)
    found: dict[str, list[bytes]] = {"free": [], "held": []}
    for name, brood in (("free", free), ("held", held)):
        draws = np.random.default_rng(2)
        for _ in range(3):
            new, drafts = brood.next(np.repeat(parents, 4, axis=0), parents[:0], draws, all_of_it)
            assert len(new) == len(drafts)
            found[name] += keys(space.same_loads(new))
        found[name] += keys(space.same_loads(brood.rest(all_of_it)[0]))
    assert barred & set(found["free"]) and not barred & set(found["held"])
    assert [key for key in found["free"] if key not in barred] == found["held"]
