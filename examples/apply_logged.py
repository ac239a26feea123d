"""Runs the best logged schedule of a layer on NumPy arrays: no search library is loaded."""

import numpy as np

import autosched as at

kernel = at.compile("resnet18.c11", target="vta-de10")
rng = np.random.default_rng(0)
data = rng.integers(-128, 128, size=(1, 512, 7, 7), dtype=np.int8)  # plain NCHW; packed NCHW1n16c is accepted too
weights = rng.integers(-128, 128, size=(512, 512, 3, 3), dtype=np.int8)
bias = rng.integers(-(2**14), 2**14, size=512, dtype=np.int32)

result = kernel(data, weights, bias)
print(result.shape, result.dtype, kernel.cycles, "cycles,", len(kernel.program.table), "instructions")
