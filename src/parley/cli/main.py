"""`parley`: run a command line and report its error in one line."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress

# Everything else is imported after `entry` has turned the garbage collector off, which would scan the same objects
# again and again during imports. `typing` alone takes a tenth of a command's time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from parley.domain.errors.errors import ParleyError


def entry() -> NoReturn:
    """Run the `parley` command and exit without tearing down the interpreter, which takes a fifth of the time.

    Nothing is lost: acknowledged data is on disk, and a ledger that is left open is as safe as after a crash.
    """
    gc.disable()  # a command runs for milliseconds; `watch` and other long commands turn it on again
    _import_argparse()
    code = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # a stream that was closed is None
            stream.flush()
    os._exit(code)


def _import_argparse() -> None:
    """Import argparse without gettext, which takes a fiftieth of a command's time: Parley has English texts only."""
    english = type(sys)("gettext")
    vars(english).update(gettext=str, ngettext=lambda singular, plural, count: singular if count == 1 else plural)
    sys.modules["gettext"] = english
    import argparse  # noqa: F401  # it stays imported

    del sys.modules["gettext"]


def main(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    from parley.cli.dispatch import dispatch
    from parley.cli.exits import INTERRUPTED, OK
    from parley.domain.errors.errors import ParleyError, Unavailable

    if sys.stdout is None:
        closed = Unavailable("standard output is closed", hint="redirect it to /dev/null to discard it")
        return _report(closed, as_json=False)
    try:
        code = dispatch(arguments)
        sys.stdout.flush()
    except ParleyError as error:
        return _report(error, as_json="--json" in arguments)
    except SystemExit as end:  # argparse ends --help this way
        return end.code if isinstance(end.code, int) else OK
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; Python must not report that again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        # Adapters turn errors of files into ParleyErrors, so this one is about the output.
        return _report(Unavailable(f"cannot write the output: {error.strerror or error}"), as_json=False)
    except Exception as error:  # noqa: BLE001  # the outermost frame: a bug is reported in one line, too
        return _report_bug(error)
    return code


def _report(error: ParleyError, *, as_json: bool) -> int:
    from parley.cli.exits import exit_code
    from parley.cli.output import json_text, safe

    if as_json:
        problems = [problem._asdict() for problem in error.problems]
        document = {"code": error.code, "message": error.message, "hint": error.hint, "problems": problems}
        line = json_text({"error": document})
    else:
        line = f"parley: {error.code}: {safe(error.message)}" + (f" ({safe(error.hint)})" if error.hint else "")
    if sys.stdout is not None:
        with suppress(OSError):
            sys.stdout.flush()
    if sys.stderr is not None:
        sys.stderr.write(line.encode("utf-8", "backslashreplace").decode() + "\n")
    return exit_code(error)


def _report_bug(error: Exception) -> int:
    from parley.cli.exits import INTERNAL

    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else "?"
    sys.stderr.write(f"parley: internal: a bug in Parley at {where}: {type(error).__name__} (please report it)\n")
    return INTERNAL


if __name__ == "__main__":
    entry()
