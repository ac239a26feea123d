"""What commands print for people."""

from autosched.cli.tables import LONGEST, short


def test_a_long_name_shows_its_beginning_and_its_end() -> None:
    name = "pool_part_1_part_2_local.acc_buffer_pool"
    assert len(name) == LONGEST and short(f"  load {name}: ax1 16") == f"  load {name}: ax1 16"
    assert short(f"  alu {name}_init: x 2") == "  alu pool_part_1_part_2_..cc_buffer_pool_init: x 2"
    assert len(short(9 * name)) == LONGEST
