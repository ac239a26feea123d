"""Two branches put together by a choice of the channel, and a product over all of them: nobody stores the whole."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    X: T.Buffer((16, 6, 6), "int8"), W1: T.Buffer((16, 16), "int8"), W3: T.Buffer((16, 16), "int8"), W2: T.Buffer((16, 32),
    "int8"), out: T.Buffer((16, 6, 6), "int8")
):
    E1 = T.alloc_buffer((16, 6, 6), "int32")
    E3 = T.alloc_buffer((16, 6, 6), "int32")
    cat = T.alloc_buffer((32, 6, 6), "int8")
    S = T.alloc_buffer((16, 6, 6), "int32")
    for o, y, x, c in T.grid(16, 6, 6, 16):
        with T.block("expand1"):
            vo, vy, vx, vc = T.axis.remap("SSSR", [o, y, x, c])
            with T.init():
                E1[vo, vy, vx] = 0
            E1[vo, vy, vx] += X[vc, vy, vx].astype("int32") * W1[vo, vc].astype("int32")
    for o, y, x, c in T.grid(16, 6, 6, 16):
        with T.block("expand3"):
            vo, vy, vx, vc = T.axis.remap("SSSR", [o, y, x, c])
            with T.init():
                E3[vo, vy, vx] = 0
            E3[vo, vy, vx] += X[vc, vy, vx].astype("int32") * W3[vo, vc].astype("int32")
    for o, y, x in T.grid(32, 6, 6):
        with T.block("concat"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            cat[vo, vy, vx] = T.if_then_else(
                vo < 16, T.min(T.max(E1[vo, vy, vx] >> 7, 0), 127), T.min(T.max(E3[vo - 16, vy, vx] >> 7, 0), 127)
            ).astype("int8")
    for o, y, x, c in T.grid(16, 6, 6, 32):
        with T.block("squeeze"):
            vo, vy, vx, vc = T.axis.remap("SSSR", [o, y, x, c])
            with T.init():
                S[vo, vy, vx] = 0
            S[vo, vy, vx] += cat[vc, vy, vx].astype("int32") * W2[vo, vc].astype("int32")
    for o, y, x in T.grid(16, 6, 6):
        with T.block("out"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            out[vo, vy, vx] = T.min(T.max(S[vo, vy, vx] >> 7, 0), 127).astype("int8")
