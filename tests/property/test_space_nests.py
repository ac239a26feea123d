"""Programs of several nests: chains of products, several results, shared operands; every point computes what the program says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import LoweringError, ProgramError, UnknownNameError
from autosched.ir.expr import int_value
from autosched.ir.host import split_host
from autosched.ir.stmt import PrimFunc
from autosched.kernel import resolve, scheduled
from autosched.lower import lower_table
from autosched.measure import Candidate, measure
from autosched.script import T, parse
from autosched.target import get_target
from autosched.te import Tensor
from sim.timing import store_cycles
from space import Space
from space.bound import engines
from space.lowerable import require_lowerable
from space.nest import analyse
from space.normalise import normalise
from space.sites import match_gemm, sites_of


def sizes(tensor: Tensor) -> list[int]:
    return [int_value(e) or 0 for e in tensor.shape]


def total(data: Tensor, weight: Tensor, name: str) -> Tensor:
    """``data`` times the transposed ``weight``, in int32."""
    k = te.reduce_axis((0, sizes(data)[1]), f"k{name}")
    return te.compute((sizes(data)[0], sizes(weight)[0]),
                      lambda i, j: te.sum(data[i, k].astype("int32") * weight[j, k].astype("int32"), axis=k), name=name)


def product(data: Tensor, n: int, name: str, tail: str = "clip") -> tuple[list[Tensor], Tensor]:
    """(parameters, an int8 layer of ``n`` columns over ``data``)."""
    m, depth = sizes(data)
    weight = te.placeholder((n, depth), "int8", f"W{name}")
    summed = total(data, weight, f"C{name}")
    if tail == "cast":
        return [weight], te.compute((m, n), lambda i, j: summed[i, j].astype("int8"), name=f"o{name}")
    bias = te.placeholder((n,), "int32", f"b{name}")
    return [weight, bias], te.compute(
        (m, n), lambda i, j: T.min(T.max((summed[i, j] + bias[j]) >> 6, -128), 127).astype("int8"), name=f"o{name}")


def layers(rng: np.random.Generator, shape: str) -> PrimFunc:
    """A program of a shape, of drawn extents, most of them no multiples of an element."""
    def drawn(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    data = te.placeholder((drawn(1, 20), drawn(8, 40)), "int8", "A")
    params, first = product(data, drawn(8, 40), "0", str(rng.choice(["cast", "clip"])))
    if shape == "chain":
        more, last = product(first, drawn(8, 40), "1")
        return te.create_prim_func([data, *params, *more, last])
    if shape == "chain of three":
        more, second = product(first, drawn(8, 40), "1", "cast")
        again, last = product(second, drawn(8, 40), "2")
        return te.create_prim_func([data, *params, *more, *again, last])
    if shape == "two of one":
        more, second = product(data, drawn(8, 40), "1")
        return te.create_prim_func([data, *params, *more, first, second])
    if shape == "both":  # a result that is an operand as well
        more, second = product(first, drawn(8, 40), "1")
        return te.create_prim_func([data, *params, *more, first, second])
    weight = params[0]
    if shape == "sum":  # of a product, of one over another tensor, and of an addend
        other, n = te.placeholder((sizes(data)[0], drawn(8, 60)), "int8", "B"), sizes(weight)[0]
        added, addend = te.placeholder((n, sizes(other)[1]), "int8", "V"), te.placeholder((n,), "int32", "b")
        totals = [total(data, weight, "C"), total(other, added, "E")]
        out = te.compute((sizes(data)[0], n), lambda i, j: T.max(
            ((totals[0][i, j] >> 1) + totals[1][i, j] + addend[j]) >> 6, -128).astype("int8"), name="out")
        return te.create_prim_func([data, weight, other, added, addend, out])
    if shape == "joined":  # three sums, of which the second one is the largest, and one starts with a bias
        other, n = te.placeholder((sizes(data)[0], drawn(50, 70)), "int8", "B"), sizes(weight)[0]
        added, more = te.placeholder((n, sizes(other)[1]), "int8", "V"), te.placeholder((n, sizes(data)[1]), "int8", "U")
        totals = [total(data, weight, "C"), total(other, added, "E"), total(data, more, "F")]
        addend = te.placeholder((n,), "int32", "b")
        third = te.compute(sizes(totals[2]), lambda i, j: (totals[2][i, j] + addend[j]) >> 2, name="G")
        out = te.compute((sizes(data)[0], n), lambda i, j: T.min(T.max(
            (T.max(totals[0][i, j], totals[1][i, j]) >> 5) + third[i, j], -128), 127).astype("int8"), name="out")
        return te.create_prim_func([data, weight, other, added, more, addend, out])
    summed = total(data, weight, "C")
    m, n = sizes(summed)
    if shape == "forked":  # what two stages read
        base = te.compute((m, n), lambda i, j: summed[i, j] + 3, name="base")
        steep = te.compute((m, n), lambda i, j: base[i, j] >> 3, name="steep")
        leaky = te.compute((m, n), lambda i, j: T.max(base[i, j], steep[i, j]), name="leaky")
        out = te.compute((m, n), lambda i, j: T.min((leaky[i, j] + steep[i, j]) >> 5, 127).astype("int8"), name="out")
        return te.create_prim_func([data, weight, out])
    if shape == "difference":  # of sums, the second of which is made negative, and of an addend; and what adds them
        other, addend = te.placeholder((n, sizes(data)[1]), "int8", "V"), te.placeholder((n,), "int32", "b")
        away = total(data, other, "E")
        out = te.compute((m, n), lambda i, j: T.max(
            (summed[i, j] - addend[j] - away[i, j]) >> 7, -128).astype("int8"), name="out")
        more = te.compute((m, n), lambda i, j: ((summed[i, j] + away[i, j]) >> 7).astype("int8"), name="more")
        return te.create_prim_func([data, weight, other, addend, out, more])
    if shape == "absolute difference":  # of a sum of a matrix with itself, which a stage takes away and keeps, and of an addend
        addend = te.placeholder((m,), "int32", "b")
        gram = total(data, data, "E")
        out = te.compute((m, m), lambda i, j: T.max(
            T.max(gram[i, j] - addend[j], addend[j] - gram[i, j]) >> 7, -128).astype("int8"), name="out")
        return te.create_prim_func([data, addend, out])
    if shape == "windows":  # what a window reads of a sum behind a stage, and two places that overlap
        p, addend = te.reduce_axis((0, 3), "p"), te.placeholder((n,), "int32", "b")
        base = te.compute((m, n), lambda i, j: (summed[i, j] + addend[j]) >> 3, name="base")
        pooled = te.compute((m // 3, n), lambda i, j: te.max(base[i * 3 + p, j], axis=p), name="pooled")
        out = te.compute((m // 3, n), lambda i, j: (pooled[i, j] >> 3).astype("int8"), name="out")
        near = te.compute((m - 2, n), lambda i, j: ((summed[i, j] + summed[i + 2, j]) >> 6).astype("int8"), name="near")
        late = te.compute((1, n), lambda i, j: (summed[i + m - 1, j] >> 6).astype("int8"), name="late")
        return te.create_prim_func([data, weight, addend, out, near, late])
    if shape == "turned":  # a sum and its transpose, the other way round as well
        other = te.placeholder((m, sizes(data)[1]), "int8", "V")
        square = total(data, other, "E")
        out = te.compute((m, m), lambda i, j: (
            (square[i, j] - square[j, i] + square[m - 1 - i, j]) >> 7).astype("int8"), name="out")
        return te.create_prim_func([data, other, out])
    if shape == "gate":  # two results, and what joins them in int8 and in int32
        other = te.placeholder((n, sizes(data)[1]), "int8", "V")
        away = total(data, other, "E")
        left = te.compute((m, n), lambda i, j: (summed[i, j] >> 7).astype("int8"), name="left")
        right = te.compute((m, n), lambda i, j: T.min(away[i, j] >> 4, 127).astype("int8"), name="right")
        most = te.compute((m, n), lambda i, j: T.max(left[i, j], right[i, j]), name="most")
        less = te.compute((m, n), lambda i, j: (
            left[i, j].astype("int32") - right[i, j].astype("int32")).astype("int8"), name="less")
        return te.create_prim_func([data, weight, other, left, right, most, less])
    low = te.compute((m, n), lambda i, j: summed[i, j].astype("int8"), name="low")
    base = te.compute((m, n), lambda i, j: summed[i, j] + 3, name="base")
    high = te.compute((m, n), lambda i, j: T.max(base[i, j] >> 8, 0).astype("int8"), name="high")
    flat = te.compute((m, n), lambda i, j: T.min(base[i, j] >> 4, 7).astype("int8"), name="flat")
    if shape == "read again":  # a result, by a product, by a stage in place, and by one that joins it with a sum
        more, last = product(low, drawn(8, 40), "1")
        relu = te.compute((m, n), lambda i, j: T.max(low[i, j], T.int8(0)), name="relu")
        both = te.compute((m, n), lambda i, j: ((low[i, j].astype("int32") << 1) + summed[i, j]).astype("int8"), name="both")
        return te.create_prim_func([data, weight, *more, low, last, relu, both])
    if shape == "several results":
        return te.create_prim_func([data, weight, low, high, flat])
    more, last = product(high, drawn(8, 40), "1")  # a result, and what a product reads
    return te.create_prim_func([data, weight, *more, flat, last] if shape == "kept" else [data, weight, *more, last, flat])


@pytest.mark.parametrize(("shape", "target"), [
    ("chain", "vta-de10"), ("chain of three", "vta-de10-portable"), ("two of one", "vta-de10"), ("both", "vta-de10"),
    ("several results", "vta-de10-portable"), ("kept", "vta-de10"), ("sum", "vta-de10"), ("windows", "vta-de10-portable"),
    ("difference", "vta-fsim"), ("joined", "vta-de10"), ("forked", "vta-de10-portable"),
    *(pytest.param(*pair, marks=pytest.mark.slow) for pair in (
        ("several results", "vta-de10"), ("windows", "vta-de10"), ("difference", "vta-de10"), ("sum", "vta-de10-portable"),
        ("joined", "vta-fsim"))),
])
def test_every_point_computes_all_results(shape: str, target: str) -> None:
    rng = np.random.default_rng(sum(map(ord, shape)))
    func = layers(rng, shape)
    machine = get_target(target)
    task = resolve(func, machine)
    space = Space(func, machine)
    nests = {"chain of three": 3, "sum": 1, "joined": 1, "forked": 1, "several results": 1, "difference": 1,
             "absolute difference": 1, "turned": 1, "windows": 3, "gate": 4, "read again": 4}.get(shape, 2)
    assert all(len(s.models) == nests for s in space.sketches)
    assert len(set(space.names)) == len(space.names)
    drawn = space.sample(rng, 2)
    bred = space.mutate(np.repeat(drawn, 4, axis=0), rng)
    near = space.neighbours(drawn[0])
    assert space.valid(near).all() and space.valid(bred).all() and len(bred) and len(near) > 6
    for point in (*drawn, bred[0], near[-1]):
        result = measure(Candidate(task, machine, tuple(space.trace(point).as_json())), execute=True)
        assert result.ok and result.cycles is not None, (space.explain(point), result)
        assert result.cycles >= max(space.bound(point[None])[0], space.machine_bound(), space.floor()), space.explain(point)


@pytest.mark.parametrize("shape", ["joined", "forked"])
def test_parts_have_sums_of_their_own(shape: str) -> None:
    """The packed program, of which no host stage reads the result: its output is cut into parts."""
    machine = get_target("vta-de10")
    func = split_host(normalise(layers(np.random.default_rng(5), shape), machine)[0]).device
    space, task = Space(func, machine), resolve(func, machine)
    assert space.sketches[0].model.nest.anchor == {"joined": "E", "forked": "C"}[shape]  # the largest sum
    drawn = space.sample(np.random.default_rng(1), 200)
    cuts = [n for n, name in enumerate(space.names) if name.startswith("cut")]
    cut = drawn[(drawn[:, cuts] > 0).any(axis=1)]
    assert len(cut) > 3
    for point in cut[:2]:
        result = measure(Candidate(task, machine, tuple(space.trace(point).as_json())), execute=True)
        assert result.ok and result.cycles is not None, (space.explain(point), result)
        assert result.cycles >= max(space.bound(point[None])[0], space.machine_bound())


@pytest.mark.parametrize(("rows", "fits"), [(64, True), (65, False)])
def test_joined_sums_share_the_accumulator(rows: int, fits: bool) -> None:
    """Two of 64x256 fill all of its 2048 vectors; with another row neither the space nor lowering has room for both."""
    data, left, right = (te.placeholder((n, 16), "int8", name) for n, name in ((rows, "A"), (256, "W"), (256, "V")))
    p, q = total(data, left, "p"), total(data, right, "q")
    out = te.compute((rows, 256), lambda i, j: (T.max(p[i, j], q[i, j]) >> 4).astype("int8"), name="out")
    space = Space(te.create_prim_func([data, left, right, out]), "vta-de10")
    whole = np.concatenate([[0], space.sketches[0].default]).astype(np.int32)  # one tile
    nest = space.sketches[0].model.nest
    assert nest.live == 2 and space.valid(whole[None])[0] == fits
    assert nest.stages[0].fresh and nest.stages[0].imm_ops == 1  # its reset
    scheduled = space.schedule(whole).func
    if fits:
        lower_table(scheduled, space.target)
        return
    with pytest.raises(LoweringError) as caught:
        lower_table(scheduled, space.target)
    assert caught.value.code == "capacity"


@pytest.mark.parametrize(("rows", "fits"), [(1024, True), (1025, False)])
def test_a_sum_that_is_read_again_keeps_its_place(rows: int, fits: bool) -> None:
    """Of two results the first is made in a place of its own: 2048 vectors hold 1024 rows of a sum twice."""
    data, weight = te.placeholder((rows, 16), "int8", "A"), te.placeholder((16, 16), "int8", "W")
    summed = total(data, weight, "C")
    out4 = te.compute((rows, 16), lambda i, j: (summed[i, j] >> 4).astype("int8"), name="out4")
    out5 = te.compute((rows, 16), lambda i, j: (summed[i, j] >> 5).astype("int8"), name="out5")
    space = Space(te.create_prim_func([data, weight, out4, out5]), "vta-de10")
    nest, = (m.nest for m in space.sketches[0].models)
    assert (nest.live, nest.stores, nest.also, nest.out) == (2, 2, ("out4",), "out5")
    whole = np.concatenate([[0], space.sketches[0].default]).astype(np.int32)  # one tile
    assert space.valid(whole[None])[0] == fits
    scheduled = space.schedule(whole).func
    if fits:
        lower_table(scheduled, space.target)
        return
    with pytest.raises(LoweringError) as caught:
        lower_table(scheduled, space.target)
    assert caught.value.code == "capacity"


@pytest.mark.parametrize("shape", ["kept", "late"])
def test_results_of_one_sum_are_one_nest_unless_one_is_read_before_the_other_is_made(shape: str) -> None:
    """Where a product of the first stands ahead of the second, the sum is made for each."""
    space = Space(layers(np.random.default_rng(3), shape), "vta-de10")
    stores = [(m.nest.also, m.nest.out) for m in space.sketches[0].models]
    assert stores == ([(("flat",), "high"), ((), "o1")] if shape == "kept" else [((), "high"), ((), "o1"), ((), "flat")])
    anchors = [m.nest.anchor for m in space.sketches[0].models]
    assert len({a for a in anchors if a}) == len(anchors)  # blocks of their own


def test_what_is_stored_takes_no_place_and_counts_for_the_store_engine(user_programs) -> None:
    """The sum itself is the first result, and its relu takes its place."""
    model, = Space(user_programs.program("dense_two_outputs"), "vta-de10").sketches[0].models
    assert (model.nest.live, model.nest.stores) == (1, 2)
    burst = model.config.burst_beats * model.config.bus_bytes // model.config.out_elem_bytes
    assert engines(model, model.neutral(1))[2] == 2 * 32 * int(store_cycles(0, 1, burst, burst, config=model.config)) // burst


def test_what_is_no_sum_of_products_is_not_joined() -> None:
    """A maximum over int32 windows is not; nor what is joined with it, unless it is stored as the refusal says."""
    data, weight = te.placeholder((16, 32), "int8", "A"), te.placeholder((16, 32), "int8", "W")
    image = te.placeholder((32, 16), "int32", "X")
    summed, p = total(data, weight, "C"), te.reduce_axis((0, 2), "p")
    pooled = te.compute((16, 16), lambda i, j: te.max(image[i * 2 + p, j], axis=p), name="pooled")
    narrow = te.compute((16, 16), lambda i, j: pooled[i, j].astype("int8"), name="narrow")

    def program(*results: te.Tensor) -> PrimFunc:
        out = te.compute((16, 16), lambda i, j: T.max(summed[i, j] >> 6, results[0][i, j].astype("int32")).astype("int8"), "out")
        return te.create_prim_func([data, weight, image, *results[1:], out])

    for joined in (pooled, narrow):
        with pytest.raises(ProgramError, match=r"joins what comes from C and pooled; .* pooled is none: let what it makes be a "
                                               "result of the program, as int8"):
            Space(program(joined), "vta-de10")
    assert Space(program(narrow, narrow), "vta-de10").sketches


def test_nests_have_names_of_their_own() -> None:
    space = Space(layers(np.random.default_rng(0), "chain"), "vta-de10")
    of = {name.partition(".")[0] for name in space.names[1:]}
    assert of == {"o0", "o1"} and "o0.tile_i" not in space.names
    point = space.point()
    assert "o0: " in space.explain(point) and "o1: " in space.explain(point)
    with pytest.raises(UnknownNameError, match=r"o0\.tile"):
        space.point(**{"o0.tile": 1})
    with pytest.raises(ValueError, match="several nests"):
        space.meaning(point[None])


def test_a_nest_that_another_reads_is_not_cut() -> None:
    space = Space(layers(np.random.default_rng(0), "chain"), "vta-de10")
    assert "o1.cut" not in space.names and "o0.cut" not in space.names  # the host unpacks the one, a nest reads the other


def two_results(read: bool) -> PrimFunc:
    """Two sums in the machine's layout, both of them results; whether the second is of what the first one stored."""
    tensor, args, results, shape = te.placeholder((1, 1, 6, 6, 1, 16), "int8", "data"), [], [], (1, 1, 6, 6, 1, 16)
    args.append(tensor)
    for n in range(2):
        weight, lane = te.placeholder((1, 1, 1, 1, 16, 16), "int8", f"w{n}"), te.reduce_axis((0, 16), f"lane{n}")
        args.append(weight)

        def total(
            b: Any, o: Any, y: Any, x: Any, nb: Any, cb: Any, *, given: Any = tensor, by: Any = weight, k: Any = lane,
        ) -> Any:
            return te.sum(given[b, 0, y, x, nb, k].astype("int32") * by[o, 0, 0, 0, cb, k].astype("int32"), axis=k)

        made = te.compute(shape, lambda *at, f=total: f(*at), name=f"s{n}")
        clipped = te.compute(shape, lambda *at, made=made: T.max(T.min(made[at] >> 6, 127), -128), name=f"m{n}")
        results.append(te.compute(shape, lambda *at, clipped=clipped: clipped[at].astype("int8"), name=f"o{n}"))
        tensor = results[-1] if read else tensor
    return te.create_prim_func([*args, *results])


