"""Relaxed regions against enumeration, and what blocks touch against TVM's rules."""

from __future__ import annotations

import itertools
import random

import pytest

from autosched.ir.cover import apart, covers
from autosched.ir.expr import BinOp, BufferData, Call, Expr, IntImm, StringImm, Var, binary, const, if_then_else
from autosched.ir.functor import substitute, walk
from autosched.ir.region import (
    access_regions,
    block_access,
    int_set_bounds,
    region_bounds,
    union_regions,
)
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    MatchBuffer,
    Range,
    full_region,
    point,
    seq,
)
from autosched.ir.swept import ranges_box

I, J, P, Q = (Var(n) for n in "ijpq")  # noqa: E741


def rng_of(lo: int, extent: int) -> Range:
    return Range(IntImm(lo), IntImm(extent))


def buffer(name: str, *shape: int) -> Buffer:
    return Buffer(name, tuple(IntImm(s) for s in shape))


def value(e: Expr, env: dict[Var, int]) -> int:
    new = simplify(substitute(e, {v: IntImm(x) for v, x in env.items()}))
    assert isinstance(new, IntImm), new
    return new.value


def affine(rng: random.Random) -> Expr:
    e: Expr = IntImm(rng.randint(-5, 9))
    for v in rng.sample([I, J, P, Q], 4):
        e = e + v * rng.choice([-2, -1, 0, 1, 1, 2, 3, 4, 8])
    return e


def quasi(rng: random.Random, depth: int = 2) -> Expr:
    e = affine(rng)
    if depth:
        op = rng.choice(["//", "%", "min", "max", "+"])
        e = binary(op, e, rng.choice([2, 3, 4, 8])) if op in ("//", "%") else binary(op, e, quasi(rng, depth - 1))
    return e


@pytest.mark.parametrize("seed", range(6))
def test_relaxed_bounds_hold_all_values_and_are_tight_for_affine(seed: int) -> None:
    """I and J run inside; P and Q stay symbolic."""
    rng = random.Random(seed)
    for n in range(60):
        dom = {I: rng_of(rng.choice([0, 0, 2]), rng.randint(1, 5)), J: rng_of(0, rng.randint(1, 4))}
        outer = {P: rng_of(0, rng.randint(1, 6)), Q: rng_of(0, 3)}
        exact = n % 2 == 0
        e = affine(rng) if exact else quasi(rng)
        lo, hi = int_set_bounds(e, dom, Analyzer(outer))
        assert lo is not None and hi is not None
        inner = [range(r.min.value, r.min.value + r.extent.value) for r in dom.values()]  # type: ignore[attr-defined]
        for p, q in itertools.product(range(outer[P].extent.value), range(3)):  # type: ignore[attr-defined]
            values = [value(e, {P: p, Q: q, I: i, J: j}) for i, j in itertools.product(*inner)]
            a, b = value(lo, {P: p, Q: q}), value(hi, {P: p, Q: q})
            if exact:
                assert (a, b) == (min(values), max(values)), e
            else:
                assert a <= min(values) and max(values) <= b, e


@pytest.mark.parametrize("seed", range(3))
def test_region_bounds_are_the_bounding_box(seed: int) -> None:
    rng = random.Random(50 + seed)
    a = buffer("A", 512, 512)
    for _ in range(40):
        dom = {I: rng_of(0, rng.randint(1, 6)), J: rng_of(0, rng.randint(1, 6)), P: rng_of(0, 2)}
        index = [affine(rng), affine(rng)]
        index = [substitute(e, {Q: IntImm(0)}) for e in index]
        size = rng.randint(1, 4)
        box = region_bounds(BufferRegion(a, tuple(Range(e, IntImm(size)) for e in index)), dom)
        every = list(itertools.product(*[range(r.extent.value) for r in dom.values()]))  # type: ignore[attr-defined]
        for e, r in zip(index, box):
            values = [value(e, dict(zip(dom, x))) for x in every]
            assert (r.min, r.extent) == (IntImm(min(values)), IntImm(max(values) + size - min(values)))


def test_extent_is_constant_under_symbolic_offsets() -> None:
    a = buffer("A", 100, 100)
    index = (P * 4 + I) * 2 + J
    box = region_bounds(point(a, (index, Q)), {I: rng_of(0, 4), J: rng_of(0, 3)})
    assert box[0] == Range(P * 8, IntImm(9))
    assert box[1] == Range(Q, IntImm(1))


def test_symbolic_and_triangular_ranges() -> None:
    n = Var("n")
    lo, hi = int_set_bounds(I * 2 + P, {I: Range(IntImm(0), n)})
    assert lo == P
    assert hi is not None and Analyzer().can_prove_equal(hi, n * 2 - 2 + P)
    # J runs up to I, which runs up to 8.
    lo, hi = int_set_bounds(I + J, {I: rng_of(0, 8), J: Range(IntImm(0), I + 1)})
    assert (lo, hi) == (IntImm(0), IntImm(14))


