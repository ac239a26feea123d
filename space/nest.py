"""What the rules need to know about a program: its axes, its operands and the chain of blocks that makes its output.

The analysis is structural. A program is a sequence of nests, one for every tensor that is stored: a block that matches the
target's GEMM intrinsic, or none, and a chain of element-wise stages that ends in the store.
"""

from __future__ import annotations

from dataclasses import dataclass

from autosched.errors import ProgramError
from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Select, Var, int_value
from autosched.ir.functor import expr_children, free_vars, substitute, walk, walk_expr
from autosched.ir.printer import expr_text
from autosched.ir.simplify import conjuncts, linear_form
from autosched.ir.stmt import Block, BlockRealize, Buffer, BufferStore, For, PrimFunc, Stmt
from autosched.target import Target

INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"
SCOPES = (INP, WGT, ACC)


@dataclass(frozen=True)
class Axis:
    """A loop of the program that a schedule may tile; lanes of the intrinsic are not axes.

    Args:
        name: name of the iterator.
        extent: iterations.
        reduce: whether it is reduced over.
        anchor_index: position among the anchor block's iterators (-1: the program has no reduction).
        out_index: position among the output block's loops (-1 for a reduction axis).
    """

    name: str
    extent: int
    reduce: bool
    anchor_index: int
    out_index: int


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
    """

    name: str
    scope: str
    consumer: str
    read_index: int
    producer: str | None
    dims: tuple[tuple[tuple[int, ...], int], ...]
    source: tuple[int, ...]
    inside: tuple[tuple[bool, ...], ...] = ()
    twin: bool = False  # whether another operand before it is the same tensor

    @property
    def label(self) -> str:
        """What columns and words call it: the tensor, and the reader where the tensor is read at several places."""
        return f"{self.name}_{self.consumer}" if self.twin else self.name

    def uses(self, axis: int) -> bool:
        """Whether the region it needs moves with an axis."""
        return any(coeffs[axis] for coeffs, _ in self.dims)


@dataclass(frozen=True)
class Stage:
    """A block of the chain between the accumulator and the output.

    Args:
        block: its name.
        imm_ops: ALU operations with an immediate, per element.
        tensor_ops: ALU operations between two tensors, per element.
        products: matrix products added to each element; such a stage starts with what the ALU makes.
        iters: iterators of the block.
        lanes: which of them are the intrinsic's.
    """

    block: str
    imm_ops: int
    tensor_ops: int
    products: int = 0
    iters: int = 0
    lanes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Nest:
    """A program as the rules see it.

    Args:
        func: the program.
        anchor: name of the block that the intrinsic computes, or None for an ALU-only program.
        axes: spatial axes in output order, then reduction axes in the anchor's order.
        anchor_iters: number of iterators of the anchor.
        operands: what has to be loaded; inp and wgt of the anchor first.
        stages: the chain from the anchor (not included) to the block before the output.
        out: name of the block that stores the output.
        out_loops: number of loops of the output block.
        init_ops: (immediate, tensor) ALU operations of the reduction's initial value, per element; (0, 0) where it is zero.
        init_cycles: cycles of the initial value of an element: one for a zero or for an immediate operation on a tensor.
        sides: blocks that make what the initial value reads, once for each distinct element.
        between: whether another nest reads what this one stores.
    """

    func: PrimFunc
    anchor: str | None
    axes: tuple[Axis, ...]
    anchor_iters: int
    operands: tuple[Operand, ...]
    stages: tuple[Stage, ...]
    out: str
    out_loops: int
    init_ops: tuple[int, int] = (0, 0)
    init_cycles: int = 1
    sides: tuple[str, ...] = ()
    between: bool = False

    @property
    def links(self) -> tuple[str, ...]:
        """Stages that add products to the chain."""
        return tuple(s.block for s in self.stages if s.products)

    @property
    def spatial(self) -> tuple[int, ...]:
        """Indices of the spatial axes."""
        return tuple(i for i, a in enumerate(self.axes) if not a.reduce)

    @property
    def reduce(self) -> tuple[int, ...]:
        """Indices of the reduction axes."""
        return tuple(i for i, a in enumerate(self.axes) if a.reduce)


@dataclass(frozen=True)
class _Site:
    block: Block
    realize: BlockRealize
    loops: tuple[For, ...]

    @property
    def store(self) -> BufferStore:
        assert isinstance(self.block.body, BufferStore)
        return self.block.body


def _sites(func: PrimFunc) -> list[_Site]:
    found: list[_Site] = []

    def visit(stmt: Stmt, loops: tuple[For, ...]) -> None:
        from autosched.ir.functor import stmt_children

        if isinstance(stmt, BlockRealize) and stmt.block.name != "root":
            if any(isinstance(s, BlockRealize) for s in walk(stmt.block.body)):
                raise ProgramError(f"block {stmt.block.name!r} contains blocks; a space starts from an unscheduled program")
            if not isinstance(stmt.block.body, BufferStore):
                raise ProgramError(f"block {stmt.block.name!r} is not a single store; a space cannot tile it")
            found.append(_Site(stmt.block, stmt, loops))
            return
        for child in stmt_children(stmt):
            visit(child, (*loops, stmt) if isinstance(stmt, For) else loops)

    visit(func.body, ())
    return found


def match_gemm(block: Block, target: Target) -> tuple[BufferLoad, BufferLoad] | None:
    """The (inp, wgt) operands where ``block`` is the target's GEMM on its innermost lanes, else None.

    The form is ``C[.., i, j] += cast(A[.., i, k]) * cast(B[.., j, k])`` with i, j, k of the intrinsic's extents.
    """
    body = block.body
    if block.init is None or not isinstance(body, BufferStore) or len(body.indices) < 2:
        return None
    value = body.value
    if not (isinstance(value, BinOp) and value.op == "+"):
        return None
    own, product = value.a, value.b
    if not (isinstance(own, BufferLoad) and own.buffer is body.buffer and own.indices == body.indices):
        own, product = product, own
    if not (isinstance(own, BufferLoad) and own.buffer is body.buffer and own.indices == body.indices):
        return None
    if not (isinstance(product, BinOp) and product.op == "*"):
        return None
    loads = [x.value if isinstance(x, Cast) else x for x in (product.a, product.b)]
    extents = {iv.var: int_value(iv.dom.extent) for iv in block.iter_vars}
    kinds = {iv.var: iv.kind for iv in block.iter_vars}
    i, j = body.indices[-2:]
    config = target.config
    for inp, wgt in (loads, loads[::-1]):
        if not (isinstance(inp, BufferLoad) and isinstance(wgt, BufferLoad)):
            return None
        k = inp.indices[-1]
        if not (isinstance(j, Var) and isinstance(k, Var) and kinds.get(k) == "reduce"):
            continue
        # A row that is the only one may be written as index 0.
        rows = extents.get(i) if isinstance(i, Var) else 1 if int_value(i) == 0 else None
        lanes = (rows, extents.get(j), extents.get(k))
        if lanes != (config.batch, config.block_out, config.block_in):
            continue
        if inp.indices[-2:] == (i, k) and wgt.indices[-2:] == (j, k) and inp.dtype == wgt.dtype == "int8":
            return inp, wgt
    return None


def _alu_ops(value: Expr) -> tuple[int, int]:
    """(immediate, tensor) ALU operations that an element of an expression costs at least.

    Not counted is what no instruction is needed for: arithmetic of indices, operations on constants alone, and those that
    change nothing (a shift by 0, an addition of 0, a product with 1).
    """
    imm = tensor = 0

    def visit(node: Expr) -> bool:
        """Counts what is below; whether the node depends on a tensor."""
        nonlocal imm, tensor
        if isinstance(node, BufferLoad):
            return True
        parts = expr_children(node)
        loaded = [visit(x) for x in parts]
        if isinstance(node, BinOp) or (isinstance(node, Call) and node.op in ("shift_right", "shift_left")):
            op = node.op
            constants = [int_value(x) for x in parts]
            neutral = 1 if op in ("*", "//") else 0
            if all(loaded):
                tensor += 1
            elif any(loaded) and not (neutral in constants and op not in ("min", "max")):
                imm += 1
        return any(loaded)

    visit(value)
    return imm, tensor


def _dims(load: BufferLoad, lanes: int, axes: list[Var], where: str) -> tuple[tuple[tuple[int, ...], int], ...]:
    dims = []
    for index, size in zip(load.indices[:-lanes], load.buffer.shape[:-lanes]):
        form = linear_form(index, axes)
        coeffs = {} if form is None else {v: c for v, c in form[0].items() if isinstance(c, int) and c >= 0}
        if form is None or len(coeffs) < len(form[0]):
            raise ProgramError(f"{where}: index {expr_text(index)} of {load.buffer.name} is not affine in the block's iterators")
        extent = int_value(size)
        if extent is None:
            raise ProgramError(f"{where}: {load.buffer.name} has a symbolic extent; a space needs constants")
        dims.append((tuple(coeffs.get(v, 0) for v in axes), extent))
    return tuple(dims)


def _constant(index: Expr, axes: list[Var]) -> int:
    form = linear_form(index, axes)
    return (int_value(form[1]) or 0) if form is not None else 0


def analyse(func: PrimFunc, target: Target) -> tuple[Nest, ...]:
    """The nests of an unscheduled program, in program order: one for every tensor that goes to DRAM.

    That is every result, and every tensor that one nest makes and the GEMM of another reads.

    Args:
        func: the program, with constant extents.
        target: the machine whose intrinsic has to match.

    Raises:
        ProgramError: the program is outside what a space can tile; the message says why.
    """
    _check_tensors(func)
    sites = _sites(func)
    params = {*func.buffers, *(c.buffer for c in func.constants)}
    matches = {s.block.name: m for s in sites if (m := match_gemm(s.block, target)) is not None}
    by_output = {s.store.buffer: s for s in sites}
    for site in sites:
        _check_site(site, target, matches, by_output)
    outs = _outputs(sites, matches, by_output, params)
    sources = params | {s.store.buffer for s in outs}
    taken: dict[str, str] = {}
    nests = []
    for out in outs:
        chain = _chain(out, matches, by_output, sources)
        nests.append(_nest(func, target, chain, matches, by_output, sources))
        for name in _blocks_of(nests[-1]):
            if name in taken:
                raise ProgramError(f"block {name!r} feeds both {taken[name]} and {out.store.buffer.name}; one of them needs a "
                                   "block of its own that computes it again")
            taken[name] = out.store.buffer.name
    for name in matches:
        if name not in taken:
            raise ProgramError(f"block {name!r} does not feed the output {outs[-1].block.name!r}")
    return tuple(nests)


def shared(func: PrimFunc, target: Target) -> str | None:
    """The last block that feeds several of the tensors that go to DRAM, or None.

    Args:
        func: a program as for ``analyse``.
        target: the machine.

    Raises:
        ProgramError: as for ``analyse``.
    """
    sites = _sites(func)
    params = {*func.buffers, *(c.buffer for c in func.constants)}
    matches = {s.block.name: m for s in sites if (m := match_gemm(s.block, target)) is not None}
    by_output = {s.store.buffer: s for s in sites}
    outs = _outputs(sites, matches, by_output, params)
    sources = params | {s.store.buffer for s in outs}
    fed: dict[str, set[str]] = {s.block.name: set() for s in sites}
    for out in outs:
        ahead = [out]
        while ahead:
            site = ahead.pop()
            fed[site.block.name].add(out.block.name)
            loads = [*_loads(site), *_starts(site)]
            ahead += [by_output[x.buffer] for x in loads if x.buffer in by_output and x.buffer not in sources
                      and out.block.name not in fed[by_output[x.buffer].block.name]]
    return next((s.block.name for s in reversed(sites) if len(fed[s.block.name]) > 1), None)


def _blocks_of(nest: Nest) -> tuple[str, ...]:
    """Names of the blocks that a nest moves."""
    pads = [o.producer for o in nest.operands if o.producer is not None]
    return (*([nest.anchor] if nest.anchor else []), *(s.block for s in nest.stages), *nest.sides, *pads)


def _check_tensors(func: PrimFunc) -> None:
    """Refuses extents that are not constant."""
    for buffer in func.buffers:
        for size in buffer.shape:
            if int_value(size) is None:
                raise ProgramError(f"{buffer.name} has the symbolic extent {expr_text(size)}; a space needs constants")


def _check_site(
    site: _Site, target: Target, matches: dict[str, tuple[BufferLoad, BufferLoad]], by_output: dict[Buffer, _Site]
) -> None:
    """Refuses what no nest can hold."""
    name, store = site.block.name, site.store
    if site.block.init is not None:
        if name not in matches:
            c = target.config
            raise ProgramError(f"block {name!r} is a reduction that {target.name}'s {c.batch}x{c.block_in}x{c.block_out} GEMM "
                               "does not match")
        return
    if any(isinstance(e, BufferLoad) and e.buffer is store.buffer for e in walk_expr(store.value)):
        raise ProgramError(f"block {name!r} reads {store.buffer.name}, which it writes: each of its elements would wait for "
                           "others of the same block")


def _outputs(
    sites: list[_Site], matches: dict[str, tuple[BufferLoad, BufferLoad]], by_output: dict[Buffer, _Site], params: set[Buffer]
) -> list[_Site]:
    """The blocks that store what goes to DRAM, in program order."""
    between = set()
    for pair in matches.values():
        for load in pair:
            site = by_output.get(load.buffer)
            while site is not None and _is_copy(site, matches):
                read = _loads(site)
                site = by_output.get(read[0].buffer) if read else None
            if site is not None:
                between.add(site.store.buffer)
    outs = [s for s in sites if s.store.buffer in params or s.store.buffer in between]
    if not any(s.store.buffer in params for s in outs):
        raise ProgramError("the program writes none of its parameters")
    for site in outs:
        buffer = site.store.buffer
        if buffer.dtype != "int8":
            to = "is a result" if buffer in params else "feeds a matrix product"
            raise ProgramError(f"{buffer.name} {to} and {buffer.dtype}; the machine stores int8 only: cast what block "
                               f"{site.block.name!r} writes")
    return outs


def _chain(
    out: _Site, matches: dict[str, tuple[BufferLoad, BufferLoad]], by_output: dict[Buffer, _Site], sources: set[Buffer]
) -> list[_Site]:
    """The blocks from the sum, or from the first stage, to the one that stores."""
    chain = [out]
    while True:
        first = chain[0]
        link = first.block.name in matches and _is_link(first, matches[first.block.name], by_output)
        inner = [x for x in (_starts(first) if link else _loads(first)) if x.buffer in by_output and x.buffer not in sources
                 and not _is_copy(by_output[x.buffer], matches)]
        if (first.block.name in matches and not link) or not inner:
            return chain
        made = {x.buffer for x in inner}
        if len(made) > 1:
            names = " and ".join(sorted(by_output[b].block.name for b in made))
            raise ProgramError(f"block {first.block.name!r} joins {names}; a space needs one chain")
        chain.insert(0, by_output[next(iter(made))])


def _nest(
    func: PrimFunc, target: Target, chain: list[_Site], matches: dict[str, tuple[BufferLoad, BufferLoad]],
    by_output: dict[Buffer, _Site], sources: set[Buffer],
) -> Nest:
    """The nest of one chain; what other nests store is as good as a parameter to it."""
    out = chain[-1]
    anchor = chain[0] if chain[0].block.name in matches else None
    lanes = 2
    _check_elementwise(chain, anchor, lanes)
    axes, anchor_vars = _axes(out, anchor, lanes)
    operands = _operands(chain, anchor, matches, by_output, sources, lanes, anchor_vars)
    stages = tuple(_stage(s, s.block.name in matches) for s in chain if s is not anchor and s is not out)
    stored = out.store.value.value if isinstance(out.store.value, Cast) else out.store.value
    if not isinstance(stored, BufferLoad) or out is chain[0]:
        raise ProgramError(
            f"output block {out.block.name!r} must only narrow an int32 stage to {out.store.buffer.dtype}, "
            f"got {expr_text(out.store.value)}"
        )
    sides = _sides(anchor, by_output, sources) if anchor else {}
    init_ops, init_cycles = _initial(anchor, target, bool(sides)) if anchor else ((0, 0), 0)
    between = out.store.buffer not in set(func.buffers)
    return Nest(func, anchor.block.name if anchor else None, axes, len(anchor.block.iter_vars) if anchor else 0,
                operands, stages, out.block.name, len(out.loops), init_ops, init_cycles,
                tuple(s.block.name for s in sides.values()), between)


def _is_link(site: _Site, pair: tuple[BufferLoad, BufferLoad], by_output: dict[Buffer, _Site]) -> bool:
    """Whether a sum of products goes on from what other blocks make, and adds one product to each element."""
    lane = pair[0].indices[-1]
    more = any(iv.kind == "reduce" and iv.var is not lane and int_value(iv.dom.extent) != 1 for iv in site.block.iter_vars)
    starts = _starts(site)
    # What a maximum brings in is a value of its own, made on the side.
    raised = any(x.buffer is site.store.buffer for x in starts)
    return not more and not raised and any(x.buffer in by_output and x.indices == site.store.indices for x in starts)


def _starts(site: _Site) -> list[BufferLoad]:
    """What the initial value of a sum loads."""
    if not isinstance(site.block.init, BufferStore):
        return []
    return [e for e in walk_expr(site.block.init.value) if isinstance(e, BufferLoad)]


def _stage(site: _Site, link: bool) -> Stage:
    """A block of the chain."""
    if not link:
        return Stage(site.block.name, *_alu_ops(site.store.value), iters=len(site.block.iter_vars))
    assert isinstance(site.block.init, BufferStore)
    lanes = {*site.store.indices[-2:], _loads_of_gemm(site).indices[-1]}
    at = tuple(n for n, iv in enumerate(site.block.iter_vars) if iv.var in lanes)
    return Stage(site.block.name, *_alu_ops(site.block.init.value), 1, len(site.block.iter_vars), at)


def _moving(indices: tuple[Expr, ...]) -> list[Expr]:
    return [i for i in indices if int_value(i) is None]


def _sides(anchor: _Site, by_output: dict[Buffer, _Site], sources: set[Buffer]) -> dict[Buffer, _Site]:
    """By buffer, the blocks that make what the sum starts with, element by element from parameters."""
    assert isinstance(anchor.block.init, BufferStore)
    found = {}
    for e in walk_expr(anchor.block.init.value):
        site = by_output.get(e.buffer) if isinstance(e, BufferLoad) else None
        if site is None or site is anchor:
            continue
        store = site.store
        if any(x.buffer not in sources or _moving(x.indices) != _moving(store.indices) for x in _loads(site)):
            raise ProgramError(f"block {site.block.name!r} makes what {anchor.block.name!r} starts with, and not element by "
                               "element from parameters")
        found[store.buffer] = site
    return found


def _initial(anchor: _Site, target: Target, made: bool) -> tuple[tuple[int, int], int]:
    """What the reduction's initial value costs: (immediate and tensor operations, cycles), per element.

    Args:
        anchor: the reduction.
        target: the machine.
        made: whether a block makes the value, which is then above all that stood in the accumulator: one MAX brings it in.
    """
    assert isinstance(anchor.block.init, BufferStore)
    value = anchor.block.init.value
    if int_value(value) is not None:
        return (0, 0), 1
    imm, tensor = _alu_ops(value)
    if target.semantics == "chisel":
        # The first immediate operation reads its operand where it lies, and so copies it.
        return (imm, tensor), max(imm, 1) + 2 * tensor
    return (imm, tensor), 2 if made else 3 + imm + 2 * tensor


def _loads(site: _Site) -> list[BufferLoad]:
    return [e for e in walk_expr(site.store.value) if isinstance(e, BufferLoad) and e.buffer is not site.store.buffer]


def _is_copy(site: _Site, matches: dict[str, tuple[BufferLoad, BufferLoad]]) -> bool:
    """Whether a block only moves (and pads with zeros) a DRAM tensor into the operand of the GEMM."""
    operands = {x.buffer for pair in matches.values() for x in pair}
    if site.store.buffer not in operands:
        return False
    value = site.store.value
    if isinstance(value, Call) and value.op == "if_then_else":
        value = value.args[1]
    elif isinstance(value, Select):
        value = value.true_value
    return isinstance(value, BufferLoad)


def _check_elementwise(chain: list[_Site], anchor: _Site | None, lanes: int) -> None:
    for site in chain:
        store = site.store
        if not all(isinstance(i, Var) or int_value(i) == 0 for i in store.indices) or len(store.indices) <= lanes:
            raise ProgramError(f"block {site.block.name!r} does not store one element per iteration in order")
        if site is anchor:
            continue
        for load in _loads(site):
            if load.buffer in {s.store.buffer for s in chain} and load.indices != store.indices:
                raise ProgramError(f"block {site.block.name!r} reads {load.buffer.name} at another place than it writes")
    shapes = {tuple(int_value(e) for e in s.store.buffer.shape) for s in chain}
    if len(shapes) > 1:
        raise ProgramError("the blocks of the output chain have different shapes")


def _axes(out: _Site, anchor: _Site | None, lanes: int) -> tuple[tuple[Axis, ...], list[Var]]:
    loop_of = {loop.var: n for n, loop in enumerate(out.loops)}
    bound = {iv.var: v for iv, v in zip(out.block.iter_vars, out.realize.iter_values)}
    axes: list[Axis] = []
    anchor_vars: list[Var] = []
    for dim, index in enumerate(out.store.indices[:-lanes]):
        if int_value(index) == 0 and int_value(out.store.buffer.shape[dim]) == 1:
            continue  # a dimension of one element needs no loop
        value = bound.get(index) if isinstance(index, Var) else None
        if not isinstance(value, Var) or value not in loop_of:
            raise ProgramError(f"dimension {dim} of {out.store.buffer.name} is not one loop of block {out.block.name!r}")
        extent = int_value(out.loops[loop_of[value]].extent)
        if extent is None:
            raise ProgramError(f"loop {value.name} of block {out.block.name!r} has a symbolic extent; a space needs constants")
        position = -1
        var = index
        if anchor is not None:
            var = anchor.store.indices[dim]
            own = {iv.var: n for n, iv in enumerate(anchor.block.iter_vars)}
            if not isinstance(var, Var) or var not in own:
                raise ProgramError(f"dimension {dim} of block {anchor.block.name!r} is not one of its iterators")
            position = own[var]
        assert isinstance(var, Var)
        axes.append(Axis(var.name.removeprefix("v_"), extent, False, position, loop_of[value]))
        anchor_vars.append(var)
    if anchor is not None:
        lane = _loads_of_gemm(anchor).indices[-1]
        for n, iv in enumerate(anchor.block.iter_vars):
            if iv.kind == "reduce" and iv.var is not lane:
                extent = int_value(iv.dom.extent)
                if extent is None:
                    raise ProgramError(f"reduction {iv.var.name} has a symbolic extent; a space needs constants")
                axes.append(Axis(iv.var.name.removeprefix("v_"), extent, True, n, -1))
                anchor_vars.append(iv.var)
    return tuple(axes), anchor_vars


def _loads_of_gemm(anchor: _Site) -> BufferLoad:
    return next(e for e in walk_expr(anchor.store.value) if isinstance(e, BufferLoad) and e.dtype == "int8")


def _operands(
    chain: list[_Site], anchor: _Site | None, matches: dict[str, tuple[BufferLoad, BufferLoad]],
    by_output: dict[Buffer, _Site], sources: set[Buffer], lanes: int, anchor_vars: list[Var],
) -> tuple[Operand, ...]:
    operands: list[Operand] = []
    for site in chain:
        if site.block.name not in matches:
            continue
        own_vars = anchor_vars if site is anchor else _spatial_vars(site, lanes, len(anchor_vars))
        for load, scope in zip(matches[site.block.name], (INP, WGT)):
            operands += _factor(site, load, scope, own_vars, operands, matches, by_output, sources, lanes)
    for site in chain:
        own = [v for v in site.store.indices[:-lanes] if isinstance(v, Var)]
        loads = _starts(site) if site.block.name in matches else _loads(site)
        seen: set[Buffer] = set()
        for load in loads:
            side = by_output.get(load.buffer) if site is anchor else None
            if side is not None and side is not anchor and load.buffer not in seen:
                seen.add(load.buffer)
                dims = _dims(load, lanes, own, f"block {site.block.name!r}")
                pad = (0,) * (len(anchor_vars) - len(own))
                dims = tuple((coeffs + pad, size) for coeffs, size in dims)
                for x in _loads(side):
                    operands.append(Operand(x.buffer.name, ACC, side.block.name, _read_index(side.block, x.buffer), None, dims,
                                            tuple(size for _, size in dims)))
                continue
            if load.buffer in sources and load.buffer not in seen:
                seen.add(load.buffer)
                if load.dtype != "int32":
                    raise ProgramError(f"block {site.block.name!r} reads {load.buffer.name} as {load.dtype}; the ALU takes int32")
                dims = _dims(load, lanes, own, f"block {site.block.name!r}")
                pad = (0,) * (len(anchor_vars) - len(own))
                dims = tuple((coeffs + pad, size) for coeffs, size in dims)
                twin = any(o.name == load.buffer.name for o in operands)
                operands.append(Operand(load.buffer.name, ACC, site.block.name, _read_index(site.block, load.buffer), None, dims,
                                        tuple(size for _, size in dims), twin=twin))
    return tuple(operands)


def _spatial_vars(site: _Site, lanes: int, axes: int) -> list[Var]:
    """A stage's variables of the axes, which it has in the same order as the output; fresh ones for what it does not have."""
    own = [v for v in site.store.indices[:-lanes] if isinstance(v, Var)]
    return [*own, *[Var(f"none{n}") for n in range(axes - len(own))]]


