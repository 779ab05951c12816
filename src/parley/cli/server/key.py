"""`parley key create|list|rotate|revoke`: manage the API keys of a server, with an admin key."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.logins import login_from, note_replaced
from parley.cli.parts.lookup import id_of
from parley.cli.parts.remote import (
    access_of,
    add_server_options,
    age_column,
    connection_of,
    field_column,
    parse_time_from_now,
    show_result,
    show_table,
    time_text,
    without_none,
)
from parley.cli.reports import note
from parley.cli.table import ALWAYS, Column, id_column
from parley.domain.errors.errors import Invalid, ParleyError
from parley.domain.logins import addresses, check_context_name
from parley.domain.names import name_from
from parley.login_wiring import login_file
from parley.sdk.protocol.lookup import KEYS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.domain.logins import Login, SavedLogins

_KINDS = ("agent", "service", "human", "admin", "auditor")


def _add_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kind",
        default="",
        choices=["", *_KINDS],
        metavar="KIND",
        help="agent (one agent), service (any agent), human (a person), admin, or auditor (reads, writes nothing)",
    )
    parser.add_argument("--agent", dest="speaker", default=None, metavar="AGENT", help="agent of an agent key")
    parser.add_argument(
        "--user",
        default=None,
        metavar="USER",
        help="person of a human key, or of an admin, auditor or service key: the audit log names them",
    )
    parser.add_argument(
        "--tenant", default=None, metavar="TENANT", help="create the key in another tenant; needs the operator's key"
    )
    parser.add_argument(
        "--expires",
        default="",
        metavar="TIME",
        help="when the key stops working: 7d, 12h, a day like 2026-03-14 (its end), or a time",
    )
    parser.add_argument(
        "--save",
        nargs="?",
        const=True,
        default=None,
        metavar="NAME",
        help="save the key as a context (default name: that of the agent or person) instead of printing it",
    )
    add_server_options(parser, agent=False)


def _add_list(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser, agent=False)


def _add_key_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "key_id", metavar="KEY", help="agent or person of the key, its id, or the end of its id; see: parley key list"
    )
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
    raise Invalid("no kind of key given", hint="give --agent NAME, --user NAME, or --kind service, admin or auditor")


def _create(args: argparse.Namespace) -> int:
    name = _context_name(args)
    if name:
        _check_context(args, name)  # refused before the key is created
    body = without_none(
        {
            "kind": _kind(args),
            "agent_id": args.speaker,
            "user_id": args.user,
            "tenant_id": args.tenant,
            "expires_at": parse_time_from_now(args.expires, "--expires", ends=True),
        }
    )
    key = connection_of(args, agent=False).post("keys", body=body)
    if name:
        _save(args, key, name)
    else:
        _show_new_key(args, key)
    return OK


def _context_name(args: argparse.Namespace) -> str:
    """The name to save the key under; "" if it is printed."""
    if args.save is None:
        return ""
    name = name_from(args.speaker or args.user or "") if args.save is True else args.save
    if not name:
        raise Invalid("--save needs a name for a key of this kind", hint="write --save NAME")
    return check_context_name(str(name))


def _check_context(args: argparse.Namespace, name: str) -> None:
    """Refuse a name of another login."""
    identity = (_kind(args), args.tenant or "", args.speaker or "", args.user or "")
    saved = login_file(settings_of(args)).load()
    login = saved.find(name)
    if login is not None and not args.tenant:
        identity = (identity[0], login.tenant, *identity[2:])
    saved.check_free(name, access_of(args).url, identity)


def _save(args: argparse.Namespace, key: Mapping[str, Any], name: str) -> None:
    """Save a new key as a context of the server that has created it. If that fails, the key is printed."""
    url = ",".join(addresses(access_of(args).url))
    login = login_from(key, url, key["key"])._replace(name=name)
    before: Login | None = None

    def add(saved: SavedLogins) -> SavedLogins:
        nonlocal before
        before = saved.find(name)
        return saved.with_login(login._replace(data=saved.data_of(url)), use=False)

    try:
        login_file(settings_of(args)).change(add)
    except ParleyError as error:
        note(f"the key could not be saved: {error}")
        _show_new_key(args, key)
        return
    line = f'Created key {safe(key["id"])} for {safe(_holder(key))}; saved as context "{name}"'
    document = {field: value for field, value in key.items() if field != "key"}
    show_result(args, screen_of(args), {**document, "context": name}, line)
    if not args.json:
        note_replaced(before, key["id"])


def _rotate(args: argparse.Namespace) -> int:
    connection = connection_of(args, agent=False)
    key_id = id_of(connection, KEYS, args.key_id)
    key = connection.post("keys", key_id, "rotate")
    contexts = _replace_saved(args, key_id, key)
    _show_new_key(args, key)
    if contexts:
        note(f"saved in context {', '.join(contexts)}")
    return OK


def _replace_saved(args: argparse.Namespace, key_id: str, key: Mapping[str, Any]) -> list[str]:
    """Put a rotated key into the saved logins that have the old one; their names."""
    url, file, names = access_of(args).url, login_file(settings_of(args)), list[str]()

    def replace(saved: SavedLogins) -> SavedLogins:
        logins = []
        for login in saved.logins:
            if login.key_id == key_id and login.covers(url):
                names.append(login.name)
                logins.append(login._replace(key=key["key"], key_id=key["id"]))
            else:
                logins.append(login)
        return saved._replace(logins=tuple(logins))

    with suppress(ParleyError):  # the key is printed in any case
        if any(login.key_id == key_id for login in file.load().logins):
            file.change(replace)
    return names


def _show_new_key(args: argparse.Namespace, key: Mapping[str, Any]) -> None:
    # Only the secret goes to standard output, so that KEY=$(parley key create ...) works.
    screen = screen_of(args)
    if not args.json:
        created = f"Created key {safe(key['id'])} for {safe(_holder(key))}"
        shown = ". Save it; it is not shown again:" if sys.stdout.isatty() else "; printed to standard output, only now"
        sys.stderr.write(f"{created}{shown}\n")
    show_result(args, screen, key, safe(key["key"]))


def _holder(key: Mapping[str, Any]) -> str:
    who = key["agent_id"] or key["user_id"]
    return f"{key['kind']} {who}" if who else f"{key['kind']} of tenant {key['tenant_id']}"


def _state_column(key: Mapping[str, Any]) -> str:
    if key["revoked_at"]:
        return "revoked"
    return f"until {time_text(key['expires_at'])}" if key["expires_at"] else "valid"


def _holder_column(key: Mapping[str, Any]) -> str:
    return key["agent_id"] or key["user_id"] or ("operator" if key["operator"] else "-")


def _list(args: argparse.Namespace) -> int:
    keys = connection_of(args, agent=False).get("keys")
    columns = (
        id_column("ID", field_column("id")),
        Column("KIND", field_column("kind"), 8),
        Column("STATE", _state_column, 7, usual="valid"),
        Column("AGE", age_column("created_at"), 4),
        Column("TENANT", field_column("tenant_id"), 5, usual="default"),
        Column("HOLDER", _holder_column, ALWAYS),
    )
    show_table(args, screen_of(args), keys, columns, "No keys.")
    return OK


def _revoke(args: argparse.Namespace) -> int:
    connection = connection_of(args, agent=False)
    key_id = id_of(connection, KEYS, args.key_id)
    was_revoked = next((key["revoked_at"] for key in connection.get("keys") if key["id"] == key_id), None)
    revoked = connection.send("DELETE", "keys", key_id).document
    name = f"key {safe(revoked['id'])} of {safe(_holder(revoked))}"
    line = f"Revoked {name}; its streams are closed"
    if was_revoked:
        line = f"No change: {name} was revoked at {time_text(was_revoked)}"
    show_result(args, screen_of(args), revoked, line)
    return OK


COMMANDS = {
    "key create": Command(
        "Create an API key, and print or save it",
        _add_create,
        _create,
        (
            "parley key create --user ann --save",
            "export PARLEY_KEY=$(parley key create --agent codex)",
            "parley key create --kind service --expires 30d --json",
            "parley key create --user ada@example.org --save ada",
            "parley key create --kind admin --user carla",
            "parley key create --kind auditor --user dora --save",
        ),
    ),
    "key list": Command("List API keys without their secrets", _add_list, _list, ("parley key list",)),
    "key rotate": Command(
        "Replace an API key; the old one stops working at once", _add_key_id, _rotate, ("parley key rotate codex",)
    ),
    "key revoke": Command(
        "Revoke an API key", _add_key_id, _revoke, ("parley key revoke codex", "parley key revoke 7K2M")
    ),
}
