"""Disagreements with TVM that are understood: each has a paragraph in fuzz_findings.md under its name."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A pattern of disagreements.

    Args:
        name: heading in fuzz_findings.md.
        kind: sort of disagreement, as the fuzzer calls it.
        op: primitives, a regular expression.
        ours: our reason, likewise.
        tvm: theirs.
        right: what running the accepted program must have shown; () accepts anything.
    """

    name: str
    kind: str
    op: str
    ours: str = ""
    tvm: str = ""
    right: tuple[bool | None, ...] = ()


KNOWN: tuple[Known, ...] = ()


def explain(kind: str, op: str, ours: str, tvm: str, right: bool | None) -> str | None:
    """The name of the known reason for a disagreement, or None."""
    for k in KNOWN:
        if k.kind == kind and re.fullmatch(k.op, op) and re.search(k.ours, ours) and re.search(k.tvm, tvm):
            if not k.right or right in k.right:
                return k.name
    return None