def _factor(
    site: _Site, load: BufferLoad, scope: str, axis_vars: list[Var], before: list[Operand],
    matches: dict[str, tuple[BufferLoad, BufferLoad]], by_output: dict[Buffer, _Site], sources: set[Buffer], lanes: int,
) -> list[Operand]:
    """An operand of a matrix product; none where an earlier one of the same tensor, all of it, serves as well."""
    name = site.block.name
    dims = _dims(load, lanes, axis_vars, f"block {name!r}")
    producer = None if load.buffer in sources else by_output.get(load.buffer)
    if producer is None and load.buffer not in sources:
        raise ProgramError(f"operand {load.buffer.name} of block {name!r} is never written")
    if producer is not None and not _is_copy(producer, matches):
        raise ProgramError(
            f"operand {load.buffer.name} is computed by block {producer.block.name!r}; only copies and zero padding "
            "can feed the GEMM"
        )
    if producer is None:
        same = [o for o in before if o.name == load.buffer.name]
        if any(o.scope == scope and not any(any(c) for c, _ in (*o.dims, *dims)) for o in same):
            return []
        return [Operand(load.buffer.name, scope, name, _read_index(site.block, load.buffer), None, dims,
                        tuple(size for _, size in dims), twin=bool(same))]
    tensor = next(e.buffer for e in walk_expr(producer.store.value) if isinstance(e, BufferLoad))
    source = tuple(int_value(x) or 0 for x in tensor.shape[:-lanes])
    if len(source) != len(dims):
        source = tuple(size for _, size in dims)  # a copy in another shape: its own dimensions are what is known
    # Index 0 of a dimension's axes may be further in.
    first = [_constant(index, axis_vars) for index in load.indices[:-lanes]]
    inside = tuple(row[at:] for row, at in zip(_inside(producer, lanes), first))
    return [Operand(tensor.name, scope, name, -1, producer.block.name, dims, source, inside,
                    any(o.name == tensor.name for o in before))]


def _read_index(block: Block, buffer: Buffer) -> int:
    for n, region in enumerate(block.reads):
        if region.buffer is buffer:
            return n
    raise ProgramError(f"block {block.name!r} does not declare that it reads {buffer.name}")


def _inside(producer: _Site, lanes: int) -> tuple[tuple[bool, ...], ...]:
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
