"""The registry of schedule primitives: one registration gives method, trace entry, JSON both ways and Python text.

How another file registers a primitive
--------------------------------------
A primitive is a method of a mixin class over ``ScheduleBase``, under the decorator ``@primitive``. Its signature is the
registration:

* the method's name is the name of the operation in traces, JSON and Python text;
* parameters whose annotation mentions an RV (``BlockRV``, ``LoopRV``, ``ExprRV``, also inside lists) are inputs; the
  others are plain arguments (numbers, strings, lists, dicts, ``IndexMap``; an RV inside them is fine too). Where a
  ``BlockRV`` is expected a caller may give a block's name, where a ``LoopRV`` is expected a loop's name: the look-up is
  traced as well, and the body sees handles only;
* a parameter called ``decision`` is the decision of a sampling: the body calls ``self.decide(value)`` with its choice;
* the return annotation tells the outputs: ``None``, one RV, or ``list[...RV]``;
* the annotation also says what a parameter takes (``arguments``): anything else is refused before the body runs. A
  sampled integer may stand for any integer, one list for what follows in ``*loops``;
* keyword names and their order are TVM's, so that the Python text of a trace runs there; an extension is a last
  parameter whose default is None: it is printed only when given (``keep_none`` names those printed in any case).

The body resolves handles with ``self.block_at(rv) -> (state, BlockRealize)``, ``self.loop_at(rv) -> (state, For)``,
checks, and either refuses with ``self.refuse(reason, marks=[nodes, idents or loop variables], hint=...)`` or makes the
new program current with ``self.commit(state, new_body)`` or ``self.commit_nodes(state, {id(old): new_or_None})``,
which rebuilds only the paths to the nodes. It returns ``self.block_rv(block)`` / ``self.loop_rv(for_or_var)``. Nodes
are immutable: a block keeps its handle as long as its ``ident`` is kept, a loop as long as its ``var`` is. Whatever the
body raises, the schedule is put back as it was. A primitive that calls another one is traced as one instruction.
A worked example, a primitive that reverses a loop:

    class Reversing(ScheduleBase):
        @primitive
        def reverse(self, loop: LoopRV | str, note: str | None = None) -> LoopRV:
            '''Runs a loop backwards.

            Args:
                loop: a serial loop.
                note: stored as annotation ``reversed``.

            Before: ``for i in range(n): S(i)``, after: ``for i in range(n): S(n - 1 - i)``.
            '''
            state, node = self.loop_at(loop)
            if node.kind != "serial":
                self.refuse(f"loop {node.var.name} is {node.kind}", [node.var], hint="reverse before changing its kind")
            var = Var(node.var.name, node.var.dtype)
            body = substitute_stmt(node.body, {node.var: node.extent - 1 - var})
            new = replace(node, var=var, body=body, annotations={**node.annotations, "reversed": note})
            self.commit_nodes(state, {id(node): new})
            return self.loop_rv(new)

and ``Schedule`` (schedule.py) gets ``Reversing`` among its bases. That is all: ``sch.reverse("i")`` now works, appears
in the trace as ``l3 = sch.reverse(loop=l0)`` and in JSON as ``{"op": "reverse", "in": {"loop": "l0"}, "args": {},
"out": ["l3"]}``. ``normalize=f`` names a function ``f(sch, args)`` that may rewrite the bound arguments (a dict) before
anything is traced: sugar such as a Python lambda becoming an ``IndexMap``. ``stamp=f`` names a function ``f(args)``
that returns a hash of what the arguments refer to by name (a tensor intrinsic): it is stored, and compared on replay.
``sugar=True`` keeps the primitive itself out of the trace: what it calls is there. ``annotates=True`` says that it
only adds an annotation to a block, by ``commit_annotations``: where steps are trusted several in a row make one program.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, ParamSpec, TypeVar, cast, overload

from autosched.errors import ScheduleError, suggest
from autosched.ir.depth import TOO_DEEP
from autosched.ir.stmt import Buffer
from autosched.schedule.kit.arguments import Kind, WrongArgument, conform, fault, kinds_of, plain_number, unchanged
from autosched.schedule.kit.base import RV, ArgumentError, BlockRV, ExprRV, LoopRV, ScheduleBase, describe
from autosched.schedule.kit.trace import Instruction

P = ParamSpec("P")
R = TypeVar("R")
Normalizer = Callable[[Any, dict[str, Any]], None]
Stamp = Callable[[Mapping[str, Any]], str]
Text = Callable[[Any], str]
Local = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a primitive.

    Args:
        name: keyword.
        annotation: its type as written.
        default: ``inspect.Parameter.empty`` where it is required.
        variadic: ``*name``.
        is_input: it holds handles.
        takes_block: a string given for it is a block's name.
        takes_loop: a string given for it is a loop's name.
        kinds: what it takes.
        unchanged: classes whose own objects it takes as they are.
    """

    name: str
    annotation: str
    default: Any
    variadic: bool
    is_input: bool
    takes_block: bool
    takes_loop: bool
    kinds: tuple[Kind, ...]
    unchanged: frozenset[type]


