"""A shortcut and a relu that chooses between a clip and zero."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((1, 16, 7, 7), "int8"), Y: T.Buffer((1, 16, 7, 7), "int8"), out: T.Buffer((1, 16, 7, 7), "int8")):
    s = T.alloc_buffer((1, 16, 7, 7), "int32")
    for n, c, y, x in T.grid(1, 16, 7, 7):
        with T.block("add"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            s[vn, vc, vy, vx] = X[vn, vc, vy, vx].astype("int32") + Y[vn, vc, vy, vx].astype("int32")
    for n, c, y, x in T.grid(1, 16, 7, 7):
        with T.block("relu"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            out[vn, vc, vy, vx] = T.Select(s[vn, vc, vy, vx] > 0, T.min(s[vn, vc, vy, vx], 127), 0).astype("int8")
