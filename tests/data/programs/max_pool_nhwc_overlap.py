"""A maximum over windows that overlap, channels last."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 9, 9, 32), "int8"), out: T.Buffer((1, 7, 7, 32), "int8")):
    m = T.alloc_buffer((1, 7, 7, 32), "int32")
    for n, y, x, c, p, q in T.grid(1, 7, 7, 32, 3, 3):
        with T.block("m"):
            vn, vy, vx, vc, vp, vq = T.axis.remap("SSSSRR", [n, y, x, c, p, q])
            with T.init():
                m[vn, vy, vx, vc] = -128
            m[vn, vy, vx, vc] = T.max(m[vn, vy, vx, vc], T.Cast("int32", X[vn, vy + vp, vx + vq, vc]))
    for n, y, x, c in T.grid(1, 7, 7, 32):
        with T.block("out"):
            vn, vy, vx, vc = T.axis.remap("SSSS", [n, y, x, c])
            out[vn, vy, vx, vc] = T.Cast("int8", m[vn, vy, vx, vc])
