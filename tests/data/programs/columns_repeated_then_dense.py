"""A dense layer whose columns come twice, and another one over them."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((6, 20,), "int8"), W: T.Buffer((8, 20,), "int8"), V: T.Buffer((10, 16,), "int8"), out: T.Buffer((6, 10,), "int8")):
    C = T.alloc_buffer((6, 16,), "int32")
    D = T.alloc_buffer((6, 16,), "int8")
    E = T.alloc_buffer((6, 10,), "int32")
    for i, j, k in T.grid(6, 16, 20):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi, vk].astype('int32') * W[vj // 2, vk].astype('int32')
    for i, j in T.grid(6, 16):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = (C[vi, vj] >> 6).astype('int8')
    for i, j, k in T.grid(6, 10, 16):
        with T.block("E"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                E[vi, vj] = 0
            E[vi, vj] += D[vi, vk].astype('int32') * V[vj, vk].astype('int32')
    for i, j in T.grid(6, 10):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = (E[vi, vj] >> 6).astype('int8')