def test_predicate_tightens() -> None:
    assert int_set_bounds(I * 4 + J, {I: rng_of(0, 8), J: rng_of(0, 4)}, predicate=I * 4 + J < 30) == (
        IntImm(0), IntImm(29),
    )


def test_unknown_index_covers_the_dimension() -> None:
    a, ids = buffer("A", 16, 8), Buffer("ids", (IntImm(16),), "int32")
    box = region_bounds(point(a, (ids[I], J)), {I: rng_of(0, 16), J: rng_of(0, 4)})
    assert box == (rng_of(0, 16), rng_of(0, 4))
    with pytest.raises(ValueError, match="no bounds"):
        region_bounds([Range(ids[I], IntImm(1))], {I: rng_of(0, 16)})


def test_union_cover_overlap() -> None:
    a = buffer("A", 64)
    first, second = BufferRegion(a, (Range(P, IntImm(4)),)), BufferRegion(a, (Range(P + 2, IntImm(4)),))
    both = union_regions([first, second])
    assert both.region == (Range(P, IntImm(6)),)
    boxes = [ranges_box(r.region) for r in (both, first, second)]
    assert [covers(boxes[0], b, a.shape) for b in boxes] == [True] * 3 and not covers(boxes[1], boxes[0], a.shape)
    assert not apart(boxes[1], boxes[2])
    assert apart(boxes[1], ranges_box([Range(P + 4, IntImm(1))]))
    elsewhere = ranges_box([Range(Q, IntImm(1))])
    ana = Analyzer({P: rng_of(0, 4), Q: rng_of(8, 4)})
    assert not apart(boxes[1], elsewhere) and apart(boxes[1], elsewhere, ana.never_negative)


# -- what a block touches: facts from TVM's tests of its detector ------------------------------------------------------


def block(body, iters=(), init=None, **kw) -> Block:  # type: ignore[no-untyped-def]
    return Block("b", tuple(IterVar(v, rng_of(0, 16)) for v in iters), (), (), body, init=init, **kw)


def regions(*items: tuple[Buffer, tuple[Range, ...]]) -> tuple[BufferRegion, ...]:
    return tuple(BufferRegion(b, r) for b, r in items)


def one(e: Expr) -> Range:
    return Range(e, IntImm(1))


def test_reduction_with_init_does_not_read_its_accumulator() -> None:
    a, b, c = buffer("A", 16, 16), buffer("B", 16, 16), buffer("C", 16, 16)
    k = Var("k")
    update = BufferStore(c, (I, J), c[I, J] + a[I, k] * b[J, k])
    init = BufferStore(c, (I, J), const(0.0))
    reads, writes = block_access(block(update, (I, J, k), init))
    assert reads == regions((a, (one(I), one(k))), (b, (one(J), one(k))))
    assert writes == regions((c, (one(I), one(J))))
    # Decomposed, the accumulator comes first, as it is met first.
    reads, writes = block_access(block(update, (I, J, k)))
    assert [r.buffer for r in reads] == [c, a, b]
    assert writes == regions((c, (one(I), one(J))))


def test_loops_inside_are_relaxed_and_inner_blocks_speak_for_themselves() -> None:
    a, b, c = buffer("A", 128, 128), buffer("B", 128, 128), buffer("C", 128, 128)
    vi, vj = Var("vi"), Var("vj")
    i, j = Var("i"), Var("j")
    tile = (Range(vi * 4 + 4, IntImm(4)), Range(vj * 4 + 4, IntImm(4)))
    inner = Block(
        "inner", (IterVar(vi, rng_of(0, 2)), IterVar(vj, rng_of(0, 2))),
        regions((a, tile), (c, (rng_of(12, 4), rng_of(12, 4)))), regions((a, tile)), Evaluate(IntImm(0)),
    )
    body = seq(
        For(I, IntImm(0), IntImm(8), "serial", For(J, IntImm(0), IntImm(8), "serial",
            BufferStore(a, (I, J), b[0, 0] + c[0, 0]))),
        For(i, IntImm(0), IntImm(2), "serial", For(j, IntImm(0), IntImm(2), "serial",
            BlockRealize((i, j), TRUE, inner))),
    )
    reads, writes, opaque = access_regions(block(body))
    assert reads == regions(
        (b, (rng_of(0, 1), rng_of(0, 1))), (c, (rng_of(0, 16), rng_of(0, 16))), (a, (rng_of(4, 8), rng_of(4, 8))),
    )
    assert writes == regions((a, (rng_of(0, 12), rng_of(0, 12))))
    assert opaque == ()


