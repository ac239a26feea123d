"""Networks: an ONNX file in, its tasks, one program out, equal bytes."""

from __future__ import annotations

from autosched.networks.compiled import CompiledNetwork
from autosched.networks.network import Network, load

__all__ = ["CompiledNetwork", "Network", "load"]
