"""Where a payload comes from: `--payload` JSON, `--field name=value`, or standard input."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from parley.domain.errors import Invalid
from parley.domain.limits import HARD_FILE_BYTES

if TYPE_CHECKING:
    import argparse


def add_payload(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("payload (default: JSON on standard input)")
    group.add_argument("--payload", default=None, metavar="JSON", help="a JSON object; '-' reads standard input")
    group.add_argument(
        "--field",
        dest="fields",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="one field as text; NAME:=JSON for a number, a list, true; reach inside with a dot",
    )


def read_payload(args: argparse.Namespace) -> dict[str, Any]:
    """The payload that the options give."""
    if args.payload is not None and args.fields:
        raise Invalid("give the payload once: --payload or --field")
    if args.fields:
        return _assembled(args.fields)
    if args.payload is not None and args.payload != "-":
        return json_object(args.payload, "--payload")
    if sys.stdin is None or (args.payload is None and sys.stdin.isatty()):
        raise Invalid("there is no payload", hint="use --payload JSON, --field NAME=VALUE or standard input")
    content = sys.stdin.buffer.read(HARD_FILE_BYTES + 1)
    if len(content) > HARD_FILE_BYTES:
        raise Invalid("standard input is larger than any message may be")
    if not content.strip():
        raise Invalid("there is no payload: standard input is empty", hint="use --payload '{}' for an empty one")
    try:
        return json_object(content.decode(), "standard input")
    except UnicodeDecodeError:
        raise Invalid("standard input is not UTF-8 text") from None


def json_object(text: str, source: str) -> dict[str, Any]:
    """A JSON object, or what is wrong with it."""
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{source} is not JSON: {error}", hint="or use --field NAME=VALUE") from None
    if not isinstance(value, dict):
        raise Invalid(f"{source} must be a JSON object", hint="""write {"name": "value"}, or use --field NAME=VALUE""")
    return value


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number")


def _assembled(assignments: list[str]) -> dict[str, Any]:
    """`question=Ready? context.retries:=3` as an object."""
    payload: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        value: Any = text
        if name.endswith(":"):
            name = name[:-1]
            try:
                value = json.loads(text, parse_constant=_no_number)
            except (ValueError, RecursionError):
                raise Invalid(f"--field {assignment!r}: behind := stands JSON", hint="use = for text") from None
        if not equals or not all(name.split(".")):
            raise Invalid(f"--field {assignment!r} is not NAME=VALUE")
        holder = payload
        *path, leaf = name.split(".")
        for part in path:
            holder = holder.setdefault(part, {})
            if not isinstance(holder, dict):
                raise Invalid(f"--field {name}: {part} is already a value")
        if leaf in holder:
            raise Invalid(f"--field {name} is given twice")
        holder[leaf] = value
    return payload
