"""Heads of attention put side by side in one tensor, and projected."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((16, 32), "int8"), V: T.Buffer((2, 16, 32), "int8"), Wo: T.Buffer((32, 32), "int8"), out: T.Buffer((16, 32),
    "int8")
):
    A = T.alloc_buffer((2, 16, 16), "int32")
    cat = T.alloc_buffer((16, 32), "int8")
    P = T.alloc_buffer((16, 32), "int32")
    for h, i, d, c in T.grid(2, 16, 16, 32):
        with T.block("head"):
            vh, vi, vd, vc = T.axis.remap("SSSR", [h, i, d, c])
            with T.init():
                A[vh, vi, vd] = 0
            A[vh, vi, vd] += X[vi, vc].astype("int32") * V[vh, vd, vc].astype("int32")
    for h, i, d in T.grid(2, 16, 16):
        with T.block("merge"):
            vh, vi, vd = T.axis.remap("SSS", [h, i, d])
            cat[vi, vh * 16 + vd] = T.min(T.max(A[vh, vi, vd] >> 7, -128), 127).astype("int8")
    for i, o, c in T.grid(16, 32, 32):
        with T.block("project"):
            vi, vo, vc = T.axis.remap("SSR", [i, o, c])
            with T.init():
                P[vi, vo] = 0
            P[vi, vo] += cat[vi, vc].astype("int32") * Wo[vo, vc].astype("int32")
    for i, o in T.grid(16, 32):
        with T.block("out"):
            vi, vo = T.axis.remap("SS", [i, o])
            out[vi, vo] = T.min(T.max(P[vi, vo] >> 7, -128), 127).astype("int8")
