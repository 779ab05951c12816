"""Read the body of a message from an argument, a file, standard input, `--set FIELD=VALUE`, or an editor."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from parley.domain.errors.errors import Invalid, NotFound
from parley.domain.limits import HARD_FILE_BYTES
from parley.domain.message.bodies import is_structured
from parley.domain.message.kinds import Shape

if TYPE_CHECKING:
    import argparse

    from parley.domain.message.message import Body, Kind, Value


def add_body(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("body (default: standard input, or $EDITOR on a terminal)")
    group.add_argument("--body", default=None, help="text of the message; '-' reads standard input")
    group.add_argument(
        "--body-file", default=None, metavar="FILE", help="read the text from a file; '-' is standard input"
    )
    group.add_argument(
        "--set",
        dest="fields",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="field of a structured body; repeat it for the items of a list; a.b sets b inside a",
    )


def read_body(args: argparse.Namespace, kind: Kind, editor: str) -> Body:
    """Read the body that the options name; for structured kinds as YAML."""
    sources = [name for name in ("body", "body_file") if getattr(args, name) is not None]
    if len(sources) + bool(args.fields) > 1:
        raise Invalid("more than one body given", hint="use one of --body, --body-file and --set")
    if args.fields:
        return fields_to_body(kind, args.fields)
    if args.body is not None and args.body != "-":
        text = str(args.body)
    elif args.body_file is not None and args.body_file != "-":
        text = read_text_file(args.body_file)
    elif sources or sys.stdin is None or not sys.stdin.isatty():
        text = read_stdin()
    else:
        text = _edit(args, kind, editor)
    return _read_structured(text) if is_structured(kind) else text


def fields_to_body(kind: Kind, assignments: list[str]) -> dict[str, Value]:
    """Turn `pr=#55 round=1 context_bundle.files_touched=a.py` into a mapping; the schema converts types later."""
    lists = {f.name for f in kind.spec.fields if f.shape in (Shape.LIST, Shape.FULL_LIST)}
    body: dict[str, Value] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not all(name.split(".")):
            raise Invalid(f"--set {assignment!r} is not FIELD=VALUE", hint="for example --set pr=#55")
        holder = body
        *path, leaf = name.split(".")
        for part in path:
            inner = holder.setdefault(part, {})
            if not isinstance(inner, dict):
                raise Invalid(f"--set {name}: {part} is already a value")
            holder = inner
        if name in lists:
            items = holder.setdefault(leaf, [])
            if isinstance(items, list) and value:
                items.append(value)
        elif leaf in holder:
            raise Invalid(f"--set {name} is given twice")
        else:
            holder[leaf] = value
    return body


def read_text_file(path: str) -> str:
    """Read a text file, up to the size of the largest message."""
    try:
        with open(path, "rb") as file:
            return _decode_text(file.read(HARD_FILE_BYTES + 1), path)
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror}") from None


def read_stdin() -> str:
    """Read standard input as text."""
    if sys.stdin is None:
        raise Invalid("no body: standard input is closed", hint="use --body or --body-file")
    return _decode_text(sys.stdin.buffer.read(HARD_FILE_BYTES + 1), "standard input")


def _decode_text(content: bytes, source: str) -> str:
    if len(content) > HARD_FILE_BYTES:
        raise Invalid(f"{source} is larger than the largest message")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise Invalid(f"{source} is not UTF-8 text") from None


def _read_structured(text: str) -> Body:
    from parley.domain.limits import DEFAULT_LIMITS
    from parley.wire.yaml.strict import read_strict

    try:
        return read_strict(text, DEFAULT_LIMITS)
    except Invalid as error:
        if ":" in text.split("\n", 1)[0]:  # meant as YAML, so report the error
            raise Invalid(f"the body is not YAML: {error.message}", hint="or use --set FIELD=VALUE") from None
        return text  # the schema reports what is missing


def _edit(args: argparse.Namespace, kind: Kind, editor: str) -> str:
    """Open an editor and return the text. The file stays until `discard_edited`, so that an error does not lose it."""
    import shlex
    import subprocess
    import tempfile

    if not editor:
        raise Invalid("no body given", hint="use --body, --body-file or standard input, or set EDITOR")
    from parley.domain.message.templates import body_template

    template = body_template(kind)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml" if template else ".md", delete=False) as file:
        file.write(template)
    args.edited = file.name
    try:
        subprocess.run([*shlex.split(editor), file.name], check=True)  # noqa: S603  # the user's own editor
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        why = error.strerror if isinstance(error, OSError) else "it exited with an error"
        raise Invalid(f"the editor {editor!r} failed: {why}", hint=f"your text is in {file.name}") from None
    text = read_text_file(file.name)
    if text.strip() == template.strip():
        discard_edited(args)
        raise Invalid("no body: the text was not changed in the editor")
    return text


def discard_edited(args: argparse.Namespace) -> None:
    """Remove the edited file after its text was sent."""
    path = getattr(args, "edited", "")
    if path:
        os.unlink(path)
        args.edited = ""
