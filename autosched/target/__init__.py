"""Targets: a machine, what its instructions mean, its memories, and its tensor intrinsics."""

from autosched.target.target import MEMORY_TYPES, SCOPES, Memory, Target, get_target, names

__all__ = ["MEMORY_TYPES", "SCOPES", "Memory", "Target", "get_target", "names"]
