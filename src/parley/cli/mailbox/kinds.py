"""`parley kinds`: the kinds of message, their fields, and a template to fill in."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from parley.cli.command import Command, add_json, screen_of
from parley.cli.exits import OK
from parley.cli.table import ALWAYS, Column, show_rows, text_column
from parley.domain.errors.errors import Invalid
from parley.domain.message.kinds import KINDS, Field, Kind
from parley.domain.message.templates import body_template
from parley.domain.names import meant

if TYPE_CHECKING:
    import argparse

    from parley.cli.output import Screen


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", nargs="?", default="", metavar="KIND", help="show the fields of this kind")
    parser.add_argument("--template", action="store_true", help="print only the body to fill in")
    add_json(parser)


def _kinds(args: argparse.Namespace) -> int:
    screen = screen_of(args)
    if not args.kind:
        if args.template:
            raise Invalid("--template needs a kind", hint=f"one of {', '.join(KINDS)}")
        if args.json:
            screen.json([kind_fields(kind) for kind in Kind])
        else:
            columns = (
                Column("KIND", lambda kind: kind.value, ALWAYS),
                text_column("ANSWERED BY", lambda kind: " or ".join(kind.spec.answers) or "-", 6),
                text_column("PURPOSE", lambda kind: kind.spec.purpose),
            )
            show_rows(screen, columns, [*Kind])
        return OK
    kind = KINDS.get(args.kind)
    if kind is None:
        raise Invalid(f"no kind {args.kind!r}", hint=meant(args.kind, KINDS) or f"one of {', '.join(KINDS)}")
    if args.template:
        sys.stdout.write(body_template(kind))
    elif args.json:
        screen.json(kind_fields(kind))
    else:
        _show(screen, kind)
    return OK


def kind_fields(kind: Kind) -> dict[str, object]:
    """Return a kind as a mapping."""
    spec = kind.spec
    return {
        "type": kind.value,
        "purpose": spec.purpose,
        "answers": list(spec.answers),
        "priority": f"that of the {spec.origin}" if spec.origin else spec.typical[0].value,
        "fields": [
            {
                "name": field.name,
                "type": field.shape.value,
                "required": field.required,
                "choices": list(field.choices),
                "description": field.description,
            }
            for field in spec.fields
        ],
        "template": body_template(kind),
    }


def _show(screen: Screen, kind: Kind) -> None:
    spec = kind.spec
    screen.prose(f"{kind}: {spec.purpose}")
    screen.prose(f"answered by: {' or '.join(spec.answers) or 'nothing'}")
    screen.prose(f"priority: {f'that of the {spec.origin}' if spec.origin else spec.typical[0].value}")
    screen.line()
    send = f"parley send --to AGENT --type {kind} --subject TEXT"
    if not spec.fields:
        screen.prose("The body is free text.")
        screen.prose(f"send with: {send} --body TEXT")
        return
    columns = (
        Column("FIELD", lambda field: field.name, ALWAYS),
        Column("TYPE", _type_column, 7),
        Column("REQUIRED", lambda field: "yes" if field.required else "", 8),
        text_column("MEANING", lambda field: field.description),
    )
    show_rows(screen, columns, spec.fields)
    screen.line()
    screen.line(body_template(kind).rstrip("\n"))
    screen.line()
    screen.prose(f"fill in: parley kinds {kind} --template > body.yaml")
    screen.prose(f"send with: {send} --body-file body.yaml")


def _type_column(field: Field) -> str:
    return "|".join(field.choices) or field.shape.value.replace("string", "text")


COMMANDS = {
    "kinds": Command(
        "List the kinds of message, their fields and templates",
        _add_arguments,
        _kinds,
        ("parley kinds", "parley kinds handoff", "parley kinds handoff --template > handoff.yaml"),
    ),
}
