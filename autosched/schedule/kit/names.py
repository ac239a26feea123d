"""Names of loops: short, readable, and one loop of a nest each."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from autosched.ir.expr import Var
from autosched.ir.print_expr import RESERVED

LONGEST = 32
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


@dataclass(frozen=True)
class Part:
    """What a split made.

    Args:
        whole: the loop that was split.
        position: which of the new loops.
        count: how many there are.
    """

    whole: Var
    position: int
    count: int


@dataclass
class Lineage:
    """What is known of the loops that splits and fuses made.

    Args:
        parts: of a loop that a split made.
        fused: of fused loops, the names of the first loops that they are made of.
    """

    parts: dict[Var, Part] = field(default_factory=dict)
    fused: dict[Var, tuple[str, ...]] = field(default_factory=dict)

    def copy(self) -> Lineage:
        """An independent one."""
        return Lineage(dict(self.parts), dict(self.fused))

    def beyond(self, known: Lineage) -> Lineage:
        """What is not known to another."""
        return Lineage(
            {k: v for k, v in self.parts.items() if k not in known.parts},
            {k: v for k, v in self.fused.items() if k not in known.fused},
        )

    def first(self, var: Var) -> Var:
        """The loop that was split, and split again, until a loop was made."""
        while var in self.parts:
            var = self.parts[var].whole
        return var

    def split(self, whole: Var, parts: Sequence[Var]) -> None:
        """Notes a split."""
        self.parts.update((var, Part(whole, i, len(parts))) for i, var in enumerate(parts))

    def split_name(self, var: Var, position: int) -> str:
        """The name of a part of a loop: ``i_0``; where that becomes too long, as if the first loop had been split."""
        name = f"{var.name}_{position}"
        return name if len(name) <= LONGEST else f"{self.first(var).name}_{position}"

    def fuse(self, loops: Sequence[Var], fused: Var) -> None:
        """Notes a fuse."""
        whole = self._whole(loops)
        if whole is None:
            self.fused[fused] = self._roots(loops)
        elif whole in self.parts:
            self.parts[fused] = self.parts[whole]
        elif whole in self.fused:
            self.fused[fused] = self.fused[whole]

    def fused_name(self, loops: Sequence[Var]) -> str:
        """The name of fused loops.

        All that a split made of one loop has that loop's name again. Others join their names (``i_j_fused``); where that
        becomes too long, or would repeat itself, the names of the loops that they were once split from.
        """
        whole = self._whole(loops)
        if whole is not None:
            return whole.name
        firsts = [self.first(v) for v in loops]
        again = sum(len(self.fused.get(v, ("",))) for v in firsts) > len(loops) and len(self._roots(loops)) < sum(
            len(self._roots([v])) for v in loops
        )
        joined = [v.name.replace("_fused", "") for v in loops]
        roots = self._roots(loops)
        for chosen in (roots if again else joined, roots, [roots[0], roots[-1]]):
            name = "_".join([*chosen, "fused"])
            if len(name) <= LONGEST:
                return name
        return "fused"

    def _whole(self, loops: Sequence[Var]) -> Var | None:
        """The loop of which a split made exactly these."""
        made = [self.parts.get(v) for v in loops]
        first = made[0]
        if first is None or first.count != len(loops):
            return None
        same = all(p is not None and p.whole is first.whole and p.position == i for i, p in enumerate(made))
        return first.whole if same else None

    def _roots(self, loops: Sequence[Var]) -> tuple[str, ...]:
        firsts = [self.first(v) for v in loops]
        return tuple(dict.fromkeys(name for v in firsts for name in self.fused.get(v, (v.name,))))


def is_name(name: str) -> bool:
    """Whether a loop of that name is printed under it."""
    return _NAME.fullmatch(name) is not None and name not in RESERVED


def name_list(text: str) -> list[str]:
    """The names in ``i0, i1`` or ``(i0, i1)``."""
    text = text.strip()
    if text[:1] + text[-1:] in ("()", "[]"):
        text = text[1:-1]
    return [n.strip() for n in text.split(",")]


def fresh_name(name: str, taken: Collection[str]) -> str:
    """The name, numbered where another loop has it, as the printer would."""
    found, number = name, 0
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def made_of(name: str, known: Collection[str]) -> str | None:
    """Of which of some things a primitive made what has a name; None where it is of none of them.

    Every primitive names what it makes after what it makes it of: ``C_part``, ``A_global``, ``C_part_init``.

    Args:
        name: of a block or a buffer, with the memory that a copy is in if any.
        known: names of blocks and buffers that somebody wrote.
    """
    whole = name.split(".")[0]
    return max((n for n in known if whole == n or whole.startswith(f"{n}_")), key=len, default=None)
