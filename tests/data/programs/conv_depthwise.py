"""A filter per channel."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 16, 16), "int8"), W: T.Buffer((32, 3, 3), "int8"), out: T.Buffer((1, 32, 14, 14), "int8")):
    C = T.alloc_buffer((1, 32, 14, 14), "int32")
    for n, c, y, x, p, q in T.grid(1, 32, 14, 14, 3, 3):
        with T.block("C"):
            vn, vc, vy, vx, vp, vq = T.axis.remap("SSSSRR", [n, c, y, x, p, q])
            with T.init():
                C[vn, vc, vy, vx] = 0
            C[vn, vc, vy, vx] = C[vn, vc, vy, vx] + T.Cast("int32", X[vn, vc, vy + vp, vx + vq]) * T.Cast("int32", W[vc, vp, vq])
    for n, c, y, x in T.grid(1, 32, 14, 14):
        with T.block("out"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            out[vn, vc, vy, vx] = T.Cast("int8", T.min(T.max(C[vn, vc, vy, vx] >> 7, 0), 127))
