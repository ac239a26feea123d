"""A convolution along one axis only."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 1, 64), "int8"), W: T.Buffer((32, 32, 1, 3), "int8"), out: T.Buffer((1, 32, 1, 62), "int8")):
    C = T.alloc_buffer((1, 32, 1, 62), "int32")
    for n, o, y, x, c, q in T.grid(1, 32, 1, 62, 32, 3):
        with T.block("C"):
            vn, vo, vy, vx, vc, vq = T.axis.remap("SSSSRR", [n, o, y, x, c, q])
            with T.init():
                C[vn, vo, vy, vx] = 0
            C[vn, vo, vy, vx] = C[vn, vo, vy, vx] + T.Cast("int32", X[vn, vc, vy, vx + vq]) * T.Cast("int32", W[vo, vc, 0, vq])
    for n, o, y, x in T.grid(1, 32, 1, 62):
        with T.block("out"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            out[vn, vo, vy, vx] = T.Cast("int8", T.min(T.max(C[vn, vo, vy, vx] >> 8, 0), 127))
