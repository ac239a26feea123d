"""A result whose first part is a pool, and whose second a stage."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((5, 8, 8,), "int8"), A: T.Buffer((5, 4, 4,), "int32"), out: T.Buffer((10, 4, 4,), "int8")):
    for o, y, x, p, q in T.grid(5, 4, 4, 2, 2):
        with T.block("M"):
            vo, vy, vx, vp, vq = T.axis.remap("SSSRR", [o, y, x, p, q])
            with T.init():
                out[vo, vy, vx] = T.int8(-128)
            out[vo, vy, vx] = T.max(out[vo, vy, vx], X[vo, vy * 2 + vp, vx * 2 + vq])
    for o, y, x in T.grid(5, 4, 4):
        with T.block("o2"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            out[vo + 5, vy, vx] = (A[vo, vy, vx] >> 6).astype('int8')
