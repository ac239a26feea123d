"""A pointwise convolution of shuffled channels."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 6, 6), "int8"), W: T.Buffer((32, 32), "int8"), out: T.Buffer((1, 32, 6, 6), "int8")):
    Sh = T.alloc_buffer((1, 32, 6, 6), "int8")
    C = T.alloc_buffer((1, 32, 6, 6), "int32")
    for n, c, y, x in T.grid(1, 32, 6, 6):
        with T.block("shuffle"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            Sh[vn, vc, vy, vx] = X[vn, vc % 2 * 16 + vc // 2, vy, vx]
    for n, o, y, x, c in T.grid(1, 32, 6, 6, 32):
        with T.block("C"):
            vn, vo, vy, vx, vc = T.axis.remap("SSSSR", [n, o, y, x, c])
            with T.init():
                C[vn, vo, vy, vx] = 0
            C[vn, vo, vy, vx] += Sh[vn, vc, vy, vx].astype("int32") * W[vo, vc].astype("int32")
    for n, o, y, x in T.grid(1, 32, 6, 6):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = (C[vn, vo, vy, vx] >> 6).astype("int8")
