"""The tensors that a nest brings from DRAM: which memory they go to, who reads them, and which region its axes move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from autosched.errors import ProgramError, SpaceError
from autosched.ir.expr import BinOp, BufferLoad, Call, Expr, IntImm, Var, int_value, is_int
from autosched.ir.functor import free_vars, substitute, walk_expr
from autosched.ir.host import is_move
from autosched.ir.patterns import choice_of, has_loads, loads_in
from autosched.ir.printer import expr_text
from autosched.ir.scopes import ACC, INP, WGT
from autosched.ir.simplify import conjuncts, linear_form
from autosched.ir.stmt import Block, Buffer
from autosched.schedule.primitives.reductions.operand import reads_within
from space.sites import NotPackedError, Site, is_copy, loads_of, repeats_of, starts_of


@dataclass(frozen=True)
class Operand:
    """A tensor that must be brought from DRAM into an on-chip memory.

    Args:
        name: the DRAM buffer's name.
        scope: the memory it goes to.
        consumer: block that reads it.
        read_index: index among the consumer's reads (for ``cache_read``), or -1 when ``producer`` is the copy itself.
        producer: block that is itself the copy (a padding stage), or None.
        dims: per dimension outside the element: (coefficient of every axis, size of the dimension).
        source: size of each of these dimensions in DRAM (smaller than in ``dims`` where a producer pads).
        inside: per dimension, which indices of the producer's tensor are no padding, from the first that is read; () without a
            producer, or where the padding is no box.
        twin: whether another operand before it is the same tensor.
        within: per dimension, what one iteration of the axes reads, from the first; () for index 0 everywhere.
        also: further blocks that read what is loaded.
        first: per dimension, the first index that is read.
        leads: whether its reader is a stage, or a sum, that begins with it: what that makes may stand in its place.
        times: per dimension, how often the producer's tensor has each element side by side; () for once everywhere.
        over: reduction axes whose steps read on within what one load brings: its region does not move with them.
    """

    name: str
    scope: str
    consumer: str
    read_index: int
    producer: str | None
    dims: tuple[tuple[tuple[int, ...], int], ...]
    source: tuple[int, ...]
    inside: tuple[tuple[bool, ...], ...] = ()
    twin: bool = False
    within: tuple[tuple[int, ...], ...] = ()
    also: tuple[str, ...] = ()
    first: tuple[int, ...] = ()
    leads: bool = False
    times: tuple[int, ...] = ()
    over: tuple[int, ...] = ()

    @property
    def readers(self) -> tuple[str, ...]:
        """The blocks that read what is loaded, in program order."""
        return (self.consumer, *self.also)

    @property
    def label(self) -> str:
        """What columns and words call it: the tensor, and the reader where the tensor is read at several places."""
        return f"{self.name}_{self.consumer}" if self.twin else self.name

    def reach(self, dim: int) -> int:
        """How far behind the first index of a dimension one iteration of the axes reads."""
        return max(self.within[dim]) if self.within else 0

    @property
    def further(self) -> bool:
        """Whether weights are read from further in: nobody needs what is in front of that, and an element of them takes long."""
        return self.scope == WGT and self.producer is None and not self.within and any(self.first)

    def cropped(self, extents: Sequence[int]) -> Operand:
        """The operand, of which a load outside all loops brings what is read alone, where that begins further in.

        Of others such a load brings the whole tensor, also what a stride never reaches.

        Args:
            extents: of the axes.
        """
        if not self.further:
            return self
        spans = [sum((extent - 1) * c for extent, c in zip(extents, coeffs)) + 1 for coeffs, _ in self.dims]
        return replace(self, dims=tuple((coeffs, span) for (coeffs, _), span in zip(self.dims, spans)))

    def steps(self, axis: int) -> bool:
        """Whether all iterations of an axis move what it needs on equally far; those between the places of an element do not."""
        return not any(coeffs[axis] % n for (coeffs, _), n in zip(self.dims, self.times))

    def uses(self, axis: int) -> bool:
        """Whether the region it needs moves with an axis."""
        return any(coeffs[axis] for coeffs, _ in self.dims)

    def read_along(self, axis: int) -> bool:
        """Whether every iteration of an axis reads something else of it, be it loaded for that iteration or for all of them."""
        return self.uses(axis) or axis in self.over


def operands_of(
    chain: list[Site], anchor: Site | None, matches: dict[str, tuple[BufferLoad, BufferLoad]],
    by_output: dict[Buffer, Site], sources: set[Buffer], lanes: int, anchor_vars: list[Var],
    halos: Sequence[tuple[Site, Site, Sequence[BufferLoad]]], joint: bool = False,
) -> tuple[Operand, ...]:
    """What a nest loads: the factors of its products, sum by sum along the chain, then what goes to the accumulator.

    Args:
        chain: the blocks from the sum to the one that stores.
        anchor: the sum, or None.
        matches: by block that the GEMM computes, its factors.
        by_output: the block that writes each buffer.
        sources: tensors in DRAM when the nest begins.
        lanes: dimensions of an element.
        anchor_vars: per axis, the anchor's iterator (or the output's).
        halos: (stage, block, where the stage reads what the block makes or goes into) of what stages read at several places.
        joint: whether one load brings what several sums of products read of a tensor, for all of their steps.

    Raises:
        SpaceError: an operand that nothing can bring on chip.
    """
    operands: list[Operand] = []
    kinds = {iv.var: iv for iv in anchor.block.iter_vars if iv.kind == "reduce"} if anchor is not None and joint else {}
    sums = {a: int_value(kinds[v].dom.extent) or 1 for a, v in enumerate(anchor_vars) if v in kinds}
    if anchor is not None and anchor.block.name not in matches:
        operands += _reduced(anchor, matches, by_output, sources, lanes, anchor_vars)
    for site in chain:
        if site.block.name not in matches:
            continue
        own_vars = anchor_vars if site is anchor else spatial_vars(site, chain[-1], lanes, len(anchor_vars))
        for load, scope in zip(matches[site.block.name], (INP, WGT)):
            made = _factor(site, load, scope, own_vars, operands, matches, by_output, sources, lanes)
            _join(operands, made, site, own_vars, sums)
    for reader, site, loads in halos:
        own = spatial_vars(reader, chain[-1], lanes, len(anchor_vars))
        for factor, scope in zip(matches.get(site.block.name, ()), (INP, WGT)):
            for load in loads if scope == INP else loads[:1]:
                made = _factor(site, moved(factor, site, load), scope, own, operands, matches, by_output, sources, lanes)
                _join(operands, made, reader, own)
    for reader, site, loads in halos:
        given = [x for x in (starts_of if site.block.name in matches else loads_of)(site) if x.buffer in sources]
        operands += _added(site, given, reader, loads, chain[-1], lanes, len(anchor_vars), operands)
    for site in chain:
        own = anchor_vars if site is anchor else spatial_vars(site, chain[-1], lanes, len(anchor_vars))
        loads = starts_of(site) if site is anchor or site.block.name in matches else loads_of(site)
        seen: set[Buffer] = set()
        for load in loads:
            side = by_output.get(load.buffer) if site is anchor else None
            if side is not None and side is not anchor and load.buffer not in seen:
                seen.add(load.buffer)
                dims = dims_of(load, lanes, own, f"block {site.block.name!r}")
                pad = (0,) * (len(anchor_vars) - len(own))
                dims = tuple((coeffs + pad, size) for coeffs, size in dims)
                for x in loads_of(side):
                    if x.dtype != "int32":
                        raise _narrow(side, x, x.buffer in by_output)
                    operands.append(Operand(x.buffer.name, ACC, side.block.name, _read_index(side.block, x.buffer), None, dims,
                                            tuple(size for _, size in dims)))
                continue
            if load.buffer in sources and load.buffer not in seen:
                seen.add(load.buffer)
                if load.dtype != "int32":
                    raise _narrow(site, load, load.buffer in by_output)
                dims = dims_of(load, lanes, own, f"block {site.block.name!r}")
                pad = (0,) * (len(anchor_vars) - len(own))
                dims = tuple((coeffs + pad, size) for coeffs, size in dims)
                twin = any(o.name == load.buffer.name for o in operands)
                first, within = _reached([first_of(x, lanes, own) for x in loads if x.buffer is load.buffer])
                operands.append(Operand(load.buffer.name, ACC, site.block.name, _read_index(site.block, load.buffer), None, dims,
                                        tuple(size for _, size in dims), twin=twin, within=within, first=first,
                                        leads=loads[0] is load and (site is not anchor or load.indices == site.store.indices)))
    return tuple(operands)


def _reached(starts: list[tuple[int, ...]]) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Of what a stage reads at several places: the first index per dimension, and how far behind it the others are.

    Nothing where they are one place, as they mostly are.
    """
    if len(set(starts)) == 1:
        return (), ()
    first = tuple(min(at) for at in zip(*starts))
    return first, tuple(tuple(sorted({x - low for x in at})) for low, at in zip(first, zip(*starts)))


