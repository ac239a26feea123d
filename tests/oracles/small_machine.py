"""A machine with an eighth of the usual memories, into which hardly any draw fits."""

from __future__ import annotations

from dataclasses import replace

from autosched.target import Target, get_target

SMALL = Target(
    "small", replace(get_target("vta-de10").config, LOG_INP_BUFF_SIZE=12, LOG_WGT_BUFF_SIZE=15, LOG_ACC_BUFF_SIZE=14), "chisel"
)
