"""Named workloads: programs to be tuned, with references that do not depend on the rest of this package."""

from autosched.workloads.layout import Layout
from autosched.workloads.lookup import names, network, networks, of_func, workload
from autosched.workloads.workload import Network, Workload

__all__ = ["Layout", "Network", "Workload", "names", "network", "networks", "of_func", "workload"]
