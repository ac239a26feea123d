"""How much the text of a program may compute while it is read: a text is data, and must not cost more than reading it.

Python's own arithmetic has no bounds (``9**9**9``), and the methods of its values reach further than a program needs
(``"{0.__class__}".format(1)``). What goes beyond is refused before it is computed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sized
from typing import Any

BITS = 4096  # of an integer
ITEMS = 1 << 16  # characters or values, those inside others included, that one operation handles
STEPS = 1 << 16  # iterations of comprehensions and calls of lambdas in one text
_WIDTH = re.compile(r"[0-9]{4,}|\*")

# What a program may use of Python's own values; everything else of them stays out of reach.
METHODS: dict[type, frozenset[str]] = {
    str: frozenset({"endswith", "join", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "rpartition", "rsplit",
                    "rstrip", "split", "startswith", "strip", "title", "upper"}),
    dict: frozenset({"get", "items", "keys", "values"}),
    list: frozenset({"count", "index"}),
    tuple: frozenset({"count", "index"}),
    set: frozenset({"difference", "intersection", "union"}),
    int: frozenset({"bit_length", "denominator", "imag", "numerator", "real"}),
    bool: frozenset(),
    float: frozenset({"is_integer"}),
    complex: frozenset(),
    bytes: frozenset(),
    slice: frozenset({"start", "step", "stop"}),
    type(None): frozenset(),
    type(...): frozenset(),
    type: frozenset(),
}


class Excess(ValueError):
    """A text asks for more than reading it may cost."""


def check_attribute(owner: Any, name: str) -> None:
    """Whether a program may use an attribute of one of Python's own values.

    Raises:
        AttributeError: it may not.
    """
    allowed = METHODS.get(type(owner))
    # Classes of the surrounding code are its own business; those of Python itself give access to everything.
    if type(owner) is type and owner not in METHODS:
        return
    if allowed is not None and name not in allowed:
        what = owner.__name__ if isinstance(owner, type) else type(owner).__name__
        some = f"; a program may use {', '.join(sorted(allowed))}" if allowed else ""
        raise AttributeError(f"{name!r} of Python's {what} is not part of the language{some}")


def check_operation(name: str, a: Any, b: Any) -> None:
    """Whether the result of an operation of Python on two values is small enough.

    Args:
        name: as in the evaluator's table: ``+``, ``*``, ``pow``...
        a: the left value.
        b: the right value.

    Raises:
        Excess: it is not.
    """
    if isinstance(a, int) and isinstance(b, int):
        bits: int = a.bit_length()
        more = b.bit_length()
        if name == "pow":
            bits = math.floor(math.log2(abs(a)) * abs(b)) + 1 if abs(a) > 1 else 1
        elif name == "shift_left":
            bits += max(b, 0)
        else:
            bits = bits + more if name == "*" else max(bits, more) + 1
        if bits > BITS:
            raise Excess(f"an integer of more than {BITS} bits")
        return
    if name == "*" and isinstance(a, int) and isinstance(b, Sized):
        a, b = b, a
    if name == "*" and isinstance(b, int) and isinstance(a, Sized):
        if len(a) * max(b, 0) > ITEMS:
            raise Excess(f"a {type(a).__name__} of more than {ITEMS} items")
    if name == "%" and isinstance(a, str | bytes):
        check_format(a if isinstance(a, str) else a.decode("latin-1"))
    check_size(a, b)


def check_format(spec: str) -> None:
    """Whether a format asks for a field of reasonable width.

    Raises:
        Excess: it does not.
    """
    if _WIDTH.search(spec):
        raise Excess("a text field of more than 999 characters, or of a width that is computed")


def check_size(*values: Any) -> None:
    """Whether values, with all that they hold, are small enough to be copied, compared or printed.

    Raises:
        Excess: they are not.
    """
    left = ITEMS
    stack = list(values)
    while stack:
        value = stack.pop()
        if isinstance(value, int):
            left -= 1
        elif isinstance(value, str | bytes):
            left -= len(value) // 16 + 1
        elif isinstance(value, dict):
            left -= len(value) + 1
            if left >= 0:
                stack += [*value, *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            left -= len(value) + 1
            if left >= 0:
                stack += value
        elif (length := iterations(value)) is not None:
            left -= length
        if left < 0:
            raise Excess(f"values of more than {ITEMS} items in all")


def iterations(value: Any) -> int | None:
    """How many values a range or a loop gives; None for what is neither."""
    from autosched.script.forms import Loop

    if isinstance(value, range):
        return max(0, (value.stop - value.start) // value.step + 1)
    if isinstance(value, Loop):
        return value.iterations()
    return None


class Budget:
    """Counts what a text makes the reader repeat."""

    def __init__(self) -> None:
        self.left = STEPS

    def step(self) -> None:
        """One more iteration or call.

        Raises:
            Excess: it is one too many.
        """
        self.left -= 1
        if self.left < 0:
            raise Excess(f"more than {STEPS} iterations and calls while the text is read")