@dataclass(frozen=True)
class Primitive:
    """What the registry knows about a primitive.

    Args:
        name: operation.
        method: the method as the user calls it.
        parameters: in order, without ``self``.
        returns: ``none``, ``one`` or ``list``.
        pure: it changes nothing, so an unused one may be dropped from a trace.
        keep_none: parameters that the Python text shows even when None.
        stamp: hash of what the arguments refer to by name, checked when a trace is replayed.
        texts: Python text of the values of some parameters.
        labels: parameters that TVM lacks and that only name things.
        local: where its steps are trusted, what decides what it makes or refuses, and what it changes. ``handles``: the
            statements below the root that the handles it is given stand in. ``neighbours``: also which others read or write what
            the given blocks do, and where. ``writers``: also those that write what these read, and so on. ``each``: for each
            statement that one alone, with the buffers that the given blocks touch and those that the root allocates. Empty: the
            whole program. Besides, it may put statements in front, and allocations behind all others. A step that looks at more
            says so (``looks_far``). See ``shared.py``.
        annotates: all that it does is to add an annotation to a block (``commit_annotations``), whatever others there are: on
            trust several such steps in a row make one new program. It gives no handles.
    """

    name: str
    method: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    returns: str
    pure: bool
    keep_none: tuple[str, ...]
    stamp: Stamp | None = None
    texts: Mapping[str, Text] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    local: str | Local = ""
    annotates: bool = False

    @cached_property
    def inputs(self) -> frozenset[str]:
        """The parameters that hold handles."""
        return frozenset(p.name for p in self.parameters if p.is_input)

    @cached_property
    def optional(self) -> frozenset[str]:
        """The parameters whose default is None."""
        return frozenset(p.name for p in self.parameters if p.default is None)

    @cached_property
    def variadic(self) -> tuple[str, ...]:
        """The parameter that is ``*name``, if there is one."""
        return tuple([p.name for p in self.parameters if p.variadic])

    @cached_property
    def draws(self) -> bool:
        """Whether it decides something."""
        return any(p.name == "decision" for p in self.parameters)

    def depends(self, args: Mapping[str, Any]) -> str:
        """What decides, for these arguments, what a trusted step makes (``local``)."""
        return self.local if isinstance(self.local, str) else self.local(args)

    def invoke(self, sch: ScheduleBase, args: Mapping[str, Any], decision: Any = None) -> tuple[RV | None, ...]:
        """Applies the primitive to a schedule with arguments by name, and returns its outputs."""
        positional: list[Any] = []
        named = dict(args)
        if decision is not None and self.draws:
            named["decision"] = decision
        for name in self.variadic:
            given = named.pop(name, ())
            if not isinstance(given, list | tuple):
                raise ValueError(f"{self.name}: {name} of a trace is a list, got {type(given).__name__}")
            positional = list(given)
        return outputs_of(self.method(sch, *positional, **named))


PRIMITIVES: dict[str, Primitive] = {}
_NUMBERS = frozenset({int, bool, float, str})  # classes of arguments that are what they are


def lookup(op: str) -> Primitive:
    """The primitive of that name.

    Raises:
        ValueError: there is none.
    """
    found = PRIMITIVES.get(op)
    if found is None:
        raise ValueError(f"unknown schedule primitive {op!r}{suggest(op, PRIMITIVES)}")
    return found


