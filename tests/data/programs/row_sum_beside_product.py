"""A product, and the sums of the rows of its data: the two want these laid out differently."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((20, 40), "int8"), W: T.Buffer((16, 40), "int8"), out: T.Buffer((20, 16), "int8"), rows: T.Buffer((20,), "int8")
):
    C = T.alloc_buffer((20, 16), "int32")
    R = T.alloc_buffer((20,), "int32")
    for i, j, k in T.grid(20, 16, 40):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += T.Cast("int32", X[vi, vk]) * T.Cast("int32", W[vj, vk])
    for i, j in T.grid(20, 16):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.max(T.min(C[vi, vj] >> 7, 127), -128))
    for i, k in T.grid(20, 40):
        with T.block("R"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                R[vi] = 0
            R[vi] += T.Cast("int32", X[vi, vk])
    for i in T.serial(20):
        with T.block("rows"):
            vi = T.axis.spatial(20, i)
            rows[vi] = T.Cast("int8", T.max(T.min(R[vi] >> 4, 127), -128))