def _narrow(site: Site, load: BufferLoad, made: bool) -> ProgramError:
    """Why a stage cannot read a tensor of another type than the accumulator's; ``made``: one that the program makes."""
    block, name = site.block.name, load.buffer.name
    between = next((e.dtype for e in walk_expr(site.store.value) if is_int(e.dtype) and e.dtype not in ("int8", "int32")
                    and isinstance(e, BinOp | Call) and any(x is load for x in walk_expr(e))), None)
    if load.dtype == "int8" and between is not None:
        return SpaceError(f"block {block!r} computes in {between} what may not fit into it; the ALU computes in int32: write "
                          f"int32 in place of {between}", "type")
    for e in walk_expr(site.store.value):
        sides = (e.a, e.b) if isinstance(e, BinOp) and e.op == "*" else ()
        if sides and all(has_loads(side) for side in sides) and any(x is load for x in walk_expr(e)):
            one, other = ({x.buffer for x in walk_expr(side) if isinstance(x, BufferLoad)} for side in sides)
            if one & other:
                twice = min(b.name for b in one & other)
                return SpaceError(f"block {block!r} multiplies elements of {twice} by each other; as data and as weight it lies "
                                  "otherwise: give it to the program twice, as two parameters", "product")
            return SpaceError(f"block {block!r} multiplies element by element, which the GEMM does with an int8 parameter only, "
                              "and the ALU has no product", "product")
        parts = choice_of(e)
        if parts is None or not any(x is load for x in walk_expr(e)):
            continue
        if has_loads(parts[0]):
            return SpaceError(f"block {block!r} chooses by data where it reads {name}; the ALU has no choice but minimum and "
                              "maximum: write it with T.min and T.max", "choice")
        beyond = next((x for side in parts[1:] for x in loads_in(side) if not reads_within(site.block, x)), None)
        if beyond is not None and all(has_loads(side) for side in parts[1:]):
            return SpaceError(f"block {block!r} chooses by place whether it reads {expr_text(beyond)}, which is not there for "
                              "all of its places, and the ALU reads what it chooses between: pad it in a block before", "choice")
        constants = [c for side in parts[1:] if (c := int_value(side))]
        if constants:
            return SpaceError(f"block {block!r} pads {name} with {constants[0]}; the DMA pads with 0", "pad")
    way = ""
    if load.dtype == "int8" and is_move(site.store.value):
        way = f", and it only moves that: write in one block what moves {name} and what computes with it"
        way += f", or let {name} be an int8 result and do the rest in another program" if made else ""
    return NotPackedError(f"block {block!r} reads {name} as {load.dtype}; the ALU takes int32{way}", "type")


