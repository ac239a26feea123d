"""A product of complex matrices: real and imaginary parts are sums of two products each."""

from autosched import te

VERDICT = "accepted"


def wide(x, *i):
    return x[i].astype("int32")


def main():
    ar, ai = te.placeholder((16, 32), "int8", name="ar"), te.placeholder((16, 32), "int8", name="ai")
    br, bi = te.placeholder((32, 24), "int8", name="br"), te.placeholder((32, 24), "int8", name="bi")
    k, q = te.reduce_axis((0, 32), name="k"), te.reduce_axis((0, 32), name="q")
    re = te.compute((16, 24), lambda i, j: te.sum(wide(ar, i, k) * wide(br, k, j) - wide(ai, i, k) * wide(bi, k, j), axis=k), name="re")
    im = te.compute((16, 24), lambda i, j: te.sum(wide(ar, i, q) * wide(bi, q, j) + wide(ai, i, q) * wide(br, q, j), axis=q), name="im")
    return te.create_prim_func([ar, ai, br, bi, re, im])
