"""Refuses to run with a stranger's ``sim`` or ``space`` on the path.

``space``, ``sim`` and ``tuning_logs`` are installed beside ``autosched``; a file ``sim.py`` next to a user's script would
shadow ours and fail far away from its cause.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

SIBLINGS = ("sim", "space", "tuning_logs")


def check() -> None:
    """Raises ImportError, in one sentence, where a sibling would come from elsewhere."""
    home = Path(__file__).resolve().parent.parent
    for name in SIBLINGS:
        spec = find_spec(name)
        origin = getattr(spec, "origin", None)
        where = None if origin is None else Path(origin).resolve()
        if where is None or where.parent.parent != home or where.name != "__init__.py":
            raise ImportError(
                f"'import {name}' would load {where or 'nothing'}, not the {name} package installed with autosched in "
                f"{home}; rename that file or run from another directory"
            )
