"""An index that is data."""

from autosched.script import T

VERDICT = "refused: an index that is data"


@T.prim_func
def main(X: T.Buffer((16, 64), "int32"), idx: T.Buffer((16,), "int32"), out: T.Buffer((16, 64), "int8")):
    for i, j in T.grid(16, 64):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", X[idx[vi], vj])
