"""The distinct layers of a network, with the number of times that each occurs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosched.networks.graph import Graph, Layer
from autosched.networks.programs import Call, Spec, call_of, workload_of
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
    """The program and constants of every layer with sums, by layer."""
    batch, block = target.config.batch, target.config.block_in
    made = {}
    for run in stages(graph):
        if isinstance(run, Run):
            for layer in run.layers:
                source = graph.tensors[run.root(layer.inputs[0])].shape
                made[layer.name] = call_of(graph, layer, source, batch, block)
    return made


def label(graph: Graph, layer: Layer, spec: Spec) -> str:
    """How a layer's task is called: network, layer, and what it is."""
    return f"{graph.name}.{layer.name}"


def tasks(graph: Graph, target: Target) -> tuple[Task, ...]:
    """The distinct tasks of a network, in order of first use.

    Args:
        graph: an imported network.
        target: the machine.
    """
    found: dict[Spec, list[Layer]] = {}
    by_name = {x.name: x for x in graph.layers}
    for name, call in calls(graph, target).items():
        found.setdefault(call.spec.structure(), []).append(by_name[name])
    batch, block = target.config.batch, target.config.block_in
    return tuple([
        Task(workload_of(spec, label(graph, layers[0], spec), batch, block), tuple(x.name for x in layers))
        for spec, layers in found.items()
    ])