@pytest.mark.parametrize("read", [True, False])
def test_a_result_that_a_nest_reads_is_not_cut(read: bool) -> None:
    space = Space(two_results(read), "vta-de10")
    assert ("o0.cut" in space.names) is not read and "o1.cut" in space.names
    for point in space.sample(np.random.default_rng(0), 16):
        assert scheduled(space.func, space.trace(point).as_json(), "fast", check=False).body is not space.func.body


def elementwise(form: str) -> PrimFunc:
    """``out`` of int32 tensors X and Y, one form an operation."""
    x, y = te.placeholder((8, 32), "int32", "X"), te.placeholder((8, 32), "int32", "Y")
    forms = {
        "product": lambda i, j: x[i, j] * y[i, j], "difference": lambda i, j: x[i, j] - y[i, j],
        "difference of a maximum": lambda i, j: x[i, j] - T.max(y[i, j], 0),
        "three": lambda i, j: x[i, j] * 3 + y[i, j], "bits": lambda i, j: T.bitwise_and(x[i, j], y[i, j]),
        "four": lambda i, j: x[i, j] * 4 + y[i, j], "sum": lambda i, j: x[i, j] + y[i, j],
    }
    out = te.compute((8, 32), lambda i, j: forms[form](i, j).astype("int8"), name="out")
    return te.create_prim_func([x, y, out])


