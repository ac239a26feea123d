"""Complex numbers, real and imaginary parts apart: a difference and a sum of products."""

from autosched.script import T

VERDICT = "accepted"


@T.prim_func
def main(ar: T.Buffer((12, 32), "int8"), ai: T.Buffer((12, 32), "int8"), br: T.Buffer((20, 32), "int8"), bi: T.Buffer((20, 32), "int8"), re: T.Buffer((12, 20), "int8"), im: T.Buffer((12, 20), "int8")):
    rr = T.alloc_buffer((12, 20), "int32")
    ii = T.alloc_buffer((12, 20), "int32")
    ri = T.alloc_buffer((12, 20), "int32")
    ir = T.alloc_buffer((12, 20), "int32")
    for i, j, k in T.grid(12, 20, 32):
        with T.block("rr"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                rr[vi, vj] = 0
            rr[vi, vj] += ar[vi, vk].astype("int32") * br[vj, vk].astype("int32")
    for i, j, k in T.grid(12, 20, 32):
        with T.block("ii"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                ii[vi, vj] = 0
            ii[vi, vj] += ai[vi, vk].astype("int32") * bi[vj, vk].astype("int32")
    for i, j, k in T.grid(12, 20, 32):
        with T.block("ri"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                ri[vi, vj] = 0
            ri[vi, vj] += ar[vi, vk].astype("int32") * bi[vj, vk].astype("int32")
    for i, j, k in T.grid(12, 20, 32):
        with T.block("ir"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                ir[vi, vj] = 0
            ir[vi, vj] += ai[vi, vk].astype("int32") * br[vj, vk].astype("int32")
    for i, j in T.grid(12, 20):
        with T.block("re"):
            vi, vj = T.axis.remap("SS", [i, j])
            re[vi, vj] = T.min(T.max((rr[vi, vj] - ii[vi, vj]) >> 7, -128), 127).astype("int8")
    for i, j in T.grid(12, 20):
        with T.block("im"):
            vi, vj = T.axis.remap("SS", [i, j])
            im[vi, vj] = T.min(T.max((ri[vi, vj] + ir[vi, vj]) >> 7, -128), 127).astype("int8")
