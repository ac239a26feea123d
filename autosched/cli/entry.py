"""A command from its words to its exit code."""

from __future__ import annotations

import atexit
import gc
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from autosched.child import keep_memory, look_seldom
from autosched.cli.commands import build_parser
from autosched.cli.exit_codes import Exit
from autosched.cli.interrupts import Interrupts
from autosched.cli.streams import UnreadError, abandon, flush, open_streams
from autosched.errors import AutoschedError, NoScheduleError
from sim.errors import SimError
from sim.markup import plain
from sim.notices import told_to
from sim.own import claim


def _remark(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as one line; the place in our code that gave it says nothing to a user."""
    print(f"autosched: {' '.join(plain(str(message)).split())}", file=sys.stderr)


def command(argv: Sequence[str] | None) -> int:
    """Runs a command; its arguments and exit code are those of ``autosched.cli.main``."""
    if argv is None:
        # This process is the command's own, and what it makes stays.
        look_seldom()
        # Nor when it ends, which is all that is left: what there is goes with it.
        atexit.register(gc.freeze)
        keep_memory()
        claim()
        open_streams()
    with Interrupts() as interrupts:
        try:
            with told_to(_notice):
                return _run(sys.argv[1:] if argv is None else argv)
        except KeyboardInterrupt as error:
            print(interrupts.line(error), file=sys.stderr)
            # Where the interrupt came while a library ran text, Python remembers it as unhandled, and would end itself with the
            # signal and not with our code. Running text makes it forget.
            exec("")
            return interrupts.code
        except Exception as error:
            if not interrupts.number:
                # Python ends with Exit.BUG after an exception that nobody expected; the last line of its traceback is this one.
                error.add_note("autosched: this is a bug of autosched; the lines above belong into its report")
                raise
            # NumPy, for one, takes an interrupt that comes while it compares types for types that cannot be compared.
            print(interrupts.line(KeyboardInterrupt(*getattr(error, "__notes__", ())[-1:])), file=sys.stderr)
            return interrupts.code


def _refusal(text: str, error: Exception) -> None:
    """Why a command ends, and what was noted of it on the way: a search notes how far it came."""
    print(f"autosched: {plain('; '.join([text, *getattr(error, '__notes__', ())]))}", file=sys.stderr)


def _notice(text: str) -> None:
    print(f"autosched: {text}", file=sys.stderr, flush=True)


def _run(words: Sequence[str]) -> int:
    try:
        try:
            args = build_parser(words).parse_args(words)
            with warnings.catch_warnings():
                warnings.showwarning = _remark
                # Remarks are said whatever Python is told to do with warnings (PYTHONWARNINGS=error would end the command).
                warnings.simplefilter("default", UserWarning)
                code = int(args.run(args))
        except SystemExit:
            # Of argparse, which has told its help or its error.
            flush()
            raise
        flush()
        return code
    except (AutoschedError, SimError) as error:
        _refusal(str(error), error)
        return Exit.NO_SCHEDULE if isinstance(error, NoScheduleError) else Exit.BAD_INPUT
    except KeyboardInterrupt:
        abandon()
        raise
    except UnreadError:
        return Exit.OK
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        _refusal(f"{name}{error.strerror or error}", error)
        return Exit.BAD_INPUT
    except MemoryError as error:
        # This machine failed.
        _refusal("the memory of this process does not suffice", error)
        return Exit.BAD_INPUT
    finally:
        # After an error; what cannot be written any more has been said, or is of no use without the rest.
        with suppress(UnreadError, OSError):
            flush()
