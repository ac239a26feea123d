"""Rewrites of the tree before anything is placed: fused loops apart, expressions into chains, results over dying operands.

0. ``split_inits``: the init of a reduction that shares its loops with the update gets loops of its own, in front.
1. ``unfuse``: a loop that is only used through ``f // c`` and ``f % c`` becomes two; a loop that runs over lanes and more
   becomes two as well.
2. ``split_values``: expressions that the ALU cannot chain in one accumulator get temporaries.
3. ``in_place``: an elementwise result takes the storage of an operand that nobody reads afterwards, also of a larger one
   in which a window of two slides on, or where each window has an element that no other one reads.
4. ``refresh_stores``: what STORE reads must have been written by the ALU or a GEMM, since the hardware stores from OUT, which
   only those write; where a LOAD or a fill with 0 came last, an ADD of 0 is put in front.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autosched.errors import LoweringError
from autosched.ir.expr import IntImm
from autosched.ir.scopes import ACC
from autosched.ir.stmt import Buffer
from autosched.lower.affine import Atom, Lin, Loop
from autosched.lower.classify import COMMUTATIVE, Imm, Leaf, Node, Op, leaves
from autosched.lower.regions import box, common, disjoint, overtakes, shape_of, writes_all
from autosched.lower.rewrites import map_site, uses_of
from autosched.lower.tree import Access, Site, Tree

IMM_MIN, IMM_MAX = -(1 << 15), (1 << 15) - 1


def split_inits(tree: Tree) -> None:
    """Moves inits in front of the outermost loop that repeats them; see the module."""
    for init in tree.index():
        parent = init.path[-1] if init.path else tree.root
        if not init.init or len(parent.body) != 2 or parent.body[0] is not init:
            continue
        start = len(init.path)
        while start > 0 and (start == len(init.path) or len(init.path[start - 1].body) == 1):
            if init.path[start - 1].thread:
                break
            start -= 1
        repeat = {loop for c in init.conds for loop in c.loops()} - init.write.loops()
        nest = init.path[start:]
        first = next((k for k, loop in enumerate(nest) if loop in repeat), None)
        if first is None or len(parent.body) != 2:
            continue
        clones = {loop: Loop(loop.name, loop.extent, False, loop.notes) for loop in nest[first:] if loop not in repeat}
        table = {loop: Lin() for loop in nest if loop in repeat} | {old: Lin({new: 1}) for old, new in clones.items()}
        conds = [c.substitute(table) for c in init.conds]
        if any(not c.terms and c.const < 0 for c in conds):
            continue
        tree.indexed = None
        parent.body.remove(init)
        outer = init.path[start + first - 1] if start + first else tree.root
        map_site(init, lambda lin, table=table: lin.substitute(table), lambda b: b)  # type: ignore[misc]
        init.conds = [c for c in conds if c.bounds()[0] < 0]
        inside: Loop | Site = init
        for new in reversed(clones.values()):
            new.body = [inside]
            inside = new
        outer.body.insert(next(k for k, n in enumerate(outer.body) if n is nest[first]), inside)


def _atoms(lin: Lin, found: dict[Loop, set[int]]) -> None:
    for term in lin.terms:
        if isinstance(term, Atom):
            if term.op in ("//", "%") and len(term.a.terms) == 1 and term.a.const == 0:
                (inner, k), = term.a.terms.items()
                if k == 1 and isinstance(inner, Loop):
                    found.setdefault(inner, set()).add(term.b.const)
            _atoms(term.a, found)
            _atoms(term.b, found)


def _lins(site: Site) -> list[Lin]:
    return [i for a, _ in site.accesses() for i in a.indices] + site.conds + site.pads


def flat_coefs(access: Access, loops: Sequence[Loop]) -> dict[Loop, int]:
    """How far each loop steps through the whole buffer, in scalars."""
    coefs = dict.fromkeys(loops, 0)
    stride = 1
    for index, extent in zip(reversed(access.indices), reversed(shape_of(access.buffer))):
        for term, c in index.terms.items():
            if term in coefs:
                coefs[term] += stride * c  # type: ignore[index]
        stride *= extent
    return coefs


def _lane_cut(site: Site, lanes: int) -> tuple[Loop, int] | None:
    """A loop of a copy or computation that runs over lanes and beyond, with the number of iterations inside one element."""
    if site.kind == "gemm":
        return None
    for loop, c in flat_coefs(site.write, site.inner).items():
        if c > 0 and lanes % c == 0 and c % lanes and c * loop.extent > lanes and loop.extent % (lanes // c) == 0:
            return loop, lanes // c
    return None


def unfuse(tree: Tree, lanes_of: Callable[[Site], int]) -> None:
    """Takes fused loops apart; see the module."""
    while True:
        sites = tree.index()
        uses: dict[Loop, set[int]] = {}
        for site in sites:
            for lin in _lins(site):
                if lin.terms:
                    _atoms(lin, uses)
        cut: tuple[Loop, int] | None = None
        for loop, factors in uses.items():
            good = [c for c in factors if c < loop.extent and loop.extent % c == 0]
            if good and not loop.thread:
                cut = (loop, max(good))
                break
        if cut is None:
            cut = next((c for c in (_lane_cut(s, lanes_of(s)) for s in sites) if c is not None), None)
        if cut is None:
            return
        _cut(tree, *cut)


def _cut(tree: Tree, loop: Loop, factor: int) -> None:
    tree.indexed = None
    inner = Loop(f"{loop.name}_i", factor, False, loop.notes, loop.body)
    outer = Loop(f"{loop.name}_o", loop.extent // factor, False, loop.notes, [inner])
    table = {loop: Lin({outer: factor, inner: 1})}

    def visit(node: Loop) -> None:
        for k, child in enumerate(node.body):
            if child is loop:
                node.body[k] = outer
            if isinstance(child, Loop):
                visit(child)
            else:
                map_site(child, lambda lin: lin.substitute(table), lambda b: b)

    visit(tree.root)


def _insert_before(tree: Tree, site: Site, make: Callable[[dict[Loop, Loop]], Site]) -> None:
    """Puts a new site with its own copy of ``site``'s loops right before it."""
    tree.indexed = None
    parent = site.outer[-1] if site.outer else tree.root
    clones = {loop: Loop(loop.name, loop.extent, loop.thread, loop.notes) for loop in site.inner}
    new = make(clones)
    nest: Loop | Site = new
    for loop in reversed(site.inner):
        clones[loop].body = [nest]
        nest = clones[loop]
    anchor: Loop | Site = site.inner[0] if site.inner else site
    parent.body.insert(next(k for k, n in enumerate(parent.body) if n is anchor), nest)


