"""``autosched space``: how large a design space is, and what its draft thinks best."""

from __future__ import annotations

import argparse

import numpy as np

from autosched import arguments
from autosched.cli.exit_codes import Exit
from autosched.cli.options import Parser, add_format, add_target, at_most, named, positive, seed
from autosched.cli.tables import number, print_json, print_table, tell
from autosched.errors import NoScheduleError
from autosched.target import get_target
from autosched.workloads import workload


def _options(p: Parser) -> None:
    p.add_argument("workload", type=named)
    add_target(p)
    p.add_argument("--top", type=positive, default=5, metavar="N", help="favourites to list (default 5)")
    p.add_argument("--decisions", action="store_true", help="list the decisions, which --fix takes, instead of favourites")
    p.add_argument("--sample", type=at_most(arguments.SAMPLE), default=4096, metavar="N",
                   help="points to draw in a large space (default 4096)")
    p.add_argument("--seed", type=seed, default=0, metavar="N", help="of the draw (default 0)")
    add_format(p)
    p.set_defaults(run=run)


OPTIONS = {"space": _options}


def run(args: argparse.Namespace) -> int:
    """Counts the points and lists the best drafts."""
    from space import Space
    from space.lowerable import require_lowerable
    from space.shortage import shortage

    target = get_target(args.target)
    space = Space(workload(args.workload, target.config.batch, target.config.block_in).func, target)
    require_lowerable(space)
    count, exact = space.count(limit=200_000)
    if exact and count:
        points = np.concatenate(list(space.enumerate()))
    else:
        points = space.sample(np.random.default_rng(args.seed), args.sample)
    drafts, bounds = space.draft(points), space.bound(points)
    order = np.argsort(drafts, kind="stable")[: args.top]
    if args.format == "json":
        print_json({"workload": args.workload, "points": count, "exact": exact, "bound": space.floor(),
                    "decisions": list(space.names),
                    "top": [{"draft": int(drafts[i]), "bound": int(bounds[i]), "point": points[i].tolist(),
                             "explain": space.explain(points[i])} for i in order]})
        return Exit.OK
    if not len(points):
        known = "has no schedule" if exact else "no schedule is known"
        what = f"{args.workload} on {space.target.name}: {known} that fits its memories"
        if lack := shortage(space):
            what += f": {lack}"
        raise NoScheduleError(what, args.workload, space.target.name, "")
    size = number(count) if exact else f"more than {number(count)}"
    tell(f"{args.workload} on {space.target.name}: {size} schedules, none faster than {number(space.floor())} cycles")
    if args.decisions:
        print_table([("decision", False), ("values", True), ("which", False)],
                    [[name, number(count), shown] for name, count, shown in space.listed()])
        return Exit.OK
    print_table([("draft", True), ("bound", True), ("schedule", False)],
                [[number(int(drafts[i])), number(int(bounds[i])), space.explain(points[i])] for i in order])
    return Exit.OK
