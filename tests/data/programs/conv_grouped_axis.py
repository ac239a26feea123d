"""Groups as an axis of their own."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((1, 4, 16, 8, 8), "int8"),
    W: T.Buffer((4, 16, 16, 3, 3), "int8"),
    out: T.Buffer((1, 4, 16, 6, 6), "int8"),
):
    C = T.alloc_buffer((1, 4, 16, 6, 6), "int32")
    for n, g, o, y, x, c, p, q in T.grid(1, 4, 16, 6, 6, 16, 3, 3):
        with T.block("C"):
            vn, vg, vo, vy, vx, vc, vp, vq = T.axis.remap("SSSSSRRR", [n, g, o, y, x, c, p, q])
            with T.init():
                C[vn, vg, vo, vy, vx] = 0
            C[vn, vg, vo, vy, vx] = C[vn, vg, vo, vy, vx] + T.Cast("int32", X[vn, vg, vc, vy + vp, vx + vq]) * T.Cast("int32", W[vg, vo, vc, vp, vq])
    for n, g, o, y, x in T.grid(1, 4, 16, 6, 6):
        with T.block("out"):
            vn, vg, vo, vy, vx = T.axis.remap("SSSSS", [n, g, o, y, x])
            out[vn, vg, vo, vy, vx] = T.Cast("int8", C[vn, vg, vo, vy, vx] >> 8)
