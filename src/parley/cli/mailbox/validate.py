"""`parley validate`: report all errors in message files."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, NamedTuple

from parley.cli.command import Command, add_mailbox_options, screen_of, settings_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import Screen, safe
from parley.domain.errors.errors import NotRegular, ParleyError, Problem
from parley.domain.limits import HARD_FILE_BYTES
from parley.wire.oacp.format import OacpFormat

if TYPE_CHECKING:
    import argparse

    from parley.domain.limits import Limits

# What readers accept and a sender should know. An example of the specification has free text in the body of a
# structured type.
_WARNINGS = frozenset(
    {
        "body_not_structured",
        "long_context",
        "no_time_zone",
        "local_time",
        "priority_mismatch",
        "contradiction",
        "too_many_rounds",
    }
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="message files; '-' is standard input")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not print valid files")
    add_mailbox_options(parser)


class _Result(NamedTuple):
    file: str
    errors: list[Problem]
    warnings: list[Problem]

    def fields(self) -> dict[str, object]:
        return {
            "file": self.file,
            "valid": not self.errors,
            "errors": [problem._asdict() for problem in self.errors],
            "warnings": [problem._asdict() for problem in self.warnings],
        }


def _validate(args: argparse.Namespace) -> int:
    form = OacpFormat(settings_of(args).limits)
    results = [_inspect(path, form) for path in args.files]
    screen = screen_of(args)
    if args.json:
        screen.json([result.fields() for result in results])
    else:
        for result in results:
            _show(screen, result, quiet=args.quiet)
    return FOUND_PROBLEMS if any(result.errors for result in results) else OK


def _show(screen: Screen, result: _Result, *, quiet: bool) -> None:
    path = safe(result.file)
    for problem in result.errors:
        screen.prose(f"{path}: {screen.paint(problem.code, 'red')}: {safe(str(problem))}")
    if quiet:
        return
    for problem in result.warnings:
        screen.prose(f"{path}: {screen.paint('warning', 'yellow')}: {safe(str(problem))}")
    if not result.errors:
        screen.prose(f"{path}: {screen.paint('valid', 'green')}")


def _inspect(path: str, form: OacpFormat) -> _Result:
    try:
        content = _read(path)
        reading = form.inspect(content)
        annotated = reading.message is not None and "ocip" in reading.message.extras
        envelope_problems = _envelope_problems(content, form.limits) if annotated else []
    except OSError as error:
        return _Result(path, [Problem("not_found", "", error.strerror or str(error))], [])
    except ParleyError as error:
        return _Result(path, [Problem(error.code, "", error.message)], [])
    warnings = [doubt for doubt in reading.doubts if doubt.code in _WARNINGS]
    errors = [
        *reading.problems,
        *envelope_problems,
        *(doubt for doubt in reading.doubts if doubt.code not in _WARNINGS),
    ]
    return _Result(path, errors, warnings)


def _envelope_problems(content: bytes, limits: Limits) -> list[Problem]:
    """Return the problems of the envelope of a governed message."""
    from parley.wire.oacp.envelope import OacpEnvelopes

    try:
        OacpEnvelopes(limits).read(content)
    except ParleyError as error:
        return [Problem(error.code, problem.field, problem.detail) for problem in error.problems]
    return []


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read(HARD_FILE_BYTES + 1)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):  # reading from a pipe could block for ever
        os.close(fd)
        raise NotRegular("not a regular file")
    with open(fd, "rb") as file:
        return file.read(HARD_FILE_BYTES + 1)


COMMANDS = {
    "validate": Command(
        "Validate message files; exit code 1 on errors",
        _add_arguments,
        _validate,
        ("parley validate message.yaml", "parley validate --json inbox/*.yaml"),
    ),
}