def _on(access: Access, clones: dict[Loop, Loop]) -> Access:
    table = {old: Lin({new: 1}) for old, new in clones.items()}
    return Access(access.buffer, tuple([i.substitute(table) for i in access.indices]), access.extents)


def _rebased(node: Node, clones: dict[Loop, Loop]) -> Node:
    if isinstance(node, Leaf):
        return Leaf(_on(node.access, clones))
    return Op(node.op, _rebased(node.a, clones), _rebased(node.b, clones)) if isinstance(node, Op) else node


def extract(tree: Tree, site: Site, node: Node, count: int) -> Leaf:
    """Computes ``node`` into a temporary before ``site`` and returns the load of it."""
    name = f"{site.name}_t{count}"
    repeating = [loop for loop in site.inner if loop not in site.write.loops()]
    if repeating:
        # One element per iteration, not per element written: each visit of an element has a value of its own.
        coefs = flat_coefs(site.write, site.inner)
        loops = repeating + sorted((x for x in site.inner if x not in repeating), key=lambda loop: -coefs[loop])
        temp = Buffer(name, tuple([IntImm(loop.extent) for loop in loops]), "int32", ACC)
        place = Access(temp, tuple([Lin({loop: 1}) for loop in loops]), (1,) * len(loops))
    else:
        temp = Buffer(name, site.write.buffer.shape, "int32", ACC)
        place = Access(temp, site.write.indices, site.write.extents)
    tree.allocated.append(temp)

    def make(clones: dict[Loop, Loop]) -> Site:
        table = {old: Lin({new: 1}) for old, new in clones.items()}
        value = _rebased(node, clones)
        conds = [c.substitute(table) for c in site.conds]
        return Site("alu", temp.name, _on(place, clones), [x.access for x in leaves(value)], value=value, conds=conds)

    _insert_before(tree, site, make)
    return Leaf(place)


