"""Where buffers stand that share a memory: nobody waits who need not, and nothing lies on what is alive."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

from autosched.ir.scopes import ACC, INP
from autosched.lower import lower_table
from autosched.lower.affine import Lin, Loop
from autosched.lower.alike import _of_place
from autosched.lower.arrange import _between, _meeting, _packed, place
from autosched.lower.elements import Place
from autosched.lower.nest import loop_values
from autosched.lower.storage import Storage
from autosched.measure import Candidate, measure
from autosched.workloads import workload
from autosched.workloads.stage import tensor
from space import Space
from space.rules import cuts


def cut(space: Space, axis: str, size: int) -> int:
    """The value of a cut column that cuts so much off an axis."""
    model = space.sketches[0].model
    at = next(n for n, a in enumerate(model.nest.axes) if a.name == axis)
    return cuts.values(model)[at, size]


def point(name: str, **decisions: Any) -> tuple[Space, np.ndarray]:
    """A point of a named workload's space; ``head=("y", 6)`` cuts so much off."""
    space = Space(workload(name).func, "vta-de10")
    forms = [n for n, sketch in enumerate(space.sketches) if set(sketch.done) == set(decisions.pop("done", ()))]
    given = {key: cut(space, *value) if isinstance(value, tuple) else value for key, value in decisions.items()}
    return space, space.point(sketch=forms[0], **given)


def places(space: Space, row: np.ndarray, scope: str) -> list[Any]:
    """The buffers of a memory, in the order of the program."""
    return [s for s in lower_table(space.schedule(row).func, "vta-de10").storages if s.scope == scope]


def cycles(name: str, space: Space, row: np.ndarray) -> int:
    """What the point's program takes, executed and compared."""
    found = measure(Candidate(name, "vta-de10", tuple(space.trace(row).as_json())), execute=True)
    assert found.cycles is not None, found.reason
    return found.cycles


def test_what_one_loop_fills_in_turn_does_not_lie_on_each_other() -> None:
    """Two operands of a sum, of which one has two banks: in the main part each has a place of its own, in every iteration."""
    name = "resnet18.add3"
    space, row = point(name, head=("c", 2), cut=("c", 2), cut_again=("y", 1), tile_c=4, tile_x=7, order=1, load_a=2, load_b=2,
                       banks_b=2, banks_acc=2)
    main = [s for s in places(space, row, INP) if s.elements == 392]
    (a, b) = sorted(main, key=lambda s: s.address)
    assert {a.copies, b.copies} == {1, 2} and a.address + a.elements * a.copies <= b.address
    # On each other it was 20 797: every load waited for the product before it.
    assert cycles(name, space, row) == 17_644


def test_a_part_begins_in_the_copy_that_nobody_is_storing() -> None:
    """The first part has no room beside both copies of the next one, but beside one, which is used first."""
    name = "resnet18.c7"
    space, row = point(name, done=("init by copy", "rows in use"), head=("y", 7), cut=("y", 1), cut_again=("co", 4), tile_y=2,
                       head_ci=1, order=2, load_data=5, load_kernel=5, keep_kernel=1, banks_data=2, banks_acc=2, tail_last=2,
                       addend_first=1)
    head, main = places(space, row, ACC)[1:3]
    assert (head.elements, main.elements, main.copies) == (1568, 448, 2)
    assert head.address < main.address < head.address + head.elements <= main.address + main.elements, "only one copy is clear"
    # Begun in the other copy it was 43 600: the second part waited for the store of the first.
    assert cycles(name, space, row) == 38_273


def test_who_comes_first_ends_where_the_next_does_not_begin() -> None:
    name = "resnet18.c4"
    space, row = point(name, done=("init by copy", "rows in use"), head=("y", 6), cut=("y", 6), tile_y=8, tile_x=14, tile_ci=1,
                       last_ci=2, order=3, load_data=5, load_kernel=5, banks_data=2, banks_kernel=2, banks_acc=2,
                       tail_last=2, addend_first=1)
    assert cycles(name, space, row) == 51_577  # 53 994 where the first part's last copy lies under the next one's first


