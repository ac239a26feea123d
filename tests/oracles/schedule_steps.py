"""Random scheduling steps as Python text: each looks its blocks and loops up by itself and ends with one primitive.

A step runs wherever ``sch`` is a schedule with the same primitives: here, or in another implementation. Dropping a step
from a sequence leaves a sequence that can be tried.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from autosched.ir import PrimFunc
from autosched.ir.expr import IntImm
from autosched.ir.functor import walk
from autosched.ir.stmt import Block, BlockRealize
from autosched.schedule import PRIMITIVES, Schedule

WEIGHTS = {
    "split": 10, "fuse": 6, "reorder": 7, "unroll": 1, "vectorize": 1, "parallel": 2, "bind": 1, "add_unit_loop": 2,
    "annotate": 2, "unannotate": 1, "compute_at": 10, "reverse_compute_at": 8, "compute_inline": 4,
    "reverse_compute_inline": 4, "cache_read": 5, "cache_write": 5, "cache_inplace": 1, "set_scope": 2,
    "storage_align": 2, "decompose_reduction": 5, "blockize": 4, "reindex": 2, "reindex_cache_read": 1,
    "reindex_cache_write": 1, "transform_layout": 4, "transform_block_layout": 2, "rfactor": 5, "loop_partition": 1,
    "merge": 1, "pad_einsum": 1, "decompose_padding": 1, "reorder_block_iter_var": 1, "sample_perfect_tile": 1,
    "fuse_reduction_epilogue": 1, "rolling_buffer": 1, "read_at": 1, "write_at": 1, "sample_categorical": 1, "cache_index": 1,
}
# What only this side has: drawn where asked for by name.
OWN = {
    "set_axis_separator": 1, "double_buffer": 4, "drop_zero_terms": 3, "fold_epilogue": 3, "raise_epilogue": 1,
    "offset_epilogue": 1,
    "advance_constant": 2, "advance_shift": 2, "drop_clip": 2,
    "recompute_at_consumers": 4, "partition_block": 2,
}


@dataclass(frozen=True)
class Step:
    """Lines of Python, the last of them calling ``op``."""

    op: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Seen:
    """A block that can be named: its nested loops' extents, iterator kinds, and what it reads and writes.

    The order of what a joined block declares is nobody's business: its buffers are named, where others are counted.
    """

    name: str
    extents: tuple[int, ...]
    kinds: tuple[str, ...]
    reads: int
    writes: int
    read_shapes: tuple[tuple[int, ...], ...]
    write_shape: tuple[int, ...]
    names: tuple[tuple[str, ...], tuple[str, ...]]

    def which(self, side: int, at: int) -> str | None:
        """How to say which buffer it reads (0) or writes (1); None where a name does not tell, as TVM finds it twice."""
        if not self.name.startswith("outer_") or at >= len(self.names[side]):
            return str(at)
        name = self.names[side][at]
        return None if side == 0 and name in self.names[1] else f'"{name}"'


def _const(e: object) -> int:
    return e.value if isinstance(e, IntImm) else 1


class Steps:
    """Draws steps for the program as it is.

    Args:
        rng: what draws.
        weights: how often each primitive is tried; those that the registry lacks are left out.
    """

    def __init__(self, rng: random.Random, weights: dict[str, int] | None = None) -> None:
        self.rng = rng
        table = {k: w for k, w in (weights or WEIGHTS).items() if k in PRIMITIVES and w}
        self.ops, self.cum = list(table), list(table.values())
        self.blocks: list[Seen] = []
        self.edges: list[tuple[str, str]] = []
        self.count = 0

    def look(self, sch: Schedule) -> None:
        """Notes the blocks of the program and who reads whom."""
        state = sch.state
        inits = {
            b.ident for r in state.realizes.values() if r.block.init is not None
            for b in walk(r.block.init) if isinstance(b, Block)
        }
        realizes = [r for r in state.realizes.values() if r.block is not state.root and r.block.ident not in inits]
        names = [r.block.name for r in realizes]
        realizes = [r for r in realizes if names.count(r.block.name) == 1 and r.block.name != "root"]
        self.blocks = [self._seen(sch, r) for r in realizes]
        self.edges = [
            (p.block.name, c.block.name) for p in realizes for c in realizes
            if p is not c and {w.buffer for w in p.block.writes} & {x.buffer for x in c.block.reads}
        ]

    def _seen(self, sch: Schedule, r: BlockRealize) -> Seen:
        b = r.block
        loops = sch.state.loops_of(b)
        return Seen(
            b.name, tuple(_const(x.extent) for x in loops), tuple(iv.kind for iv in b.iter_vars), len(b.reads),
            len(b.writes), tuple(tuple(_const(e) for e in x.buffer.shape) for x in b.reads),
            tuple(_const(e) for e in b.writes[0].buffer.shape) if b.writes else (),
            (tuple(x.buffer.name for x in b.reads), tuple(x.buffer.name for x in b.writes)),
        )

    def draw(self, sch: Schedule) -> Step | None:
        """A step, or None when no block is left."""
        self.look(sch)
        if not self.blocks:
            return None
        for _ in range(30):  # what does not apply to the block drawn is drawn again
            op = self.rng.choices(self.ops, self.cum)[0]
            found: list[str] | None = getattr(self, op)(self.rng.choice(self.blocks))
            if found is not None:
                self.count += 1
                return Step(op, tuple(line.format(n=self.count) for line in found))
        return None

    # -- pieces ------------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def get(self, b: Seen, rv: str = "b") -> str:
        return f'{rv}{{n}} = sch.get_sblock(name="{b.name}", func_name="main")'

    def loops(self, b: Seen, rv: str = "b") -> list[str]:
        letter = {"b": "l", "c": "k"}[rv]
        return [self.get(b, rv), f"{letter}{{n}} = sch.get_loops(block={rv}{{n}})"]

    def loop(self, b: Seen) -> str:
        return f"l{{n}}[{self.rng.randrange(len(b.extents))}]"

    def scope(self) -> str:
        return self.rng.choice(["local", "shared", "global", "local.acc_buffer"])

    def units(self, name: str = "preserve_unit_iters", default: bool = True) -> str:
        return f", {name}={default if self.chance(0.75) else not default}"

    def factors(self, extent: int, parts: int) -> list[int | None]:
        given: list[int | None] = [self.rng.choice([1, 2, 2, 3, 4, 4, 5, 8]) for _ in range(parts - 1)]
        given.insert(self.rng.randint(0, len(given)), None)
        if self.chance(0.15):
            given = [self.rng.choice([2, 3, 4, 6]) for _ in range(parts)]
        return given

    def index_map(self, shape: Sequence[int]) -> str:
        """A map of indices, mostly one to one."""
        n = len(shape)
        names = [f"a{k}" for k in range(n)]
        out = list(names)
        form = self.rng.choice(["permute", "split", "split", "fuse", "tile", "shift"])
        if form == "permute" or (form == "fuse" and n < 2):
            self.rng.shuffle(out)
        elif form == "split":
            at = self.rng.randrange(n)
            divisors = [d for d in range(2, shape[at]) if shape[at] % d == 0]
            f = self.rng.choice(divisors) if divisors and self.chance(0.6) else self.rng.choice([2, 3, 4])
            out[at:at + 1] = [f"{names[at]} // {f}", f"{names[at]} % {f}"]
        elif form == "fuse":
            at = self.rng.randrange(n - 1)
            out[at:at + 2] = [f"{names[at]} * {shape[at + 1]} + {names[at + 1]}"]
        elif form == "tile":
            f = self.rng.choice([2, 4])
            out = [*[f"{names[0]} // {f}"], *names[1:], f"{names[0]} % {f}"]
        else:
            out[0] = self.rng.choice([f"{shape[0] - 1} - a0", "a0 + 1", "0"])
        return f"lambda {', '.join(names)}: ({', '.join(out)}{',' if len(out) == 1 else ''})"

    # -- primitives of this side only ----------------------------------------------------------------

    def double_buffer(self, b: Seen) -> list[str]:
        return [self.get(b), "sch.double_buffer(block=b{n}, buffer_index=0)"]

    def drop_zero_terms(self, b: Seen) -> list[str]:
        return [self.get(b), "sch.drop_zero_terms(block=b{n})"]

    def fold_epilogue(self, b: Seen) -> list[str]:
        moved, _ = self._pair(b, True)
        return [self.get(moved), "sch.fold_epilogue(block=b{n})"]

    def advance_constant(self, b: Seen) -> list[str]:
        moved, _ = self._pair(b, True)
        return [self.get(moved), "sch.advance_constant(block=b{n})"]

    def advance_shift(self, b: Seen) -> list[str]:
        moved, _ = self._pair(b, True)
        return [self.get(moved), "sch.advance_shift(block=b{n})"]

    def drop_clip(self, b: Seen) -> list[str]:
        moved, _ = self._pair(b, True)
        return [self.get(moved), "sch.drop_clip(block=b{n})"]

    def raise_epilogue(self, b: Seen) -> list[str]:
        moved, _ = self._pair(b, True)
        return [self.get(moved), "sch.raise_epilogue(block=b{n})"]

    def offset_epilogue(self, b: Seen) -> list[str]:
        moved, _ = self._pair(b, True)
        return [self.get(moved), "sch.offset_epilogue(block=b{n})"]

    def recompute_at_consumers(self, b: Seen) -> list[str]:
        moved, _ = self._pair(b, False)
        return [self.get(moved), "sch.recompute_at_consumers(block=b{n})"]

    def partition_block(self, b: Seen) -> list[str] | None:
        if not b.extents:
            return None
        return [*self.loops(b), f"sch.partition_block(loop={self.loop(b)}, factors=[{self.rng.randint(1, 4)}, None])"]

    # -- primitives --------------------------------------------------------------------------------

    def split(self, b: Seen) -> list[str] | None:
        if not b.extents:
            return None
        at = self.rng.randrange(len(b.extents))
        factors = self.factors(b.extents[at], self.rng.choice([2, 2, 3]))
        known = prod(f for f in factors if f is not None)
        fits = b.extents[at] % known == 0 if None in factors else b.extents[at] == known
        extra = ", disable_predication=True" if fits and self.chance(0.15) else ""
        return [*self.loops(b), f"sch.split(loop=l{{n}}[{at}], factors={factors}{self.units()}{extra})"]

    def fuse(self, b: Seen) -> list[str] | None:
        n = len(b.extents)
        if n < 2 and self.chance(0.9):
            return None
        if self.chance(0.9) or not n:
            at, size = self.rng.randrange(max(1, n - 1)), self.rng.choice([2, 2, 3])
            chosen = list(range(n))[at:at + size]
        else:
            chosen = self.rng.sample(range(n), self.rng.randint(1, min(n, 3)))
        if not chosen:
            return None
        return [*self.loops(b), f"sch.fuse({', '.join(f'l{{n}}[{k}]' for k in chosen)}{self.units()})"]

    def reorder(self, b: Seen) -> list[str] | None:
        n = len(b.extents)
        if n < 2:
            return None
        chosen = self.rng.sample(range(n), self.rng.randint(2, n))
        return [*self.loops(b), f"sch.reorder({', '.join(f'l{{n}}[{k}]' for k in chosen)})"]

    def _kind(self, op: str, b: Seen) -> list[str] | None:
        return [*self.loops(b), f"sch.{op}(loop={self.loop(b)})"] if b.extents else None

    def unroll(self, b: Seen) -> list[str] | None:
        return self._kind("unroll", b)

    def vectorize(self, b: Seen) -> list[str] | None:
        return self._kind("vectorize", b)

    def parallel(self, b: Seen) -> list[str] | None:
        return self._kind("parallel", b)

    def bind(self, b: Seen) -> list[str] | None:
        return [*self.loops(b), f'sch.bind(loop={self.loop(b)}, thread_axis="vthread")'] if b.extents else None

    def add_unit_loop(self, b: Seen) -> list[str]:
        where = self.loop(b) if b.extents and self.chance(0.5) else "b{n}"
        return [*self.loops(b), f"sch.add_unit_loop(block_or_loop={where})"]

    def annotate(self, b: Seen) -> list[str]:
        where = self.loop(b) if b.extents and self.chance(0.5) else "b{n}"
        value = self.rng.choice(["1", '"x"', "[0, 1]"])
        return [*self.loops(b), f'sch.annotate(block_or_loop={where}, ann_key="note", ann_val={value})']

    def unannotate(self, b: Seen) -> list[str]:
        where = self.loop(b) if b.extents and self.chance(0.5) else "b{n}"
        return [*self.loops(b), f'sch.unannotate(block_or_loop={where}, ann_key="note")']

    def _pair(self, b: Seen, reverse: bool) -> tuple[Seen, Seen]:
        """What moves, and the block at whose loop it goes: mostly two that depend on each other."""
        by_name = {x.name: x for x in self.blocks}
        if self.edges and self.chance(0.85):
            producer, consumer = (by_name[x] for x in self.rng.choice(self.edges))
            return (consumer, producer) if reverse else (producer, consumer)
        return b, self.rng.choice(self.blocks)

    def _place(self, op: str, b: Seen) -> list[str] | None:
        moved, at = self._pair(b, op.startswith("reverse"))
        if not at.extents:
            return None
        loop = f"k{{n}}[{self.rng.randrange(len(at.extents))}]"
        index = self.rng.choice([-1, -1, -1, -2, 0, 1])
        extra = self.units("preserve_unit_loops", False) + ("" if index == -1 else f", index={index}")
        return [self.get(moved), *self.loops(at, "c"), f"sch.{op}(block=b{{n}}, loop={loop}{extra})"]

    def compute_at(self, b: Seen) -> list[str] | None:
        return self._place("compute_at", b)

    def reverse_compute_at(self, b: Seen) -> list[str] | None:
        return self._place("reverse_compute_at", b)

    def compute_inline(self, b: Seen) -> list[str]:
        moved, _ = self._pair(b, False)
        return [self.get(moved), "sch.compute_inline(block=b{n})"]

    def reverse_compute_inline(self, b: Seen) -> list[str]:
        moved, _ = self._pair(b, True)
        return [self.get(moved), "sch.reverse_compute_inline(block=b{n})"]

    def cache_read(self, b: Seen) -> list[str] | None:
        which = b.which(0, self.rng.randrange(b.reads + 1) if b.reads else 0)
        if which is None:
            return None
        lines, extra = [self.get(b)], ""
        if self.chance(0.2):
            lines.append(self.get(self.rng.choice(self.blocks), "c"))
            extra = ", consumer_blocks=[c{n}]"
        return [*lines, f'sch.cache_read(block=b{{n}}, read_buffer_index={which}, storage_scope="{self.scope()}"{extra})']

    def cache_write(self, b: Seen) -> list[str]:
        lines, extra = [self.get(b)], ""
        if self.chance(0.15):
            lines.append(self.get(self.rng.choice(self.blocks), "c"))
            extra = ", consumer_blocks=[c{n}]"
        which = b.which(1, 0)
        return [*lines, f'sch.cache_write(block=b{{n}}, write_buffer_index={which}, storage_scope="{self.scope()}"{extra})']

    def cache_inplace(self, b: Seen) -> list[str]:
        return [self.get(b), f'sch.cache_inplace(block=b{{n}}, read_buffer_index=0, storage_scope="{self.scope()}")']

    def cache_index(self, b: Seen) -> list[str]:
        threshold = self.rng.choice(["", ", cse_thresh=1", ", cse_thresh=2", ", cse_thresh=3"])
        return [self.get(b), f'sch.cache_index(block=b{{n}}, storage_scope="{self.scope()}"{threshold})']

    def set_scope(self, b: Seen) -> list[str]:
        return [self.get(b), f'sch.set_scope(block=b{{n}}, buffer_index=0, storage_scope="{self.scope()}")']

    def storage_align(self, b: Seen) -> list[str]:
        axis = self.rng.choice([0, -1, -2])
        return [self.get(b), f"sch.storage_align(block=b{{n}}, buffer_index=0, axis={axis}, factor=16, offset=4)"]

    def decompose_reduction(self, b: Seen) -> list[str] | None:
        chosen = self.rng.choice([x for x in self.blocks if "reduce" in x.kinds] or [b])
        if not chosen.extents:
            return None
        return [*self.loops(chosen), f"sch.decompose_reduction(block=b{{n}}, loop={self.loop(chosen)})"]

    def rfactor(self, b: Seen) -> list[str] | None:
        chosen = self.rng.choice([x for x in self.blocks if "reduce" in x.kinds] or [b])
        if not chosen.extents:
            return None
        axis = self.rng.choice([0, 0, 1, -1])
        return [*self.loops(chosen), f"sch.rfactor(loop={self.loop(chosen)}, factor_axis={axis})"]

    def blockize(self, b: Seen) -> list[str] | None:
        if b.extents and self.chance(0.85):
            return [*self.loops(b), f"sch.blockize(target={self.loop(b)}{self.units()})"]
        other = self.rng.choice(self.blocks)
        return [self.get(b), self.get(other, "c"), f"sch.blockize(target=[b{{n}}, c{{n}}]{self.units()})"]

    def _side(self, b: Seen) -> tuple[str, int]:
        if b.reads and self.chance(0.5):
            return "read", self.rng.randrange(b.reads)
        return "write", 0

    def reindex(self, b: Seen) -> list[str]:
        return [self.get(b), f"sch.reindex(block=b{{n}}, buffer={self._side(b)})"]

    def reindex_cache_read(self, b: Seen) -> list[str] | None:
        if not b.reads or not b.kinds:
            return None
        mapped = self.index_map([4] * len(b.kinds)) if self.chance(0.3) else self._pick(b)
        return [self.get(b), f'sch.reindex_cache_read(block=b{{n}}, read_buffer_index={self.rng.randrange(b.reads)}, '
                f'storage_scope="{self.scope()}", index_map={mapped})']

    def reindex_cache_write(self, b: Seen) -> list[str] | None:
        if not b.kinds:
            return None
        return [self.get(b), f'sch.reindex_cache_write(block=b{{n}}, write_buffer_index=0, '
                f'storage_scope="{self.scope()}", index_map={self._pick(b)})']

    def _pick(self, b: Seen) -> str:
        """A map from iterators to some of them."""
        n = len(b.kinds)
        kept = self.rng.sample(range(n), self.rng.randint(1, n))
        if self.chance(0.5):
            kept = [k for k in range(n) if b.kinds[k] == "spatial"] or kept
        out = ", ".join(f"a{k}" for k in kept)
        return f"lambda {', '.join(f'a{k}' for k in range(n))}: ({out}{',' if len(kept) == 1 else ''})"

    def transform_layout(self, b: Seen) -> list[str] | None:
        side, at = self._side(b)
        shape = b.write_shape if side == "write" else b.read_shapes[at]
        if not shape:
            return None
        mapped = self.index_map(shape)
        extras = ["", "", ", pad_value=0", ", assume_injective_transform=True"]
        extra = self.rng.choice(extras if ": (0" not in mapped else extras[:3])
        return [self.get(b), f'sch.transform_layout(block=b{{n}}, buffer=("{side}", {at}), index_map={mapped}{extra})']

    def transform_block_layout(self, b: Seen) -> list[str] | None:
        if len(b.kinds) != len(b.extents) or not b.kinds:
            return None
        mapped = self.index_map(b.extents)
        return [self.get(b), f"sch.transform_block_layout(block=b{{n}}, index_map={mapped})"]

    def loop_partition(self, b: Seen) -> list[str] | None:
        if not b.extents:
            return None
        return [*self.loops(b), f"sch.loop_partition(loop={self.loop(b)}, factors=[{self.rng.randint(1, 4)}, None])"]

    def merge(self, b: Seen) -> list[str] | None:
        other = self.rng.choice(self.blocks)
        depth = min(len(b.extents), len(other.extents))
        if not depth:
            return None
        at = self.rng.randrange(depth)
        return [*self.loops(b), *self.loops(other, "c"), f"sch.merge(l{{n}}[{at}], k{{n}}[{at}])"]

    def rolling_buffer(self, b: Seen) -> list[str]:
        moved, _ = self._pair(b, False)
        return [self.get(moved), "sch.rolling_buffer(block=b{n}, write_buffer_index=0)"]

    def read_at(self, b: Seen) -> list[str] | None:
        if not b.extents or not b.reads:
            return None
        which = self.rng.randrange(b.reads)
        return [*self.loops(b), f'sch.read_at(loop={self.loop(b)}, block=b{{n}}, read_buffer_index={which}, '
                f'storage_scope="{self.scope()}")']

    def write_at(self, b: Seen) -> list[str] | None:
        if not b.extents:
            return None
        return [*self.loops(b), f'sch.write_at(loop={self.loop(b)}, block=b{{n}}, write_buffer_index=0, '
                f'storage_scope="{self.scope()}")']

    def set_axis_separator(self, b: Seen) -> list[str]:
        side = self._side(b)
        return [self.get(b), f"sch.set_axis_separator(block=b{{n}}, buffer={side}, axis_separators=[{self.rng.randint(0, 2)}])"]

    def sample_categorical(self, b: Seen) -> list[str] | None:
        if not b.extents:
            return None
        return [*self.loops(b), "t{n} = sch.sample_categorical(candidates=[1, 2, 3], probs=[0.25, 0.25, 0.5], "
                f"decision={self.rng.randrange(3)})", f"sch.split(loop={self.loop(b)}, factors=[None, t{{n}}])"]

    def pad_einsum(self, b: Seen) -> list[str] | None:
        if not b.kinds:
            return None
        return [self.get(b), f"sch.pad_einsum(block=b{{n}}, padding={[self.rng.choice([1, 2, 4]) for _ in b.kinds]})"]

    def decompose_padding(self, b: Seen) -> list[str] | None:
        return [*self.loops(b), f"sch.decompose_padding(block=b{{n}}, loop={self.loop(b)})"] if b.extents else None

    def fuse_reduction_epilogue(self, b: Seen) -> list[str] | None:
        if not self.edges:
            return None
        by_name = {x.name: x for x in self.blocks}
        producer, consumer = (by_name[x] for x in self.rng.choice(self.edges))
        return [self.get(producer), self.get(consumer, "c"),
                "sch.fuse_reduction_epilogue(reduction_block=b{n}, epilogue_block=c{n})"]

    def reorder_block_iter_var(self, b: Seen) -> list[str] | None:
        n = len(b.kinds)
        return [self.get(b), f"sch.reorder_block_iter_var(block=b{{n}}, new_order={self.rng.sample(range(n), n)})"] if n else None

    def sample_perfect_tile(self, b: Seen) -> list[str] | None:
        if not b.extents:
            return None
        at = self.rng.randrange(len(b.extents))
        n = b.extents[at]
        inner = self.rng.choice([d for d in range(1, n + 1) if n % d == 0])
        return [*self.loops(b), f"t{{n}} = sch.sample_perfect_tile(loop=l{{n}}[{at}], n=2, max_innermost_factor=64, "
                f"decision=[{n // inner}, {inner}])", f"sch.split(loop=l{{n}}[{at}], factors=t{{n}})"]


def apply(sch: Schedule, step: Step, env: dict[str, object] | None = None) -> None:
    """Runs a step's lines on a schedule of ours; it raises what the primitive raises."""
    exec("\n".join(step.lines), {"sch": sch, **(env or {})})


def start(func: PrimFunc) -> Schedule:
    """A schedule of a program, with a fixed seed."""
    return Schedule(func, seed=1)
