"""A border of threes around an int8 image."""

from autosched.script import T

VERDICT = "refused: pads X with 3; the DMA pads with 0"


@T.prim_func
def main(X: T.Buffer((1, 16, 6, 6), "int8"), out: T.Buffer((1, 16, 8, 8), "int8")):
    for n, c, y, x in T.grid(1, 16, 8, 8):
        with T.block("pad"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            out[vn, vc, vy, vx] = T.if_then_else(vy >= 1 and vy < 7 and vx >= 1 and vx < 7, X[vn, vc, vy - 1, vx - 1], T.int8(3))
