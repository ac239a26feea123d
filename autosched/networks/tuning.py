"""Tuning a network: the only part of this room that loads the search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from autosched.networks.network import Network
    from autosched.networks.tasks import Task
    from autosched.search import NetworkReport
    from autosched.target import Target


def _fits(task: Task, target: Target) -> bool:
    from space import Space

    return len(Space(task.workload.func, target).sample(np.random.default_rng(0), 1)) > 0


def tune(network: Network, **options: Any) -> NetworkReport:
    """Searches schedules for all distinct layers of a network.

    Args:
        network: the network.
        options: those of ``autosched.search.tune_tasks``.
    """
    from autosched.search import tune_tasks

    # Layers that become one, or read gathered windows, may have no tiles that fit: then they stay as they are, and nothing lacks.
    own = {x.name for x in network.packed.layers}
    tasks = [t for t in network.tasks if own.intersection(t.layers) or _fits(t, network.target)]
    # Sums stand beside the convolutions that they may join, and both in one.
    return tune_tasks(
        network.name, [(t.workload, len(t.layers)) for t in tasks], network.target, whole=False,
        layers=[t.layers for t in tasks], **options,
    )
