"""How many elements of each row are in each of eight bins: which bin an element is in is compared with the bin's number."""

from autosched import te

VERDICT = "accepted"


def main():
    x, k = te.placeholder((16, 48), "int8", name="x"), te.reduce_axis((0, 48), name="k")
    t = te.compute((16, 8, 48), lambda i, b, k: te.Select(
        te.equal((x[i, k].astype("int32") >> 5) + 4, b), te.const(1, "int8"), te.const(0, "int8")), name="t")
    s = te.compute((16, 8), lambda i, b: te.sum(t[i, b, k].astype("int32"), axis=k), name="s")
    return te.create_prim_func([x, te.compute((16, 8), lambda i, b: s[i, b].astype("int8"), name="y")])
