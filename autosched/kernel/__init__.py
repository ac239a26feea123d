"""Compiled kernels: callable, bit-exact, savable."""

from autosched.kernel.kernel import Kernel, build, of_schedule, program_hash, replay, resolve, scheduled

__all__ = ["Kernel", "build", "of_schedule", "program_hash", "replay", "resolve", "scheduled"]
