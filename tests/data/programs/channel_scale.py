"""Every channel times a factor of its own, as squeeze and excitation has it."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(x: T.Buffer((1, 32, 8, 8), "int8"), gate: T.Buffer((32,), "int8"), out: T.Buffer((1, 32, 8, 8), "int8")):
    for n, c, y, w in T.grid(1, 32, 8, 8):
        with T.block("out"):
            vn, vc, vy, vw = T.axis.remap("SSSS", [n, c, y, w])
            out[vn, vc, vy, vw] = T.min(T.max((x[vn, vc, vy, vw].astype("int32") * gate[vc].astype("int32")) >> 7, -128), 127).astype("int8")
