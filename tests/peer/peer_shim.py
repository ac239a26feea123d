"""Stands in for ``tvm`` and its modules, so that TVM's own schedule tests run against autosched.

``install()`` puts the modules into ``sys.modules``. Only names and spelling are translated; whatever a test asserts is
computed by autosched. What the stand-in lacks raises AttributeError, never ``ScheduleError``.
"""

from __future__ import annotations

import json
import operator
import sys
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import peer_equality as equality
import pytest
from peer_trace import Instruction, InstructionKind, Trace, attrs_of, kind_of

import autosched.ir.stmt as ir_stmt
from autosched import schedule, script, te
from autosched.errors import ScheduleError
from autosched.ir import expr as ir_expr
from autosched.ir import interp
from autosched.ir.functor import all_exprs, walk
from autosched.ir.index_map import AXIS_SEPARATOR, IndexMap
from autosched.ir.stmt import Block, BlockRealize, Buffer, For, IRModule, PrimFunc, Stmt
from autosched.ir.structural import structural_hash
from autosched.schedule.kit.base import RV
from autosched.schedule.kit.state import State
from autosched.script import I as OUR_I
from autosched.script import T as OUR_T
from autosched.script.entry import LazyPrimFunc

# Comparisons of the running test that hold only modulo the affine normal form, and the diff of one that does not.
SOFT: list[str] = []


def module(name: str, **names: Any) -> ModuleType:
    """A module in ``sys.modules`` and in its parent."""
    new = sys.modules.get(name) or ModuleType(name)
    new.__dict__.update(names)
    new.__path__ = []
    sys.modules[name] = new
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules.get(parent) or module(parent), last, new)
    return new


# -- comparisons -----------------------------------------------------------------------------------------------------


def structural_equal(lhs: Any, rhs: Any, *_: Any, **__: Any) -> bool:
    """Equality, noting where it needed the normal form."""
    grade = equality.compare(lhs, rhs)
    if grade == "modulo":
        SOFT.append(equality.difference(lhs, rhs))
    return grade != "different"


def assert_structural_equal(lhs: Any, rhs: Any, *_: Any, **__: Any) -> None:
    """Equality with a diff."""
    if not structural_equal(lhs, rhs):
        raise AssertionError("programs differ\n" + equality.difference(lhs, rhs))


def verify_trace_roundtrip(
    sch: Any, mod: Any, *, debug_mask: Any = "all", text_format: str | Sequence[str] = ("python", "json")
) -> Any:
    """Replays the trace from its JSON text and from its Python text: same program, same trace."""
    new = None
    for form in [text_format] if isinstance(text_format, str) else text_format:
        new = Schedule(mod, debug_mask=debug_mask)
        if form == "json":
            text = json.dumps(schedule.Trace.as_json(sch.trace))
            schedule.Trace.apply_json_to_schedule(text, new)
        else:
            exec("\n".join(sch.trace.as_python()), {"sch": new, "T": OUR_T, "AXIS_SEPARATOR": AXIS_SEPARATOR})
        assert_structural_equal(new.mod, sch.mod)
        assert sch.trace.as_python() == new.trace.as_python()
    return new


# -- schedules -------------------------------------------------------------------------------------------------------


class StmtSRef:
    """A statement of one schedule."""

    def __init__(self, owner: object, stmt: Stmt) -> None:
        self.owner = owner
        self.stmt = stmt

    def same_as(self, other: StmtSRef) -> bool:
        """The same statement of the same schedule (a state knows none)."""
        return self.stmt is other.stmt and (None in (self.owner, other.owner) or self.owner is other.owner)


