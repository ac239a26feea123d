"""Two products under one loop over rows."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 32), "int8"), W: T.Buffer((48, 32), "int8"), V: T.Buffer((32, 48), "int8"), res: T.Buffer((16, 32), "int8")):
    out = T.alloc_buffer((16, 32), "int32")
    H = T.alloc_buffer((16, 48), "int8")
    C = T.alloc_buffer((16, 48), "int32")
    for i in range(16):
        for j in range(48):
            C[i, j] = 0
            for k in range(32):
                C[i, j] += A[i, k].astype("int32") * W[j, k].astype("int32")
            H[i, j] = T.Cast("int8", T.min(T.max(C[i, j] >> 6, 0), 127))
        for j in range(32):
            out[i, j] = 0
            for k in range(48):
                out[i, j] += H[i, k].astype("int32") * V[j, k].astype("int32")
    for i, j in T.grid(16, 32):
        res[i, j] = T.Cast("int8", out[i, j] >> 6)
