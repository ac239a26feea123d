"""Attach: around which outer loops every operand's load stands."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autosched.ir.scopes import ACC
from space.model import Model
from space.plan import Mask, Plan, columns, give_back
from space.rule import Column, Ints, NumericRule, Points


class Attach(NumericRule):
    """One column per operand: the number of outer loops around its load; 0 loads the whole tensor once."""

    name = "attach"

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``load_<operand>``, up to the number of outer loops that can move the operand."""
        made = []
        for operand in model.nest.operands:
            deep = operand.scope != ACC or (operand.consumer == model.nest.anchor and not model.nest.tensorized)
            most = len(model.nest.axes) if deep else model.n_spatial
            if operand.consumer in model.nest.sides:
                most = 0  # what is made once is loaded once
            made.append(Column(f"load_{operand.label}", tuple(range(most + 1)), 0, most, most))
        return tuple(made)

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Depths of all loads."""
        plan.attach = list(points.T[model.owned_at(self)].astype(np.int64))

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """A load stands directly inside a loop of several iterations that moves its region, or outside of all."""
        from space import _attach_kernel

        own = model.owned_at(self)
        most = model.once((self, "most"), lambda: np.array([c.choices[-1] for c in model.owned(self)], dtype=np.int64))
        rows = columns(points)
        _attach_kernel.inward(*model.around_parts(plan), model.uses, plan.main, most, rows, own)
        give_back(points, rows)

    def settle(self, model: Model, points: Points, plan: Plan) -> None:
        """What initial values or stages read is loaded outside of the loops that these stand in front of, or behind."""
        some = sorted(model.starting | model.behind)
        if not some:
            return
        from space import _attach_kernel

        own = model.owned_at(self)[some]
        outer, on, position, attach, _, outside, init, out = model.loops(plan)
        rows, which = columns(points), np.array(some, dtype=np.int64)
        _attach_kernel.outward(outer, on, position, attach, outside, init, out, model.uses, which, rows, own)
        give_back(points, rows)

    def allows(self, model: Model, points: Points, plan: Plan) -> Mask:
        """Of an operand with gaps, from which zeros are left out, every load begins at the same place of a gap."""
        ok = np.ones(len(points), dtype=np.bool_)
        for dim in model.padding.dims:
            step = _step(dim.inside)
            if step == 1:
                continue
            for part in plan.parts:
                around = (plan.position < plan.attach[model.padding.operand][:, None]) & (part.outer > 1)
                for a in dim.axes:
                    moved = (around[:, a] * part.tiles[:, a] * dim.coeffs[a]) % step + (part.lows[:, a] * dim.coeffs[a]) % step
                    ok &= ~(part.on & plan.drops) | (moved == 0)
        return ok

    def features(self, model: Model, points: Points, plan: Plan) -> list[npt.NDArray[np.float64]]:
        """Depths, and log sizes of what is moved."""
        found: list[npt.NDArray[np.float64]] = [a.astype(np.float64) for a in plan.attach]
        for k in range(len(model.nest.operands)):
            beats, transfers = model.transfer(plan, plan.body, k)
            fills = model.fills(plan, plan.body, k)
            found += [np.log2(np.maximum(x, 1)) for x in (beats, transfers, fills, model.footprint(plan, plan.body, k))]
        return found

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """Every load with the axis of the loop it stands in, and how many banks it fills."""
        at = {int(p) + 1: model.nest.axes[a].name for a, p in enumerate(plan.position[0])}
        loads = []
        for k, operand in enumerate(model.nest.operands):
            twice = f" x{1 + int(plan.banks[k][0])}" if plan.banks[k][0] else ""
            loads.append(f"{operand.label}@{at.get(int(plan.attach[k][0]), 'root')}{twice}")
        return "load " + " ".join(loads)


def standing(model: Model, plan: Plan, operand: int, depth: Ints, outer: Ints) -> Ints:
    """The nearest depth, outwards, directly inside a loop of several iterations that moves an operand's region; 0 without one.

    Args:
        model: of the sketch.
        plan: of the rows.
        operand: what is loaded, by its number.
        depth: loops around its load, shape (n,).
        outer: iterations of every axis' outer loop, shape (n, axes).
    """
    from space import _attach_kernel

    given, on = depth.astype(np.int32)[None], np.ones((1, len(plan)), dtype=np.bool_)
    most, own = np.full(1, len(model.extents)), np.zeros(1, dtype=np.int64)
    _attach_kernel.inward(columns(outer)[None], on, columns(plan.position), model.uses[[operand]], 0, most, given, own)
    return np.asarray(given[0], dtype=np.int64)


def _step(inside: tuple[bool, ...]) -> int:
    """How far what is no padding lies apart along a dimension; where that differs, further than any load moves."""
    steps = set(np.diff(np.flatnonzero(inside)).tolist())
    return steps.pop() if len(steps) == 1 else len(inside) + 1 if steps else 1
