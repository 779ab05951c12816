"""`parley tenant create|list`: the tenants of a server, with the operator's key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.remote import (
    add_server_options,
    age_column,
    connection_of,
    field_column,
    show_result,
    show_table,
    without_none,
)
from parley.cli.table import ALWAYS, Column, text_column

if TYPE_CHECKING:
    import argparse


def _add_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tenant", metavar="TENANT", help="id of the tenant")
    parser.add_argument("--title", default=None, metavar="TEXT", help="display name")
    add_server_options(parser, agent=False)


def _create(args: argparse.Namespace) -> int:
    body = without_none({"id": args.tenant, "name": args.title})
    tenant = connection_of(args, agent=False).post("tenants", body=body)
    hint = f"; next: parley key create --kind admin --tenant {safe(tenant['id'])}"
    show_result(args, screen_of(args), tenant, f"Created tenant {safe(tenant['id'])}{hint}")
    return OK


def _add_list(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser, agent=False)


def _list(args: argparse.Namespace) -> int:
    tenants = connection_of(args, agent=False).get("tenants")
    columns = (
        Column("TENANT", field_column("id"), ALWAYS),
        Column("AGE", age_column("created_at")),
        text_column("NAME", field_column("name"), 8),
    )
    show_table(args, screen_of(args), tenants, columns, "No tenants.")
    return OK


COMMANDS = {
    "tenant create": Command(
        "Create a tenant, isolated from all others",
        _add_create,
        _create,
        ("parley tenant create acme --title 'Acme Ltd.'", "parley key create --kind admin --tenant acme"),
    ),
    "tenant list": Command("List tenants", _add_list, _list, ("parley tenant list", "parley tenant list --json")),
}
