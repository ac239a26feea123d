"""Every column stores the same element: only the last one stays."""

from autosched.script import T

VERDICT = "refused: every iteration of j stores the same elements of out again"


@T.prim_func
def main(X: T.Buffer((16, 32), "int32"), out: T.Buffer((16,), "int32")):
    for i, j in T.grid(16, 32):
        out[i] = X[i, j] + 1
