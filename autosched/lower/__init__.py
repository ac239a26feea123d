"""Lowering: a scheduled program to VTA instructions, for any operator."""

from autosched.lower.flatten import flatten
from autosched.lower.host_work import HostWork
from autosched.lower.lowered import Lowered, SiteInfo, StorageInfo
from autosched.lower.program import lower, lower_table, warm

VERSION = 23  # of the programs made: raised whenever a schedule could lower to another one

__all__ = ["VERSION", "HostWork", "Lowered", "SiteInfo", "StorageInfo", "flatten", "lower", "lower_table", "warm"]
