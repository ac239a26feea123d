"""Random affine programs as TVMScript text: chains and forks of one to four blocks.

Whatever has ``random.Random``'s methods can draw them: a seeded generator, or hypothesis' ``randoms()``. The text is the
same for every reader of the language, so another implementation can be given the very same program.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

EXTENTS = (1, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9, 10, 12)
LIMIT = 1500  # instances of one block: programs stay quick to interpret


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple[int, ...]
    dtype: str = "int32"

    def at(self, *index: str) -> str:
        load = f"{self.name}[{', '.join(index)}]"
        return load if self.dtype == "int32" else f'T.Cast("int32", {load})'


@dataclass
class Builder:
    """Adds stages; tensors that nothing reads become outputs."""

    rng: random.Random
    inputs: list[Tensor] = field(default_factory=list)
    stages: list[Tensor] = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)

    def new_input(self, shape: tuple[int, ...]) -> Tensor:
        fresh = Tensor(f"I{len(self.inputs)}", shape, self.rng.choice(["int32", "int32", "int8"]))
        self.inputs.append(fresh)
        return fresh

    def operand(self, shape: tuple[int, ...]) -> Tensor:
        """A tensor of that shape: an existing one or a new input."""
        same = [t for t in (*self.inputs, *self.stages) if t.shape == shape]
        found = self.rng.choice(same) if same and self.rng.random() < 0.7 else self.new_input(shape)
        self.read.add(found.name)
        return found

    def source(self) -> Tensor:
        """What the next stage reads: mostly the stage before."""
        if not self.stages:
            shape = tuple(self.rng.choice(EXTENTS) for _ in range(self.rng.randint(1, 3)))
            if prod(shape) > LIMIT:
                shape = shape[:2]
            return self.operand(shape)
        found = self.stages[-1] if self.rng.random() < 0.7 else self.rng.choice([*self.inputs, *self.stages])
        self.read.add(found.name)
        return found

    def emit(
        self, shape: tuple[int, ...], value: Callable[..., str], reduce: tuple[int, ...] = (), op: str = "",
        dtype: str = "int32",
    ) -> None:
        """One block: ``value`` of its iterators' names, reduced by ``op`` over ``reduce``."""
        out = Tensor(f"S{len(self.stages)}", shape, dtype)
        extents = (*shape, *reduce)
        kinds = ["spatial"] * len(shape) + ["reduce"] * len(reduce)
        order = list(range(len(extents)))
        if self.rng.random() < 0.2:
            self.rng.shuffle(order)
        loops = [f"i{k}" for k in order]
        if len(order) == 1:
            self.lines.append(f"for i0 in range({extents[0]}):")
        else:
            self.lines.append(f"for {', '.join(loops)} in T.grid({', '.join(str(extents[k]) for k in order)}):")
        self.lines.append(f'    with T.sblock("{out.name}"):')
        names = [f"v{k}" for k in range(len(extents))]
        for k, (kind, extent) in enumerate(zip(kinds, extents)):
            self.lines.append(f"        v{k} = T.axis.{kind}({extent}, i{k})")
        target = f"{out.name}[{', '.join(names[:len(shape)])}]"
        text = value(*names)
        if op:
            start = {"+": self.rng.choice([0, 0, 0, 3]), "max": -2147483648, "min": 2147483647}[op]
            self.lines += ["        with T.init():", f"            {target} = {start}"]
            text = f"{target} + {text}" if op == "+" else f"T.{op}({target}, {text})"
        self.lines.append(f"        {target} = {text}")
        self.stages.append(out)

    # -- stages ------------------------------------------------------------------------------------

    def elementwise(self, s: Tensor) -> None:
        form = self.rng.randrange(7)
        if form < 2:
            other = self.operand(s.shape)
            op = self.rng.choice(["{} + {}", "{} - {}", "T.max({}, {})", "{} * {}"])
            self.emit(s.shape, lambda *v: op.format(s.at(*v), other.at(*v)))
        elif form == 2:
            self.emit(s.shape, lambda *v: f'T.Cast("int8", {s.at(*v)})', dtype="int8")
        elif form == 3:
            self.emit(s.shape, lambda *v: f"{s.at(*v)} + {v[0]}")
        elif form == 4:
            self.emit(s.shape, lambda *v: f"T.Select({v[-1]} < 2, {s.at(*v)}, 5)")
        else:
            op = self.rng.choice(["{} + 1", "{} * 3", "T.max({}, 0)", "T.shift_right({}, 1)", "7 - {}"])
            self.emit(s.shape, lambda *v: op.format(s.at(*v)))

    def broadcast(self, s: Tensor) -> None:
        extent, at = self.rng.choice(EXTENTS), self.rng.randint(0, len(s.shape))
        shape = (*s.shape[:at], extent, *s.shape[at:])
        if prod(shape) > LIMIT or len(shape) > 4:
            return self.elementwise(s)
        other = self.operand((extent,))
        return self.emit(shape, lambda *v: f"{s.at(*v[:at], *v[at + 1:])} * {other.at(v[at])}")

    def combine(self, s: Tensor) -> None:
        """With a tensor of some of its dimensions: a row's sum taken from a row."""
        kept = [k for k in range(len(s.shape)) if self.rng.random() < 0.6] or [0]
        other = self.operand(tuple(s.shape[k] for k in kept))
        self.emit(s.shape, lambda *v: f"{s.at(*v)} - {other.at(*(v[k] for k in kept))}")

    def permute(self, s: Tensor) -> None:
        order = self.rng.sample(range(len(s.shape)), len(s.shape))
        self.emit(tuple(s.shape[k] for k in order), lambda *v: s.at(*(v[order.index(k)] for k in range(len(order)))) + " + 2")

    def reshape(self, s: Tensor) -> None:
        if len(s.shape) == 2:
            n = s.shape[1]
            self.emit((prod(s.shape),), lambda v: f"{s.at(f'{v} // {n}', f'{v} % {n}')} + 1")
        elif len(s.shape) == 1 and (divisors := [d for d in range(2, s.shape[0]) if s.shape[0] % d == 0]):
            d = self.rng.choice(divisors)
            self.emit((s.shape[0] // d, d), lambda p, q: f"{s.at(f'{p} * {d} + {q}')} * 2")
        else:
            self.permute(s)

    def move(self, s: Tensor) -> None:
        """Reversed, shifted, strided or repeated along one dimension."""
        at = self.rng.randrange(len(s.shape))
        n = s.shape[at]
        form = self.rng.choice(["reverse", "slice", "stride", "repeat"])
        shift = self.rng.randint(0, max(0, n - 1))
        extent, text = {
            "reverse": (n, f"{n - 1} - {{}}"), "slice": (n - shift, f"{{}} + {shift}"),
            "stride": ((n + 1) // 2, "{} * 2"), "repeat": (n * 2, "{} // 2"),
        }[form]
        shape = (*s.shape[:at], extent, *s.shape[at + 1:])
        self.emit(shape, lambda *v: s.at(*v[:at], text.format(v[at]), *v[at + 1:]) + " + 4")

    def pad(self, s: Tensor) -> None:
        margins = [(self.rng.randint(0, 2), self.rng.randint(0, 2)) if self.rng.random() < 0.7 else (0, 0) for _ in s.shape]
        margins[0] = (self.rng.randint(1, 2), margins[0][1])
        shape = tuple(n + lo + hi for n, (lo, hi) in zip(s.shape, margins))

        def value(*v: str) -> str:
            conditions = []
            for name, n, (lo, hi) in zip(v, s.shape, margins):
                conditions += [f"{name} >= {lo}"] * (lo > 0) + [f"{name} < {n + lo}"] * (hi > 0)
            index = [f"{name} - {lo}" if lo else name for name, (lo, _) in zip(v, margins)]
            return f"T.if_then_else({' and '.join(conditions)}, {s.at(*index)}, 0)"

        self.emit(shape, value)

    def reduce(self, s: Tensor) -> None:
        gone = [k for k in range(len(s.shape)) if self.rng.random() < 0.5] or [len(s.shape) - 1]
        kept = [k for k in range(len(s.shape)) if k not in gone]
        shape = tuple(s.shape[k] for k in kept) or (1,)

        def value(*v: str) -> str:
            names = dict(zip(kept, v)) | dict(zip(gone, v[len(shape):]))
            return s.at(*(names[k] for k in range(len(s.shape))))

        self.emit(shape, value, tuple(s.shape[k] for k in gone), self.rng.choice(["+", "+", "max", "min"]))

    def matmul(self, s: Tensor) -> None:
        extent, k = self.rng.choice(EXTENTS), s.shape[-1]
        if prod(s.shape) * extent > LIMIT:
            return self.reduce(s)
        other = self.operand((extent, k) if (swapped := self.rng.random() < 0.5) else (k, extent))
        self.emit(
            (*s.shape[:-1], extent),
            lambda *v: f"{s.at(*v[:-2], v[-1])} * {other.at(v[-2], v[-1]) if swapped else other.at(v[-1], v[-2])}",
            (k,), "+",
        )
        return None

    def window(self, s: Tensor) -> None:
        at = self.rng.randrange(len(s.shape))
        n, stride = s.shape[at], self.rng.choice([1, 1, 2])
        size = self.rng.randint(2, 3)
        if n < size or prod(s.shape) * size > LIMIT:
            return self.elementwise(s)
        extent = (n - size) // stride + 1
        weight = self.operand((size,)) if self.rng.random() < 0.5 else None
        step = "" if stride == 1 else f" * {stride}"

        def value(*v: str) -> str:
            load = s.at(*v[:at], f"{v[at]}{step} + {v[-1]}", *v[at + 1:-1])
            return load if weight is None else f"{load} * {weight.at(v[-1])}"

        op = "+" if weight is not None else self.rng.choice(["+", "max"])
        return self.emit((*s.shape[:at], extent, *s.shape[at + 1:]), value, (size,), op)

    def text(self) -> str:
        outputs = [t for t in self.stages if t.name not in self.read]
        inner = [t for t in self.stages if t.name in self.read]
        inputs = [t for t in self.inputs if t.name in self.read]
        params = ", ".join(f'{t.name}: T.Buffer({_shape(t)}, "{t.dtype}")' for t in (*inputs, *outputs))
        allocs = [f'{t.name} = T.sblock_alloc_buffer({_shape(t)}, "{t.dtype}")' for t in inner]
        body = "".join(f"    {line}\n" for line in (*allocs, *self.lines))
        return f"@T.prim_func(s_tir=True)\ndef main({params}):\n{body}"


def _shape(t: Tensor) -> str:
    return "(" + ", ".join(map(str, t.shape)) + ("," if len(t.shape) == 1 else "") + ")"


STAGES = (
    "elementwise", "elementwise", "elementwise", "broadcast", "combine", "permute", "reshape", "move", "pad", "reduce",
    "reduce", "matmul", "matmul", "window", "window",
)


def program(rng: random.Random, most: int = 4) -> str:
    """The text of a random program.

    Args:
        rng: what draws.
        most: blocks at most.
    """
    builder = Builder(rng)
    for _ in range(rng.randint(1, most)):
        source = builder.source()
        if prod(source.shape) > LIMIT:
            break
        getattr(builder, rng.choice(STAGES))(source)
    return builder.text()
