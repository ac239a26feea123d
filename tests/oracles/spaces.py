"""What a program's space is asked for: that a point of it computes what the interpreter does."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.ir import PrimFunc
from autosched.ir.host import split_host
from autosched.ir.interp import random_inputs, run
from autosched.kernel import of_schedule
from autosched.schedule import Schedule
from autosched.schedule.kit.trace import Trace
from autosched.target import get_target
from space import Space, sketch
from space.normalise import Wanted, normal_forms, normalise
from space.normalise.blocks import is_packed


def computes(func: PrimFunc, target: str, points: int = 1, base: Wanted | None = None) -> None:
    """Points of a program's space give the interpreter's bytes.

    Args:
        func: the program.
        target: its name.
        points: how many are drawn.
        base: what the forms have that are looked at; without, all in their order, of which those that lead nowhere take seconds.
    """
    with pytest.MonkeyPatch.context() as patch:
        if base is not None:
            patch.setattr(sketch, "normal_forms", lambda func, target, *_: normal_forms(func, target, base))
        space = Space(func, target)
    drawn = space.sample(np.random.default_rng(0), points)
    assert len(drawn)
    for point in drawn:
        kernel = of_schedule(func, get_target(target), space.schedule(point))
        for seed in range(2):
            inputs = random_inputs(func, seed)
            got = kernel(*inputs)
            for one, wanted in zip(got if isinstance(got, tuple) else (got,), run(func, *inputs), strict=True):
                assert np.array_equal(one, wanted)


def formed(func: PrimFunc, target: str, wanted: Wanted) -> PrimFunc:
    """A program in a form, which is packed, takes and gives what the program does, and comes of its recorded steps again.

    Args:
        func: the program.
        target: its name.
        wanted: what the form is to have.
    """
    new, steps = normalise(func, get_target(target), wanted)
    assert steps and is_packed(split_host(new).device, get_target(target))
    assert [(b.name, b.shape) for b in new.buffers] == [(b.name, b.shape) for b in func.buffers]
    for seed in range(2):
        inputs = random_inputs(func, seed)
        assert all(map(np.array_equal, run(new, *inputs), run(func, *inputs)))
    sch = Schedule(func, seed=0)
    Trace.from_json(Trace(list(steps)).as_json()).apply_to_schedule(sch)
    assert sch.func == new
    return new