def _reduced(
    anchor: Site, matches: dict[str, tuple[BufferLoad, BufferLoad]], by_output: dict[Buffer, Site], sources: set[Buffer],
    lanes: int, anchor_vars: list[Var],
) -> list[Operand]:
    """What a reduction of the ALU reads, step by step: int32 tensors, and the factors of what is widened for it."""
    found: list[Operand] = []
    where = f"block {anchor.block.name!r}"
    for load in dict.fromkeys(loads_of(anchor)):  # what it takes in twice is loaded once
        wide = by_output.get(load.buffer)
        if load.buffer in sources:
            if load.dtype != "int32":
                way = "" if wide is None else ": let another program do this with what this one makes"
                raise NotPackedError(f"{where} reads {load.buffer.name} as {load.dtype}, which nothing widens as it lies; the "
                                     f"ALU takes int32{way}", "type")
            dims = dims_of(load, lanes, anchor_vars, where)
            found.append(Operand(load.buffer.name, ACC, anchor.block.name, _read_index(anchor.block, load.buffer), None, dims,
                                 tuple(size for _, size in dims), twin=any(o.name == load.buffer.name for o in found)))
        elif wide is not None and wide.block.name in matches:
            for factor, scope in zip(matches[wide.block.name], (INP, WGT)):
                made = _factor(wide, moved(factor, wide, load), scope, anchor_vars, found, matches, by_output, sources, lanes)
                _join(found, made, anchor, anchor_vars)
    return found