def split_values(tree: Tree) -> None:
    """Gives every ALU site a value in which each operation has at least one side that is a load or a small constant.

    Raises:
        LoweringError: kind ``alu``: what would be worked out ahead is read where the site's instances before have stored.
    """
    for site in tree.index():
        if site.kind != "alu" or not isinstance(site.value, Op):
            continue
        count = 0

        def rec(node: Node, site: Site = site) -> Node:
            nonlocal count
            if not isinstance(node, Op):
                return node
            a, b = rec(node.a), rec(node.b)
            if isinstance(b, Imm) and node.op not in ("shr", "sext8") and not IMM_MIN <= b.value <= IMM_MAX:
                if node.op == "add" and 2 * IMM_MIN <= b.value <= 2 * IMM_MAX:
                    half = b.value // 2
                    return Op("add", Op("add", a, Imm(half)), Imm(b.value - half))
                count += 1
                b = extract(tree, site, b, count)
            elif isinstance(b, Op):
                if isinstance(a, Op) or node.op not in COMMUTATIVE or _is_here(a, site):
                    _refuse_behind(site, b)
                    count += 1
                    b = extract(tree, site, b, count)
            elif isinstance(a, Imm) and isinstance(b, Leaf) and node.op in COMMUTATIVE:
                a, b = b, a
            return Op(node.op, a, b)

        site.value = rec(site.value)
        site.reads = [leaf.access for leaf in leaves(site.value)]


def _refuse_behind(site: Site, node: Node) -> None:
    """Refuses to work out ahead of all instances what reads what earlier ones have stored."""
    for x in (leaf.access for leaf in leaves(node)):
        if x.buffer is not site.write.buffer or x.same_place(site.write):
            continue
        if not disjoint(site, x) and overtakes(site, x):
            raise LoweringError("alu", f"block {site.name} reads {x.buffer.name} where it has stored before; an instruction "
                                "works on all elements at once, so compute into another buffer")


def _is_here(node: Node, site: Site) -> bool:
    """Whether a node is the element that the site writes: a running total, which must stay where it is."""
    return isinstance(node, Leaf) and node.access.buffer is site.write.buffer and node.access.same_place(site.write)


def refresh_stores(tree: Tree) -> None:
    """Puts an ADD of 0 before stores of what the ALU and GEMM may not have written last; see the module."""
    sites = tree.index()
    uses = uses_of(sites)
    stores = [s for s in sites if s.kind == "store" and _is_stale(s, uses[s.reads[0].buffer])]
    for store in stores:
        source = store.reads[0]

        def make(clones: dict[Loop, Loop], store: Site = store, source: Access = source) -> Site:
            table = {old: Lin({new: 1}) for old, new in clones.items()}
            place = _on(source, clones)
            value = Op("add", Leaf(place), Imm(0))
            conds = [c.substitute(table) for c in store.conds]
            return Site("alu", f"{store.name}_refresh", place, [place], value=value, conds=conds)

        _insert_before(tree, store, make)


def _is_stale(store: Site, uses: list[tuple[Site, Access, bool]]) -> bool:
    """Whether what a store reads may have been written last by what does not write OUT."""
    writers = [s for s, _, is_write in uses if is_write]
    for bad in writers:
        if not (bad.kind == "load" or (bad.kind == "alu" and bad.value == Imm(0))):
            continue
        if bad.order < store.order:
            between = [s for s in writers if bad.order < s.order < store.order]
            # Of those with fewer conditions it is seen sooner.
            if not any(_rewrites(good, bad, store) for good in sorted(between, key=lambda s: len(s.conds))):
                return True
        elif turns := common([bad.path, store.path]):
            # It comes before the store of the next turn.
            if not any(_writes_out(good) and writes_all(good, box(store.reads[0], both), both) for good in writers
                       if good.order < store.order and (both := common([good.path, store.path]))[: len(turns)] == turns):
                return True
    return False


def _writes_out(site: Site) -> bool:
    """Whether what a site writes is in OUT as well."""
    return not (site.kind == "load" or (site.kind == "alu" and (site.value == Imm(0) or _is_here(site.value, site))))


def _rewrites(good: Site, bad: Site, store: Site) -> bool:
    """Whether what one site writes stands, wherever another one has written before, in all of that or in all that is stored."""
    if not _writes_out(good):
        return False
    fixed, both = common([good.path, bad.path]), common([good.path, store.path])
    if both[: len(fixed)] == fixed:
        # Of loops that are its and the store's only what it has written in this turn counts.
        return writes_all(good, box(store.reads[0], both), both) or (
            both == fixed and writes_all(good, box(bad.write, fixed), fixed, bad.conds))
    return writes_all(good, box(bad.write, fixed), fixed, bad.conds)
