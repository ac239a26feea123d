"""The other side of the fuzzer: TVM answering in JSON lines on stdin and stdout. Needs TVM, nothing of ours.

Requests: ``start`` (program text), ``step`` (lines of Python over ``sch``; kept if they run), ``undo`` (forget the last
kept step), ``finish`` (a trace's lines, replayed on a fresh schedule, and a program's text, compared with the result).
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


class Server:
    """One program and the steps kept so far."""

    def __init__(self) -> None:
        import tvm
        import tvm_ffi
        from tvm.s_tir import Schedule
        from tvm.s_tir.schedule import ScheduleError

        self.tvm, self.ffi, self.new, self.refused = tvm, tvm_ffi, Schedule, ScheduleError
        self.func: Any = None
        self.sch: Any = None
        self.kept: list[list[str]] = []

    def fresh(self) -> Any:
        return self.new(self.func, seed=1, debug_mask=0, error_render_level="fast")

    def parse(self, text: str) -> Any:
        return self.tvm.script.from_source(text, check_well_formed=False)

    def start(self, text: str) -> dict[str, Any]:
        self.func, self.kept = self.parse(text), []
        self.sch = self.fresh()
        return {"ok": True}

    def step(self, lines: list[str]) -> dict[str, Any]:
        try:
            exec("\n".join(lines), {"sch": self.sch})
        except self.refused as error:
            return {"ok": False, "kind": "ScheduleError", "why": str(error)[-400:]}
        except Exception as error:  # noqa: BLE001 -- whatever TVM raises is the answer
            return {"ok": False, "kind": type(error).__name__, "why": str(error)[-400:]}
        self.kept.append(lines)
        return {"ok": True}

    def text(self) -> dict[str, Any]:
        return {"ok": True, "text": self.sch.mod["main"].script()}

    def undo(self) -> dict[str, Any]:
        kept = self.kept[:-1]
        self.sch, self.kept = self.fresh(), []
        for lines in kept:
            self.step(lines)
        return {"ok": len(self.kept) == len(kept)}

    def finish(self, trace: list[str], text: str) -> dict[str, Any]:
        sch = self.fresh()
        try:
            exec("\n".join(trace), {"sch": sch})
        except Exception as error:  # noqa: BLE001 -- as above
            return {"ok": False, "kind": type(error).__name__, "why": str(error)[-400:]}
        there = sch.mod["main"]
        try:
            ours = self.parse(text)
        except Exception as error:  # noqa: BLE001 -- as above
            return {"ok": True, "equal": False, "unread": str(error)[-400:], "text": there.script()}
        if self.ffi.structural_equal(there, ours):
            return {"ok": True, "equal": True}
        return {"ok": True, "equal": False, "text": there.script()}


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what TVM prints is no answer
    server = Server()
    print(json.dumps({"ok": True, "version": str(server.tvm.__version__)}), file=out, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(server, request.pop("do"))(**request)
        except Exception as error:  # noqa: BLE001 -- the driver decides what it means
            answer = {"ok": False, "kind": type(error).__name__, "why": str(error)[-400:]}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
