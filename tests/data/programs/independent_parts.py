"""Four results that have nothing in common; one of them has lanes in one way only."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(A: T.Buffer((5, 16,), "int32"), A0: T.Buffer((3, 2, 6,), "int32"), A1: T.Buffer((4, 3, 6,), "int32"), A2: T.Buffer((5, 4, 6,), "int32"), p1: T.Buffer((5,), "int8"), p2: T.Buffer((5, 16,), "int8"), o0: T.Buffer((3, 2, 6,), "int8"), o1: T.Buffer((4, 3, 6,), "int8"), o2: T.Buffer((5, 4, 6,), "int8")):
    R = T.alloc_buffer((5,), "int32")
    for i, k in T.grid(5, 16):
        with T.block("R"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                R[vi] = 0
            R[vi] += A[vi, vk]
    for i in range(5):
        with T.block("p1"):
            vi = T.axis.spatial(5, i)
            p1[vi] = (R[vi] >> 3).astype('int8')
    for i, j in T.grid(5, 16):
        with T.block("p2"):
            vi, vj = T.axis.remap("SS", [i, j])
            p2[vi, vj] = (A[vi, vj] >> 3).astype('int8')
    for i, j, l in T.grid(3, 2, 6):
        with T.block("e0"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            o0[vi, vj, vl] = (A0[vi, vj, vl] >> 3).astype('int8')
    for i, j, l in T.grid(4, 3, 6):
        with T.block("e1"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            o1[vi, vj, vl] = (A1[vi, vj, vl] >> 3).astype('int8')
    for i, j, l in T.grid(5, 4, 6):
        with T.block("e2"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            o2[vi, vj, vl] = (A2[vi, vj, vl] >> 3).astype('int8')
