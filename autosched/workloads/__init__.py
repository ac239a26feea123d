"""Named workloads: programs to be tuned, with references that do not depend on the rest of this package."""

from autosched.workloads.layout import Layout
from autosched.workloads.lookup import named_workload, names, network, networks, workload
from autosched.workloads.user_file import of_func
from autosched.workloads.workload import Network, Workload

__all__ = ["Layout", "Network", "Workload", "named_workload", "names", "network", "networks", "of_func", "workload"]
