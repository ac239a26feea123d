"""Targets: a machine, what its instructions mean, its memories, and its tensor intrinsics."""

from autosched.target.target import SCOPES, Memory, Target, get_target, names

__all__ = ["SCOPES", "Memory", "Target", "get_target", "names"]
