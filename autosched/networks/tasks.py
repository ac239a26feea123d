"""The distinct layers of a network, with the number of times that each occurs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosched.errors import ProgramError
from autosched.networks.graph import Graph
from autosched.networks.programs import TENSOR_SHIFT, Call, call_of, workload_of
from autosched.networks.repack import gathered, with_packings
from autosched.networks.residuals import candidates, fused, joined
from autosched.networks.stream import Run, stages
from autosched.target import Target
from autosched.workloads import Workload


@dataclass(frozen=True, eq=False)
class Task:
    """A layer to be tuned once.

    Args:
        workload: its program, with the immediates that stand for all layers of its structure.
        layers: names of the network's layers of this structure.
    """

    workload: Workload
    layers: tuple[str, ...]


def calls(graph: Graph, target: Target) -> Mapping[str, Call]:
    """The program and constants of every layer with sums, by layer.

    Args:
        graph: a network as it runs.
        target: the machine.

    Raises:
        ProgramError: the channels of a layer shift by different numbers, and the machine's do not.
    """
    batch, block = target.config.batch, target.config.block_in
    made = {}
    for run in stages(graph, block):
        if isinstance(run, Run):
            for layer in run.layers:
                source = graph.tensors[run.root(layer.inputs[0])].shape
                call = made[layer.name] = call_of(graph, layer, source, batch, block)
                if call.spec.shift == TENSOR_SHIFT and not target.shifts_by_tensors:
                    why = f"its channels shift by different numbers, which {target.name} does not"
                    raise ProgramError(f"node {layer.name!r}: {why}; quantize it without --per-channel")
    return made


def gathered_calls(graph: Graph, target: Target) -> Mapping[str, Call]:
    """The program and constants of every convolution for which the host may gather windows, by its name then; of those that a
    sum or pool may join also with that.

    Args:
        graph: an imported network.
        target: the machine.
    """
    batch, block = target.config.batch, target.config.block_in
    found: dict[str, Call] = {}
    for name, packings in gathered(graph, block).items():
        for p in packings:
            packed = with_packings(graph, {name: p})
            found[p.conv.name] = call_of(packed, p.conv, p.tensor.shape, batch, block)
            for other, (conv, behind) in candidates(packed).items():
                if conv.name == p.conv.name:
                    both, own = fused(packed, [other]), joined(conv, behind)
                    found[own.name] = call_of(both, own, both.tensors[own.inputs[0]].shape, batch, block)
    return found


def tasks(graph: Graph, packed: Graph, target: Target) -> tuple[Task, ...]:
    """The distinct tasks of a network: each layer by itself, with a residual sum if it may have one, and with windows that the
    host gathers; in order of first use.

    Args:
        graph: an imported network.
        packed: the same as it runs.
        target: the machine.
    """
    batch, block = target.config.batch, target.config.block_in
    found: dict[str, tuple[Workload, list[str]]] = {}
    all_calls = {
        **calls(packed, target), **calls(fused(packed, candidates(packed)), target), **gathered_calls(graph, target),
    }
    for name, call in all_calls.items():
        # By program, not by spec: channels that a block rounds up to are the same program.
        task = workload_of(call.spec.structure(), f"{graph.name}.{name}", batch, block)
        found.setdefault(task.key, (task, []))[1].append(name)
    return tuple([Task(task, tuple(names)) for task, names in found.values()])
