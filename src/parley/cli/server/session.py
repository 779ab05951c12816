"""`parley session list|end`: sign-ins of browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import count_of, safe
from parley.cli.parts.lookup import id_of
from parley.cli.parts.remote import (
    add_server_options,
    age_column,
    connection_of,
    field_column,
    show_result,
    show_table,
    time_column,
)
from parley.cli.table import ALWAYS, Column, id_column
from parley.domain.errors.errors import Invalid
from parley.sdk.protocol.lookup import SESSIONS

if TYPE_CHECKING:
    import argparse


def _add_list(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser, agent=False)


def _list(args: argparse.Namespace) -> int:
    columns = (
        id_column("ID", field_column("id")),
        Column("PERSON", field_column("user_id"), ALWAYS),
        Column("BEGAN", age_column("created_at"), 5),
        Column("VIA", field_column("via"), 2),
        Column("EXPIRES", time_column("expires_at"), 4),
        Column("KEY", field_column("key_id"), 1),
    )
    show_table(args, screen_of(args), connection_of(args).get("sessions"), columns, "No browser is signed in.")
    return OK


def _add_end(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session",
        nargs="?",
        default="",
        metavar="SESSION",
        help="id of the sign-in, or the end of it; see: session list",
    )
    parser.add_argument("--all", action="store_true", help="end all your own sign-ins")
    add_server_options(parser, agent=False)


def _end(args: argparse.Namespace) -> int:
    if bool(args.session) == args.all:
        raise Invalid("which sign-in?", hint="name one (see: parley session list), or add --all")
    connection = connection_of(args)
    if args.all:
        ended = connection.send("DELETE", "sessions").document
        show_result(args, screen_of(args), ended, f"Ended {count_of(ended['ended'], 'sign-in')}")
        return OK
    session = id_of(connection, SESSIONS, args.session)
    document = connection.send("DELETE", "sessions", session).document
    show_result(args, screen_of(args), document, f"Ended {safe(session)}")
    return OK


COMMANDS = {
    "session list": Command(
        "List browsers that are signed in", _add_list, _list, ("parley session list", "parley session list --json")
    ),
    "session end": Command(
        "Sign a browser out", _add_end, _end, ("parley session end 7K2M", "parley session end --all")
    ),
}
