"""A mean that rounds to zero, as C divides, and its bits turned over."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((6, 6, 24), "int8"), mean: T.Buffer((3, 3, 24), "int8"), turned: T.Buffer((3, 3, 24), "int8")):
    s = T.alloc_buffer((3, 3, 24), "int32")
    for i, j, c, p, q in T.grid(3, 3, 24, 2, 2):
        with T.block("s"):
            vi, vj, vc, vp, vq = T.axis.remap("SSSRR", [i, j, c, p, q])
            with T.init():
                s[vi, vj, vc] = 0
            s[vi, vj, vc] += T.Cast("int32", x[vi * 2 + vp, vj * 2 + vq, vc])
    for i, j, c in T.grid(3, 3, 24):
        with T.block("mean"):
            vi, vj, vc = T.axis.remap("SSS", [i, j, c])
            mean[vi, vj, vc] = T.Cast("int8", T.truncdiv(s[vi, vj, vc], 4))
    for i, j, c in T.grid(3, 3, 24):
        with T.block("turned"):
            vi, vj, vc = T.axis.remap("SSS", [i, j, c])
            turned[vi, vj, vc] = T.Cast("int8", ~(s[vi, vj, vc] >> 1))
