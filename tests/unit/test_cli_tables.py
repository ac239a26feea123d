"""What commands print for people."""

from __future__ import annotations

import pytest

from autosched.cli import tables
from autosched.cli.tables import LONGEST, Screen, short, tell_alike


def test_a_long_name_shows_its_beginning_and_its_end() -> None:
    name = "pool_part_1_part_2_local.acc_buffer_pool"
    assert len(name) == LONGEST and short(f"  load {name}: ax1 16") == f"  load {name}: ax1 16"
    assert short(f"  alu {name}_init: x 2") == "  alu pool_part_1_part_2_..cc_buffer_pool_init: x 2"
    assert len(short(9 * name)) == LONGEST


def test_layers_alike_are_named_at_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    tell_alike([("q.a", ["a"]), ("t2", [])])
    assert capsys.readouterr().out == ""  # none is like another one
    many = [f"layer{n // 4}.{n % 4}.conv-2" for n in range(16)]
    tell_alike([("q.a", ["a"]), ("q.b", ["b", "c"]), ("q.layer", many)])
    whole = capsys.readouterr().out
    assert whole == f"\nlayers alike:\n  q.b x2: b, c\n  q.layer x16: {', '.join(many)}\n"
    monkeypatch.setattr(tables, "console", lambda: Screen(width=80))
    tell_alike([("q.b", ["b", "c"]), ("q.layer", many)])
    narrow = capsys.readouterr().out
    lines = narrow.splitlines()
    assert max(map(len, lines)) <= 80 and len(lines) > 4 and all(line.startswith("  ") for line in lines[2:])
    assert narrow.split() == whole.split()
