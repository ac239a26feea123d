"""From a scheduled function to a VTA program: the passes in order."""

from __future__ import annotations

from math import prod

from autosched.errors import LoweringError, ProgramError
from autosched.ir.host import HostSplit, split_host
from autosched.ir.stmt import IRModule, PrimFunc
from autosched.lower import chain, dma, gemm, in_place, normalise, parts, starts, tokens, tree, uops
from autosched.lower.allocate import allocate
from autosched.lower.emit import Emitter, site_lanes
from autosched.lower.lowered import Lowered, StorageInfo
from autosched.lower.storage import Storage
from autosched.target import Target, get_target
from sim.program import Program


def lower(func: PrimFunc | IRModule, target: str | Target = "vta-de10") -> Program:
    """A scheduled function as a VTA program, without contents of its parameters.

    Args:
        func: a scheduled program: copies between DRAM and the on-chip scopes, matrix products tensorized with the target's
            intrinsic, elementwise computations in the accumulator. A module of one function is that function.
        target: a target or its name.

    Returns:
        The program; ``lower_table(func, target).program(inputs)`` gives one with a memory image.

    Raises:
        LoweringError: the program has no equivalent on the target. Its ``kind`` is one of ``symbolic``, ``index``,
            ``statement``, ``extern`` (the program), ``scope``, ``dtype``, ``pattern``, ``pad``, ``alu``, ``element`` (the
            machine has no such operation), ``thread``, ``annotation`` (the schedule), ``capacity``, ``field``, ``tokens``
            (too large), ``empty``.
    """
    return lower_table(func, target).program()


def lower_table(func: PrimFunc | IRModule, target: str | Target = "vta-de10") -> Lowered:
    """``lower`` without building any memory image: instructions, micro-ops and addresses.

    Args:
        func: as for ``lower``.
        target: as for ``lower``.

    Raises:
        LoweringError: as for ``lower``.
    """
    machine = get_target(target)
    if isinstance(func, IRModule):
        if len(func.functions) != 1:
            raise ProgramError(f"a module of {len(func.functions)} functions ({', '.join(func.functions)}): lower one of them")
        func = next(iter(func.functions.values()))
    whole, host = func, split_host(func)
    func = host.device
    # HLS may run instances of one instruction together, and elsewhere than on the RTL it costs to go on somewhere else.
    slides, waits = machine.semantics == "chisel", machine.semantics != "chisel"
    while True:
        program = tree.build(func)
        try:
            return _lowered(program, machine, func, whole, host, slides, waits)
        except _InPlaceError as error:
            slides, waits = slides and error.apart, True
        finally:
            parts.put_back(program.parts)


class _InPlaceError(Exception):
    """What stands in a storage of its own, or in that of a larger operand, is in the way; without that there may be a program.

    Args:
        apart: whether something stands in a storage of its own so as not to wait.
    """

    def __init__(self, apart: bool) -> None:
        super().__init__(apart)
        self.apart = apart


def _lowered(
    program: tree.Tree, machine: Target, func: PrimFunc, whole: PrimFunc, host: HostSplit, slides: bool, waits: bool
) -> Lowered:
    config, semantics = machine.config, machine.semantics
    normalise.split_inits(program)
    normalise.unfuse(program, lambda site: site_lanes(site, config))
    normalise.split_values(program)
    slid, apart = in_place.share_in_place(program, slides, waits)
    chain.protect_operands(program, semantics)
    normalise.refresh_stores(program)
    sites = program.index()
    if not sites:
        raise LoweringError("empty", f"{func.name} does nothing")
    try:
        storages = allocate(program, sites, machine)
    except LoweringError as error:
        if slid or apart:
            raise _InPlaceError(apart) from error
        raise
    emitter = Emitter(func, program, sites, storages, config, semantics, machine.usable.uop)
    table, dram, triples, zeros = emitter.run()
    return Lowered(
        func.name, machine, table, func.buffers, emitter.written(), dram, triples, zeros, tuple(emitter.info),
        tuple([_describe(s) for s in storages.values()]), func=whole, host=host,
    )


def warm() -> None:
    """Compiles the kernels of this package, or loads them from numba's cache; to be called before workers start."""
    gemm.warm()
    uops.warm()
    dma.warm()
    tokens.warm()
    starts.warm()


def _describe(s: Storage) -> StorageInfo:
    names = tuple([loop.name for loop in s.path])
    return StorageInfo(s.buffer.name, s.buffer.scope, s.address, s.size, s.total // s.size, s.extents, names,
                       prod(loop.extent for loop in s.path))
