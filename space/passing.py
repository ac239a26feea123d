"""Tensors between the nests of a program: which are stored, and which another program need not store."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.ir.scopes import ACC
from autosched.ir.stmt import BufferStore
from space.least_epilogue import blocks_of, identities_of
from space.model import LAID_OUT, Model
from space.nest import Nest


def passing(models: Sequence[Model]) -> frozenset[str]:
    """Names of the tensors that another program need not load: it keeps in the accumulator what nests store for others that only
    widen it.

    Args:
        models: of a program's nests.
    """
    made = {name for model in models for name in stored(model.nest)} - {b.name for b in models[0].nest.func.buffers}
    nests = [(model.nest, identities_of(model.nest)) for model in models]
    multiplied = {o.name for nest, widen in nests for o in nest.operands if o.scope != ACC and not set(o.readers) <= widen}
    # Nor does another program need what only this form lays out: diagonals, and limits that are made of nothing.
    laid = {name for model in models if model.original == LAID_OUT for name in stored(model.nest)}
    limits = {name for model in models for name, of in model.origins.items() if not of}
    return frozenset(made - multiplied | laid | limits)


def stored(nest: Nest) -> list[str]:
    """Names of the tensors that a nest stores.

    Args:
        nest: any.
    """
    blocks = blocks_of(nest)
    return [s.buffer.name for name in (nest.out, *nest.also) if isinstance(s := blocks[name].body, BufferStore)]
