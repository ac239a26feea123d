"""A step up of a U-shaped network: a coarse image, made and enlarged, beside a skipped one, which is given; then 3 x 3."""

from autosched import te
from autosched.script import T

VERDICT = "accepted"


def layer(x, w, name):
    o, c = (int(e.value) for e in w.shape[:2])
    taps, (n, h, v) = int(w.shape[2].value), [int(x.shape[d].value) for d in (0, 2, 3)]
    if taps > 1:
        given = x
        x = te.compute((n, c, h + 2, v + 2), lambda b, k, i, j: T.if_then_else(
            T.And(T.And(i >= 1, i <= h), T.And(j >= 1, j <= v)), given[b, k, i - 1, j - 1], T.int8(0)), name=f"{name}_padded")
    k, p, q = te.reduce_axis((0, c), "k"), te.reduce_axis((0, taps), "p"), te.reduce_axis((0, taps), "q")
    total = te.compute((n, o, h, v), lambda b, f, y, z: te.sum(
        x[b, k, y + p, z + q].astype("int32") * w[f, k, p, q].astype("int32"), axis=[k, p, q]), name=f"{name}_sum")
    return te.compute(total.shape, lambda *i: T.max(T.min(total[i] >> 6, 127), 0).astype("int8"), name=name)


def main():
    x, skip = te.placeholder((1, 24, 4, 4), "int8", "x"), te.placeholder((1, 10, 8, 8), "int8", "skip")
    w, v = te.placeholder((20, 24, 1, 1), "int8", "w"), te.placeholder((16, 30, 3, 3), "int8", "v")
    coarse = layer(x, w, "coarse")
    larger = te.compute((1, 20, 8, 8), lambda b, c, i, j: coarse[b, c, i // 2, j // 2], name="larger")
    both = te.compute((1, 30, 8, 8), lambda b, c, i, j: T.if_then_else(c < 20, larger[b, c, i, j], skip[b, c - 20, i, j]),
                      name="both")
    return te.create_prim_func([x, skip, w, v, layer(both, v, "out")])
