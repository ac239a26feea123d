"""The blocks between a sum and what stores it: what each of them costs, and how it starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from autosched.ir.expr import BinOp, BufferLoad, Expr, int_value
from autosched.ir.functor import walk_expr
from autosched.ir.stmt import Buffer, BufferStore
from autosched.target import Target
from space.sites import Site, alu_ops, factor_of, heads_of, loads_of, starts_of


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
        sums: which of them the products are summed over, lanes aside.
        fresh: whether the products are a sum of their own, which a later stage joins with the chain.
        begins: the two tensors that its first operation is on, which writes where one of them was; else ().
        moves: (immediate, tensor) operations besides these that bring an operand to where it works, per element, resets among
            the former.
        extends: whether it reads int8 elements that a stage makes, whose sign it extends first.
    """

    block: str
    imm_ops: int
    tensor_ops: int
    products: int = 0
    iters: int = 0
    lanes: tuple[int, ...] = ()
    sums: tuple[int, ...] = ()
    fresh: bool = False
    begins: tuple[str, ...] = ()
    moves: tuple[int, int] = (0, 0)
    extends: bool = False

    @property
    def cycles(self) -> int:
        """What an element of it costs at least: bounds count that."""
        return self.imm_ops + 2 * self.tensor_ops + self.products

    @property
    def operations(self) -> int:
        """Instructions that make a tile of it, without moves."""
        return self.imm_ops + self.tensor_ops + self.products

    @property
    def taken(self) -> int:
        """Cycles of an element with its moves: estimates count that."""
        return self.cycles + self.moves[0] + 2 * self.moves[1]

    @property
    def instructions(self) -> int:
        """Instructions that make a tile of it, moves included."""
        return self.operations + sum(self.moves)


def stage_of(
    site: Site, pair: tuple[BufferLoad, BufferLoad] | None, by_output: dict[Buffer, Site], target: Target,
) -> Stage:
    """A block of the chain, with its factors where it sums products.

    Args:
        site: the block.
        pair: its factors, or None.
        by_output: the block that writes each buffer.
        target: the machine.
    """
    if pair is None:
        value = site.store.value
        extends = any(x.buffer in by_output and x.buffer.dtype == "int8" for x in loads_of(site))
        return Stage(site.block.name, *alu_ops(value), iters=len(site.block.iter_vars), begins=_begins(value),
                     moves=_moved(site, by_output, target), extends=extends)
    assert isinstance(site.block.init, BufferStore)
    lanes = lanes_of(site)
    over = [(n, int_value(iv.dom.extent) or 1) for n, iv in enumerate(site.block.iter_vars)
            if iv.kind == "reduce" and n not in lanes]
    fresh = not is_link(site, by_output)
    imm, tensor = alu_ops(site.block.init.value)
    # What starts anew costs a reset or a move, a cycle as an operation with an immediate.
    imm = max(imm, 1) if fresh else imm
    anew = fresh and all(x.buffer is not site.store.buffer for x in starts_of(site))  # else in the place of what it reads
    more = start_of(site.block.init.value, target) if anew else (imm, tensor)
    return Stage(site.block.name, imm, tensor, prod(e for _, e in over), len(site.block.iter_vars), lanes,
                 tuple(n for n, _ in over), fresh, moves=(more[0] - imm, more[1] - tensor))


def start_of(value: Expr, target: Target) -> tuple[int, int]:
    """(immediate, tensor) operations that write what a sum starts with, per element, a reset among the former.

    Args:
        value: what it starts with.
        target: the machine.
    """
    constant, (imm, tensor) = int_value(value), alu_ops(value)
    if constant is not None:  # made in one element, and moved to the others where an operation does that
        return (1 if constant == 0 or target.semantics == "chisel" else 2), 0
    if target.semantics == "chisel":
        # The first immediate operation reads its operand where it lies, and so copies it.
        return max(imm, 1), tensor
    return imm + 1, tensor + 1


def _begins(value: Expr) -> tuple[str, ...]:
    """The two tensors that the innermost operation of a chain is on; () where it is on one."""
    for e in walk_expr(value):
        if isinstance(e, BinOp) and isinstance(e.a, BufferLoad) and isinstance(e.b, BufferLoad):
            return e.a.buffer.name, e.b.buffer.name
    return ()


def _moved(site: Site, by_output: dict[Buffer, Site], target: Target) -> tuple[int, int]:
    """(immediate, tensor) operations that move what chains of operations of a stage begin with, where that stays.

    What a stage reads at several places does. Under ``chisel`` an operation with a constant moves it to where the chain works,
    and is none more where the chain begins with one; what other blocks make is counted elsewhere (``moved_first``). On other
    machines each chain has a place of its own, which is reset, and what it begins with is added to it (``steps_of`` of lowering).
    """
    at, loads = site.store.indices, loads_of(site)
    stays = {x.buffer for x in loads if x.indices != at}
    several = {x.buffer for x in loads if any(y.buffer is x.buffer and y.indices != x.indices for y in loads)}
    given = several - {*by_output}
    begun = [heads for heads in heads_of(site.store.value) if all(x.buffer in stays for x in heads)]
    if target.semantics == "chisel":
        first = {*_begins(site.store.value)}
        return sum(all(x.buffer in given and x.buffer.name in first for x in heads) for heads in begun), 0
    moved = sum(any(x.buffer in by_output or x.buffer in given for x in heads) for heads in begun)
    return moved, moved


def moved_first(stage: Stage, target: Target) -> Stage:
    """A stage that first moves what it reads: under ``chisel`` an immediate operation does, elsewhere one with a tensor.

    Args:
        stage: without that.
        target: the machine.
    """
    if target.semantics == "chisel":
        return replace(stage, imm_ops=stage.imm_ops + 1)
    resets, additions = stage.moves
    return replace(stage, tensor_ops=stage.tensor_ops + 1, moves=(resets, max(additions - 1, 0)))


def is_link(site: Site, by_output: dict[Buffer, Site]) -> bool:
    """Whether a sum of products goes on from what other blocks of the chain make, and does not bring in parameters alone.

    Args:
        site: the block.
        by_output: the block that writes each buffer.
    """
    starts = starts_of(site)
    # What a maximum brings in is a value of its own, made on the side.
    raised = any(x.buffer is site.store.buffer for x in starts)
    return not raised and any(x.buffer in by_output and x.indices == site.store.indices for x in starts)


def is_wide(site: Site, pair: tuple[BufferLoad, BufferLoad]) -> bool:
    """Whether a sum of products has one product for each element, and starts with a constant.

    Args:
        site: the block.
        pair: its factors.
    """
    lane = pair[0].indices[-1]
    more = any(iv.kind == "reduce" and iv.var is not lane and int_value(iv.dom.extent) != 1 for iv in site.block.iter_vars)
    return not more and isinstance(site.block.init, BufferStore) and int_value(site.block.init.value) is not None


def lanes_of(site: Site) -> tuple[int, ...]:
    """Which iterators of a sum of products are the intrinsic's.

    Args:
        site: the block.
    """
    lanes = {*site.store.indices[-2:], factor_of(site).indices[-1]}
    return tuple(n for n, iv in enumerate(site.block.iter_vars) if iv.var in lanes)
