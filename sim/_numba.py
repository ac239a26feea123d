"""What of numba our kernels are made with."""

from sim.own import without_others

with without_others() as ours:
    from numba import config, njit
    from numba.core import caching, event
    from numba.core.options import DefaultOptions

    if ours:
        # It looks for a BLAS as soon as it is imported, which would be later.
        import numba.np.arraymath  # noqa: F401

__all__ = ["DefaultOptions", "caching", "config", "event", "njit"]
