"""What compiled rules make of rows is what the same rules make of them in NumPy: after every step, all rows, all parts."""

from __future__ import annotations

import numpy as np
import pytest
from written_rules import WRITTEN_OUT

from autosched.workloads import workload
from space import Space
from space.plan import Plan
from space.rule import Points, product
from space.rules import NUMERIC, STRUCTURAL

NAMES = [
    "conv2d:h=14,w=14,ci=32,co=48,k=3,pad=1", "conv2d:h=8,w=6,ci=32,co=64,k=3,stride=2,pad=1,groups=2", "dense:m=12,k=96,n=64",
    "mobilenet.d9", "dcgan.ct3", "resnet18.max_pool", "resnet18.add1",
]


def figures(plan: Plan) -> list[np.ndarray]:
    """All that a plan says, and what is worked out of its tiles."""
    parts = [figure for part in plan.parts for figure in (*part.figures, part.outer)]
    whole = [plan.position, *plan.attach, *plan.banks, *plan.keep, plan.acc_banks, plan.drops, plan.first]
    return [*parts, *whole, np.array([plan.main, plan.falls])]


def same(one: Plan, other: Plan, name: str) -> None:
    for mine, own in zip(figures(one), figures(other), strict=True):
        np.testing.assert_array_equal(mine, own, err_msg=name)


def rows_of(space: Space, rng: np.random.Generator) -> Points:
    """Rows that are drawn with every column from its choices, and such as breeding makes, also of rules that do not breed."""
    drawn = np.concatenate([space.wide(k, space._drawn(k, rng, 150)) for k in range(len(space.sketches))])
    points = space.sample(rng, 40)
    if "head_rise" in space.names:
        # First parts of several tiles, which those of two kinds come of.
        at, rows = space.names.index, space.wide(0, space.sketches[0].default[None])
        for name in ("head", "head_tile"):
            rows = product(rows, at(name), space.choices[at(name)].tolist())
        rows = rows[rng.permutation(len(rows))[:600]]
        for name in ("head_rise", "rise_kind", *(n for n in space.names if n.startswith("tile_"))):
            some = rng.random(len(rows)) < 0.5
            rows[some, at(name)] = rng.choice(space.choices[at(name)], int(some.sum()))
        rows[:, at("head_init")] = space.choices[at("head_init")].max()
        drawn = np.concatenate([drawn, rows])
    return np.concatenate([drawn, space.varied(np.repeat(points, 6, axis=0), rng), space.neighbours_of(points[:2])[:400]])


@pytest.mark.parametrize(("name", "target"), [*((name, "vta-de10") for name in NAMES), (NAMES[0], "vta-de10-portable")])
def test_rules_are_as_in_numpy(name: str, target: str) -> None:
    space = Space(workload(name).func, target)
    other = Space(workload(name).func, target, (*STRUCTURAL, *WRITTEN_OUT))
    assert [type(r).__name__ for r in NUMERIC] != [type(r).__name__ for r in WRITTEN_OUT] and space.names == other.names
    for k, _, own in space.groups(rows_of(space, np.random.default_rng(1))):
        for n, (model, mine) in enumerate(space.sketches[k].split(own)):
            written = other.sketches[k].models[n]
            assert model.columns == written.columns
            # As search gives them, a column's values side by side; and row by row, which a rule has to write back.
            rows, others = mine.copy("F"), mine.copy("C")
            plan, meant = model.neutral(len(mine)), written.neutral(len(mine))
            for rule, brute in zip(model.rules, written.rules):
                for step in ("repair", "plan"):
                    getattr(rule, step)(model, rows, plan)
                    getattr(brute, step)(written, others, meant)
                    np.testing.assert_array_equal(rows, others, err_msg=f"{rule.name} {step}")
                same(plan, meant, rule.name)
            for rule, brute in zip(model.rules, written.rules):
                rule.settle(model, rows, plan)
                brute.settle(written, others, meant)
                np.testing.assert_array_equal(rows, others, err_msg=f"{rule.name} settle")
            if len(space.sketches[k].models) == 1:
                some = np.flatnonzero(model.capacity(model.plan(rows)))
                plan, meant = model.plan(rows[some]), written.plan(others[some])
                same(plan, meant, "plan")
                for rule, brute in zip(model.rules, written.rules):
                    allowed = rule.allows(model, rows[some], plan), brute.allows(written, others[some], meant)
                    np.testing.assert_array_equal(*allowed, err_msg=f"{rule.name} allows")