@pytest.mark.parametrize(("form", "reason"), [
    ("product", "multiplies"), ("difference of a maximum", None), ("difference", None),
    ("bits", "cannot compute"), ("three", None), ("four", None), ("sum", None),
])
def test_what_the_machine_cannot_compute_is_refused_before_any_trial(form: str, reason: str | None) -> None:
    space = Space(elementwise(form), "vta-de10")
    if reason is None:
        require_lowerable(space)
        return
    with pytest.raises(ProgramError, match=rf"^vta-de10 cannot run main: block out.*{reason}") as caught:
        require_lowerable(space)
    assert "\n" not in str(caught.value)
    if form in ("product", "three"):
        require_lowerable(Space(elementwise(form), "vta-fsim"))  # its ALU has MUL


def started(index: str, op: str = "+") -> PrimFunc:
    """A packed product, or what another operation makes of it, that starts by a maximum with what a block makes of R."""
    term = 'T.Cast("int32", A[vm, vk, vi, vr]) * T.Cast("int32", W[vn, vk, vj, vr])'
    own = "C[vm, vn, vi, vj]"
    return parse(f'''
@T.prim_func
def f(A: T.Buffer((2, 2, 1, 16), "int8"), W: T.Buffer((2, 2, 16, 16), "int8"), R: T.Buffer((2, 2, 2, 16), "int32"),
      out: T.Buffer((2, 2, 1, 16), "int8")):
    S = T.alloc_buffer((2, 2, 1, 16), "int32")
    C = T.alloc_buffer((2, 2, 1, 16), "int32")
    for m, n, i, j in T.grid(2, 2, 1, 16):
        with T.block("S"):
            vm, vn, vi, vj = T.axis.remap("SSSS", [m, n, i, j])
            S[vm, vn, 0, vj] = T.max(R[{index}], 3)
    for m, n, i, j, k, r in T.grid(2, 2, 1, 16, 2, 16):
        with T.block("C"):
            vm, vn, vi, vj, vk, vr = T.axis.remap("SSSSRR", [m, n, i, j, k, r])
            with T.init():
                {own} = T.max({own}, S[vm, vn, vi, vj])
            {own} = {f"T.{op}({own}, {term})" if op in ("min", "max") else f"{own} {op} {term}"}
    for m, n, i, j in T.grid(2, 2, 1, 16):
        with T.block("out"):
            vm, vn, vi, vj = T.axis.remap("SSSS", [m, n, i, j])
            out[vm, vn, vi, vj] = T.Cast("int8", {own})
''')