def test_an_address_touches_the_whole_buffer() -> None:
    a, b = buffer("A", 1024), buffer("B", 1024)
    call = Call("call_extern", (StringImm("f"), BufferData(b), IntImm(1), BufferData(a)), "float32")
    reads, writes, opaque = access_regions(block(Evaluate(call)))
    assert (reads, writes, opaque) == ((), (), (full_region(b), full_region(a)))
    assert block_access(block(Evaluate(call))) == (opaque, opaque)


@pytest.mark.parametrize(("mask", "read", "written"), [(1, True, False), (2, False, True), (3, True, True)])
def test_access_ptr_says_how_it_touches(mask: int, read: bool, written: bool) -> None:
    a = buffer("A", 64)
    ptr = Call("tvm_access_ptr", (StringImm("float32"), BufferData(a), IntImm(0), IntImm(64), IntImm(mask)), "handle")
    reads, writes = block_access(block(Evaluate(ptr)))
    assert (bool(reads), bool(writes)) == (read, written)


def test_conditions_bound_inner_loops_only() -> None:
    a, b = buffer("A", 8), buffer("B", 8)
    guarded = For(I, IntImm(0), IntImm(8), "serial", BufferStore(b, (I,), if_then_else(I < 5, a[I], const(0.0))))
    reads, writes = block_access(block(guarded))
    assert reads == regions((a, (rng_of(0, 5),)))
    assert writes == regions((b, (rng_of(0, 8),)))
    branch = For(I, IntImm(0), IntImm(8), "serial", IfThenElse(
        I < 5, BufferStore(b, (I,), a[I] + 1.0), BufferStore(b, (I,), a[I - 1])))
    assert block_access(block(branch))[0] == regions((a, (rng_of(0, 7),)))
    # A block iterator is not relaxed: the padded index stays a point.
    cond = BinOp("<=", IntImm(2), I, "bool")
    pad = BufferStore(b, (I,), if_then_else(cond, a[I - 2], const(0.0)))
    assert block_access(block(pad, (I,)))[0] == regions((a, (one(I - 2),)))


def test_points_stay_as_written_and_unions_are_boxes() -> None:
    a, b = buffer("A", 64), buffer("B", 64)
    body = BufferStore(b, (I,), a[J + I * 4])
    assert block_access(block(body, (I, J)))[0] == regions((a, (one(J + I * 4),)))
    body = BufferStore(b, (I,), a[I] + a[I + 2])
    assert block_access(block(body, (I,)))[0] == regions((a, (Range(I, IntImm(3)),)))


def test_views_count_as_what_they_view() -> None:
    a, b = buffer("A", 128, 128), buffer("B", 128)
    view = buffer("AA", 4)
    source = BufferRegion(a, (one(I), Range(J * 16 + 2, IntImm(4))))
    body = For(P, IntImm(0), IntImm(3), "serial", BufferStore(b, (I,), view[P + 1]))
    reads, _ = block_access(block(body, (I, J), match_buffers=(MatchBuffer(view, source),)))
    assert reads == regions((a, (one(I), Range(J * 16 + 3, IntImm(3)))))


def test_let_values_reach_the_indices_and_local_buffers_do_not_count() -> None:
    ids = Buffer("ids", (IntImm(16),), "int32")
    a, b, local = buffer("A", 16), buffer("B", 16), buffer("L", 16)
    x = Var("x")
    body = LetStmt(x, ids[I], seq(BufferStore(local, (I,), a[x]), BufferStore(b, (I,), local[I])))
    reads, writes = block_access(block(body, (I,), alloc_buffers=(local,)))
    assert reads == regions((ids, (one(I),)), (a, (one(ids[I]),)))
    assert writes == regions((b, (one(I),)))


def test_places_that_are_named_many_times_are_united_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ends of what a stencil reads at digits are long expressions: to unite them again and again took most of a minute."""
    from autosched.ir import region
    from autosched.ir.region import block_access
    from autosched.ir.stmt import BlockRealize
    from autosched.script import parse

    places = "A[vi % 7] + A[(vi + 1) % 7] + A[(vi + 2) % 7]"
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((7,), 'int32'), C: T.Buffer((9,), 'int32')):
    for i in range(9):
        with T.block('c'):
            vi = T.axis.spatial(9, i)
            C[vi] = {' + '.join([places] * 5)}
""")
    block = next(s.block for s in walk(func.body) if isinstance(s, BlockRealize) and s.block.name == "c")
    calls: list[object] = []
    real = region.union_ranges
    monkeypatch.setattr(region, "union_ranges", lambda a, b: (calls.append(b), real(a, b))[1])
    reads, _ = block_access(block)
    assert len(calls) == 2 and len(reads) == 1
