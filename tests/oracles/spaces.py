"""What a program's space is asked for: that a point of it computes what the interpreter does."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.ir import PrimFunc
from autosched.ir.interp import random_inputs, run
from autosched.kernel import of_schedule
from autosched.target import get_target
from space import Space, sketch
from space.normalise import Wanted, normal_forms


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
