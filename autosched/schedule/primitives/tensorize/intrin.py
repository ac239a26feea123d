"""Tensor intrinsics: what a hardware instruction computes, and how it is called."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from autosched.errors import ProgramError, UnknownNameError
from autosched.ir.expr import BufferData, BufferLoad, Call, Expr, StringImm
from autosched.ir.functor import all_exprs, walk_expr
from autosched.ir.interp import register_call
from autosched.ir.stmt import Buffer, PrimFunc
from autosched.ir.structural import structural_hash

_INTRINS: dict[str, TensorIntrin] = {}


class UnknownIntrinError(UnknownNameError):
    """No tensor intrinsic has the name; those of a target are registered when the target is asked for."""

    def __str__(self) -> str:
        found = super().__str__()
        if str(self.name).startswith("vta.") and not any(k.startswith("vta.") for k in self.known):
            return f'{found}; autosched.target.get_target("vta-de10") registers the intrinsics of that target'
        return found + ("" if self.known else "; register it with TensorIntrin.register(name, desc, impl)")


@dataclass(frozen=True)
class TensorIntrin:
    """A description of a computation and an implementation of it, over the same parameters.

    Args:
        desc: a program with one block that computes what the instruction does.
        impl: a program with the same parameters whose body calls the instruction.

    Raises:
        ProgramError: the parameters differ in number, rank or type, or the description allocates buffers.
    """

    desc: PrimFunc
    impl: PrimFunc

    def __post_init__(self) -> None:
        ours, theirs = self.desc.buffers, self.impl.buffers
        if len(ours) != len(self.desc.params) or len(theirs) != len(self.impl.params):
            raise ProgramError("a tensor intrinsic takes tensors only, no scalar parameters")
        if len(ours) != len(theirs):
            raise ProgramError(f"the description has {len(ours)} parameters and the implementation {len(theirs)}")
        for a, b in zip(ours, theirs):
            if a.dtype != b.dtype or a.ndim != b.ndim:
                raise ProgramError(f"parameter {a.name} of the description and {b.name} of the implementation differ: "
                                   f"{a.ndim} dimensions of {a.dtype}, {b.ndim} of {b.dtype}")

    @cached_property
    def hash(self) -> str:
        """SHA-256 of description and implementation, in hex: traces store it beside the name."""
        both = structural_hash(self.desc) + structural_hash(self.impl)
        return hashlib.sha256(both.encode()).hexdigest()

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> TensorIntrin:
        """Makes an intrinsic known by a name, and its external calls known to the interpreter.

        Args:
            name: e.g. ``vta.gemm.1x16x16``.
            desc: what it computes.
            impl: how it is called.
            override: replace another intrinsic of the same name.

        Raises:
            ProgramError: another intrinsic has the name, or the two programs do not fit.
        """
        new = TensorIntrin(desc, impl)
        old = _INTRINS.get(name)
        if old is not None and not override and old.hash != new.hash:
            raise ProgramError(f"another tensor intrinsic is registered as {name!r}; give override=True to replace it")
        _INTRINS[name] = new
        for callee, order in _extern_calls(impl):
            register_call(callee, desc, order)
        return new

    @staticmethod
    def get(name: str) -> TensorIntrin:
        """The intrinsic of a name.

        Args:
            name: as registered.

        Raises:
            UnknownNameError: there is none.
        """
        found = _INTRINS.get(name)
        if found is None:
            raise UnknownIntrinError("tensor intrinsic", name, _INTRINS)
        return found

    @staticmethod
    def names() -> list[str]:
        """The registered names, in order."""
        return list(_INTRINS)


def intrin_stamp(args: Mapping[str, Any]) -> str:
    """What a trace stores beside the name of an intrinsic: the start of its hash."""
    return TensorIntrin.get(args["tensor_intrin"]).hash[:16]


def _extern_calls(impl: PrimFunc) -> list[tuple[str, list[int]]]:
    """The external calls that take each parameter once: name, and the parameter that each pointer is."""
    position = {b: i for i, b in enumerate(impl.buffers)}
    found = []
    for expr in all_exprs(impl.body):
        if isinstance(expr, Call) and expr.op == "call_extern" and expr.args and isinstance(expr.args[0], StringImm):
            order = [position[b] for a in expr.args[1:] if (b := _pointer(a)) in position]
            if sorted(order) == list(range(len(position))):
                found.append((expr.args[0].value, order))
    return found


def _pointer(arg: Expr) -> Buffer | None:
    """The buffer whose address an argument is."""
    return next((e.buffer for e in walk_expr(arg) if isinstance(e, BufferData | BufferLoad)), None)
