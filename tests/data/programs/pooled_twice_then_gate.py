"""The mean and the largest element of each channel, added, and what two layers make of them as a gate (CBAM in one stage)."""

from autosched import te

VERDICT = "accepted"
C, N, H = 32, 8, 16


def narrowed(e, shift, low=-128):
    return te.max(te.min(e >> shift, 127), low).astype("int8")


def main():
    x, w1, w2 = (te.placeholder(s, "int8", name=n) for s, n in (((C, N, N), "x"), ((H, C), "w1"), ((C, H), "w2")))
    a, b, d, e = (te.reduce_axis((0, N), name=n) for n in "abde")
    mean = te.compute((C,), lambda c: te.sum(x[c, a, b].astype("int32"), axis=[a, b]), name="mean")
    most = te.compute((C,), lambda c: te.max(x[c, d, e], axis=[d, e]), name="most")
    both = te.compute((C,), lambda c: narrowed((mean[c] >> 6) + most[c].astype("int32"), 1), name="both")
    k, m = te.reduce_axis((0, C), name="k"), te.reduce_axis((0, H), name="m")
    s = te.compute((H,), lambda h: te.sum(both[k].astype("int32") * w1[h, k].astype("int32"), axis=k), name="s")
    hidden = te.compute((H,), lambda h: narrowed(s[h], 7, 0), name="hidden")
    t = te.compute((C,), lambda c: te.sum(hidden[m].astype("int32") * w2[c, m].astype("int32"), axis=m), name="t")
    gate = te.compute((C,), lambda c: narrowed(t[c], 7, 0), name="gate")
    y = te.compute(x.shape, lambda c, i, j: narrowed(x[c, i, j].astype("int32") * gate[c].astype("int32"), 7), name="y")
    return te.create_prim_func([x, w1, w2, y])
