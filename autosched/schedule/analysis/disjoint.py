"""Blocks that never write the same element, as their domains show."""

from __future__ import annotations

from math import gcd

from autosched.ir.cover import apart
from autosched.ir.expr import Var, int_value
from autosched.ir.functor import substitute
from autosched.ir.simplify import Analyzer, linear_form
from autosched.ir.stmt import Block, Range
from autosched.ir.swept import bounding_box


def disjoint_results(a: Block, b: Block) -> bool:
    """Whether the domains of two blocks alone show that they never write the same element."""
    domains: list[dict[Var, Range]] = [{iv.var: iv.dom for iv in x.iter_vars} for x in (a, b)]
    return not any(
        not apart(bounding_box(p, domains[0]), bounding_box(q, domains[1]), Analyzer().never_negative)
        and not any(_in_turns(x, y, domains) for x, y in zip(p.region, q.region))
        for p in a.writes for q in b.writes if p.buffer is q.buffer
    )


def _in_turns(one: Range, other: Range, domains: list[dict[Var, Range]]) -> bool:
    """Whether two indices are at multiples of one number, and start apart: ``v * 2`` and ``w * 2 + 1`` never meet."""
    steps, starts = [0], []
    for at, domain in zip((one, other), domains):
        form = linear_form(substitute(at.min, {v: dom.min for v, dom in domain.items() if int_value(dom.extent) == 1}))
        start = None if form is None else int_value(form[1])
        if form is None or start is None or int_value(at.extent) != 1:
            return False
        steps += [c if isinstance(c, int) else 1 for c in form[0].values()]
        starts.append(start)
    each = gcd(*steps)
    return each > 1 and (starts[0] - starts[1]) % each != 0
