"""`parley key create|list|rotate|revoke` on a server, for admins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.remote import (
    add_server_options,
    age_column,
    connection_of,
    field_column,
    parse_time_from_now,
    show_result,
    show_table,
    without_none,
)
from parley.domain.errors.errors import Invalid

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

_KINDS = ("agent", "service", "human", "admin")


def _add_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kind",
        default="",
        choices=["", *_KINDS],
        metavar="KIND",
        help="agent speaks as one agent, service for any, human for a person, admin rules (default: by the options)",
    )
    parser.add_argument(
        "--agent", dest="speaker", default=None, metavar="AGENT", help="the agent that an agent key is for"
    )
    parser.add_argument("--user", default=None, metavar="USER", help="the person that a human key is for")
    parser.add_argument("--tenant", default=None, metavar="TENANT", help="another tenant; only the operator may")
    parser.add_argument("--expires", default="", metavar="TIME", help="7d, 12h, or a time like 2026-03-14T12:00:00Z")
    add_server_options(parser, agent=False)


def _add_list(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser, agent=False)


def _add_key_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key_id", metavar="ID", help="the key's id, as `parley key list` shows it")
    add_server_options(parser, agent=False)


def _kind(args: argparse.Namespace) -> str:
    if args.kind:
        return str(args.kind)
    if args.speaker and args.user:
        raise Invalid(
            "a key is for an agent or for a person, not both", hint="leave out --agent or --user, or add --kind"
        )
    if args.speaker or args.user:
        return "agent" if args.speaker else "human"
    raise Invalid("which kind of key?", hint="give --agent NAME, --user NAME, --kind service or --kind admin")


def _create(args: argparse.Namespace) -> int:
    body = without_none(
        {
            "kind": _kind(args),
            "agent_id": args.speaker,
            "user_id": args.user,
            "tenant_id": args.tenant,
            "expires_at": parse_time_from_now(args.expires, "--expires"),
        }
    )
    _show_new_key(args, connection_of(args, agent=False).post("keys", body=body))
    return OK


def _rotate(args: argparse.Namespace) -> int:
    _show_new_key(args, connection_of(args, agent=False).post("keys", args.key_id, "rotate"))
    return OK


def _show_new_key(args: argparse.Namespace, key: Mapping[str, Any]) -> None:
    # The secret goes to standard output alone, so that KEY=$(parley key create ...) works; the rest is for people.
    import sys

    screen = screen_of(args)
    if not args.json:
        sys.stderr.write(f"Created key {safe(key['id'])} for {safe(_holder(key))}; it is shown only now:\n")
    show_result(args, screen, key, safe(key["key"]))


def _holder(key: Mapping[str, Any]) -> str:
    who = key["agent_id"] or key["user_id"]
    return f"{key['kind']} {who}" if who else f"{key['kind']} of tenant {key['tenant_id']}"


def _state_column(key: Mapping[str, Any]) -> str:
    if key["revoked_at"]:
        return "revoked"
    return f"until {key['expires_at'][:16]}" if key["expires_at"] else "valid"


def _list(args: argparse.Namespace) -> int:
    keys = connection_of(args, agent=False).get("keys")
    columns = {
        "ID": field_column("id"),
        "KIND": field_column("kind"),
        "STATE": _state_column,
        "AGE": age_column("created_at"),
        "TENANT": field_column("tenant_id"),
        "FOR": lambda key: safe(key["agent_id"] or key["user_id"] or ("operator" if key["operator"] else "-")),
    }
    show_table(args, screen_of(args), keys, columns, "There is no key.")
    return OK


def _revoke(args: argparse.Namespace) -> int:
    revoked = connection_of(args, agent=False).send("DELETE", "keys", args.key_id).document
    line = f"Revoked key {safe(revoked['id'])} of {safe(_holder(revoked))}; its streams end"
    show_result(args, screen_of(args), revoked, line)
    return OK


COMMANDS = {
    "key create": Command(
        "Create a key; it is shown once",
        _add_create,
        _create,
        (
            "export PARLEY_KEY=$(parley key create --agent codex)",
            "parley key create --kind service --expires 30d --json",
            "parley key create --user ada@example.org",
        ),
    ),
    "key list": Command("List keys, without their secrets", _add_list, _list, ("parley key list",)),
    "key rotate": Command(
        "Replace a key by a new one; the old one ends at once", _add_key_id, _rotate, ("parley key rotate key_01K...",)
    ),
    "key revoke": Command("End a key for good", _add_key_id, _revoke, ("parley key revoke key_01K...",)),
}
