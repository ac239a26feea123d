"""The design space of a tensor program on a target: rules that enumerate legal schedules, and what each would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from space.space import VERSION, Space

__all__ = ["VERSION", "Space"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from space import space

        return getattr(space, name)
    raise AttributeError(f"module 'space' has no attribute {name!r}")
