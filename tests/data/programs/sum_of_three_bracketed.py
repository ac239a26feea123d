"""Three products added up, in brackets."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 32), "int8"), B: T.Buffer((16, 32), "int8"), D: T.Buffer((16, 32), "int8"), U: T.Buffer((32, 32), "int8"), V: T.Buffer((32, 32), "int8"), W: T.Buffer((32, 32), "int8"), out: T.Buffer((16, 32), "int8")):
    p = T.alloc_buffer((16, 32), "int32")
    q = T.alloc_buffer((16, 32), "int32")
    r = T.alloc_buffer((16, 32), "int32")
    for i, j, k in T.grid(16, 32, 32):
        with T.block("p"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                p[vi, vj] = 0
            p[vi, vj] = p[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", U[vj, vk])
    for i, j, k in T.grid(16, 32, 32):
        with T.block("q"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                q[vi, vj] = 0
            q[vi, vj] = q[vi, vj] + T.Cast("int32", B[vi, vk]) * T.Cast("int32", V[vj, vk])
    for i, j, k in T.grid(16, 32, 32):
        with T.block("r"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                r[vi, vj] = 0
            r[vi, vj] = r[vi, vj] + T.Cast("int32", D[vi, vk]) * T.Cast("int32", W[vj, vk])
    for i, j in T.grid(16, 32):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.Cast("int8", T.min(T.max(p[vi, vj] + (q[vi, vj] + r[vi, vj]), -128), 127))
