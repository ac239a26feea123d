"""As one_hot, with labels of int32, which may be as far from a place as a difference wraps; of others the highest bits."""

from autosched import te

VERDICT = "accepted"


def main():
    label = te.placeholder((20, 32), "int32", name="label")
    row = te.compute(
        label.shape, lambda i, j: te.if_then_else(te.equal(label[i, j], j), 100, label[i, j] >> 25).astype("int8"), name="row")
    return te.create_prim_func([label, row])