def test_what_a_sum_starts_with_is_made_element_by_element() -> None:
    """Constant indices may differ, those that move may not."""
    for index in ("vm, vn, 0, vj", "vm, vn, 1, vj"):
        assert analyse(started(index), get_target("vta-de10"))[0].sides == ("S",)
    with pytest.raises(ProgramError, match="block 'S' makes what 'C' starts with, and not element by element from parameters"):
        analyse(started("vn, vm, 0, vj"), get_target("vta-de10"))


@pytest.mark.parametrize("op", ["+", "-", "*", "min", "max"])
def test_only_sums_of_products_are_the_gemms(op: str) -> None:
    block = next(s.block for s in sites_of(started("vm, vn, 0, vj", op)) if s.block.name == "C")
    assert (match_gemm(block, get_target("vta-de10")) is not None) == (op == "+")


@pytest.mark.parametrize(("name", "shown"), [
    ("conv_transposed", "no zeros"),  # of a tensor with gaps, zeros left out: every load begins at the same place of a gap
    ("conv_two_paddings", "X_global_d"),  # one padded image, two loads of it
    ("dense_three_outputs", "store by"),  # stages in slices of a tile that is the whole result
    ("dense_packed_loops", "load A"),  # packed, with the reduction's loops in between
])
def test_every_point_of_what_users_write_has_a_program(user_programs, name: str, shown: str) -> None:
    space = Space(user_programs.program(name), "vta-de10")
    points = space.sample(np.random.default_rng(977), 60)
    points = points[[shown in space.explain(p) for p in points]]
    assert len(points) > 7
    for point in points[:6]:
        lower_table(space.schedule(point).func, space.target)
