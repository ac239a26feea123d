"""A strided convolution with channels last; what it reads and what it makes are vectors."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 14, 14, 32), "int8"), W: T.Buffer((32, 3, 3, 32), "int8"), out: T.Buffer((1, 6, 6, 32), "int8")):
    R = T.alloc_buffer((6272,), "int8")
    C = T.alloc_buffer((1152,), "int32")
    for f in range(6272):
        with T.block("R"):
            vf = T.axis.spatial(6272, f)
            R[vf] = T.max(X[0, vf // 448, vf // 32 % 14, vf % 32], T.int8(0))
    for y, x, o, p, q, c in T.grid(6, 6, 32, 3, 3, 32):
        with T.block("C"):
            vy, vx, vo, vp, vq, vc = T.axis.remap("SSSRRR", [y, x, o, p, q, c])
            with T.init():
                C[(vy * 6 + vx) * 32 + vo] = 0
            C[(vy * 6 + vx) * 32 + vo] += R[((vy * 2 + vp) * 14 + vx * 2 + vq) * 32 + vc].astype("int32") * W[vo, vp, vq, vc].astype("int32")
    for n, y, x, o in T.grid(1, 6, 6, 32):
        with T.block("out"):
            vn, vy, vx, vo = T.axis.remap("SSSS", [n, y, x, o])
            out[vn, vy, vx, vo] = T.Cast("int8", T.min(T.max(C[vy * 192 + vx * 32 + vo] >> 8, 0), 127))
