"""`oacp validate`: check one message file, in the tool's words and order."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

from parley.cli.oacp.arguments import make_parser
from parley.cli.oacp.cells import harmless
from parley.cli.oacp.files import explanation, fields_of, is_no_mapping
from parley.cli.oacp.places import shown
from parley.cli.oacp.schema import problems_of
from parley.cli.oacp.trailer import problems_of as trailer_problems_of
from parley.domain.errors.errors import NotText, Unreadable
from parley.domain.limits import DEFAULT_LIMITS, HARD_FILE_BYTES

if TYPE_CHECKING:
    import argparse


def run(arguments: list[str]) -> int:
    args = _parser().parse_args(arguments)
    path = shown(args.message_file)
    problems = _check(path)
    for problem in problems:
        sys.stderr.write(harmless(f"ERROR: {problem}\n"))
    if problems:
        return 1
    if not args.quiet:
        sys.stdout.write(harmless(f"OK: {path}\n"))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(prog="validate_message.py", description="Check an inbox or outbox message file.")
    parser.add_argument("message_file", help="path of the message file")
    parser.add_argument("--quiet", action="store_true", help="say nothing when the file is valid")
    return parser


def _check(path: str) -> list[str]:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return [f"message file does not exist: {path}"]
        with open(path, "rb") as file:
            content = file.read(HARD_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return [f"message file does not exist: {path}"]
    except OSError as error:
        return [f"failed to read file: {error}"]
    if len(content) > HARD_FILE_BYTES:
        return [f"failed to read file: larger than the {HARD_FILE_BYTES} bytes a message may have"]
    try:
        fields = fields_of(content, DEFAULT_LIMITS)
    except NotText as error:
        return [f"failed to read file: {error.message}"]
    except Unreadable as error:
        if is_no_mapping(error):
            return ["top-level YAML must be a mapping/object"]
        return [f"YAML parse error: {explanation(error, content)}"]
    return [*problems_of(fields), *trailer_problems_of(fields, content)]
