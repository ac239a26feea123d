"""The largest one of three products, and a bias."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((24, 64), "int8"), W: T.Buffer((3, 48, 64), "int8"), b: T.Buffer((48,), "int32"), out: T.Buffer((24, 48), "int8")):
    p = T.alloc_buffer((24, 48), "int32")
    q = T.alloc_buffer((24, 48), "int32")
    r = T.alloc_buffer((24, 48), "int32")
    for i, j, k in T.grid(24, 48, 64):
        with T.block("p"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                p[vi, vj] = 0
            p[vi, vj] += A[vi, vk].astype("int32") * W[0, vj, vk].astype("int32")
    for i, j, k in T.grid(24, 48, 64):
        with T.block("q"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                q[vi, vj] = 0
            q[vi, vj] += A[vi, vk].astype("int32") * W[1, vj, vk].astype("int32")
    for i, j, k in T.grid(24, 48, 64):
        with T.block("r"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                r[vi, vj] = 0
            r[vi, vj] += A[vi, vk].astype("int32") * W[2, vj, vk].astype("int32")
    for i, j in T.grid(24, 48):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.min(T.max((T.max(T.max(p[vi, vj], q[vi, vj]), r[vi, vj]) + b[vj]) >> 7, -128), 127).astype("int8")
