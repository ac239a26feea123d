"""Lowering: a scheduled program to VTA instructions, for any operator."""

from autosched.lower.program import Lowered, SiteInfo, StorageInfo, lower, lower_table

__all__ = ["Lowered", "SiteInfo", "StorageInfo", "lower", "lower_table"]
