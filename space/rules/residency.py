"""Residency: whether the first part loads an operand, piece by piece between its products, for all parts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autosched.ir.scopes import ACC
from space.model import Model
from space.plan import Plan, columns, give_back
from space.rule import Column, NumericRule, Points
from space.rules.attach import standing
from space.rules.cuts import value_of
from space.rules.tiling import some_axes, tiled_axes


class Residency(NumericRule):
    """One column per operand of the product: 1 keeps what the first of several parts has loaded; the others load it no more."""

    name = "residency"
    cuts = True

    def columns(self, model: Model) -> tuple[Column, ...]:
        """``keep_<operand>``, where there are cuts."""
        kept = [o.label for o in model.nest.operands if o.scope != ACC]
        return tuple(Column(f"keep_{name}", (0, 1) if model.cuts else (0,), 0, 0, int(model.cuts)) for name in kept)

    def plan(self, model: Model, points: Points, plan: Plan) -> None:
        """Marks the rows."""
        plan.keep = [model.column(points, f"keep_{o.label}") == 1 for o in model.nest.operands]

    def repair(self, model: Model, points: Points, plan: Plan) -> None:
        """Only a first part that needs all of an operand, and loads it inside its loops, can load it for others."""
        every = plan.stack
        for k, operand in enumerate(model.nest.operands):
            column = model.index.get(f"keep_{operand.label}", -1)
            if column < 0 or not points[:, column].any():
                continue
            from space import _attach_kernel

            rows = columns(points)
            _attach_kernel.stays(
                rows, column, k, every.on, columns(every.extents), columns(every.tiles), columns(plan.position), plan.attach[k],
                model.uses, model.extents, model.shapes[k].gaps, plan.main,
            )
            give_back(points, rows)

    def settle(self, model: Model, points: Points, plan: Plan) -> None:
        """What the first part loads stands in a loop that the first part has."""
        first = plan.parts[0]
        for k, operand in enumerate(model.nest.operands):
            name = f"keep_{operand.label}"
            if name in model.index and plan.keep[k].any():
                outer = np.where(first.on[:, None], first.outer, plan.body.outer) if plan.main else plan.body.outer
                depth = standing(model, plan, k, plan.attach[k], outer)
                column = model.index[f"load_{operand.label}"]
                points[:, column] = np.where(plan.keep[k], depth, points[:, column])
                points[plan.keep[k] & (depth == 0), model.index[name]] = 0

    def vary(self, model: Model, points: Points, rng: np.random.Generator) -> None:
        """Keeps an operand or lets it go; to keep it, a first part of a few tiles along an axis that it does not use loads it."""
        mine = [k for k, o in enumerate(model.nest.operands) if f"keep_{o.label}" in model.index]
        if not mine or "head" not in model.index:
            return
        tiled = np.array(tiled_axes(model), dtype=np.int64)
        which, long = rng.choice(mine, size=len(points)), rng.integers(1, 4, size=len(points))
        cut, moved = rng.random((2, len(points))) < 0.7
        for k in mine:
            label, axes, own = model.nest.operands[k].label, tiled[~model.uses[k, tiled]], np.flatnonzero(which == k)
            keep = model.index[f"keep_{label}"]
            points[own, keep] = 1 - points[own, keep]
            if not len(axes):
                continue
            own = own[points[own, keep] == 1]
            axis, tile = some_axes(model, axes.tolist(), rng, len(own))
            # Several tiles at once where one is too short for what is loaded meanwhile.
            head = value_of(model, axis, points[own, tile] * long[own])
            there = cut[own] & (head > 0)
            points[own[there], model.index["head"]] = head[there]
            if f"load_{label}" in model.index:
                points[own[moved[own]], model.index[f"load_{label}"]] = len(model.nest.axes)

    def explain(self, model: Model, point: npt.NDArray[np.int32], plan: Plan) -> str:
        """The operands that stay."""
        kept = [o.label for k, o in enumerate(model.nest.operands) if plan.keep[k][0]]
        return "keep " + " ".join(kept) if kept else ""
