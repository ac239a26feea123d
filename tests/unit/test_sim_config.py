"""The machine description and the named targets."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest

from sim import errors, isa
from sim.config import VTAConfig
from sim.errors import ConfigError, UnknownTargetError
from sim.legality import check_size
from sim.presets import TARGETS, TargetSpec, target_spec

SHIPPED = {
    "TARGET": "sim", "HW_VER": "0.0.2", "LOG_INP_WIDTH": 3, "LOG_WGT_WIDTH": 3, "LOG_ACC_WIDTH": 5, "LOG_BATCH": 0,
    "LOG_BLOCK": 4, "LOG_UOP_BUFF_SIZE": 15, "LOG_INP_BUFF_SIZE": 15, "LOG_WGT_BUFF_SIZE": 18, "LOG_ACC_BUFF_SIZE": 17,
}  # fmt: skip


def test_published_file_gives_the_published_sizes() -> None:
    config = VTAConfig.from_json(SHIPPED)
    assert (config.batch, config.block_in, config.block_out) == (1, 16, 16)
    sizes = (config.uop_elem_bytes, config.inp_elem_bytes, config.wgt_elem_bytes, config.acc_elem_bytes)
    assert (*sizes, config.out_elem_bytes) == (4, 16, 256, 64, 16)
    assert (config.inp_depth, config.wgt_depth, config.acc_depth, config.out_depth) == (2048, 1024, 2048, 2048)
    assert (1 << config.log_uop_depth, config.uop_capacity) == (8192, 2048)
    assert replace(config, uop_depth=None).uop_capacity == 8192
    assert config.LOG_OUT_BUFF_SIZE == 15
    assert config.burst_bytes == 128


def test_block_32_and_batch_follow_the_formulas() -> None:
    wide = VTAConfig(LOG_BLOCK=5)
    assert (wide.log_inp_depth, wide.log_acc_depth, wide.log_wgt_depth) == (10, 10, 8)
    assert wide.wgt_elem_bytes == 1024
    two = VTAConfig(LOG_BATCH=1)
    assert (two.inp_elem_bytes, two.acc_elem_bytes, two.out_elem_bytes, two.wgt_elem_bytes) == (32, 128, 32, 256)


def test_json_round_trip_and_key() -> None:
    config = VTAConfig(TARGET="pynq", burst_beats=256, uop_depth=None)
    assert VTAConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(pickle.loads(pickle.dumps(config))) == hash(config)
    # Names and the clock change nothing; anything else does.
    assert replace(config, TARGET="x", HW_VER="y", clock_mhz=333).key() == config.key()
    assert replace(config, uop_depth=8192).key() == config.key()
    changed = [
        replace(config, LOG_INP_BUFF_SIZE=14), replace(config, LOG_BLOCK=5), replace(config, LOG_BATCH=1),
        replace(config, bus_bytes=16), replace(config, burst_beats=16), replace(config, read_delay=17),
        replace(config, outstanding_reads=8), replace(config, queue_depth=256), replace(config, uop_depth=2048),
    ]  # fmt: skip
    assert len({c.key() for c in changed} | {config.key()}) == len(changed) + 1
    assert len(config.key()) == 64


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"bus_bytes": 12}, "bus_bytes"),
        ({"bus_bytes": 128}, "bus_bytes"),
        ({"burst_beats": 1}, "burst_beats"),
        ({"burst_beats": 24}, "burst_beats"),
        ({"read_delay": 0}, "read_delay"),
        ({"outstanding_reads": 0}, "outstanding_reads"),
        ({"queue_depth": 0}, "queue_depth"),
        ({"uop_depth": 3000}, "uop_depth"),
        ({"uop_depth": 16384}, "uop_depth"),
        ({"LOG_ACC_WIDTH": 3, "LOG_INP_WIDTH": 4}, "LOG_ACC_WIDTH"),
        ({"LOG_BLOCK": 7, "LOG_WGT_BUFF_SIZE": 24}, "LOG_BLOCK"),
        ({"LOG_BLOCK": 0, "LOG_INP_WIDTH": 2}, "LOG_BLOCK"),
        ({"LOG_INP_BUFF_SIZE": 4}, "LOG_INP_BUFF_SIZE"),
        ({"LOG_BLOCK": "4"}, "LOG_BLOCK"),
        ({"LOG_BATCH": True}, "LOG_BATCH"),
        ({"TARGET": 5}, "TARGET"),
    ],
)
def test_machines_that_cannot_exist_are_refused(change: dict[str, object], field: str) -> None:
    VTAConfig.from_json(SHIPPED)
    with pytest.raises(ConfigError) as caught:
        VTAConfig.from_json({**SHIPPED, **change})
    assert caught.value.field == field
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_unknown_key_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'LOG_BATCH'"):
        VTAConfig.from_json({**SHIPPED, "LOG_BATHC": 0})


def test_targets() -> None:
    assert set(TARGETS) == {
        "vta-de10", "vta-pynq", "vta-de10-portable", "vta-pynq-portable", "vta-ultra96", "vta-zcu104", "vta-fsim",
    }  # fmt: skip
    for name, spec in TARGETS.items():
        assert spec.name == name and target_spec(name) is spec
    de10, pynq, zcu = (TARGETS[f"vta-{n}"] for n in ("de10", "pynq", "zcu104"))
    assert (de10.config.bus_bytes, de10.config.burst_beats, de10.semantics) == (8, 16, "chisel")
    assert (de10.config.uop_capacity, pynq.config.burst_beats) == (2048, 256)
    assert (zcu.config.bus_bytes, zcu.config.clock_mhz, zcu.semantics) == (16, 333, "portable")
    assert TARGETS["vta-fsim"].semantics == "fsim"
    with pytest.raises(UnknownTargetError, match="did you mean 'vta-de10'"):
        target_spec("vta-de01")


def test_batch_is_refused_where_the_alu_has_one_row() -> None:
    TargetSpec("x", VTAConfig(LOG_BATCH=1), "fsim", "", "")
    with pytest.raises(ConfigError, match="one row"):
        TargetSpec("x", VTAConfig(LOG_BATCH=1), "chisel", "", "")
    with pytest.raises(ConfigError, match="semantics"):
        TargetSpec("x", VTAConfig(), "hls", "", "")


def test_errors_survive_pickling() -> None:
    waiter = errors.Waiter("LOAD", 3, "a token from COMPUTE (pop_next)", 17)
    for error in (
        errors.FieldError(1, "x_size", 70000, "too big"),
        errors.DecodeError(2, "opcode 7"),
        errors.AsmError(3, "what?"),
        errors.ProgramError("programs[0]", "no insns"),
        errors.ExecutionError(4, "sram", "past the end"),
        errors.LimitError(5, "y_size", 9, 8, "too many"),
        errors.DeadlockError(99, (waiter,)),
        errors.UnknownTargetError("vat", ("vta",)),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error) and again.__dict__ == error.__dict__
        assert isinstance(error, errors.SimError)
    assert "LOAD at instruction 3 waits for a token from COMPUTE (pop_next) since cycle 17" in str(
        errors.DeadlockError(99, (waiter,))
    )


def test_a_block_of_one_lane_is_a_machine() -> None:
    # Memories as small as its elements ask for.
    small = {"LOG_BLOCK": 0, "LOG_INP_BUFF_SIZE": 10, "LOG_WGT_BUFF_SIZE": 10, "LOG_ACC_BUFF_SIZE": 12}
    assert VTAConfig(**small).block_in == 1
    with pytest.raises(ConfigError):
        VTAConfig(**{**small, "LOG_BLOCK": -1})


def test_what_all_programs_share_cannot_be_written() -> None:
    for table in isa.bounds(VTAConfig()):
        with pytest.raises(ValueError, match="read-only"):
            table[0, 0] = 1


@pytest.mark.parametrize(("log", "fits"), [(29, True), (30, False)])
def test_as_much_sram_as_is_simulated(log: int, fits: bool) -> None:
    """1 GiB; the other memories come on top."""
    config = VTAConfig(LOG_WGT_BUFF_SIZE=log)
    if fits:
        check_size(config)
    else:
        with pytest.raises(ConfigError, match=r"LOG_WGT_BUFF_SIZE: .* bytes of SRAM"):
            check_size(config)


ENDS = {
    "LOG_INP_WIDTH": (0, 5), "LOG_WGT_WIDTH": (0, 5), "LOG_ACC_WIDTH": (3, 6), "LOG_BATCH": (0, 10), "LOG_BLOCK": (0, 10),
    "LOG_UOP_BUFF_SIZE": (3, 30), "LOG_INP_BUFF_SIZE": (1, 34), "LOG_WGT_BUFF_SIZE": (1, 34), "LOG_ACC_BUFF_SIZE": (1, 34),
    "bus_bytes": (8, 64), "burst_beats": (2, 256), "read_delay": (1, 100_000), "outstanding_reads": (1, 256),
    "queue_depth": (1, 65_536), "uop_depth": (2, 1 << 20), "clock_mhz": (1, 10_000),
}


@pytest.mark.parametrize("field", ENDS)
def test_numbers_of_a_machine_at_their_ends_and_beyond(field: str) -> None:
    """At an end another field may be in the way: then that is what the refusal says."""
    low, high = ENDS[field]
    for value in (low, high):
        try:
            VTAConfig(**{field: value})
        except ConfigError as error:
            assert "is outside" not in str(error)
    for value in (low - 1, high + 1):
        with pytest.raises(ConfigError, match=f"is outside {low}..{high}"):
            VTAConfig(**{field: value})
