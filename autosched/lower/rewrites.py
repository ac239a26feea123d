"""Sites with other accesses, and who uses a buffer: what the rewrites of the tree have in common."""

from __future__ import annotations

from collections.abc import Callable

from autosched.ir.stmt import Buffer
from autosched.lower.affine import Lin
from autosched.lower.classify import Leaf, Node, Op, leaves
from autosched.lower.tree import Access, Site


def map_site(
    site: Site, lin: Callable[[Lin], Lin], buffer: Callable[[Buffer], Buffer], whole: Callable[[Access], Access] = lambda a: a
) -> None:
    """Rewrites every access as a ``whole``, then every index, condition and buffer of a site, in place."""
    moved: dict[int, Access] = {}

    def access(a: Access) -> Access:
        if id(a) not in moved:
            own = whole(a)
            moved[id(a)] = Access(buffer(own.buffer), tuple([lin(i) for i in own.indices]), own.extents)
        return moved[id(a)]

    def value(node: Node) -> Node:
        if isinstance(node, Leaf):
            return Leaf(access(node.access))
        return Op(node.op, value(node.a), value(node.b)) if isinstance(node, Op) else node

    site.write = access(site.write)
    site.reads = [access(r) for r in site.reads]
    if site.value is not None:
        site.value = value(site.value)
        site.reads = [leaf.access for leaf in leaves(site.value)]
    site.conds = [lin(c) for c in site.conds]
    site.pads = [lin(c) for c in site.pads]


def uses_of(sites: list[Site]) -> dict[Buffer, list[tuple[Site, Access, bool]]]:
    """By buffer, who accesses it and how, and whether to write: in the order of the sites."""
    uses: dict[Buffer, list[tuple[Site, Access, bool]]] = {}
    for site in sites:
        for access, is_write in site.accesses():
            uses.setdefault(access.buffer, []).append((site, access, is_write))
    return uses
