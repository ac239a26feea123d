"""The largest element of each row, kept as int32, taken away from the row."""

from autosched.script import T

VERDICT = "refused: block 'out' joins what comes from X and top; a space joins sums of products only, and top is none"


@T.prim_func
def main(X: T.Buffer((18, 21), "int8"), out: T.Buffer((18, 21), "int8")):
    top = T.alloc_buffer((18,), "int32")
    for i, j in T.grid(18, 21):
        with T.block("top"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                top[vi] = -128
            top[vi] = T.max(top[vi], T.Cast("int32", X[vi, vj]))
    for i, j in T.grid(18, 21):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.max(T.Cast("int32", X[vi, vj]) - top[vi], -128))
