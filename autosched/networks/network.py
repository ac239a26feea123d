"""A network from a file: its tasks, and compiling it with logged schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from autosched.errors import AutoschedError, ProgramError, RecordError
from autosched.ir.stmt import PrimFunc
from autosched.kernel import replay
from autosched.kernel.kernel import TraceLike
from autosched.lower import Lowered, lower_table
from autosched.networks import compiled
from autosched.networks.compiled import CompiledNetwork, LayerCost, Stream
from autosched.networks.compose import Part, compose, plan
from autosched.networks.graph import Graph
from autosched.networks.importer import import_graph
from autosched.networks.lying import placed
from autosched.networks.programs import Call, Spec, program, workload_of
from autosched.networks.repack import Packing, free, gathered, with_packings
from autosched.networks.residuals import candidates, fused, joined
from autosched.networks.stream import Run, stages
from autosched.networks.tasks import Task, calls, gathered_calls, tasks
from autosched.target import Target, get_target
from sim import isa
from sim.timing import simulate

if TYPE_CHECKING:
    from autosched.search import NetworkReport


@dataclass(frozen=True, eq=False)
class Network:
    """An imported network.

    Args:
        graph: its layers and host parts.
        target: the machine.
        source: the file that it was read from.
    """

    graph: Graph = field(repr=False)
    target: Target
    source: Path | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Its name."""
        return self.graph.name

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Its distinct layers, with the layers that each stands for."""
        return tasks(self.placed, self.packed, self.target)

    @cached_property
    def packed(self) -> Graph:
        """The graph as it runs: what the host packs is dealt to channels where that leaves out products."""
        return with_packings(self.placed, free(self.placed, self.target.config.block_in))

    @cached_property
    def placed(self) -> Graph:
        """The graph with copies of what must lie in two places."""
        return placed(self.graph, self.target.config.block_in)

    def tune(self, trials: int = 64, timeout: float | None = None, **options: Any) -> NetworkReport:
        """Searches schedules for all distinct layers; trials go where they gain.

        Args:
            trials: distinct points per distinct layer, on average.
            timeout: seconds for all layers together.
            options: further arguments of ``autosched.tune``.

        Raises:
            UnknownNameError, BadArgumentError: as for ``autosched.tune``.
        """
        from autosched.networks.tuning import tune

        return tune(self, trials=trials, timeout=timeout, **options)

    def compile(
        self, log: str | Path | None = None, fuse: bool | None = None, gather: bool | None = None
    ) -> CompiledNetwork:
        """The network with the best logged schedules, as programs.

        Args:
            log: the only place to look when given; else the default log. A layer without a logged schedule takes the first
                draft of its space.
            fuse: whether residual sums join the convolutions in front of them; by default where a logged schedule of both in
                one is faster than theirs apart.
            gather: whether the host writes the pixels of windows side by side for convolutions that read what it hands over,
                each as often as windows have it; by default where a logged schedule is faster so. It is work of the host,
                which ``CompiledNetwork.run`` shows, and in no cycle count.

        Raises:
            RecordError: ``log`` does not exist.
            ProgramError: its tensors do not fit the machine's DRAM.
        """
        return _Compiler(self, log, fuse, gather).run()


def load(
    path: str | Path, target: str | Target = "vta-de10", rounding: str = "half-up",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Network:
    """A network from a quantized ONNX file.

    Args:
        path: the file.
        target: the machine.
        rounding: how QDQ and QLinear forms round: ``floor`` or ``half-up``; integer forms say it themselves.
        shapes: extents of inputs that the file leaves open, by input.

    Raises:
        ProgramError: the file is damaged, dynamic, float or unsupported; one line names the node and what to do.
        UnknownNameError: an unknown target or rounding.
    """
    return Network(import_graph(path, rounding, shapes), get_target(target), Path(path).absolute())


class _Compiler:
    """Schedules, composes and lowers the runs of one network."""

    def __init__(self, network: Network, log: str | Path | None, fuse: bool | None, gather: bool | None) -> None:
        from autosched.records import Known

        self.graph, self.target, self.source = network.packed, network.target, network.source
        self.macs = {x.name: network.placed.macs(x) for x in network.placed.layers}
        self.known = Known.open(network.target, log)
        self.calls: dict[str, Call] = dict(calls(network.packed, network.target))
        self.lanes = network.target.config.batch, network.target.config.block_in
        self.scheduled: dict[Spec, tuple[PrimFunc, bool]] = {}
        self.alone: dict[Spec, int] = {}
        self.traces: dict[Spec, tuple[TraceLike, bool]] = {}
        self.logged: dict[Spec, int] = {}  # cycles of the structures whose schedules are logged
        self.unknown: set[Spec] = set()  # structures of which none is
        self.apart: dict[str, int] = {}
        self.gather(network, gather)
        self.join(fuse)

    def gather(self, network: Network, wanted: bool | None) -> None:
        """Lets the host gather windows where that is wanted, or faster."""
        chosen: dict[str, Packing] = {}
        ways = {} if wanted is False else gathered(network.placed, self.target.config.block_in)
        more = gathered_calls(network.placed, self.target) if ways else {}
        for name, packings in ways.items():
            able = [p for p in packings if self.able(more[p.conv.name].spec, wanted)]
            best = min(able, key=lambda p: self.cycles_alone(more[p.conv.name].spec), default=None)
            if best is None:
                continue
            call = more[best.conv.name]
            if wanted or self.cycles_alone(call.spec) < self.cycles_alone(self.calls[name].spec):
                chosen[name] = best
                self.calls[best.conv.name], self.macs[best.conv.name] = call, self.macs[name]
        if chosen:
            dealt = {n: p for n, p in free(network.placed, self.target.config.block_in).items() if n not in chosen}
            self.graph = with_packings(network.placed, {**dealt, **chosen})

    def join(self, fuse: bool | None) -> None:
        """Joins residual sums to convolutions where that is wanted, or faster."""
        pairs = {} if fuse is False else candidates(self.graph)
        more = calls(fused(self.graph, pairs), self.target) if pairs else {}
        chosen = []
        for name, (conv, add) in pairs.items():
            both = joined(conv, add).name
            spec = more[both].spec
            if not self.able(spec, fuse):
                continue
            apart = sum(self.cycles_alone(self.calls[x.name].spec) for x in (conv, add))
            if fuse or self.cycles_alone(spec) < apart:
                chosen.append(name)
                self.calls[both], self.macs[both], self.apart[both] = more[both], self.macs[conv.name], apart
        self.graph = fused(self.graph, chosen)

    def able(self, spec: Spec, wanted: bool | None) -> bool:
        """Whether layers may become one, or read gathered windows: it has a schedule, a logged one unless that is wanted anyhow.

        What memories have no room for stays as it was.
        """
        if not wanted and not self.known_schedule(spec.structure()):
            return False
        try:
            self.schedule(spec)
        except _NoRoomError:
            return False
        return True

    def run(self) -> CompiledNetwork:
        """The compiled network."""
        graph = self.graph
        made: list[compiled.Stage] = []
        untuned: list[str] = []
        for stage in stages(graph, self.lanes[1]):
            if not isinstance(stage, Run):
                made.append(stage)
                continue
            untuned += [x.name for x in stage.layers if not self.schedule(self.calls[x.name].spec)[1]]
            made.append(self.stream(stage, len(made)))
        return CompiledNetwork(
            graph.name, self.target, graph.tensors, graph.inputs, graph.outputs, tuple(made), tuple(untuned), graph.blank,
            self.source,
        )

    def schedule(self, spec: Spec) -> tuple[PrimFunc, bool]:
        """The scheduled program of a spec, and whether its schedule was logged."""
        known = self.scheduled.get(spec)
        if known is None:
            trace, logged = self.trace(spec.structure())
            func = program(spec, *self.lanes)
            try:
                known = replay(func, trace).func, logged
            except AutoschedError:
                # A schedule may depend on the very immediates: then this layer takes a draft of its own.
                known = replay(func, list(draft(spec, self.target))).func, False
            self.scheduled[spec] = known
        return known

    def trace(self, spec: Spec) -> tuple[TraceLike, bool]:
        """The schedule of a structure, and whether it was logged."""
        if not self.known_schedule(spec) and spec not in self.traces:
            self.traces[spec] = list(draft(spec, self.target)), False
        return self.traces[spec]

    def known_schedule(self, spec: Spec) -> bool:
        """Whether the schedule of a structure was logged."""
        if spec not in self.traces and spec not in self.unknown:
            from autosched.records import best_or_fail

            task = workload_of(spec, "layer", *self.lanes)
            try:
                record, _ = best_or_fail(task, self.target, self.known)
                self.traces[spec], self.logged[spec] = (record.trace, True), record.cycles
            except RecordError:
                self.unknown.add(spec)
        return spec in self.logged

    def cycles_alone(self, spec: Spec) -> int:
        """Cycles of a layer's own program."""
        key = spec.structure()
        if key not in self.alone:
            func, logged = self.schedule(spec)
            # What a record says was just built to see whether it is so.
            self.alone[key] = self.logged[key] if logged else lower_table(func, self.target).cycles()
        return self.alone[key]

    def stream(self, run: Run, number: int) -> Stream:
        """The instruction stream of a run."""
        batch, block = self.lanes
        graph = self.graph
        sizes = {}
        for t in run.places:
            packed = compiled.layout_of(graph.tensors[t].shape, batch, block).packed_shape
            sizes[t] = (packed[0], int(np.prod(packed[1:-2])))
        sums = [tuple(run.root(t) for t in x.inputs) for x in run.layers if x.kind == "add" and len(x.inputs) > 1]
        places, regions = plan(sums, sizes, {*run.inputs, *run.outputs}, run.places)
        parts, constants = [], {}
        words: dict[bytes, int] = {}  # of every constant, by its digest: layers may share it
        for k, layer in enumerate(run.layers):
            inputs = [run.root(t) for t in layer.inputs]
            call = self.calls[layer.name]
            residual = None
            if layer.residual is not None:
                *inputs, residual = inputs
            order = sorted(range(len(inputs)), key=lambda i: (places[inputs[i]].slot, places[inputs[i]].vector))
            parts.append(Part(
                f"l{k}", self.schedule(call.spec)[0], tuple(inputs[i] for i in order), layer.output, layer.kind == "add",
                residual,
            ))
            needed = self.bound(call.spec).words
            for name, array in call.constants.items():
                held = sha256(array.tobytes()).digest()
                words[held] = max(needed.get(name, 0), words.get(held, 0))
                constants[f"l{k}_{name}"] = array[order] if layer.kind == "add" and name == "weight" else array
        func = replace(compose(parts, places, regions, batch, block), name=f"{graph.name}_{number}")
        lowered = lower_table(func, self.target)
        done = lowered.program(constants, cycles=lowered.cycles())
        outside = {b.name: (regions[b.name], lowered.dram.buffers[b]) for b in lowered.params if b.name in regions}
        return Stream(
            done, run.inputs, run.outputs, {t: places[t] for t in (*run.inputs, *run.outputs)}, outside,
            self.costs(run, lowered), self.bound(self.calls[run.layers[0].name].spec).edge, sum(words.values()),
        )

    def bound(self, spec: Spec) -> LayerBound:
        """As ``bound`` has it for a machine."""
        return bound(spec.structure(), self.target)

    def costs(self, run: Run, lowered: Lowered) -> tuple[LayerCost, ...]:
        """What every layer costs in a stream: its stores are the next ones in the stream's order."""
        timing = simulate(
            lowered.table, lowered.config, lowered.insn_address, record=False, semantics=self.target.mode
        )
        stores = np.flatnonzero(lowered.table[:, isa.OPCODE] == isa.OP_STORE)
        found, before, at = [], 0, 0
        for k, layer in enumerate(run.layers):
            at += sum(s.instructions for s in lowered.sites if s.kind == "store" and s.block.startswith(f"l{k}_"))
            end = timing.cycles if k == len(run.layers) - 1 else int(timing.done[stores[at - 1]])
            spec = self.calls[layer.name].spec
            least = self.bound(spec)
            found.append(LayerCost(
                layer.name, layer.kind, self.macs[layer.name], end - before, self.cycles_alone(spec), least.work, least.binds,
                self.apart.get(layer.name, self.cycles_alone(spec)),
            ))
            before = end
        return tuple(found)


