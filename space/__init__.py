"""The design space of a tensor program on a target: rules that enumerate legal schedules, and what each would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from space.space import VERSION, Space

__all__ = ["VERSION", "Space", "warm"]


def warm() -> None:
    """Compile the kernels that points are estimated and written out with, or load them from numba's cache.

    They are those of a small convolution with padding, a bias and a requantisation, and a search that breeds needs no others.
    """
    import numpy as np

    from autosched import workloads
    from autosched.target import get_target
    from space.rule import product
    from space.space import Space

    space = Space(workloads.named_workload("conv2d:h=14,w=14,ci=32,co=32,k=3,pad=1").func, get_target("vta-de10"))
    points = space.sample(np.random.default_rng(0), 64)
    space.draft(points)
    # Whether a first part is of two kinds of tiles is not drawn, but tried around points. In some of these rows it is.
    rows = space.wide(0, space.sketches[0].default[None])
    for name, values in {"head": None, "head_tile": None, "tile_co": [1], "head_init": [3], "head_rise": [1]}.items():
        column = space.names.index(name)
        rows = product(rows, column, space.choices[column].tolist() if values is None else values)
    space.repair(rows)
    for point in points[:16]:
        space.trace(point)


def __getattr__(name: str) -> Any:
    if name in ("VERSION", "Space"):
        from space import space

        return getattr(space, name)
    raise AttributeError(f"module 'space' has no attribute {name!r}")
