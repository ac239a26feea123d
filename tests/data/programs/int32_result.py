"""A result that is wider than what can be stored at once: its bytes are."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 64), "int32"), out: T.Buffer((16, 64), "int32")):
    for i, j in T.grid(16, 64):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = X[vi, vj] + 1