def stored(name: str, size: int, life: tuple[int, int], turns: int = 0, banks: int = 2, loop: Loop | None = None) -> Storage:
    """A storage of one copy, or of several that a loop of so many turns uses in turn."""
    path = (loop,) if loop else (Loop(name, turns),) if turns else ()
    return Storage(tensor(name, [size], "int32"), path, (), (size,), 1, size, banks if path else 1, (), life)


def spans_of(stores: Sequence[Storage]) -> dict[int, tuple[int, int]]:
    """Who uses each from when to when: while it is alive."""
    return {id(s): s.life for s in stores}


def packed(stores: list[Storage], depth: int, again: bool = False) -> tuple[int, int, int]:
    """What still meets when they are placed with care."""
    found = _packed(stores, depth, spans_of(stores), True, again)
    assert found.high <= depth
    return found.meeting


def test_in_a_loop_that_fills_both_every_copy_is_kept_clear() -> None:
    loop = Loop("i", 4)
    two, one = stored("two", 40, (1, 1), loop=loop), stored("one", 40, (0, 0), banks=1, loop=loop)
    assert packed([two, one], 120, again=True) == (0, 0, 0) and one.address == 80


def test_who_was_placed_first_is_placed_again() -> None:
    """As in a layer of three parts beside its addends: the first one ends where the second does not begin."""
    stores = [stored("bias", 8, (0, 18)), stored("head", 672, (1, 6), 2), stored("main", 896, (7, 12), 4),
              stored("last", 672, (13, 18), 2)]
    assert packed(stores, 2048)[0] == 0
    assert [s.address for s in stores] == [0, 704, 8, 8] and stores[1].last == 1


MANY = [  # five layers of a network, one behind the other: the size, how many banks take turns, when it is alive
    (70, 1, (429, 437)), (16, 1, (438, 451)), (980, 1, (439, 444)), (980, 2, (445, 450)), (196, 1, (451, 456)),
    (16, 1, (457, 489)), (196, 1, (458, 468)), (588, 2, (469, 478)), (392, 1, (479, 488)), (196, 1, (489, 498)),
    (32, 1, (499, 506)), (1372, 1, (500, 505)), (196, 1, (506, 511)), (32, 1, (512, 519)), (1519, 1, (513, 518)),
    (49, 1, (519, 524)), (32, 1, (525, 537)), (686, 2, (527, 536)),
]


def test_layers_of_a_network_are_placed_one_after_the_other() -> None:
    """The largest first, or those that live longest, the others find no room that is clear of the ones before them."""
    stores = [stored(f"s{n}", size, life, 8 if banks > 1 else 0, banks) for n, (size, banks, life) in enumerate(MANY)]
    spans = spans_of(stores)
    place(stores, ACC, 2048, spans, False)
    for n, s in enumerate(stores):
        assert s.address + s.total <= 2048
        for p in stores[:n]:
            apart = s.life[1] < p.life[0] or p.life[1] < s.life[0]
            if apart and not _between(s, p, spans):
                assert _meeting(s, s.address, s.turned, p, spans, False)[0] == 0, (s.buffer.name, p.buffer.name)


def test_later_copies_are_kept_clear_where_there_is_room() -> None:
    """The first copy would be clear at 0, and the second one wait."""
    first, then = stored("first", 50, (0, 0), 2), stored("then", 30, (1, 1), 2)
    assert packed([first, then], 160)[:2] == (0, 0) and (first.address, first.last, then.address) == (0, 1, 100)
    first, then = stored("first", 50, (0, 0), 2), stored("then", 30, (1, 1), 2)
    assert packed([first, then], 160, again=True)[0] == 0 and then.address == 0, "where a place that was used is worth more"


@pytest.mark.parametrize(("turns", "begins"), [(3, 0), (4, 1), (5, 2)])
def test_of_three_copies_the_next_part_begins_in_the_one_that_is_free_first(turns: int, begins: int) -> None:
    """The one that nobody reads any more; of the others one is read next, and one last."""
    first, then = stored("first", 40, (0, 0), turns, 3), stored("then", 40, (1, 1), 3, 3)
    at_once, _, soon = packed([first, then], 120)
    assert (at_once, soon, then.address, then.turned) == (0, 0, 0, begins) and then.turned == (first.last + 1) % 3