@overload
def primitive(fn: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def primitive(
    *, pure: bool = False, normalize: Normalizer | None = None, keep_none: tuple[str, ...] = (),
    stamp: Stamp | None = None, sugar: bool = False, texts: Mapping[str, Text] | None = None,
    labels: tuple[str, ...] = (), elsewhere: Mapping[str, str] | None = None, local: str | Local = "", annotates: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def primitive(
    fn: Callable[P, R] | None = None, /, *, pure: bool = False, normalize: Normalizer | None = None,
    keep_none: tuple[str, ...] = (), stamp: Stamp | None = None, sugar: bool = False,
    texts: Mapping[str, Text] | None = None, labels: tuple[str, ...] = (), elsewhere: Mapping[str, str] | None = None,
    local: str | Local = "", annotates: bool = False,
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Registers a method as a primitive; see the module's text.

    Args:
        fn: the method.
        pure: it changes no program.
        normalize: rewrites bound arguments before they are traced.
        keep_none: parameters that the Python text shows even when None.
        stamp: gives, of the arguments, a hash of what they refer to by name; it is traced and checked on replay.
        sugar: the trace holds the primitives that it calls, not itself.
        texts: Python text of the values of some parameters, where it is not the usual one.
        labels: parameters that TVM lacks and that only name things: text for TVM leaves them out.
        elsewhere: keywords that the primitive has in other languages, with what to write here; ``{}`` is the value given.
        local: what decides what a trusted step makes, where that is less than the program; see ``Primitive``.
        annotates: all that it does is to annotate a block; see ``Primitive``.
    """

    def register(method: Callable[P, R]) -> Callable[P, R]:
        return _register(method, pure, normalize, keep_none, stamp, sugar, texts or {}, labels, elsewhere or {}, local, annotates)

    return register if fn is None else register(fn)


def _register(
    fn: Callable[P, R], pure: bool, normalize: Normalizer | None, keep_none: tuple[str, ...], stamp: Stamp | None,
    sugar: bool, texts: Mapping[str, Text], labels: tuple[str, ...], elsewhere: Mapping[str, str], local: str | Local,
    annotates: bool,
) -> Callable[P, R]:
    name = fn.__name__
    signature = inspect.signature(fn)
    params = tuple(_parameter(p) for p in list(signature.parameters.values())[1:])
    result = str(signature.return_annotation)
    returns = "none" if result == "None" else "list" if result.startswith("list[") else "one"
    names = [p.name for p in params]
    known = {p.name for p in params if not p.variadic}
    required = {p.name for p in params if p.default is inspect.Parameter.empty and not p.variadic}
    defaults = {p.name: () if p.variadic else p.default for p in params}
    plain = all(p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for p in signature.parameters.values())
    taken = [(p, p.name, p.unchanged) for p in params]
    several = names[0] if len(params) == 1 and params[0].variadic else None

    @wraps(fn)
    def method(*call_args: P.args, **call_kwargs: P.kwargs) -> R:
        placed = dict(zip(names, call_args[1:])) if plain and len(call_args) > 1 else {}
        given = placed.keys() | call_kwargs.keys() if placed else call_kwargs.keys()
        if len(call_args) == 1 + len(placed) and len(given) == len(placed) + len(call_kwargs) and required <= given <= known:
            # As a replay calls, or rules do, and the general way in less time.
            args: dict[str, Any] = {**defaults, **placed, **call_kwargs}
            sch = cast(ScheduleBase, call_args[0])
        elif several is not None and not call_kwargs:
            args = {several: tuple(call_args[1:])}
            sch = cast(ScheduleBase, call_args[0])
        else:
            try:
                bound = signature.bind(*call_args, **call_kwargs)
            except TypeError as error:
                unknown = next((k for k in call_kwargs if k not in names), None)
                if unknown is not None and unknown in elsewhere:
                    hint = elsewhere[unknown].format(describe(call_kwargs[unknown]))
                    raise ArgumentError(name, f"there is no argument {unknown!r}", "", hint) from None
                tail = "" if unknown is None else suggest(unknown, names)
                raise ArgumentError(name, f"{error}{tail}") from None
            bound.apply_defaults()
            args = dict(bound.arguments)
            sch = cast(ScheduleBase, args.pop("self"))
        saved = (sch._states, len(sch.trace.insts), sch._rng_state, sch._op)
        done = False
        try:
            if sch._depth == 0:
                sch._op = name
            for p, key, as_is in taken:
                if type(args[key]) not in as_is:
                    args[key] = _conform(sch, args[key], p)
            if normalize is not None:
                normalize(sch, args)
            for p, key, _ in taken:
                if p.is_input:
                    args[key] = _resolve(sch, args[key], p)
                else:
                    value = args[key]
                    if value is not None and type(value) not in _NUMBERS:
                        args[key] = plain_argument(value, p.annotation == "Any")
                if isinstance(args[key], Buffer) and key.endswith("buffer_index"):
                    args[key] = _position(sch, args, key)
            if sch._depth == 0:
                sch._op, sch._decision = name, args.get("decision")
            sch._depth += not sugar
            try:
                value = _call(fn, sch, args, params)
            finally:
                sch._depth -= not sugar
            if sch._depth == 0 and not sugar:
                if sch._states is not saved[0]:
                    sch.keeps_host_stages(saved[0])
                decision = sch._decision if "decision" in args else None
                args.pop("decision", None)
                mark = None if stamp is None else stamp(args)
                sch.trace.append(Instruction(name, args, outputs_of(value), decision, mark))
            done = True
            return value
        except RecursionError:
            raise ScheduleError(name, TOO_DEEP, code="depth") from None
        finally:
            sch._op = saved[3]
            if not done:
                sch._states, sch._rng_state = saved[0], saved[2]
                del sch.trace.insts[saved[1]:]

    if name in PRIMITIVES and PRIMITIVES[name].method.__qualname__ != fn.__qualname__:
        raise ValueError(f"primitive {name!r} is registered twice")
    PRIMITIVES[name] = Primitive(name, method, params, returns, pure, keep_none, stamp, texts, labels, local, annotates)
    return method


def _parameter(p: inspect.Parameter) -> Parameter:
    text = str(p.annotation)
    return Parameter(
        p.name, text, p.default, p.kind is inspect.Parameter.VAR_POSITIONAL, "RV" in text, "BlockRV" in text,
        "LoopRV" in text, kinds_of(text), frozenset() if p.kind is inspect.Parameter.VAR_POSITIONAL else unchanged(text),
    )


def _call(fn: Callable[..., R], sch: ScheduleBase, args: Mapping[str, Any], params: tuple[Parameter, ...]) -> R:
    positional: list[Any] = [sch]
    named: dict[str, Any] = {}
    for p in params:
        if p.variadic:
            positional.extend(args[p.name])
        else:
            # A sampled integer stays a handle in the trace; a body that does not ask for handles gets the integer.
            value = args[p.name]
            handles = p.is_input or p.annotation == "Any" or value is None or type(value) in _NUMBERS
            named[p.name] = value if handles else _sampled(sch, value)
    if len(positional) > 1:
        # Everything before a variadic parameter would have to be positional too; no primitive has such a parameter.
        return fn(*positional, **named)
    return fn(sch, **named)


def _conform(sch: ScheduleBase, value: Any, p: Parameter) -> Any:
    """An argument as its parameter takes it; anything else is refused in one line."""
    try:
        if not p.variadic:
            return conform(value, p.kinds)
        if len(value) == 1 and isinstance(value[0], list | tuple):
            value = value[0]  # one list stands for what it holds
        return tuple(conform(v, p.kinds) for v in value)
    except WrongArgument as error:
        sch.refuse(fault(p.name, p.annotation, error), error=ArgumentError, code="argument")


def _resolve(sch: Any, value: Any, p: Parameter) -> Any:
    """Names become handles (through a traced look-up), nested lists are kept as lists."""
    if isinstance(value, str):
        if p.takes_block:
            return sch.get_sblock(value)
        if p.takes_loop:
            return sch.get_axis(value)
        return value
    if isinstance(value, list | tuple):
        return [_resolve(sch, v, p) for v in value]
    if isinstance(value, RV):
        sch._value(value)
        if (isinstance(value, BlockRV) and not p.takes_block) or (isinstance(value, LoopRV) and not p.takes_loop):
            kind = "a block" if isinstance(value, BlockRV) else "a loop"
            sch.refuse(f"argument {p.name!r} cannot be {kind}", error=ArgumentError, code="argument")
        return value
    return plain_argument(value)


def _position(sch: ScheduleBase, args: Mapping[str, Any], name: str) -> int:
    """A buffer given for its position: a trace holds no buffers."""
    block = sch.block_at(args["block"])[1].block
    return sch.block_region_buffer(block, args[name], "read" if name.startswith("read_") else "write")


def _sampled(sch: ScheduleBase, value: Any) -> Any:
    if isinstance(value, ExprRV):
        return sch.int_of(value)
    if isinstance(value, list | tuple):
        return type(value)(_sampled(sch, v) for v in value)
    return value


def plain_argument(value: Any, lists: bool = False) -> Any:
    """An argument as plain data: constants of the IR and NumPy numbers become Python numbers.

    Args:
        value: the argument.
        lists: whether tuples become lists, too.
    """
    if value is None or isinstance(value, bool | RV) or type(value) in (int, float, str):
        return value
    if isinstance(value, tuple) and not lists:
        return tuple(plain_argument(v) for v in value)
    if isinstance(value, list | tuple):
        return [plain_argument(v, lists) for v in value]
    if isinstance(value, Mapping):
        return {str(k): plain_argument(v, lists) for k, v in value.items()}
    return plain_number(value)


def outputs_of(value: Any) -> tuple[RV | None, ...]:
    """The handles in what a primitive returned (None: a factor that a symbolic loop leaves open)."""
    if value is None:
        return ()
    return (value,) if isinstance(value, RV) else tuple(value)
