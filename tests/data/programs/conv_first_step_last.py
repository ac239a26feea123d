"""The sum is set at its last step, and holds only what that adds."""

from autosched.script import T

VERDICT = "refused: block 'C' reads C, which it writes"


@T.prim_func
def main(X: T.Buffer((5, 32), "int8"), W: T.Buffer((16, 32), "int8"), out: T.Buffer((5, 16), "int8")):
    C = T.alloc_buffer((5, 16), "int32")
    for i, j, k in T.grid(5, 16, 32):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            vk = T.axis.reduce(32, 31 - k)
            if vk == 0:
                C[vi, vj] = 0
            C[vi, vj] += T.Cast("int32", X[vi, vk]) * T.Cast("int32", W[vj, vk])
    for i, j in T.grid(5, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.max(T.min(C[vi, vj] >> 7, 127), -128))
