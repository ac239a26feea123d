"""The first elements of an int32 vector, and zeros behind them."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((37,), "int32"), y: T.Buffer((37,), "int32")):
    for i in range(37):
        with T.block("y"):
            vi = T.axis.spatial(37, i)
            y[vi] = T.if_then_else(vi < 20, x[vi], 0)
