"""Attention whose keys and values are multiplied first: what that makes is the weight of what follows."""

from autosched import te

VERDICT = "accepted"


def narrowed(s, shift, name, low=-128):
    return te.compute(s.shape, lambda *i: te.max(te.min(s(*i) >> shift, 127), low).astype("int8"), name=name)


def product(a, b, n, m, k, name, across=False):
    r = te.reduce_axis((0, k), name="r_" + name)
    return te.compute((n, m), lambda i, j: te.sum(
        a[i, r].astype("int32") * (b[j, r] if across else b[r, j]).astype("int32"), axis=r), name=name)


def main():
    q = te.placeholder((48, 32), "int8", name="q")
    k = te.placeholder((48, 32), "int8", name="k")
    v = te.placeholder((48, 32), "int8", name="v")
    kr = te.compute((48, 32), lambda i, j: te.max(k[i, j], te.const(0, "int8")), name="kr")
    qr = te.compute((48, 32), lambda i, j: te.max(q[i, j], te.const(0, "int8")), name="qr")
    t = te.reduce_axis((0, 48), name="t")
    m = narrowed(te.compute((32, 32), lambda c, d: te.sum(kr[t, c].astype("int32") * v[t, d].astype("int32"), axis=t), name="kv"), 8, "m")
    return te.create_prim_func([q, k, v, narrowed(product(qr, m, 48, 32, 32, "o"), 7, "y")])
