"""Transposed convolutions by classes against their definition, and which of them the machine's form does not have."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.networks.transposed import by_class, direction, directions, sums


def defined(x: np.ndarray, w: np.ndarray, stride: tuple[int, int], pads: tuple[int, int], out: tuple[int, int]) -> np.ndarray:
    """Every input element adds its kernel to the full result, of which a part is kept."""
    n, _, h, width = x.shape
    full = np.zeros((n, len(w), h * stride[0] + w.shape[2] + out[0], width * stride[1] + w.shape[3] + out[1]))
    for y, z in np.ndindex(h, width):
        full[:, :, y * stride[0] : y * stride[0] + w.shape[2], z * stride[1] : z * stride[1] + w.shape[3]] += np.einsum(
            "nc,ocij->noij", x[:, :, y, z], w
        )
    return full[:, :, pads[0] : pads[0] + out[0], pads[1] : pads[1] + out[1]]


def test_classes_give_what_the_definition_gives() -> None:
    rng = np.random.default_rng(0)
    tried = 0
    for _ in range(400):
        size, stride, kernel, pads = (tuple(int(v) for v in rng.integers(1, m, 2)) for m in (6, 4, 7, 5))
        pads = (min(pads[0], kernel[0]) - 1, min(pads[1], kernel[1]) - 1)
        out = tuple((e - 1) * s + k - p + int(rng.integers(-1, s)) for e, s, k, p in zip(size, stride, kernel, pads))
        if min(out) < 1:
            continue
        made = directions(size, (out[0], out[1]), kernel, stride, pads)
        uneven = any(o % s for o, s in zip(out, stride)) or any(s > 2 and p % s for s, p in zip(stride, pads))
        assert isinstance(made, str) == uneven
        if isinstance(made, str):
            continue
        down, across = made
        x, w = rng.integers(-9, 9, (1, 2, *size)), rng.integers(-9, 9, (3, 2, *kernel)).astype(np.int8)
        padded = np.pad(x, [(0, 0), (0, 0), (down.before, down.after), (across.before, across.after)])
        tiles = by_class(w, down, across)[..., None, None]
        got = sums(padded[..., None, None], tiles, down, across, out[0] // stride[0], out[1] // stride[1])
        assert np.array_equal(got.reshape(1, 3, *out), defined(x, w, stride, pads, (out[0], out[1])))
        tried += 1
    assert tried > 80


@pytest.mark.parametrize(("stride", "pad", "out", "words"), [
    (2, 1, 7, "result of 7 is not cut evenly by its stride of 2"), (3, 1, 9, "padding 1 is no multiple of its stride 3"),
    (3, 3, 9, ""), (2, 1, 8, ""), (1, 2, 7, ""),
])
def test_what_has_no_classes_says_so(stride: int, pad: int, out: int, words: str) -> None:
    made = direction(4, out, 4, stride, pad)
    assert (made == words or words in made) if isinstance(made, str) else not words
