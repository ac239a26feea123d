"""A shared trunk and two heads: a chain that forks."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    A: T.Buffer((6, 32), "int8"),
    W: T.Buffer((16, 32), "int8"),
    U: T.Buffer((5, 16), "int8"),
    V: T.Buffer((20, 16), "int8"),
    left: T.Buffer((6, 5), "int8"),
    right: T.Buffer((6, 20), "int8"),
):
    C = T.alloc_buffer((6, 16), "int32")
    trunk = T.alloc_buffer((6, 16), "int8")
    L = T.alloc_buffer((6, 5), "int32")
    R = T.alloc_buffer((6, 20), "int32")
    for i, j, k in T.grid(6, 16, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vj, vk])
    for i, j in T.grid(6, 16):
        with T.block("trunk"):
            vi, vj = T.axis.remap("SS", [i, j])
            trunk[vi, vj] = T.Cast("int8", T.min(T.max(C[vi, vj] >> 6, 0), 127))
    for i, j, k in T.grid(6, 5, 16):
        with T.block("L"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                L[vi, vj] = 0
            L[vi, vj] = L[vi, vj] + T.Cast("int32", trunk[vi, vk]) * T.Cast("int32", U[vj, vk])
    for i, j, k in T.grid(6, 20, 16):
        with T.block("R"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                R[vi, vj] = 0
            R[vi, vj] = R[vi, vj] + T.Cast("int32", trunk[vi, vk]) * T.Cast("int32", V[vj, vk])
    for i, j in T.grid(6, 5):
        with T.block("left"):
            vi, vj = T.axis.remap("SS", [i, j])
            left[vi, vj] = T.Cast("int8", L[vi, vj] >> 6)
    for i, j in T.grid(6, 20):
        with T.block("right"):
            vi, vj = T.axis.remap("SS", [i, j])
            right[vi, vj] = T.Cast("int8", T.max(R[vi, vj] >> 6, 0))
