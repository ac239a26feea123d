"""Refusals in the words of the program that a user wrote: what primitives made of it has the names of what it was made of."""

from __future__ import annotations

import re
from collections.abc import Callable

from autosched.errors import ProgramError, SpaceError
from autosched.ir.expr import Var
from autosched.ir.functor import walk
from autosched.ir.stmt import BlockRealize, Buffer, For, PrimFunc
from autosched.schedule.kit.names import made_of
from autosched.schedule.kit.primitive import PRIMITIVES

_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_INDEX = re.compile(r"\bindex (T\.\w+\(.*?\)|\(*\w+\)*(?: (?:[-+*]|//|%) \(*\w+\)*)*) of (?=\w)")
_LOOP = re.compile(r"\bloop (?!of\b)(\w+)")
_CONDITION = re.compile(r"\ba condition on (\w+)")
_PART = "a part of "


def in_users_words(text: str, func: PrimFunc) -> str:
    """What is said of a program after primitives changed it, said of the program itself.

    Args:
        text: one line; blocks and tensors have the names that primitives gave them.
        func: the program as the user wrote it.

    Returns:
        The text with the names of what each was made of, without indices and loops that the user did not write.
    """
    names = _names(func)
    things = [n for n, of_tensors in names.items() if of_tensors]

    def mine(expression: str) -> bool:
        return all(m[0] in names or m[0].startswith("T.") for m in _WORD.finditer(re.sub(r'"[^"]*"', "", expression)))

    def said(word: re.Match[str]) -> str:
        name = word[0]
        origin = None if name in names or name in PRIMITIVES else made_of(name, things)
        if origin is None:
            return name
        whole = "_part" not in name[len(origin) :] or re.search(r"\bblocks? '?$", text_[: word.start()]) is not None
        return origin if whole else _PART + origin

    text_ = _elided(text, mine)
    text_ = _INDEX.sub(lambda m: m[0] if mine(m[1]) else "an index of ", text_)
    text_ = _LOOP.sub(lambda m: m[0] if m[1] in names else "a loop", text_)
    text_ = _CONDITION.sub(lambda m: m[0] if m[1] in names else "a condition", text_)
    return _once(_WORD.sub(said, text_))


def refusal_of(error: ProgramError, func: PrimFunc) -> ProgramError:
    """A refusal with its reason in the user's words.

    Args:
        error: what an analysis of a form of the program said.
        func: the program as the user wrote it.
    """
    text = in_users_words(error.message, func)
    return SpaceError(text, error.code) if isinstance(error, SpaceError) else ProgramError(text, error.line, error.column)


def _names(func: PrimFunc) -> dict[str, bool]:
    """The names that a program uses: whether each is one of a tensor or block, and not of an index."""
    found = {func.name: False}
    for param in func.params:
        found[param.name] = isinstance(param, Buffer)
        for extent in param.shape if isinstance(param, Buffer) else ():
            found.update({extent.name: False} if isinstance(extent, Var) else {})
    found.update({c.buffer.name: True for c in func.constants})
    for stmt in walk(func.body):
        if isinstance(stmt, For):
            found.setdefault(stmt.var.name, False)
        elif isinstance(stmt, BlockRealize):
            found.update({iv.var.name: found.get(iv.var.name, False) for iv in stmt.block.iter_vars})
            found.update({b.name: True for b in stmt.block.alloc_buffers})
            found[stmt.block.name] = True
    return found


def _elided(text: str, mine: Callable[[str], bool]) -> str:
    """The text with ``[..]`` for indices that hold names which the user did not write."""
    out, at = "", 0
    while (start := text.find("[", at)) >= 0:
        depth, end = 1, start + 1
        while depth and end < len(text):
            depth += {"[": 1, "]": -1}.get(text[end], 0)
            end += 1
        inside = text[start + 1 : end - 1]
        out += text[at:start] + (text[start:end] if depth or mine(inside) else "[..]")
        at = end
    return out + text[at:]


def _once(text: str) -> str:
    """The text with what stands twice in a row of names said once: names, not arguments or indices that are equal."""
    text = re.sub(r"\bblocks '(\w+)' and '\1' both write\b", "two stores write", text)

    def said(names: re.Match[str]) -> str:
        before = text[: names.start()]
        return names[0] if sum(map(before.count, "([")) > sum(map(before.count, ")]")) else names[1]

    return re.sub(r"((?:a part of )?\b[A-Za-z]\w*)(?:(?:, | and )\1\b)+", said, text)
