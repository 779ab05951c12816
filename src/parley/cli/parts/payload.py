"""Read a payload from `--payload`, `--field` or standard input, and its metadata from other options."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Purpose
from parley.domain.errors.errors import Invalid
from parley.domain.limits import HARD_FILE_BYTES

if TYPE_CHECKING:
    import argparse


def add_payload(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("payload (default: JSON on standard input)")
    group.add_argument("--payload", default=None, metavar="JSON", help="JSON object; '-' reads standard input")
    group.add_argument("--body", default=None, metavar="TEXT", help="the same as TEXT, as in parley send")
    group.add_argument(
        "--field",
        dest="fields",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="field with a text; NAME:=JSON for other values; a.b sets b inside a",
    )


def read_text_or_payload(args: argparse.Namespace) -> dict[str, Any]:
    """The payload of a command that also takes a text as its argument."""
    if args.text is not None and args.body is not None:
        raise Invalid("TEXT and --body together", hint="leave one of them out")
    text = args.body if args.text is None else args.text
    if text is None:
        return read_payload(args)
    if args.payload is not None or args.fields:
        raise Invalid("a text and --payload or --field together", hint="leave one of them out")
    return {"text": text}


def add_purpose(parser: argparse.ArgumentParser) -> None:
    """Add the options that make a message part of an exchange, to which policies apply."""
    purposes, levels = [purpose.value for purpose in Purpose], [level.value for level in Classification]
    group = parser.add_argument_group("policies (any of these makes the message part of an exchange)")
    group.add_argument(
        "--purpose", default="", choices=["", *purposes], metavar="PURPOSE", help=f"one of {', '.join(purposes)}"
    )
    group.add_argument(
        "--classification", default="", choices=["", *levels], metavar="LEVEL", help=f"one of {', '.join(levels)}"
    )
    group.add_argument(
        "--conversation",
        default="",
        metavar="CONVERSATION",
        help="conversation to continue: its id or the end of its id",
    )
    group.add_argument(
        "--max-rounds", type=int, default=None, metavar="N", help="number of messages before a person must decide"
    )
    group.add_argument(
        "--data",
        dest="items",
        default="",
        metavar="FILE",
        help="JSON or YAML list that declares the data it contains: source, fields, classification, description",
    )


def read_metadata(args: argparse.Namespace, text: str = "") -> dict[str, Any] | None:
    """Build the metadata from the options and the JSON in `text`; None if there is none."""
    metadata = json_object(text, "--metadata") if text else {}
    named: dict[str, Any] = {
        "exchange_type": args.purpose or None,
        "classification": args.classification or None,
        "conversation_id": args.conversation or None,
        "max_rounds": args.max_rounds,
        "data": data_items(args.items) if args.items else None,
    }
    for name, value in named.items():
        if value is None:
            continue
        if name in metadata:
            raise Invalid(f"{name} is given twice: in --metadata and as an option", hint="leave one of them out")
        metadata[name] = value
    return metadata or None


def data_items(path: str) -> list[Any]:
    """Read the list of shared data from a file."""
    from parley.cli.parts.body import read_text_file

    text = read_text_file(path)
    document: object
    if text.lstrip()[:1] in ("[", "{"):
        try:
            document = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise Invalid(f"{path} is not JSON: {error}") from None
    else:
        document = _yaml_list(path, text)
    if isinstance(document, dict) and list(document) == ["data"]:
        document = document["data"]
    if not isinstance(document, list):
        raise Invalid(
            f"{path} is not a list", hint="use a list of items with source, fields, classification, description"
        )
    return document


def _yaml_list(path: str, text: str) -> object:
    from parley.domain.limits import DEFAULT_LIMITS
    from parley.wire.yaml.strict import read_strict

    # The reader accepts mappings only, so the list gets a name. It need not be indented for that.
    is_list = any(line.startswith("-") and not line.startswith("---") for line in text.splitlines())
    try:
        return read_strict(f"data:\n{text}" if is_list else text, DEFAULT_LIMITS)
    except Invalid as error:
        raise Invalid(f"{path} is not YAML: {error.message}") from None


def read_payload(args: argparse.Namespace) -> dict[str, Any]:
    """Read the payload that the options name."""
    if args.payload is not None and args.fields:
        raise Invalid("--payload and --field together", hint="leave one of them out")
    if args.fields:
        return _payload_from_fields(args.fields)
    if args.payload is not None and args.payload != "-":
        return json_object(args.payload, "--payload")
    if sys.stdin is None or (args.payload is None and sys.stdin.isatty()):
        raise Invalid("no payload given", hint="use --payload JSON, --field NAME=VALUE or standard input")
    content = sys.stdin.buffer.read(HARD_FILE_BYTES + 1)
    if len(content) > HARD_FILE_BYTES:
        raise Invalid("standard input is larger than the largest message")
    if not content.strip():
        raise Invalid("no payload: standard input is empty", hint="use --payload '{}' for an empty one")
    try:
        return json_object(content.decode(), "standard input")
    except UnicodeDecodeError:
        raise Invalid("standard input is not UTF-8 text") from None


def json_object(text: str, source: str) -> dict[str, Any]:
    """Parse a JSON object; `Invalid` names its source."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{source} is not JSON: {error}", hint="or use --field NAME=VALUE") from None
    if not isinstance(value, dict):
        raise Invalid(f"{source} must be a JSON object", hint="""write {"name": "value"}, or use --field NAME=VALUE""")
    return value


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number")


def _payload_from_fields(assignments: list[str]) -> dict[str, Any]:
    """Turn `question=Ready? context.retries:=3` into an object."""
    payload: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        value: Any = text
        if name.endswith(":"):
            name = name[:-1]
            try:
                value = json.loads(text, parse_constant=_refuse_constant)
            except (ValueError, RecursionError):
                raise Invalid(
                    f"--field {assignment!r}: the value after := is not JSON", hint="use = for text"
                ) from None
        if not equals or not all(name.split(".")):
            raise Invalid(
                f"--field {assignment!r} is not NAME=VALUE", hint="for example --field question='Which schema?'"
            )
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
