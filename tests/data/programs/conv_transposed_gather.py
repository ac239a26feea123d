"""A transposed convolution as it is defined: an element of the result takes in the products whose places divide by the stride."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((16, 4, 5), "int8"), W: T.Buffer((16, 18, 4, 4), "int8"), out: T.Buffer((18, 8, 10), "int8")):
    C = T.alloc_buffer((18, 8, 10), "int32")
    for o, y, x, c, p, q in T.grid(18, 8, 10, 16, 4, 4):
        with T.block("C"):
            vo, vy, vx, vc, vp, vq = T.axis.remap("SSSRRR", [o, y, x, c, p, q])
            with T.init():
                C[vo, vy, vx] = 0
            C[vo, vy, vx] += T.if_then_else(
                (vy + 1 - vp) % 2 == 0 and (vx + 1 - vq) % 2 == 0 and 0 <= vy + 1 - vp and vy + 1 - vp < 8 and 0 <= vx + 1 - vq
                and vx + 1 - vq < 10,
                T.Cast("int32", X[vc, (vy + 1 - vp) // 2, (vx + 1 - vq) // 2]) * T.Cast("int32", W[vc, vo, vp, vq]), 0,
            )
    for o, y, x in T.grid(18, 8, 10):
        with T.block("out"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            out[vo, vy, vx] = T.Cast("int8", T.max(T.min(C[vo, vy, vx] >> 7, 127), -128))
