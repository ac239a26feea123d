"""How far the largest and the smallest element of each column are apart; of int32 neither is known to be int8."""

from autosched import te

VERDICT = "refused: let what it makes be a result of the program, as int8"


def main():
    x = te.placeholder((24, 32), "int32", name="x")
    a, b = te.reduce_axis((0, 24), name="a"), te.reduce_axis((0, 24), name="b")
    least = te.compute((32,), lambda c: te.min(x[a, c], axis=a), name="least")
    most = te.compute((32,), lambda c: te.max(x[b, c], axis=b), name="most")
    y = te.compute((32,), lambda c: te.max(te.min((most[c] - least[c]) >> 1, 127), -128).astype("int8"), name="y")
    return te.create_prim_func([x, y])
