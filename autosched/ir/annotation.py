"""The values of annotations and attributes: what text, JSON and Python can all write down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KINDS = "numbers, strings, bools, None, and lists and dicts of those"


def plain_value(value: Any, what: str, also: tuple[type, ...] = ()) -> Any:
    """An annotation's value as plain data: scalars of other libraries become Python's, tuples lists.

    Args:
        value: what a caller gave.
        what: names it in an error, e.g. ``attribute 'k'``.
        also: further classes that are kept as they are.

    Raises:
        TypeError: it is something that a printed program or a stored trace cannot hold.
    """
    if value is None or isinstance(value, bool):
        return value
    # Subclasses print as something else: an enumeration, a NumPy float.
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if also and isinstance(value, also):
        return value
    if isinstance(value, list | tuple):
        return [plain_value(v, what, also) for v in value]
    if isinstance(value, Mapping):
        return {k if also and isinstance(k, also) else _key(k, what): plain_value(v, what, also) for k, v in value.items()}
    if getattr(value, "shape", None) == () and hasattr(value, "dtype") and hasattr(value, "item"):
        item = value.item()
        if type(item) is not type(value):
            return plain_value(item, what, also)
    kind = type(value).__name__
    raise TypeError(f"{what} cannot hold {'an' if kind[0] in 'aeiou' else 'a'} {kind}; it takes {KINDS}")


def _key(key: Any, what: str) -> Any:
    if isinstance(key, str) and key.startswith("$"):
        raise TypeError(f"{what} cannot hold the key {key!r}: keys that start with '$' have a meaning in traces")
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, int | float):
        return key if isinstance(key, bool) else int(key) if isinstance(key, int) else float(key)
    raise TypeError(f"{what} cannot hold the key {key!r}; a key is a string")
