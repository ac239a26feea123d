"""A 2x2 maximum of int8 in NCHW."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 32, 8, 8), "int8"), out: T.Buffer((1, 32, 4, 4), "int8")):
    C = T.alloc_buffer((1, 32, 4, 4), "int32")
    for n, c, y, x, p, q in T.grid(1, 32, 4, 4, 2, 2):
        with T.block("C"):
            vn, vc, vy, vx, vp, vq = T.axis.remap("SSSSRR", [n, c, y, x, p, q])
            with T.init():
                C[vn, vc, vy, vx] = -128
            C[vn, vc, vy, vx] = T.max(C[vn, vc, vy, vx], T.Cast("int32", X[vn, vc, vy * 2 + vp, vx * 2 + vq]))
    for n, c, y, x in T.grid(1, 32, 4, 4):
        with T.block("out"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            out[vn, vc, vy, vx] = T.Cast("int8", C[vn, vc, vy, vx])
