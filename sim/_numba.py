"""What of numba our kernels are made with."""

from sim.own import without

with without("coverage"):
    from numba import config, njit
    from numba.core import caching, event
    from numba.core.options import DefaultOptions
    from numba.core.runtime import rtsys

__all__ = ["DefaultOptions", "caching", "config", "event", "njit", "rtsys"]
