"""Which layers run together: maximal runs between host parts, with the tensors that go in and out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autosched.networks.graph import MOVES, Graph, HostPart, Layer
from autosched.networks.lying import aliases, is_free, lying


@dataclass(frozen=True, eq=False)
class Run:
    """A maximal run of layers: one instruction stream.

    Args:
        layers: in order, views left out.
        moves: channels joined or cut off, which is a matter of where tensors lie.
        inputs: tensors that the host packs.
        outputs: tensors that the host unpacks.
        lies_as: per tensor that is another one's bytes, that other one.
        places: by tensor, one of those that lie together with it, and how many vectors it lies behind that one.
    """

    layers: tuple[Layer, ...]
    moves: tuple[Layer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    lies_as: Mapping[str, str]
    places: Mapping[str, tuple[str, int]]

    def root(self, tensor: str) -> str:
        """The tensor whose bytes a tensor is."""
        return self.lies_as.get(tensor, tensor)


Stage = Run | HostPart | Layer  # a layer alone is a matter of the host: a view, a packing, channels joined or cut off


def stages(graph: Graph, block: int) -> tuple[Stage, ...]:
    """The network as streams, host parts and what the host moves, in order.

    Args:
        graph: a network that ``placed`` gave.
        block: channel lanes.
    """
    found: list[Stage] = []
    current: list[Layer] = []
    alias = aliases(graph)

    def flush() -> None:
        nonlocal current
        layers = tuple(x for x in current if x.kind not in MOVES)
        if layers:
            found.append(Run(layers, tuple(x for x in current if x.kind in MOVES), (), (), {}, {}))
        else:
            found.extend(current)
        current = []

    for step in graph.steps:
        if isinstance(step, HostPart):
            flush()
            found.append(step)
        elif step.output in alias:
            continue
        elif step.kind in ("view", "pack") or (step.kind in MOVES and not is_free(graph.tensors, step, block)):
            flush()
            found.append(step)
        else:
            current.append(step)
    flush()
    return _connect(graph, found, alias, block)


def _connect(graph: Graph, found: list[Stage], alias: Mapping[str, str], block: int) -> tuple[Stage, ...]:
    """Fills in what goes in and out of every run, and adds the reshapes of free views that the host reads after all."""
    result: list[Stage] = []
    # Of the whole network: what the host hands to one run may be a part and its whole, which are the same bytes there, too.
    at = lying(graph, alias, block)
    for k, stage in enumerate(found):
        if not isinstance(stage, Run):
            for t in stage.inputs:
                if t in alias:
                    result.append(_view(graph, t, alias[t]))
            result.append(stage)
            continue
        made = [x.output for x in stage.layers]
        named = [x.output for x in stage.moves]
        read = dict.fromkeys(alias.get(t, t) for x in (*stage.layers, *stage.moves) for t in x.inputs)
        later: set[str] = set(graph.outputs)
        for other in found[k + 1 :]:
            later |= {t for x in (*other.layers, *other.moves) for t in x.inputs} if isinstance(other, Run) else set(other.inputs)
        later |= {alias[t] for t in later if t in alias}
        inputs = tuple(t for t in read if t not in made and t not in named)
        result.append(replace(
            stage, inputs=inputs, outputs=tuple(t for t in (*made, *named) if t in later),
            lies_as={t: r for t, r in alias.items() if r in made or r in read},
            places=at.among((*inputs, *made, *named), stage.moves, alias),
        ))
    result += [_view(graph, t, alias[t]) for t in graph.outputs if t in alias]
    return tuple(result)


def _view(graph: Graph, tensor: str, source: str) -> Layer:
    return Layer(f"view of {source}", "view", (source,), tensor)
