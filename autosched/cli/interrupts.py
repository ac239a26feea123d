"""Ctrl-C, SIGTERM and SIGHUP: each ends a command once, in order, and without a traceback."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

from autosched.cli.exit_codes import Exit

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_AGAIN = 0.05  # seconds after which an interrupt that Python dropped is sent once more


class Interrupts:
    """Turns each of the signals into one KeyboardInterrupt; more of them change nothing while the first is on its way out.

    Outside the main thread, where Python handles no signals, it does nothing. A signal that is ignored (``nohup``) stays so.
    """

    def __init__(self) -> None:
        self.number = 0
        self._before: dict[signal.Signals, Any] = {}
        self._hook = sys.unraisablehook

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for name in _NAMES:
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._raise)
            sys.unraisablehook = self._dropped
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._before:
            return
        for number, before in self._before.items():
            # After an interrupt only Python's own end is left, and that is not to be disturbed.
            signal.signal(number, signal.SIG_IGN if self.number else before)
        sys.unraisablehook = self._hook

    @property
    def code(self) -> int:
        """The exit code of a command that was interrupted."""
        return 128 + self.number if self.number else Exit.INTERRUPTED

    def line(self, error: KeyboardInterrupt) -> str:
        """What to tell the user."""
        how = "interrupted" if self.number in (0, signal.SIGINT) else f"ended by {signal.Signals(self.number).name}"
        return f"autosched: {how}" + (f"; {error}" if str(error) else "")

    def _raise(self, number: int, frame: FrameType | None) -> None:
        # Where an interrupt is being handled, it is also the exception that is current, or a cause of it.
        current = sys.exc_info()[1]
        while current is not None:
            if isinstance(current, KeyboardInterrupt):
                return
            current = current.__context__
        self.number = number
        raise KeyboardInterrupt

    def _dropped(self, unraisable: Any) -> None:
        """An interrupt that came while Python could not raise it (in a finaliser) is sent again; all else is shown as ever."""
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._hook(unraisable)
            return
        later = threading.Timer(_AGAIN, os.kill, (os.getpid(), self.number))
        later.daemon = True
        later.start()
