"""A compiled network: streams for the machine, parts for the host, plain arrays in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import ProgramError, suggest
from autosched.networks.compose import Place, Region
from autosched.networks.graph import Array, HostPart, Layer, Tensor, need_data
from autosched.networks.repack import deal
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
    """

    name: str
    kind: str
    macs: int
    cycles: int
    alone: int
    work: int
    binds: str


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
    """

    program: Program = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    places: Mapping[str, Place]
    regions: Mapping[str, tuple[Region, int]]
    layers: tuple[LayerCost, ...]
    edge: int

    @property
    def cycles(self) -> int:
        """Cycles of one run."""
        assert self.program.cycles is not None
        return self.program.cycles

    @property
    def bound(self) -> int:
        """Cycles that no program can beat which forms these layers' products on the GEMM: the compute engine is serial."""
        return self.edge + sum(x.work for x in self.layers)

    @cached_property
    def dram_bytes(self) -> int:
        """Bytes that loads and stores move, instructions included."""
        from sim.stats import summarize
        from sim.timing import simulate

        p = self.program
        mode = Target("", p.config, p.semantics).mode
        stats = summarize(simulate(p.table, p.config, p.insn_address, semantics=mode), p.semantics)
        return sum(stats.bytes_read.values()) + stats.bytes_written

    def memory(self, arrays: Mapping[str, Array], batch: int, block: int) -> list[Segment]:
        """The packed inputs as memory.

        Args:
            arrays: machine int8 by tensor, plain.
            batch: batch lanes.
            block: channel lanes.
        """
        segments = []
        for name in self.inputs:
            address = self.regions[self.places[name].region][1]
            packed = layout_of(arrays[name].shape, batch, block).pack(arrays[name])
            segments.append(Segment(address + self.places[name].slot * packed.size, packed.tobytes()))
        return segments

    def run(
        self, arrays: Mapping[str, Array], tensors: Mapping[str, Tensor], target: Target
    ) -> tuple[dict[str, Array], Program]:
        """Runs on the simulated machine; machine int8 by tensor, plain, and the program with its inputs and outputs.

        Args:
            arrays: the inputs, as for ``memory``.
            tensors: shapes.
            target: the machine.
        """
        from sim.semantics import execute

        batch, block = target.config.batch, target.config.block_in
        program = self.program.with_memory(self.memory(arrays, batch, block))
        ran = execute(program, target.mode)
        found = {}
        for name in self.outputs:
            region, address = self.regions[self.places[name].region]
            size = region.rows * region.vectors * batch * block
            data = np.frombuffer(ran.read(address + self.places[name].slot * size, size), np.int8)
            layout = layout_of(tensors[name].shape, batch, block)
            found[name] = layout.unpack(data.reshape(layout.packed_shape))
        outputs = tuple(Output(o.name, o.address, o.size, bytes(ran.read(o.address, o.size))) for o in program.outputs)
        return found, replace(program, outputs=outputs)


