"""The arrays that a network is called with, checked: number, shape, type and range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from autosched.errors import ProgramError, suggest
from autosched.networks.graph import Array, Tensor, need_data
from autosched.networks.onnx_nodes import of_numpy


class Taken(Protocol):
    """What a network takes: its graph says it, compiled or not."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """What a call takes, in order."""

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """All tensors."""

    @property
    def blank(self) -> str | None:
        """The tensor whose data the file lacks."""


def accepted(net: Taken, arrays: Sequence[Array], named: Mapping[str, Array]) -> dict[str, Array]:
    """The arguments of a call, checked.

    Args:
        net: a network, or a compiled one.
        arrays: one per input, in order.
        named: the same by name.

    Raises:
        ProgramError: a wrong number of arrays, shape, type or range, or a network without data.
    """
    need_data(net.name, net.blank)
    listed = ", ".join(net.inputs)
    if len(arrays) > len(net.inputs):
        raise ProgramError(f"{net.name} takes {len(net.inputs)} arrays ({listed}), {len(arrays)} given")
    given = dict(zip(net.inputs, arrays))
    for name, array in named.items():
        if name not in net.inputs:
            raise ProgramError(f"{net.name} has no input {name!r}{suggest(name, net.inputs)}")
        if name in given:
            raise ProgramError(f"{net.name}: {name} is given twice")
        given[name] = array
    missing = [n for n in net.inputs if n not in given]
    if missing:
        raise ProgramError(f"{net.name} takes {listed}; {', '.join(missing)} missing")
    checked = {n: _checked(n, net.tensors[n], given[n]) for n in net.inputs}
    counts = {len(a) // net.tensors[n].shape[0] for n, a in checked.items() if net.tensors[n].shape}
    if len(counts) > 1:
        raise ProgramError(f"{net.name}: inputs hold {' and '.join(map(str, sorted(counts)))} images")
    return checked


def _checked(name: str, want: Tensor, array: Array) -> Array:
    try:
        found = np.asarray(array)
    except ValueError as error:
        raise ProgramError(f"{name}: not an array ({error})") from error
    if str(found.dtype) == want.dtype and not (found.dtype.kind in "iufb" and of_numpy(found.dtype)):
        raise ProgramError(f"{name}: {want.dtype} is no type of numbers that is read; export the model with another input")
    if found.dtype == object or found.dtype.kind not in "iufb":
        raise ProgramError(f"{name}: expected {want.dtype}, got {found.dtype}")
    fits = found.ndim == len(want.shape) and (
        not want.shape or (found.shape[1:] == want.shape[1:] and len(found) and len(found) % want.shape[0] == 0)
    )
    if not fits:
        raise ProgramError(f"{name}: expected shape {want.shape} (or several images of it), got {found.shape}")
    if found.dtype != np.dtype(want.dtype):
        raise ProgramError(f"{name}: expected {want.dtype}, got {found.dtype}; convert it: x.astype({want.dtype!r})")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise ProgramError(f"{name}: holds values that are not finite")
    if found.dtype.kind == "f" and want.exponent is not None and (ends := want.covers()) is not None:
        # What the host quantizes first is clipped to int8: single values may be, most of an image must not.
        low, high = ends
        # An image may be white: 1 is one step above 255/256.
        step = 2.0**-want.exponent
        outside = float(((found < low - step) | (found > high + step)).mean())
        if outside > 0.5:
            raise ProgramError(
                f"{name}: {100 * outside:.0f} % of it is outside of {low:g} to {high:g}, what the network quantizes; "
                "scale them as the images that it was calibrated with"
            )
    return found


def classes_of(result: Array, images: int) -> Array:
    """The class of each image: where its output is greatest, or what a network that says it itself says.

    Args:
        result: a network's output.
        images: how many there are.
    """
    rows = result.reshape(images, -1)
    return rows[:, 0] if rows.shape[1] == 1 and rows.dtype.kind in "iu" else rows.argmax(axis=1)


def checked_labels(labels: Array, images: int) -> Array:
    """Classes of images, one each.

    Args:
        labels: as given.
        images: how many there are.

    Raises:
        ProgramError: another number of them, or no integers.
    """
    found = np.asarray(labels)
    if found.dtype.kind not in "iu" and not (found.dtype.kind == "f" and np.array_equal(found, np.rint(found))):
        raise ProgramError(f"labels are the numbers of classes, got {found.dtype}")
    flat = found.reshape(-1)
    if len(flat) != images:
        raise ProgramError(f"{len(flat)} labels for {images} images")
    return flat.astype(np.int64)