def _added(
    site: Site, given: Sequence[BufferLoad], reader: Site, loads: Sequence[BufferLoad], out: Site, lanes: int, axes: int,
    before: Sequence[Operand],
) -> list[Operand]:
    """The parameters that a halo's sum begins with, or that its stages read, of int32.

    All elements that a stage reads of the halo have them in common, or read on along dimensions that no axis of the nest moves.

    Raises:
        SpaceError: these do not, or it is none of int32.
    """
    found: list[Operand] = []
    own = spatial_vars(reader, out, lanes, axes)
    for load in dict.fromkeys(given):
        where = f"block {site.block.name!r}"
        here = [moved(load, site, x) for x in loads]
        every = {dims_of(x, lanes, own, where) for x in here}
        dims, starts = every.pop(), [first_of(x, lanes, own) for x in here]
        if load.dtype != "int32" or every or any(any(c) for (c, _), at in zip(dims, zip(*starts)) if len({*at}) > 1):
            raise SpaceError(f"{where} reads {load.buffer.name}, which is no int32 parameter that is the same "
                             f"for all elements that block {reader.block.name!r} reads", "index")
        again = any(o.name == load.buffer.name for o in (*before, *found))
        first, within = _reached(starts)
        found.append(Operand(load.buffer.name, ACC, site.block.name, _read_index(site.block, load.buffer), None, dims,
                             tuple(size for _, size in dims), twin=again, within=within, first=first))
    return found


def moved(factor: BufferLoad, site: Site, load: BufferLoad) -> BufferLoad:
    """What a block reads for the element that another block reads of what it makes."""
    at = {v: index for v, index in zip(site.store.indices, load.indices) if isinstance(v, Var)}
    return BufferLoad(factor.buffer, tuple([substitute(i, at) for i in factor.indices]), factor.dtype)


def spatial_vars(site: Site, out: Site, lanes: int, axes: int) -> list[Var]:
    """A stage's variables of the axes, which it has in the same order as the output; fresh ones for what it does not have.

    Args:
        site: the stage.
        out: the block that stores.
        lanes: dimensions of an element.
        axes: how many axes there are, those of a reduction included.
    """
    # A dimension of one element has no axis, whatever a stage calls its only index.
    shape = out.store.buffer.shape
    moved = [d for d, i in enumerate(out.store.indices[:-lanes]) if int_value(i) != 0 or int_value(shape[d]) != 1]
    own = [v if isinstance(v := site.store.indices[d], Var) else Var(f"fixed{d}") for d in moved]
    return [*own, *[Var(f"none{n}") for n in range(axes - len(own))]]


def _factor(
    site: Site, load: BufferLoad, scope: str, axis_vars: list[Var], before: list[Operand],
    matches: dict[str, tuple[BufferLoad, BufferLoad]], by_output: dict[Buffer, Site], sources: set[Buffer], lanes: int,
) -> Operand:
    """An operand of a matrix product."""
    name = site.block.name
    dims = dims_of(load, lanes, axis_vars, f"block {name!r}")
    within = _within(site, load, axis_vars, lanes)
    producer = None if load.buffer in sources else by_output.get(load.buffer)
    if producer is None and load.buffer not in sources:
        raise SpaceError(f"operand {load.buffer.name} of block {name!r} is never written", "operand")
    if producer is not None and not is_copy(producer, matches):
        raise SpaceError(
            f"operand {load.buffer.name} is computed by block {producer.block.name!r}; only copies and zero padding "
            "can feed the GEMM", "operand"
        )
    # Index 0 of a dimension's axes may be further in.
    first = first_of(load, lanes, [*axis_vars, *(iv.var for iv in site.block.iter_vars)])
    if producer is None:
        return Operand(load.buffer.name, scope, name, _read_index(site.block, load.buffer), None, dims,
                       tuple(size for _, size in dims), twin=any(o.name == load.buffer.name for o in before), within=within,
                       first=first)
    tensor = next(e.buffer for e in walk_expr(producer.store.value) if isinstance(e, BufferLoad))
    if tensor not in sources:
        raise SpaceError(f"operand {load.buffer.name} of block {name!r} is a copy of {tensor.name}, which is one itself, and a "
                         f"load copies what is stored: read what {tensor.name} is a copy of", "operand")
    source = tuple(int_value(x) or 0 for x in tensor.shape[:-lanes])
    if len(source) != len(dims):
        source = tuple(size for _, size in dims)  # a copy in another shape: its own dimensions are what is known
    inside = tuple(row[at:] for row, at in zip(_inside(producer, lanes), first))
    repeats = repeats_of(producer.block)
    times = tuple(repeats.get(d, 1) for d in range(len(dims))) if repeats else ()
    return Operand(tensor.name, scope, name, -1, producer.block.name, dims, source, inside,
                   any(o.name == tensor.name for o in before), within, first=first, times=times)