class Schedule(schedule.Schedule):
    """Our schedule with TVM's trace and references."""

    def __init__(self, mod: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(mod, *args, **kwargs)
        self.trace = Trace()

    def get_sref(self, rv: Any) -> StmtSRef:
        """Where a handle points."""
        return StmtSRef(self, self.get(rv)) if isinstance(rv, RV) else StmtSRef(None, rv)

    def copy(self) -> Schedule:
        """An independent schedule."""
        new = super().copy()
        new.__class__ = Schedule
        assert isinstance(new, Schedule)
        return new


class Intrinsic:
    """``tirx.TensorIntrin``."""

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> None:
        """Registers under a name."""
        schedule.TensorIntrin.register(name, desc, impl, override)

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> Any:
        """The intrinsic; a ValueError where TVM raises one."""
        if name not in schedule.TensorIntrin.names():
            if allow_missing:
                return None
            raise ValueError(f"no tensor intrinsic {name}")
        return schedule.TensorIntrin.get(name)


# -- programs --------------------------------------------------------------------------------------------------------


def prim_func(func: Any = None, **_: Any) -> Any:
    """``T.prim_func``, read at first use: one unsupported form costs one test, not the file."""
    frame = sys._getframe(1)

    def make(f: Any) -> LazyPrimFunc:
        inside = frame.f_locals is not frame.f_globals
        return LazyPrimFunc(f, dict(frame.f_locals) if inside else {})

    return make if func is None else make(func)


class _Script(ModuleType):
    """A namespace of our language as a module."""

    def __init__(self, name: str, names: Any) -> None:
        super().__init__(name)
        self._names = names

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._names, name)


class Tensor(np.ndarray):
    """An array with ``numpy()``."""

    def numpy(self) -> Any:
        """As a plain array."""
        return np.asarray(self)


def tensor(array: Any) -> Tensor:
    """A tensor with a copy of the data."""
    return np.array(array).view(Tensor)


def compile_(mod: Any, target: Any = None) -> Callable[..., None]:
    """A function that interprets the program, writing its outputs in place."""
    func = mod if isinstance(mod, PrimFunc) else next(iter(mod.functions.values()))
    return lambda *arrays: (interp.run(func, *(a.view(np.ndarray) for a in arrays)), None)[1]


def parameter(*values: Any, ids: Any = None, by_dict: dict[str, Any] | None = None) -> Any:
    """``tvm.testing.parameter``: a fixture over values."""
    if by_dict is not None:
        ids, values = list(by_dict), tuple(by_dict.values())

    @pytest.fixture(params=values, ids=ids)
    def fixture(*_: Any, request: Any) -> Any:
        return request.param

    return fixture


_equal_imm = ir_expr.IntImm.__eq__


def _hash(node: Any) -> int:
    """A hash that equal programs share."""
    return hash(node) if isinstance(node, IRModule) else int(structural_hash(node), 16)


def _decl_buffer(shape: Any, dtype: str = "float32", name: str = "buffer") -> Buffer:
    extents = shape if isinstance(shape, list | tuple) else (shape,)
    return Buffer(name, tuple(ir_expr.as_expr(x) for x in extents), dtype)


def post_order_visit(stmt: Stmt, visit: Callable[[Any], Any]) -> None:
    """Calls on every statement and expression."""
    for s in walk(stmt):
        visit(s)
    for e in all_exprs(stmt):
        visit(e)


