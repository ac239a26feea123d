"""A compiled network: streams for the machine, parts for the host, plain arrays in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from autosched.networks.compose import Place, Region
from autosched.networks.graph import Array, HostPart, Layer, Tensor
from autosched.networks.host_steps import HostClock, HostStep
from autosched.networks.images import accepted
from autosched.networks.lying import moved
from autosched.networks.reference import refusals, session
from autosched.networks.repack import pack, repeats
from autosched.target import Target
from autosched.workloads import Layout
from sim.program import Output, Program, Segment


@dataclass(frozen=True)
class LayerCost:
    """What a layer costs in its stream.

    Args:
        name: of the layer.
        kind: of the layer.
        macs: multiply-accumulates of the file's operator.
        cycles: from the end of the layer before to its own last store.
        alone: cycles of its own program.
        work: cycles that the compute engine cannot do without, whatever the schedule.
        binds: what its own lower bound is made of: ``compute``, ``load``, ``bus`` or ``store``.
        apart: as ``alone``, but of a layer with a residual sum the cycles of the two programs that it stands for.
    """

    name: str
    kind: str
    macs: int
    cycles: int
    alone: int
    work: int
    binds: str
    apart: int


@dataclass(frozen=True, eq=False)
class Stream:
    """One instruction stream with its constants.

    Args:
        program: instructions, micro-ops and constants; its outputs are the regions that the host reads.
        inputs: tensors that the host packs.
        outputs: tensors that the host unpacks.
        places: where they lie.
        regions: the regions they lie in, with their addresses.
        layers: what each layer costs, in order.
        edge: cycles before the first instruction can start and after the last store.
        words: cycles that the bus takes to bring the constants, each once.
    """

    program: Program = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    places: Mapping[str, Place]
    regions: Mapping[str, tuple[Region, int]]
    layers: tuple[LayerCost, ...]
    edge: int
    words: int

    @property
    def cycles(self) -> int:
        """Cycles of one run."""
        assert self.program.cycles is not None
        return self.program.cycles

    @property
    def bound(self) -> int:
        """Cycles that no program can beat which forms these layers' products on the GEMM: its engines and its bus are serial."""
        return self.edge + max(sum(x.work for x in self.layers), self.words)

    @cached_property
    def dram_bytes(self) -> int:
        """Bytes that loads and stores move, instructions included."""
        from sim.stats import summarize
        from sim.timing import simulate

        p = self.program
        mode = Target("", p.config, p.semantics).mode
        stats = summarize(simulate(p.table, p.config, p.insn_address, semantics=mode), p.semantics)
        return sum(stats.bytes_read.values()) + stats.bytes_written

    def pieces(self, name: str, size: int) -> Sequence[int]:
        """Where a tensor lies in memory: the address of all of it, or of each row of the batch.

        Args:
            name: one that the host packs or unpacks.
            size: its bytes.
        """
        place = self.places[name]
        region, address = self.regions[place.region]
        vector = self.program.config.batch * self.program.config.block_in
        row = region.vectors * vector
        begin = address + place.slot * region.rows * row + place.vector * vector
        return [begin] if size == region.rows * row else [begin + k * row for k in range(region.rows)]

    def run(
        self, values: Mapping[str, Array], tensors: Mapping[str, Tensor], target: Target, host: HostClock
    ) -> tuple[dict[str, Array], Program]:
        """Runs on the simulated machine; plain arrays by tensor, and the program with its inputs and outputs.

        Args:
            values: the inputs, plain and of the file's types.
            tensors: shapes.
            target: the machine.
            host: told what packing and unpacking take.
        """
        from sim.semantics import execute

        batch, block = target.config.batch, target.config.block_in
        segments = []
        for name in self.inputs:
            with host.step(name, "pack") as made:
                plain = tensors[name].to_machine(values[name])
                packed = layout_of(plain.shape, batch, block).pack(plain)
                pieces = self.pieces(name, packed.size)
                for address, row in zip(pieces, packed.reshape(len(pieces), -1)):
                    segments.append(Segment(address, row.tobytes()))
                made.append(packed)
        program = self.program.with_memory(segments)
        ran = execute(program, target.mode)
        found = {}
        for name in self.outputs:
            layout = layout_of(tensors[name].shape, batch, block)
            size = prod(layout.packed_shape)
            pieces = self.pieces(name, size)
            data = np.frombuffer(b"".join([ran.read(address, size // len(pieces)) for address in pieces]), np.int8)
            with host.step(name, "unpack") as made:
                found[name] = tensors[name].from_machine(layout.unpack(data.reshape(layout.packed_shape)))
                made.append(found[name])
        outputs = tuple(Output(o.name, o.address, o.size, bytes(ran.read(o.address, o.size))) for o in program.outputs)
        return found, replace(program, outputs=outputs)


Stage = Stream | HostPart | Layer


@dataclass(frozen=True, eq=False)
class Ran:
    """A call of a compiled network.

    Args:
        outputs: arrays, in the network's order.
        images: images in them.
        host: what the host did per image.
    """

    outputs: tuple[Array, ...]
    images: int
    host: tuple[HostStep, ...]


@dataclass(frozen=True, eq=False)
class CompiledNetwork:
    """A network that runs: call it with arrays.

    Args:
        name: of the network.
        target: the machine.
        tensors: of the network.
        inputs: what a call takes, in order.
        outputs: what a call gives, in order.
        stages: streams, host parts and reshapes, in order.
        untuned: layers without a logged schedule.
        blank: the tensor whose data the file lacks, or None.
        source: the file that the network was compiled from, which is not written; None of one that was saved.
    """

    name: str
    target: Target
    tensors: Mapping[str, Tensor] = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    stages: tuple[Stage, ...] = field(repr=False)
    untuned: tuple[str, ...] = ()
    blank: str | None = None
    source: Path | None = field(default=None, repr=False)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The instruction streams, in order."""
        return tuple(s for s in self.stages if isinstance(s, Stream))

    @property
    def cycles(self) -> int:
        """Cycles of all streams of one image; packing and host parts are not in them."""
        return sum(s.cycles for s in self.streams)

    @cached_property
    def _sessions(self) -> dict[str, Any]:
        return {s.name: session(s.model) for s in self.stages if isinstance(s, HostPart)}

    def __call__(self, /, *arrays: Array, **named: Array) -> Array | tuple[Array, ...]:
        """The network's outputs, bit by bit as the machine gives them.

        Args:
            arrays: one per input, in order, plain (N, C, H, W) and of the file's type; N may be a multiple of the file's.
            named: the same by name.

        Returns:
            The output; a tuple where there are several.

        Raises:
            ProgramError: a wrong number of arrays, shape, type or range, or a network without data.
        """
        made = self.run(*arrays, **named).outputs
        return made[0] if len(made) == 1 else made

    def run(self, /, *arrays: Array, **named: Array) -> Ran:
        """A call, with what the host did for it; arguments and refusals as for a call."""
        given = accepted(self, arrays, named)
        times = {len(a) // max(self.tensors[n].shape[0], 1) for n, a in given.items() if self.tensors[n].shape}
        count = next(iter(times), 1)
        rows: list[list[Array]] = []
        host = HostClock()
        for k in range(count):
            one = {n: a[k * self.tensors[n].shape[0] : (k + 1) * self.tensors[n].shape[0]] for n, a in given.items()}
            rows.append(self._image(one, host))
        joined = tuple([together(column) for column in zip(*rows)])
        return Ran(joined, count, host.steps(count))

    def _image(self, given: Mapping[str, Array], host: HostClock, programs: list[Program] | None = None) -> list[Array]:
        """The outputs of one image; ``programs`` gets the streams as they ran."""
        values: dict[str, Array] = dict(given)  # as the file has them
        for stage in self.stages:
            if isinstance(stage, Stream):
                made, ran = stage.run(values, self.tensors, self.target, host)
                if programs is not None:
                    programs.append(ran)
                values.update(made)
            elif isinstance(stage, HostPart):
                session = self._sessions[stage.name]
                with host.step(stage.name, "onnxruntime") as arrays, refusals():
                    arrays += session.run(list(stage.outputs), {n: values[n] for n in stage.inputs})
                values.update(zip(stage.outputs, arrays))
            else:
                with host.step(stage.output, what_of(stage)) as arrays:
                    source, out = self.tensors[stage.inputs[0]], self.tensors[stage.output]
                    if stage.kind == "pack":
                        arrays.append(pack(source.to_machine(values[source.name]), stage, out.shape))
                    else:
                        arrays.append(moved(stage, [values[t] for t in stage.inputs], out.shape))
                values[stage.output] = arrays[0]
        return [values[n] for n in self.outputs]

    def programs(self, images: Mapping[str, Array]) -> list[Program]:
        """The streams with the memory of one image and the bytes that must come out.

        Args:
            images: one image by input.

        Raises:
            ProgramError: as for a call.
        """
        found: list[Program] = []
        self._image(accepted(self, (), images), HostClock(), found)
        return found

    def save(self, path: str | Path) -> None:
        """Writes the compiled network to one file, which ``CompiledNetwork.load`` reads without onnx.

        Args:
            path: file to write.
        """
        from autosched.networks.archive import save

        save(self, path)

    @staticmethod
    def load(path: str | Path) -> CompiledNetwork:
        """A network that ``save`` wrote.

        Args:
            path: file to read.

        Raises:
            ProgramError: not such a file, or damaged.
        """
        from autosched.networks.archive import load

        return load(path)


def what_of(layer: Layer) -> str:
    """What ``HostStep`` calls a layer that the host does.

    Args:
        layer: one that computes nothing.
    """
    if layer.kind == "pack":
        return "gather" if repeats(layer) else "deal"
    return {"view": "reshape", "concat": "join", "slice": "cut"}[layer.kind]


def together(images: Sequence[Array]) -> Array:
    """What several images gave, as one array: along the first dimension, and of single numbers a vector.

    Args:
        images: at least one.
    """
    if len(images) == 1:
        return images[0]
    return np.concatenate(images) if images[0].ndim else np.stack(images)


def layout_of(shape: tuple[int, ...], batch: int, block: int) -> Layout:
    """How a tensor of the network lies in memory.

    Args:
        shape: (N, C, H, W) or (N, C).
        batch: batch lanes.
        block: channel lanes.
    """
    lanes = (("N", batch), ("C", block))
    return Layout("NC", "NCnc", shape, lanes) if len(shape) == 2 else Layout("NCHW", "NCHWnc", shape, lanes)