DRAWN, EAGER = 128, 256  # points that an untuned layer's schedule is bred from: any, and such that use all the memory they can
GENERATIONS, PARENTS, CHILDREN = 6, 24, 8  # a tenth of a second; a search's first batch takes half a second to be 2 % better


class _NoRoomError(ProgramError):
    """No schedule of a layer fits the memories."""


# A network is compiled again after each tuning, at each call of a notebook's cell: what no log decides stays as it was.
@lru_cache(maxsize=256)
def draft(spec: Spec, target: Target) -> tuple[dict[str, object], ...]:
    """The trace that the space's own estimate likes best of a few generations, for a layer that nobody has tuned.

    Raises:
        ProgramError: no point of the space is known.
    """
    from space import Space
    from space.shortage import shortage

    space = Space(program(spec, target.config.batch, target.config.block_in), target)
    rng = np.random.default_rng(0)
    points = np.concatenate([space.sample(rng, DRAWN), space.eager(rng, EAGER)])
    if not len(points):
        raise _NoRoomError(f"no schedule is known that fits the memories of {target.name}: {shortage(space) or 'of any tiles'}")
    for _ in range(GENERATIONS):
        parents = points[np.argsort(space.draft(points), kind="stable")[:PARENTS]]
        points = np.concatenate([parents, space.mutate(np.repeat(parents, CHILDREN, axis=0), rng)])
    best = points[int(np.argmin(space.draft(points)))]
    return tuple(space.trace(best).as_json())


class LayerBound(NamedTuple):
    """What no program of a layer does without.

    Args:
        work: cycles of the compute engine.
        edge: cycles at both ends of a stream.
        binds: the chain of engines that is longest, of the layer alone.
        words: of the bus, by tensor.
    """

    work: int
    edge: int
    binds: str
    words: Mapping[str, int]


@lru_cache(maxsize=256)
def bound(spec: Spec, target: Target) -> LayerBound:
    """What no program of a structure does without."""
    from space import Space

    found = Space(program(spec, target.config.batch, target.config.block_in), target).machine
    # The layer that makes a residual's operand might store it in a form that spares operations here.
    work = sum(found.terms[t] for t in ("products", "initial", "stages", "addends")) - found.terms["joined"]
    return LayerBound(work, found.terms["start"] + found.terms["drain"], found.binds, found.words)
