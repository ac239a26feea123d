"""Which layers run together: maximal runs between host parts, with the tensors that go in and out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosched.networks.graph import Graph, HostPart, Layer


@dataclass(frozen=True, eq=False)
class Run:
    """A maximal run of layers: one instruction stream.

    Args:
        layers: in order, views left out.
        inputs: tensors that the host packs.
        outputs: tensors that the host unpacks.
        lies_as: per tensor that is another one's bytes, that other one.
    """

    layers: tuple[Layer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    lies_as: Mapping[str, str]

    def root(self, tensor: str) -> str:
        """The tensor whose bytes a tensor is."""
        return self.lies_as.get(tensor, tensor)


Stage = Run | HostPart | Layer  # a layer alone is a view or a packing that the host makes


def stages(graph: Graph) -> tuple[Stage, ...]:
    """The network as streams, host parts and reshapes, in order.

    A view whose bytes are those of its source costs nothing: an image of one pixel as a matrix, or an image that dense layers
    alone read, whose weights are reordered instead.
    """
    found: list[Stage] = []
    current: list[Layer] = []
    alias: dict[str, str] = {}
    free = {x.output for x in graph.layers if x.kind == "view" and _is_free(graph, x)}

    def flush() -> None:
        nonlocal current
        if current:
            found.append(Run(tuple(current), (), (), {}))
            current = []

    for step in graph.steps:
        if isinstance(step, HostPart):
            flush()
            found.append(step)
        elif step.kind not in ("view", "pack"):
            current.append(step)
        elif step.output in free:
            alias[step.output] = alias.get(step.inputs[0], step.inputs[0])
        else:
            flush()
            found.append(step)
    flush()
    return _connect(graph, found, alias)


def _connect(graph: Graph, found: list[Stage], alias: dict[str, str]) -> tuple[Stage, ...]:
    """Fills in what goes in and out of every run, and adds the reshapes of free views that the host reads after all."""
    result: list[Stage] = []
    for k, stage in enumerate(found):
        if not isinstance(stage, Run):
            for t in stage.inputs:
                if t in alias:
                    result.append(_view(graph, t, alias[t]))
            result.append(stage)
            continue
        made = [x.output for x in stage.layers]
        read = dict.fromkeys(alias.get(t, t) for x in stage.layers for t in x.inputs)
        later: set[str] = set(graph.outputs)
        for other in found[k + 1 :]:
            later |= {t for x in other.layers for t in x.inputs} if isinstance(other, Run) else set(other.inputs)
        later |= {alias[t] for t in later if t in alias}
        mine = {t: r for t, r in alias.items() if r in made or r in read}
        result.append(Run(
            stage.layers, tuple(t for t in read if t not in made), tuple(t for t in made if t in later), mine,
        ))
    result += [_view(graph, t, alias[t]) for t in graph.outputs if t in alias]
    return tuple(result)


def _view(graph: Graph, tensor: str, source: str) -> Layer:
    return Layer(f"view of {source}", "view", (source,), tensor)


def _is_free(graph: Graph, view: Layer) -> bool:
    source, out = graph.tensors[view.inputs[0]].shape, graph.tensors[view.output].shape
    if source == out:
        return True
    if sorted((len(source), len(out))) != [2, 4]:
        return False
    image, matrix = (source, out) if len(source) == 4 else (out, source)
    if image[:2] == matrix and image[2:] == (1, 1):
        return True
    if len(source) != 4 or out[0] != source[0]:
        return False
    names = [view.output]  # under which it is read: views of one shape give it others
    for name in names:
        if name in graph.outputs:
            return False
        for reader in (x for x in graph.steps if name in x.inputs):
            if not isinstance(reader, Layer) or reader.kind not in ("dense", "view"):
                return False
            if reader.kind == "view":
                if graph.tensors[reader.output].shape != out:
                    return False
                names.append(reader.output)
    return True