def _decorate_nodes() -> None:
    """TVM's names of the fields of our nodes."""
    nodes: list[Any] = [c for c in vars(ir_stmt).values() if isinstance(c, type) and c.__module__ == ir_stmt.__name__]
    nodes += [c for c in vars(ir_expr).values() if isinstance(c, type) and c.__module__ == ir_expr.__name__]
    for cls in [*nodes, RV, schedule.Instruction, Trace]:
        cls.same_as = lambda self, other: self is other
    setters: list[tuple[Any, str, Any]] = [
        (Block, "name_hint", property(lambda b: b.name)),
        (For, "loop_var", property(lambda s: s.var)),
        (Buffer, "data", property(lambda b: ir_expr.BufferData(b))),
        (Buffer, "ty", property(lambda b: SimpleNamespace(dtype=b.dtype, shape=b.shape))),
        (ir_expr.Expr, "ty", property(lambda e: SimpleNamespace(dtype=e.dtype))),
        (ir_expr.IntImm, "__eq__", lambda a, b: a.value == b if isinstance(b, int) else _equal_imm(a, b)),
        (ir_expr.IntImm, "__int__", lambda a: a.value),
        # TVM's exceptions carry one text; ours their parts, so that they survive pickling.
        (ScheduleError, "args", property(lambda e: (str(e),))),
        (IRModule, "get_global_var", lambda m, name: name if name in m.functions else m.functions[name]),
        (IRModule, "from_expr", staticmethod(lambda f: IRModule({f.name: f}))),
        (IRModule, "get", lambda m, name, default=None: m.functions.get(name, default)),
        (ir_stmt.SeqStmt, "__getitem__", lambda s, i: s.stmts[i]),
        (State, "mod", property(lambda s: IRModule({"main": s.func}))),
        (State, "get_sref", lambda s, stmt: StmtSRef(None, stmt)),
        (PrimFunc, "buffer_map", property(lambda f: {b: b for b in f.buffers})),
        (schedule.Instruction, "kind", property(kind_of)),
        (schedule.Instruction, "attrs", property(attrs_of)),
    ]
    for cls, name, value in setters:
        setattr(cls, name, value)


def install() -> None:
    """Puts every module into place."""
    _decorate_nodes()
    t = _Script("tvm.script.tirx", OUR_T)
    t.prim_func = prim_func  # type: ignore[attr-defined]
    i = _Script("tvm.script.ir", OUR_I)
    module("tvm", IRModule=IRModule, compile=compile_)
    module("tvm.ir", IRModule=IRModule, assert_structural_equal=assert_structural_equal, structural_equal=structural_equal)
    module("tvm.runtime", tensor=tensor)
    module("tvm.script", tirx=t, ir=i, tir=t, ir_module=script.ir_module, from_source=script.from_source, parse=script.parse)
    for sub in (t, i):
        sys.modules[sub.__name__] = sub
    env = module("tvm.testing.env")
    env.__getattr__ = lambda name: (lambda *args, **kwargs: False)  # type: ignore[method-assign]
    module(
        "tvm.testing", parameter=parameter, main=lambda: None, env=env,
        assert_allclose=lambda a, b, rtol=1e-7, atol=1e-7: np.testing.assert_allclose(a, b, rtol=rtol, atol=atol),
    )
    module("tvm_ffi", structural_equal=structural_equal, structural_hash=_hash)
    module("tvm.te", **{**{n: getattr(te, n) for n in te.__all__}, "create_prim_func": create_prim_func})
    _install_tirx()
    _install_schedule()


# What topi.argmax and topi.argmin over axis 1 of a matrix are: inputs of tests, no work of ours.
_ARG = """
@T.prim_func
def main({x}: T.Buffer(({n}, {m}), "int32"), {x}_red: T.Buffer(({n},), "int32")):
    T.func_attr({{"tirx.noalias": True}})
    v0 = T.sblock_alloc_buffer(({n},), "int32")
    v1 = T.sblock_alloc_buffer(({n},), "int32")
    for i0, i1 in T.grid({n}, {m}):
        with T.sblock("{x}_red_temp"):
            a, k = T.axis.remap("SR", [i0, i1])
            with T.init():
                v0[a] = -1
                v1[a] = {start}
            w0: T.let[T.int32] = T.Select(v1[a] {op} {x}[a, k] or v1[a] == {x}[a, k] and v0[a] < k, v0[a], k)
            w1: T.let[T.int32] = T.Select(v1[a] {op} {x}[a, k], v1[a], {x}[a, k])
            v0[a] = w0
            v1[a] = w1
    for i0 in range({n}):
        with T.sblock("{x}_red"):
            a = T.axis.spatial({n}, i0)
            {x}_red[a] = v0[a]
"""


def _arg(op: str, start: str) -> Callable[..., PrimFunc]:
    def program(source: Any, axis: int) -> PrimFunc:
        n, m = (int(e.value) for e in source.shape)
        func = script.parse(_ARG.format(x=source.name, n=n, m=m, op=op, start=start))
        assert isinstance(func, PrimFunc)
        assert axis == 1
        return func

    return program


