"""What is kept and what is new, one behind the other in time, under a window that reads both."""

from autosched.script import T

VERDICT = "refused: both write cat"


@T.prim_func
def main(
    S: T.Buffer((16, 2), "int8"), X: T.Buffer((16, 16), "int8"), W0: T.Buffer((16, 16), "int8"), W: T.Buffer((16, 16, 3),
    "int8"), out: T.Buffer((16, 16), "int8")
):
    A = T.alloc_buffer((16, 16), "int32")
    cat = T.alloc_buffer((16, 18), "int8")
    C = T.alloc_buffer((16, 16), "int32")
    for o, t, c in T.grid(16, 16, 16):
        with T.block("mix"):
            vo, vt, vc = T.axis.remap("SSR", [o, t, c])
            with T.init():
                A[vo, vt] = 0
            A[vo, vt] += X[vc, vt].astype("int32") * W0[vo, vc].astype("int32")
    for o, t in T.grid(16, 2):
        with T.block("state"):
            vo, vt = T.axis.remap("SS", [o, t])
            cat[vo, vt] = S[vo, vt]
    for o, t in T.grid(16, 16):
        with T.block("new"):
            vo, vt = T.axis.remap("SS", [o, t])
            cat[vo, vt + 2] = (A[vo, vt] >> 7).astype("int8")
    for o, t, c, k in T.grid(16, 16, 16, 3):
        with T.block("conv"):
            vo, vt, vc, vk = T.axis.remap("SSRR", [o, t, c, k])
            with T.init():
                C[vo, vt] = 0
            C[vo, vt] += cat[vc, vt + vk].astype("int32") * W[vo, vc, vk].astype("int32")
    for o, t in T.grid(16, 16):
        with T.block("out"):
            vo, vt = T.axis.remap("SS", [o, t])
            out[vo, vt] = T.min(T.max(C[vo, vt] >> 7, 0), 127).astype("int8")
