"""Four gates, each of a part of two sums."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    x: T.Buffer((1, 32), "int8"), h: T.Buffer((1, 16), "int8"), Wx: T.Buffer((64, 32), "int8"), Wh: T.Buffer((64, 16),
    "int8"), b: T.Buffer((64,), "int32"), i: T.Buffer((1, 16), "int8"), f: T.Buffer((1, 16), "int8"), g: T.Buffer((1, 16),
    "int8"), o: T.Buffer((1, 16), "int8")
):
    A = T.alloc_buffer((1, 64), "int32")
    B = T.alloc_buffer((1, 64), "int32")
    for n, j, k in T.grid(1, 64, 32):
        with T.block("input"):
            vn, vj, vk = T.axis.remap("SSR", [n, j, k])
            with T.init():
                A[vn, vj] = 0
            A[vn, vj] += x[vn, vk].astype("int32") * Wx[vj, vk].astype("int32")
    for n, j, k in T.grid(1, 64, 16):
        with T.block("state"):
            vn, vj, vk = T.axis.remap("SSR", [n, j, k])
            with T.init():
                B[vn, vj] = 0
            B[vn, vj] += h[vn, vk].astype("int32") * Wh[vj, vk].astype("int32")
    for n, j in T.grid(1, 16):
        with T.block("gate_i"):
            vn, vj = T.axis.remap("SS", [n, j])
            i[vn, vj] = T.min(T.max(((A[vn, vj] + B[vn, vj] + b[vj]) >> 8) + 64, 0), 127).astype("int8")
    for n, j in T.grid(1, 16):
        with T.block("gate_f"):
            vn, vj = T.axis.remap("SS", [n, j])
            f[vn, vj] = T.min(T.max(((A[vn, vj + 16] + B[vn, vj + 16] + b[vj + 16]) >> 8) + 64, 0), 127).astype("int8")
    for n, j in T.grid(1, 16):
        with T.block("gate_g"):
            vn, vj = T.axis.remap("SS", [n, j])
            g[vn, vj] = T.min(T.max((A[vn, vj + 32] + B[vn, vj + 32] + b[vj + 32]) >> 7, -127), 127).astype("int8")
    for n, j in T.grid(1, 16):
        with T.block("gate_o"):
            vn, vj = T.axis.remap("SS", [n, j])
            o[vn, vj] = T.min(T.max(((A[vn, vj + 48] + B[vn, vj + 48] + b[vj + 48]) >> 8) + 64, 0), 127).astype("int8")
