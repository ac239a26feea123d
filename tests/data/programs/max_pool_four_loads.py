"""A 2x2 maximum written as four loads."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(X: T.Buffer((8, 8, 16), "int32"), out: T.Buffer((4, 4, 16), "int8")):
    for i, j, k in T.grid(4, 4, 16):
        with T.block("out"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            out[vi, vj, vk] = T.Cast("int8", T.max(T.max(X[vi * 2, vj * 2, vk], X[vi * 2, vj * 2 + 1, vk]), T.max(X[vi * 2 + 1, vj * 2, vk], X[vi * 2 + 1, vj * 2 + 1, vk])))
