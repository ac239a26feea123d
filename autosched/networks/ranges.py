"""Proof that no accumulator of a layer can leave int32, channel by channel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.errors import ProgramError
from autosched.networks.graph import SAME_VALUES, Array, Ints, Layer, Requant

LIMIT = 1 << 31


def whole(values: Array) -> Ints | None:
    """Values as int64 where each is a whole number that an accumulator holds; None where one is not (also inf, or no number)."""
    with np.errstate(invalid="ignore"):
        good = np.isfinite(values) & (values == np.rint(values)) & (np.abs(values) < LIMIT)
    return np.rint(values).astype(np.int64) if bool(good.all()) else None


def clipped_again(low: float, high: float, then: tuple[float, float]) -> tuple[float, float]:
    """The ends of a clip and a later one together: the later has the last word.

    Args:
        low: the least that the first leaves.
        high: the greatest.
        then: the ends of the later one.
    """
    a, b = (min(max(end, then[0]), then[1]) for end in (low, high))
    return a, b


def reach(layer: Layer, bias: Ints | None = None) -> Ints:
    """Per channel, a bound of ``|accumulator|``: sum of |weights| * 128 + |bias|, rounding and zero points included.

    Args:
        layer: a layer with sums.
        bias: another bias than the layer's own.
    """
    if layer.weight is not None:
        weights = np.abs(layer.weight.astype(np.int64)).reshape(len(layer.weight), -1).sum(axis=1)
    elif layer.kind == "average":
        weights = np.array([abs(layer.factors[0]) * layer.kernel[0] * layer.kernel[1]], dtype=np.int64)
    else:
        weights = np.array([sum(abs(f) for f in layer.factors)], dtype=np.int64)
    if bias is None:
        assert layer.requant is not None
        bias = layer.requant.bias
    # Python integers: a bias of a damaged file may itself be beyond int64's sums.
    total: Ints = weights * 128 + np.abs(bias).reshape(len(bias), -1).max(axis=1)
    return total


def most(layer: Layer, done: Requant) -> Ints:
    """As ``reach``, of all that is computed in the accumulator: below zero, the sums times a slope as well.

    Args:
        layer: a layer with sums.
        done: what follows them.
    """
    bound = reach(layer, done.bias)
    return bound if done.leak is None else done.leak.times * bound + abs(done.leak.offset)


def least(layers: Sequence[Layer], tensor: str) -> int:
    """A bound from below of the machine's values of an int8 tensor, from the clip of the layer that makes it.

    Args:
        layers: of a network, or those that are known so far.
        tensor: name of one of its tensors.
    """
    made = {x.output: x for x in layers}
    ends, seen, left = [], {tensor}, [tensor]
    while left:
        layer = made.get(left.pop())
        if layer is None:
            ends.append(-128)
        elif layer.residual is not None:
            ends.append(layer.residual.low)
        elif layer.requant is not None:
            ends.append(layer.requant.low)
        else:
            # What only moves makes no new values, and pools by maxima none but the zeros that they are padded with.
            moves = layer.kind in SAME_VALUES or (layer.kind == "max" and not any(layer.pads))
            ends += [] if moves else [0]
            # Each once: what is cut apart and joined again has twice as many ways to its maker every time.
            left += [t for t in layer.inputs if t not in seen]
            seen.update(layer.inputs)
    return min(ends)


def prove(layer: Layer) -> None:
    """Refuses a layer whose accumulator could wrap around.

    Raises:
        ProgramError: names the layer, the channel and the bound.
    """
    if layer.requant is None:
        return
    bound = most(layer, layer.requant)
    worst = int(np.argmax(bound))
    if int(bound[worst]) >= LIMIT:
        raise ProgramError(
            f"node {layer.name!r}: the accumulator of channel {worst} can reach {int(bound[worst])}, not less than 2^31; "
            "use smaller weights or a smaller bias (a coarser scale)"
        )