def _join(
    operands: list[Operand], new: Operand, site: Site, axis_vars: list[Var], sums: Mapping[int, int] = MappingProxyType({})
) -> None:
    """Adds an operand, or lets an earlier load of the same tensor serve its reader as well.

    That is where both move with the same axes, none of them a reduction's, and most of what one reads the other reads too: one
    load then brings the box around both. Of reductions with so many ``sums`` it brings what all steps read.
    """
    extents = {iv.var: int_value(iv.dom.extent) or 1 for iv in site.block.iter_vars}
    reduced = {iv.var for iv in site.block.iter_vars if iv.kind == "reduce"}
    steps = [(extents.get(v, 1), v in reduced) for v in axis_vars]
    # What already serves the reader serves it once more: it has one load of a tensor where it can.
    for k, known in sorted(enumerate(operands), key=lambda own: new.consumer not in own[1].readers):
        old = _over(known, sums)
        if (old.name, old.scope, old.producer, old.dims, old.source) != (new.name, new.scope, new.producer, new.dims, new.source):
            continue
        if not any(any(c) for c, _ in new.dims):
            operands[k] = replace(old, also=tuple(dict.fromkeys((*old.also, new.consumer))))
            return
        if any(c and sums for coeffs, _ in new.dims for c, (_, sums) in zip(coeffs, steps)):
            continue
        both = _around(old, new)
        size = [_size(o, [extent for extent, _ in steps]) for o in (old, new, both)]
        # What a block reads at several places of a halo it has one load for.
        if 2 * size[2] <= 3 * max(size[:2]) or old.producer is not None or new.consumer in old.readers:
            operands[k] = both
            return
    operands.append(new)


def _over(operand: Operand, sums: Mapping[int, int]) -> Operand:
    """An operand as loads bring it that stand outside of some reductions: with what all steps of these read.

    Args:
        operand: it; nothing but axes moves what is read of it.
        sums: by axis, how many steps a reduction has.
    """
    own = [a for a in sums if operand.uses(a)]
    if not own:
        return operand
    within = []
    for coeffs, _ in operand.dims:
        reached = {0}
        for a in own:
            reached = {at + coeffs[a] * step for at in reached for step in range(sums[a])}
        within.append(tuple(sorted(reached)))
    dims = tuple((tuple(0 if a in own else c for a, c in enumerate(coeffs)), size) for coeffs, size in operand.dims)
    return replace(operand, dims=dims, within=tuple(within), over=tuple(own))


def _around(old: Operand, new: Operand) -> Operand:
    """The operand that brings what two of one tensor bring."""
    first = tuple(min(pair) for pair in zip(old.first, new.first))
    within = []
    for d, low in enumerate(first):
        reached = {o.first[d] - low + at for o in (old, new) for at in (o.within[d] if o.within else (0,))}
        within.append(tuple(sorted(reached)))
    inside = old.inside if old.first == first else new.inside if new.first == first else ()
    if old.inside and not inside:
        inside = tuple(min(rows, key=lambda pair: pair[0])[1] for rows in
                       (((old.first[d], old.inside[d]), (new.first[d], new.inside[d])) for d in range(len(first))))
    also = tuple(name for name in dict.fromkeys((*old.also, *new.readers)) if name != old.consumer)
    return replace(old, first=first, within=tuple(within), inside=inside, also=also)


def _size(operand: Operand, extents: list[int]) -> int:
    """Elements of the box that an operand reads."""
    total = 1
    for d, (coeffs, _) in enumerate(operand.dims):
        total *= sum((extent - 1) * c for extent, c in zip(extents, coeffs)) + 1 + operand.reach(d)
    return total


