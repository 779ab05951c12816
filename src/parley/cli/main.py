"""`parley`: run a command line and report its error."""

from __future__ import annotations

import gc
import os
import sys
from collections import namedtuple
from contextlib import suppress
from types import ModuleType

# Everything else is imported after `entry` has turned the garbage collector off, which would scan the same objects
# again and again during imports. `typing` alone takes a tenth of a command's time: see `LightTyping`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from parley.domain.errors.errors import ParleyError

_CLASS_BODY = frozenset({"__module__", "__qualname__", "__annotations__"})


def entry() -> NoReturn:
    """Run the `parley` command and exit without tearing down the interpreter, which takes a fifth of the time.

    Nothing is lost: acknowledged data is on disk, and a ledger that is left open is as safe as after a crash.
    """
    gc.disable()  # a command runs for milliseconds; `watch` and other long commands turn it on again
    use_light_typing()
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


class _FieldsOfClass(type):
    """Makes a named tuple of a class body, as `typing` does, without checking its annotations: the type checkers do."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:  # noqa: ANN401  # no instance of it
        annotations = body.get("__annotations__", {})
        defaults = [body[field] for field in annotations if field in body]
        fields = namedtuple(name, annotations, defaults=defaults, module=body["__module__"])  # type: ignore[misc]
        for word, value in body.items():
            if word not in _CLASS_BODY and word not in annotations:
                setattr(fields, word, value)
        fields.__annotations__ = annotations
        return fields


class LightTyping(ModuleType):
    """A stand-in for `typing` with what commands on a mailbox need of it: `NamedTuple`.

    Whoever imports another name (`Any`, `Protocol`) gets the real module, and everybody does from then on.
    """

    TYPE_CHECKING = False
    NamedTuple = type.__new__(_FieldsOfClass, "NamedTuple", (), {})

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # anything of typing
        if name.startswith("__") and name != "__all__":  # of the import system, which asks for them each time
            raise AttributeError(name)
        if sys.modules.get("typing") is self:
            del sys.modules["typing"]
        import typing

        vars(self).update(vars(typing))
        return getattr(typing, name)


def use_light_typing() -> None:
    """Let `import typing` find the stand-in, unless the real one is loaded already."""
    sys.modules.setdefault("typing", LightTyping("typing"))


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

    if not as_json:
        from parley.cli.reports import report_error

        report_error(error)
        return exit_code(error)
    from parley.cli.output import json_text

    problems = [problem._asdict() for problem in error.problems]
    document = {"code": error.code, "message": error.message, "hint": error.hint, "problems": problems}
    if sys.stdout is not None:
        with suppress(OSError):
            sys.stdout.flush()
    if sys.stderr is not None:
        sys.stderr.write(json_text({"error": document}) + "\n")
    return exit_code(error)


def _report_bug(error: Exception) -> int:
    from parley.cli.exits import INTERNAL

    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else "?"
    from parley.cli.reports import report_failure

    report_failure(f"a bug in Parley at {where}: {type(error).__name__}", "internal", "please report it")
    return INTERNAL


if __name__ == "__main__":
    entry()