def test_the_load_of_the_next_part_runs_two_fills_ahead() -> None:
    """A part of one row loads as much as one of two, in three pieces each, and multiplies half as much meanwhile."""
    name = "resnet18.c5"
    space, row = point(name, done=("init by copy",), head=("y", 7), cut=("y", 1), cut_again=("x", 2), tile_co=8, tile_y=2,
                       tile_kx=1, head_ci=2, head_ky=1, last_kx=3, drop_zeros=1, order=2, load_data=6, load_kernel=7,
                       banks_data=2, banks_kernel=3, banks_acc=2, tail_last=2, tail_last_size=4, addend_first=1)
    # Begun in the copy that is multiplied by next it was 475 656: the loads waited for a product more.
    assert cycles(name, space, row) == 471_164


@pytest.mark.parametrize(("banks", "others", "turned", "soon"), [
    (1, 3, 0, 40), (1, 3, 2, 0),  # the second copy is the one that is still read, or the third
    (3, 1, 0, 0), (3, 1, 1, 40),  # in place of the copy that was read first, or second
])
def test_what_meets_a_pass_later_is_told_apart(banks: int, others: int, turned: int, soon: int) -> None:
    first, then = stored("first", 40, (0, 0), 3, banks), stored("then", 40, (1, 1), 3, others)
    first.address = 40 if banks == 1 else 0
    at, turned = (0, turned) if others > 1 else (40 * turned, 0)
    spans = spans_of([first, then])
    assert _meeting(then, at, turned, first, spans, False)[::2] == (0, soon)
    assert _meeting(then, at, turned, first, spans, True) == (0, 0, 0)
    then.address, then.turned = at, turned
    assert _meeting(first, first.address, 0, then, spans, False)[::2] == (0, soon)


def test_which_copy_is_first_is_part_of_what_a_site_asks() -> None:
    """Else a site would be given the instructions of another one that begins in the other copy."""
    store = stored("x", 8, (0, 0), 2)
    asked = []
    for turned in (0, 1):
        store.turned = turned
        asked.append(_of_place(Place(Lin(), store), {store.path[0]: 0}))
    assert asked[0] != asked[1]


@pytest.mark.parametrize("seed", range(20))
def test_passes_turn_through_the_banks_and_threads_keep_apart(seed: int) -> None:
    """By counting: every iteration of what is no thread goes on to the next bank, beginning where the first pass is."""
    rng = random.Random(seed)
    path = tuple([Loop(f"l{k}", rng.randint(1, 4), thread=rng.random() < 0.3) for k in range(4)])
    threads, turning = [tuple([x for x in path if x.thread is which]) for which in (True, False)]
    banks, size, turned = rng.randint(1, 4), rng.randint(1, 9), 0
    turned = rng.randrange(banks)
    store = Storage(tensor("b", [size], "int32"), path, (), (size,), 1, size, banks, threads, (0, 1), 5, turned)
    values = loop_values((*threads, *turning))
    assert all(store.copy_steps()[0].values())
    passes = prod([x.extent for x in turning])
    wanted = [5 + t * size * banks + (n + turned) % banks * size for t in range(prod([x.extent for x in threads]))
              for n in range(passes)]
    assert np.broadcast_to(store.copy_offset(values), len(wanted)).tolist() == wanted


@pytest.mark.parametrize("seed", range(200))
def test_what_is_alive_together_never_meets(seed: int) -> None:
    rng = random.Random(seed)
    loop = Loop("i", 4)
    stores = []
    for k in range(rng.randint(2, 6)):
        size, banks, first = rng.randint(1, 60), rng.choice((1, 2, 3)), rng.randint(0, 8)
        life = first, first + rng.randint(0, 3)
        path = (loop,) if banks > 1 or rng.random() < 0.3 else ()
        stores.append(Storage(tensor(f"b{k}", [size], "int32"), path, (), (size,), 1, size, banks, (), life))
    depth = rng.randint(40, 200)
    for careful in (True, False):
        found = _packed(stores, depth, spans_of(stores), careful, rng.random() < 0.5)
        assert len(found.places) == len(stores) and found.high == max(at + s.total for s, at, _ in found.places)
        for n, (s, at, turned) in enumerate(found.places):
            assert at >= 0 and 0 <= turned < s.banks
            for p, other, _ in found.places[:n]:
                together = s.life[0] <= p.life[1] and p.life[0] <= s.life[1]
                assert not together or at + s.total <= other or other + p.total <= at