def create_prim_func(tensors: Sequence[Any]) -> PrimFunc:
    """``te.create_prim_func``, also of what stands in for topi."""
    ready = [t for t in tensors if isinstance(t, PrimFunc)]
    return ready[0] if ready else te.create_prim_func(list(tensors))


def _install_tirx() -> None:
    const = {
        "IntImm": lambda dtype, value: ir_expr.IntImm(value, dtype),
        "FloatImm": lambda dtype, value: ir_expr.FloatImm(value, dtype),
        "Cast": lambda dtype, value: ir_expr.cast(dtype, value),
        "const": lambda value, dtype=None: te.const(value, dtype) if dtype else te.const(value),
        "floordiv": lambda a, b: ir_expr.as_expr(a) // b,
        "floormod": lambda a, b: ir_expr.as_expr(a) % b,
    }
    names = {
        "Var": lambda name, dtype="int32": ir_expr.Var(name, dtype),
        "PrimFunc": PrimFunc, "SBlock": Block, "SBlockRealize": BlockRealize, "For": For, "Expr": ir_expr.Expr,
        "IndexMap": IndexMap, "TensorIntrin": Intrinsic, "Buffer": Buffer, "BufferLoad": ir_expr.BufferLoad,
        "max": te.max, "min": te.min, "if_then_else": te.if_then_else, "all": te.all, "any": te.any, "Evaluate": ir_stmt.Evaluate,
        "is_buffer_var": lambda v: isinstance(v, Buffer), "decl_buffer": _decl_buffer,
    }
    tirx = module("tvm.tirx", **const, **names)
    tirx.ForKind = type("ForKind", (), {"SERIAL": "serial", "PARALLEL": "parallel", "VECTORIZED": "vectorized",  # type: ignore
                                        "UNROLLED": "unrolled", "THREAD_BINDING": "thread_binding"})
    functor = {"post_order_visit": post_order_visit, "pre_order_visit": post_order_visit}
    module("tvm.tirx.stmt_functor", **functor)
    module("tvm.tirx.expr", **const)
    module("tvm.tirx.function", TensorIntrin=Intrinsic, PrimFunc=PrimFunc)
    module("tvm.tirx.analysis", expr_deep_equal=operator.eq)


def _install_schedule() -> None:
    import peer_intrinsics as intrinsics

    common = {
        "Schedule": Schedule, "ScheduleError": ScheduleError, "SBlockRV": schedule.BlockRV, "LoopRV": schedule.LoopRV,
        "ExprRV": schedule.ExprRV, "Trace": Trace, "Instruction": Instruction, "InstructionKind": InstructionKind,
        "StmtSRef": StmtSRef, "TensorIntrin": Intrinsic,
    }
    module("tvm.s_tir", **common)
    module("tvm.s_tir.schedule", **common)
    module("tvm.s_tir.schedule.schedule", **common)
    module("tvm.s_tir.schedule.state", ScheduleDebugMask=SimpleNamespace(VERIFY_SREF_TREE=1))
    module(
        "tvm.s_tir.schedule.testing", verify_trace_roundtrip=verify_trace_roundtrip,
        assert_structural_equal_ignore_global_symbol=assert_structural_equal,
    )
    module("tvm.s_tir.schedule.transform", tile_with_tensor_intrin=getattr(schedule, "tile_with_tensor_intrin", None))
    module("tvm.s_tir.tensor_intrin")
    module("tvm.s_tir.tensor_intrin.x86", **intrinsics.X86, **intrinsics.X86_DESCRIPTIONS)
    module("tvm.s_tir.tensor_intrin.arm_cpu", **intrinsics.ARM)
    module("tvm.s_tir.tensor_intrin.hexagon", **intrinsics.HEXAGON)
    module("tvm.s_tir.tensor_intrin.rocm", **intrinsics.ROCM)
    module("tvm.topi", argmax=_arg(">", "T.min_value('int32')"), argmin=_arg("<", "T.max_value('int32')"))
