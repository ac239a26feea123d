"""Two tensors one behind the other, each stored under a condition."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((16, 5, 7), "int8"), B: T.Buffer((24, 5, 7), "int8"), out: T.Buffer((40, 5, 7), "int8")):
    for c, y, x in T.grid(40, 5, 7):
        with T.block("out"):
            vc, vy, vx = T.axis.remap("SSS", [c, y, x])
            if vc < 16:
                out[vc, vy, vx] = A[vc, vy, vx]
            else:
                out[vc, vy, vx] = B[vc - 16, vy, vx]
