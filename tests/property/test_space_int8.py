"""int8 operands of the ALU: random programs come into form, and every point of their spaces computes the interpreter's bytes."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.ir.expr import Expr, IntImm, cast, intrin, maximum, minimum
from autosched.ir.interp import run
from autosched.ir.stmt import Buffer, PrimFunc, make_root, seq
from autosched.measure import Candidate, measure
from autosched.workloads import Workload
from autosched.workloads.stage import stage, tensor
from space import Space

TARGETS = ("vta-de10", "vta-de10-portable", "vta-fsim")


def chain(rng: np.random.Generator) -> PrimFunc:
    """Stages over one shape: int8 tensors scaled and added, an int32 one now and then, shifts and clips between."""
    shape = (*(int(e) for e in rng.integers(1, 6, 2)), 1, 16)
    axes = list(zip(("i", "j", "b", "l"), shape))
    params: list[Buffer] = []
    made: list[Buffer] = []
    used: set[tuple[Buffer, int]] = set()
    stmts = []

    def operand(*at: Expr) -> Expr:
        wide = bool(rng.random() < 0.2)
        shared = [p for p in params if p.dtype == ("int32" if wide else "int8")]
        if shared and rng.random() < 0.3:
            buffer = shared[0]
        else:
            buffer = tensor(f"X{len(params)}", shape, "int32" if wide else "int8")
            params.append(buffer)
        if wide:
            return buffer[at]
        load = cast("int32", buffer[at])
        # Equal parts of one value would be one stage that is read twice.
        free = [f for f in (1, *range(-128, 0), *range(2, 128)) if (buffer, f) not in used]
        factor = 1 if rng.random() < 0.3 and 1 in free else int(rng.choice(free))
        used.add((buffer, factor))
        power = factor.bit_length() - 1
        if factor == 1 << power and rng.random() < 0.5:
            return intrin("shift_left", load, IntImm(power))
        return load if factor == 1 else load * factor

    def value(*at: Expr) -> Expr:
        found = made[-1][at] if made else operand(*at)
        for _ in range(int(rng.integers(1, 4))):
            kind = rng.integers(4)
            if kind == 0:
                found = found >> int(rng.integers(1, 5))
            elif kind == 1:
                found = minimum(maximum(found, int(rng.integers(-200, 0))), int(rng.integers(1, 200)))
            else:
                found = found + operand(*at)
        return found

    for n in range(int(rng.integers(1, 3))):
        buffer = tensor(f"S{n}", shape, "int32")
        stmts.append(stage(buffer, axes, value))
        made.append(buffer)
    out = tensor("out", shape, "int8")
    stmts.append(stage(out, axes, lambda *at: cast("int8", made[-1][at])))
    return PrimFunc((*params, out), make_root(seq(*stmts), tuple(made)), value_ranges=(None,) * (len(params) + 1))


def holds(func: PrimFunc, target: str, rng: np.random.Generator, points: int) -> None:
    space = Space(func, target)
    task = Workload("random", func, lambda *inputs: tuple(run(func, *inputs)), 0)
    for point in space.sample(rng, points):
        result = measure(Candidate(task, target, tuple(space.trace(point).as_json())), execute=True, wide=True)
        assert result.ok, (func.script(), space.explain(point), result)
        bound = max(space.machine_bound(), int(space.bound(point[None])[0]))
        assert result.cycles is not None and result.cycles >= bound, (func.script(), space.explain(point))


@pytest.mark.parametrize("seed", range(8))
def test_chains(seed: int) -> None:
    rng = np.random.default_rng(seed)
    holds(chain(rng), TARGETS[seed % 3], rng, 3)