def _within(site: Site, load: BufferLoad, axis_vars: list[Var], lanes: int) -> tuple[tuple[int, ...], ...]:
    """Per dimension, the indices that a sum's own iterators reach, which are no axes of the nest; () where there are none."""
    over = {iv.var: int_value(iv.dom.extent) or 1 for iv in site.block.iter_vars
            if iv.kind == "reduce" and iv.var not in axis_vars and iv.var is not load.indices[-1]
            and int_value(iv.dom.extent) != 1}
    if not over:
        return ()
    found = []
    for index in load.indices[:-lanes]:
        form = linear_form(index, list(over))
        reached = {0}
        for var, step in (form[0].items() if form is not None else ()):
            if not isinstance(step, int) or step < 0:
                raise SpaceError(f"block {site.block.name!r}: index {expr_text(index)} of {load.buffer.name} does not grow "
                                 f"with {var.name}", "index")
            reached = {at + step * k for at in reached for k in range(over[var])}
        found.append(tuple(sorted(reached)))
    return tuple(found)


def dims_of(load: BufferLoad, lanes: int, axes: list[Var], where: str) -> tuple[tuple[tuple[int, ...], int], ...]:
    """Per dimension of what is loaded, outside the element: the coefficient of every axis, and the size.

    Args:
        load: it.
        lanes: dimensions of an element.
        axes: a variable for each.
        where: the reader, for messages.

    Raises:
        SpaceError: an index that is not affine in the axes.
    """
    dims = []
    for index, size in zip(load.indices[:-lanes], load.buffer.shape[:-lanes]):
        form = linear_form(index, axes)
        coeffs = {} if form is None else {v: c for v, c in form[0].items() if isinstance(c, int) and c >= 0}
        if form is None or len(coeffs) < len(form[0]):
            falls = form is not None and all(isinstance(c, int) for c in form[0].values())
            more = "runs against the iterators; read it upwards, and store what is made of it downwards" if falls else (
                "is not affine in the iterators: let a block before store what is read, so that this one reads it at sums of its "
                "iterators")
            raise SpaceError(f"{where}: index {expr_text(index)} of {load.buffer.name} {more}", "index")
        extent = int_value(size)
        if extent is None:
            raise SpaceError(f"{where}: {load.buffer.name} has a symbolic extent; a space needs constants", "symbolic")
        dims.append((tuple(coeffs.get(v, 0) for v in axes), extent))
    return tuple(dims)


def first_of(load: BufferLoad, lanes: int, axes: list[Var]) -> tuple[int, ...]:
    """Per dimension of what is loaded, outside the element: the index that is read where all axes are 0.

    Args:
        load: it.
        lanes: dimensions of an element.
        axes: variables that move it.
    """
    return tuple(_constant(index, axes) for index in load.indices[:-lanes])


def _constant(index: Expr, axes: list[Var]) -> int:
    form = linear_form(index, axes)
    return (int_value(form[1]) or 0) if form is not None else 0


def _read_index(block: Block, buffer: Buffer) -> int:
    for n, region in enumerate(block.reads):
        if region.buffer is buffer:
            return n
    raise SpaceError(f"block {block.name!r} does not declare that it reads {buffer.name}", "form")


def _inside(producer: Site, lanes: int) -> tuple[tuple[bool, ...], ...]:
    """Per dimension of a copy, which indices are no padding; () where its condition does not say so dimension by dimension."""
    value = producer.store.value
    indices = producer.store.indices[:-lanes]
    table = [[True] * (int_value(size) or 0) for size in producer.store.buffer.shape[:-lanes]]
    if isinstance(value, BufferLoad):
        return tuple(tuple(row) for row in table)
    if not (isinstance(value, Call) and value.op == "if_then_else" and int_value(value.args[2]) == 0):
        return ()
    for condition in conjuncts(value.args[0]):
        used = [d for d, index in enumerate(indices) if index in free_vars(condition)]
        if len(used) != 1 or len(free_vars(condition)) != 1:
            return ()
        index = indices[used[0]]
        assert isinstance(index, Var)
        for i in range(len(table[used[0]])):
            holds = int_value(substitute(condition, {index: IntImm(i)}))
            if holds is None:
                return ()
            table[used[0]][i] &= bool(holds)
    return tuple(tuple(row) for row in table)


def moving(indices: tuple[Expr, ...]) -> list[Expr]:
    """The indices that are not constant."""
    return [i for i in indices if int_value(i) is None]
