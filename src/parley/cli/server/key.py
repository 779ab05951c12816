"""`parley key create|list|rotate|revoke`: manage the API keys of a server, with an admin key."""

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
        help="agent (one agent), service (any agent), human (a person) or admin (default: by the other options)",
    )
    parser.add_argument("--agent", dest="speaker", default=None, metavar="AGENT", help="agent of an agent key")
    parser.add_argument("--user", default=None, metavar="USER", help="person of a human key")
    parser.add_argument(
        "--tenant", default=None, metavar="TENANT", help="create the key in another tenant; needs the operator's key"
    )
    parser.add_argument(
        "--expires",
        default="",
        metavar="TIME",
        help="when the key stops working: 7d, 12h, or a time like 2026-03-14T12:00:00Z",
    )
    add_server_options(parser, agent=False)


def _add_list(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser, agent=False)


def _add_key_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key_id", metavar="ID", help="id of the key; see: parley key list")
    add_server_options(parser, agent=False)


def _kind(args: argparse.Namespace) -> str:
    if args.kind:
        return str(args.kind)
    if args.speaker and args.user:
        raise Invalid(
            "--agent and --user together: a key is for an agent or for a person", hint="leave one out, or add --kind"
        )
    if args.speaker or args.user:
        return "agent" if args.speaker else "human"
    raise Invalid("no kind of key given", hint="give --agent NAME, --user NAME, --kind service or --kind admin")


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
    # Only the secret goes to standard output, so that KEY=$(parley key create ...) works.
    import sys

    screen = screen_of(args)
    if not args.json:
        sys.stderr.write(f"Created key {safe(key['id'])} for {safe(_holder(key))}. Save it; it is not shown again:\n")
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
        "HOLDER": lambda key: safe(key["agent_id"] or key["user_id"] or ("operator" if key["operator"] else "-")),
    }
    show_table(args, screen_of(args), keys, columns, "No keys.")
    return OK


def _revoke(args: argparse.Namespace) -> int:
    revoked = connection_of(args, agent=False).send("DELETE", "keys", args.key_id).document
    line = f"Revoked key {safe(revoked['id'])} of {safe(_holder(revoked))}; its streams are closed"
    show_result(args, screen_of(args), revoked, line)
    return OK


COMMANDS = {
    "key create": Command(
        "Create an API key; it is printed once",
        _add_create,
        _create,
        (
            "export PARLEY_KEY=$(parley key create --agent codex)",
            "parley key create --kind service --expires 30d --json",
            "parley key create --user ada@example.org",
        ),
    ),
    "key list": Command("List API keys without their secrets", _add_list, _list, ("parley key list",)),
    "key rotate": Command(
        "Replace an API key; the old one stops working at once", _add_key_id, _rotate, ("parley key rotate key_01K...",)
    ),
    "key revoke": Command("Revoke an API key", _add_key_id, _revoke, ("parley key revoke key_01K...",)),
}
