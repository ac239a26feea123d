"""The blocks of one nest: which feed what it stores, in which order they stand, and how many of their tensors live at once."""

from __future__ import annotations

from autosched.errors import SpaceError
from autosched.ir.expr import BinOp, BufferLoad
from autosched.ir.functor import free_vars
from autosched.ir.patterns import has_loads
from autosched.ir.stmt import Buffer
from space.halos import elsewhere
from space.sites import NotPackedError, Site, aside, heads_of, is_copy, loads_of, reads_of, starts_of, term_of
from space.stages import is_link


def needed(outs: list[Site], by_output: dict[Buffer, Site], sources: set[Buffer]) -> list[Site]:
    """The blocks that feed some others, these included, up to what stands in DRAM."""
    found: dict[Buffer, Site] = {}
    ahead = list(outs)
    while ahead:
        site = ahead.pop()
        if site.store.buffer not in found:
            found[site.store.buffer] = site
            loads = reads_of(site)
            ahead += [by_output[x.buffer] for x in loads if x.buffer in by_output and x.buffer not in sources]
    return list(found.values())


def chain_of(
    outs: list[Site], matches: dict[str, tuple[BufferLoad, BufferLoad]], by_output: dict[Buffer, Site], sources: set[Buffer],
    halos: bool = False,
) -> list[Site]:
    """The blocks from the sum, or from the first stage, to those that store; sums that a stage joins stand before it.

    With ``halos`` what a stage reads at several places is none of them.
    """
    found: dict[Buffer, Site] = {}
    roots: list[Site] = []
    ahead = list(outs)
    while ahead:
        site = ahead.pop()
        if site.store.buffer in found:
            continue
        found[site.store.buffer] = site
        link = site.block.name in matches and is_link(site, by_output)
        inner = [x for x in (starts_of(site) if link else loads_of(site)) if x.buffer in by_output and x.buffer not in sources
                 and not is_copy(by_output[x.buffer], matches)]
        apart = elsewhere(site) if halos else set()
        inner = [x for x in inner if x.buffer not in apart]
        if (site.block.init is not None and not link) or not inner:
            roots.append(site)
        else:
            ahead += [by_output[x.buffer] for x in inner]
    chain = [s for s in by_output.values() if s.store.buffer in found]
    if len(roots) > 1:
        for site in roots:
            if site.block.name not in matches or any(x.buffer not in sources for x in starts_of(site)):
                names = " and ".join(sorted(r.block.name for r in roots))
                # A sum of products that the machine's intrinsic does not match lies in a layout of its own.
                kind = SpaceError if site.block.name in matches or not _multiplies(site) else NotPackedError
                raise kind(f"block {_joint(chain, roots).block.name!r} joins what comes from {names}; a space joins sums "
                           f"of products only, and {site.block.name} is none: let what it makes be a result of the "
                           "program, as int8", "join")
        # The largest sum is the one whose loops are tiled; the others are made tile by tile.
        anchor = max(roots, key=lambda r: (r.steps, -chain.index(r)))
        chain = [anchor, *(s for s in chain if s is not anchor)]
    return chain


def _multiplies(site: Site) -> bool:
    """Whether a block adds up products of elements."""
    term = term_of(site) if site.block.init is not None else None
    return isinstance(term, BinOp) and term.op == "*" and has_loads(term.a) and has_loads(term.b)


def _joint(chain: list[Site], roots: list[Site]) -> Site:
    """The first block that two of the roots lead to."""
    reached: dict[Buffer, set[Buffer]] = {r.store.buffer: {r.store.buffer} for r in roots}
    for site in chain:
        made = [reached[x.buffer] for x in reads_of(site) if x.buffer in reached]
        if site not in roots:
            reached[site.store.buffer] = set().union(*made)
        if len(reached[site.store.buffer]) > 1:
            return site
    return chain[-1]


def forks_of(chain: list[Site]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Where several of a chain read one block of it: every block that some read, with these."""
    found = []
    for site in chain:
        made = site.store.buffer
        readers = [s for s in chain if s is not site and any(x.buffer is made for x in reads_of(s))]
        if readers:
            found.append((site.block.name, tuple(r.block.name for r in readers)))
    return tuple(found) if any(len(readers) > 1 for _, readers in found) else ()


def live_in(chain: list[Site], sources: set[Buffer]) -> int:
    """How many tensors of a chain are in the accumulator at once, at most: a stage stores where what it reads last was."""
    # A product that a stage joins is formed ahead of all that it is not made of: each is placed directly before its reader.
    made = {s.store.buffer for s in chain}
    joined = [s for s in chain[1:] if s.block.init is not None and not any(x.buffer in made for x in reads_of(s))]
    order = [*joined[::-1], *[s for s in chain if s not in joined]]
    last = {x.buffer: n for n, s in enumerate(order) for x in reads_of(s)}
    most, held = 1, set[Buffer]()
    for n, site in enumerate(order):
        ends = {b for b in held if last.get(b) == n}
        most = max(most, len(held))
        held = {*(held - ends), *({site.store.buffer} - sources)}
    # What needs a place besides another one's has it for itself.
    return most + sum(aside(site.store.value) for site in chain if site.block.init is None)


def begun_apart(chain: list[Site]) -> int:
    """1 where a stage that reads what others make begins with what has fewer elements than its result, as ``s + (b << 3)``."""
    made = {s.store.buffer for s in chain}

    def apart(site: Site) -> bool:
        heads = heads_of(site.store.value)
        if len(heads) != 1 or not heads[0] or not any(x.buffer in made for x in loads_of(site)):
            return False
        return not any(x.buffer in made or set(x.indices) >= {i for i in site.store.indices if free_vars(i)} for x in heads[0])

    return int(any(apart(s) for s in chain if s.block.init is None))
