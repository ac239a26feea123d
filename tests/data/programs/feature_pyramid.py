"""A coarse map, made finer where it is added to another one, and both mixed: two levels of a feature pyramid."""

from autosched import te
from autosched.script import T

VERDICT = "accepted"


def layer(x, w, name, add=None):
    o, c, taps = (int(e.value) for e in w.shape[:3])
    h, v = (int(x.shape[d].value) + 1 - taps for d in (2, 3))
    k, p, q = te.reduce_axis((0, c), "k"), te.reduce_axis((0, taps), "p"), te.reduce_axis((0, taps), "q")
    total = te.compute((1, o, h, v), lambda b, f, y, z: te.sum(
        x[b, k, y + p, z + q].astype("int32") * w[f, k, p, q].astype("int32"), axis=[k, p, q]), name=f"{name}_sum")
    return te.compute(total.shape, lambda b, f, y, z: T.max(T.min(
        (total[b, f, y, z] >> 7) + (0 if add is None else add[b, f, y // 2, z // 2].astype("int32")), 127), -128).astype("int8"), name=name)


def main():
    fine, coarse = te.placeholder((1, 24, 8, 8), "int8", "fine"), te.placeholder((1, 40, 4, 4), "int8", "coarse")
    w = [te.placeholder(s, "int8", f"w{n}") for n, s in enumerate(((16, 40, 1, 1), (16, 24, 1, 1), (20, 16, 3, 3)))]
    top = layer(coarse, w[0], "top")
    return te.create_prim_func([fine, coarse, *w, top, layer(layer(fine, w[1], "merged", top), w[2], "out")])
