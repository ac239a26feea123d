"""A compiled network in numbers: where the cycles went, and what they amount to."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.networks.compiled import CompiledNetwork, LayerCost
from autosched.networks.graph import HostNode, HostPart


@dataclass(frozen=True)
class Summary:
    """One image through a network.

    Args:
        name: of the network.
        cycles: of all streams.
        streams: cycles per stream.
        alone: sum of the cycles of all layers' own programs.
        apart: the same with every residual sum in a program of its own.
        bound: cycles that no program can beat which forms the layers' products on the GEMM.
        milliseconds: at the target's clock; packing and host parts are not in it.
        images: images a second.
        gops: 10^9 operations a second, two per multiply-accumulate of the file.
        peak: fraction of the cycles in which the GEMM array would be busy with the file's multiply-accumulates alone.
        share: fraction of the multiply-accumulates that the machine does.
        dram_bytes: moved by loads and stores, instructions included.
        layers: of all streams, in order.
        host: the nodes of the host parts, in order.
    """

    name: str
    cycles: int
    streams: tuple[int, ...]
    alone: int
    apart: int
    bound: int
    milliseconds: float
    images: float
    gops: float
    peak: float
    share: float
    dram_bytes: int
    layers: tuple[LayerCost, ...]
    host: tuple[HostNode, ...]

    @property
    def gap(self) -> float:
        """Relative distance to the bound: (cycles - bound) / bound."""
        return (self.cycles - self.bound) / self.bound if self.bound else 0.0

    def share_of(self, node: HostNode) -> float:
        """Fraction of the network's multiply-accumulates that a node on the host does."""
        return node.macs / (sum(x.macs for x in self.layers) + sum(n.macs for n in self.host))

    def slowest(self, count: int = 10) -> tuple[LayerCost, ...]:
        """The most expensive layers."""
        return tuple(sorted(self.layers, key=lambda x: -x.cycles)[:count])


def summarize(net: CompiledNetwork) -> Summary:
    """The numbers of a compiled network.

    Args:
        net: the network.
    """
    config = net.target.config
    layers = tuple(x for s in net.streams for x in s.layers)
    macs = sum(x.macs for x in layers)
    host = [s for s in net.stages if isinstance(s, HostPart)]
    total = macs + sum(h.macs for h in host)
    cycles = net.cycles
    images = net.target.config.clock_mhz * 1e6 / cycles if cycles else 0.0
    array = config.batch * config.block_in * config.block_out
    batch = max((net.tensors[n].shape[0] for n in net.inputs if net.tensors[n].shape), default=1)
    return Summary(
        net.name, cycles, tuple(s.cycles for s in net.streams), sum(x.alone for x in layers),
        sum(x.apart for x in layers), sum(s.bound for s in net.streams),
        cycles / (config.clock_mhz * 1e3), images * batch, 2 * macs * images / 1e9, macs / array / cycles if cycles else 0.0,
        macs / total if total else 1.0, sum(s.dram_bytes for s in net.streams), layers,
        tuple(n for h in host for n in h.nodes),
    )
