"""Tunes a matrix product from Python, shows the schedule that won, and runs it."""

import numpy as np

import autosched as at

report = at.tune("dense:m=16,k=256,n=256,bias=1", target="vta-de10", trials=16)
print(report.cycles, "cycles, at most", f"{100 * report.gap:.1f} % above what any program needs;", report.explain)
report.schedule().show()

kernel = report.kernel()
rng = np.random.default_rng(0)
x = rng.integers(-128, 128, size=(16, 256), dtype=np.int8)
w = rng.integers(-128, 128, size=(256, 256), dtype=np.int8)
b = rng.integers(-(2**14), 2**14, size=256, dtype=np.int32)
y = kernel(x, w, b)
expected = np.clip((x.astype(np.int32) @ w.T.astype(np.int32) >> 8) + b, 0, 127).astype(np.int8)
assert np.array_equal(y, expected)