Stage = Stream | HostPart | Layer


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
    """

    name: str
    target: Target
    tensors: Mapping[str, Tensor] = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    stages: tuple[Stage, ...] = field(repr=False)
    untuned: tuple[str, ...] = ()
    blank: str | None = None

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
        from autosched.networks.reference import session

        return {s.name: session(s.model) for s in self.stages if isinstance(s, HostPart)}

    def __call__(self, *arrays: Array, **named: Array) -> Array | tuple[Array, ...]:
        """The network's outputs, bit by bit as the machine gives them.

        Args:
            arrays: one per input, in order, plain (N, C, H, W) and of the file's type; N may be a multiple of the file's.
            named: the same by name.

        Returns:
            The output; a tuple where there are several.

        Raises:
            ProgramError: a wrong number of arrays, shape, type or range, or a network without data.
        """
        need_data(self.name, self.blank)
        given = self._accept(arrays, named)
        times = {len(a) // max(self.tensors[n].shape[0], 1) for n, a in given.items() if self.tensors[n].shape}
        count = next(iter(times), 1)
        rows: list[list[Array]] = []
        for k in range(count):
            one = {n: a[k * self.tensors[n].shape[0] : (k + 1) * self.tensors[n].shape[0]] for n, a in given.items()}
            rows.append(self._image(one))
        joined = [np.concatenate(column) if count > 1 else column[0] for column in zip(*rows)]
        return joined[0] if len(joined) == 1 else tuple(joined)

    def _accept(self, arrays: Sequence[Array], named: Mapping[str, Array]) -> dict[str, Array]:
        """The arguments of a call, checked."""
        listed = ", ".join(self.inputs)
        if len(arrays) > len(self.inputs):
            raise ProgramError(f"{self.name} takes {len(self.inputs)} arrays ({listed}), {len(arrays)} given")
        given = dict(zip(self.inputs, arrays))
        for name, array in named.items():
            if name not in self.inputs:
                raise ProgramError(f"{self.name} has no input {name!r}{suggest(name, self.inputs)}")
            if name in given:
                raise ProgramError(f"{self.name}: {name} is given twice")
            given[name] = array
        missing = [n for n in self.inputs if n not in given]
        if missing:
            raise ProgramError(f"{self.name} takes {listed}; {', '.join(missing)} missing")
        checked = {n: self._checked(n, given[n]) for n in self.inputs}
        counts = {len(a) // self.tensors[n].shape[0] for n, a in checked.items() if self.tensors[n].shape}
        if len(counts) > 1:
            raise ProgramError(f"{self.name}: inputs hold {' and '.join(map(str, sorted(counts)))} images")
        return checked

    def _checked(self, name: str, array: Array) -> Array:
        want = self.tensors[name]
        try:
            found = np.asarray(array)
        except ValueError as error:
            raise ProgramError(f"{name}: not an array ({error})") from error
        if found.dtype == object or found.dtype.kind not in "iufb":
            raise ProgramError(f"{name}: expected {want.dtype}, got {found.dtype}")
        fits = found.ndim == len(want.shape) and (
            not want.shape or (found.shape[1:] == want.shape[1:] and len(found) and len(found) % want.shape[0] == 0)
        )
        if not fits:
            raise ProgramError(f"{name}: expected shape {want.shape} (or several images of it), got {found.shape}")
        if found.dtype != np.dtype(want.dtype):
            raise ProgramError(f"{name}: expected {want.dtype}, got {found.dtype}; convert it: x.astype({want.dtype!r})")
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise ProgramError(f"{name}: holds values that are not finite")
        return found

    def _image(self, given: Mapping[str, Array], programs: list[Program] | None = None) -> list[Array]:
        """The outputs of one image; ``programs`` gets the streams as they ran."""
        values: dict[str, Array] = {}  # as the file has them

        def machine(name: str) -> Array:
            return self.tensors[name].to_machine(values[name])

        values.update(given)
        for stage in self.stages:
            if isinstance(stage, Stream):
                made, ran = stage.run({n: machine(n) for n in stage.inputs}, self.tensors, self.target)
                if programs is not None:
                    programs.append(ran)
                values.update({n: self.tensors[n].from_machine(a) for n, a in made.items()})
            elif isinstance(stage, HostPart):
                out = self._sessions[stage.name].run(list(stage.outputs), {n: values[n] for n in stage.inputs})
                values.update(zip(stage.outputs, out))
            elif stage.kind == "pack":
                values[stage.output] = deal(machine(stage.inputs[0]), stage, self.tensors[stage.output].shape)
            else:
                values[stage.output] = values[stage.inputs[0]].reshape(self.tensors[stage.output].shape)
        return [values[n] for n in self.outputs]

    def programs(self, images: Mapping[str, Array]) -> list[Program]:
        """The streams with the memory of one image and the bytes that must come out.

        Args:
            images: one image by input.

        Raises:
            ProgramError: as for a call.
        """
        found: list[Program] = []
        need_data(self.name, self.blank)
        self._image(self._accept((), images), found)
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


def layout_of(shape: tuple[int, ...], batch: int, block: int) -> Layout:
    """How a tensor of the network lies in memory.

    Args:
        shape: (N, C, H, W) or (N, C).
        batch: batch lanes.
        block: channel lanes.
    """
    lanes = (("N", batch), ("C", block))
    return Layout("NC", "NCnc", shape, lanes) if len(shape) == 2 else Layout("NCHW", "NCHWnc", shape, lanes)
