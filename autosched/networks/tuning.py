"""Tuning a network: the only part of this room that loads the search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosched.networks.network import Network
    from autosched.search import NetworkReport


def tune(network: Network, **options: Any) -> NetworkReport:
    """Searches schedules for all distinct layers of a network.

    Args:
        network: the network.
        options: those of ``autosched.search.tune_tasks``.
    """
    from autosched.search import tune_tasks

    tasks = [(task.workload, len(task.layers)) for task in network.tasks]
    # Sums stand beside the convolutions that they may join, and both in one.
    return tune_tasks(network.name, tasks, network.target, whole=False, **options)
