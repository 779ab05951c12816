"""`parley login|logout|whoami`: save a key for a server, forget it, and show whose it is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, add_json, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.logins import holder_of, login_from, note_overrides, note_replaced
from parley.cli.parts.mailboxes import has_no_server, mailbox_place
from parley.cli.parts.remote import access_of, add_server_options, connection_of, show_fields, show_result
from parley.domain.errors.errors import Invalid, NotFound, ParleyError
from parley.domain.logins import SavedLogins, addresses, check_context_name
from parley.login_wiring import login_file

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.cli.parts.mailboxes import MailboxPlace
    from parley.domain.logins import Login
    from parley.settings import Settings


def _add_login(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "address", nargs="?", default="", metavar="URL", help="address of the server (default: the one in use)"
    )
    parser.add_argument(
        "--context", dest="name", default="", metavar="NAME", help="name to save it under (default: from the address)"
    )
    parser.add_argument("--no-use", action="store_true", help="save it, but keep the context that is in use")
    add_json(parser)


def _login(args: argparse.Namespace) -> int:
    settings, file = settings_of(args), login_file(settings_of(args))
    saved = file.load()  # refused before a key is typed
    if args.name:
        check_context_name(args.name)
    url = _address(args.address, settings, saved)
    key = _read_key(url)
    holder = _check(settings, url, key)
    login = login_from(holder, url, key)

    in_use_before = saved.current
    replaced: Login | None = None

    def add(saved: SavedLogins) -> SavedLogins:
        nonlocal login, in_use_before, replaced
        login = login._replace(data=saved.data_of(url))
        if args.name:
            saved.check_free(args.name, url, login.identity)
        login = login._replace(name=args.name or saved.free_name(login))
        in_use_before, replaced = saved.current, saved.find(login.name)
        return saved.with_login(login, use=not args.no_use or not saved.current)

    after = file.change(add)
    in_use = after.current == login.name
    line = f"Logged in to {safe(url)} as {safe(holder_of(holder))}, tenant {safe(holder['tenant_id'])}\n"
    line += f'Saved as context "{login.name}"' + (", now in use" if in_use else f"; in use is {after.current}")
    if in_use and in_use_before not in ("", login.name):
        line += f'\nBefore, context "{in_use_before}" was in use; to go back: parley context use {in_use_before}'
    show_result(args, screen_of(args), {"context": login.name, "url": url, "current": in_use, **holder}, line)
    if not args.json:
        note_replaced(replaced, login.key_id)
    note_overrides(settings)
    return OK


def _address(address: str, settings: Settings, saved: SavedLogins) -> str:
    """The address to log in to, in the form in which it is saved."""
    from parley.sdk.protocol.flow import target_of

    in_use = saved.find(saved.current)
    if address in saved.names:
        url = saved.get(address).url
    elif address or settings.source_of("url") != "default" or in_use is None:
        url = address or settings.url
    else:
        url = in_use.url
    for part in url.split(","):
        try:
            target_of(part.strip())
        except Invalid as error:
            hint = f"write https://{part.strip()}" if "/" not in part and part.strip() else "write https://HOST:PORT"
            raise Invalid(error.message, hint=hint) from None
    return ",".join(addresses(url))


def _read_key(url: str) -> str:
    """The key, typed on the terminal without being shown, or from standard input."""
    if sys.stdin is not None and sys.stdin.isatty():
        from getpass import getpass

        key = getpass(f"Key for {safe(url)} (it is not shown): ").strip()
    else:
        key = sys.stdin.readline(10_000).strip() if sys.stdin is not None else ""
    if not key:
        raise Invalid("no key given, nothing was saved", hint=f"type it, or: parley login {url} < FILE")
    return key


def _check(settings: Settings, url: str, key: str) -> Mapping[str, Any]:
    """Whose key it is, as the server says."""
    from parley.cli.parts.remote import CONNECT_SECONDS
    from parley.sdk.blocking.connection import Connection

    connection = Connection(
        url, key=key, plain_http=settings.plain_http == "any", connect_patience=CONNECT_SECONDS, patience=2.0
    )
    try:
        holder: Mapping[str, Any] = connection.get("whoami")
    except NotFound:
        raise Invalid(f"{url} cannot say whose key this is", hint="is it a Parley server of 0.7 or later?") from None
    except ParleyError as error:
        if error.code == "unauthorized":
            error.message, error.hint = f"{url} does not accept this key", "nothing was saved; see: parley key create"
        elif error.facts.get("arrived") is False:
            error.hint = "nothing was saved; check the address, or start the server with: parley up"
        raise
    if not isinstance(holder, dict) or not {"kind", "tenant_id", "key_id"} <= set(holder):
        raise Invalid(f"{url} does not answer like a Parley server")
    return holder


def _add_logout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "login", nargs="?", default="", metavar="CONTEXT|URL", help="login to forget (default: the one in use)"
    )
    parser.add_argument("--all", action="store_true", help="forget all saved logins")
    add_json(parser)


def _logout(args: argparse.Namespace) -> int:
    removed: list[str] = []

    def remove(saved: SavedLogins) -> SavedLogins:
        if args.all:
            removed.extend(f"{login.name} ({login.url})" for login in saved.logins)
            return SavedLogins()
        login = saved.pick(args.login) if args.login else saved.in_use()
        if login is None:
            raise NotFound("no login is saved", hint="see: parley context list")
        removed.append(f"{login.name} ({login.url})")
        return saved.without(login.name)

    left = login_file(settings_of(args)).change(remove)
    lines = [f"Logged out: {safe(', '.join(removed)) or 'no login was saved'}"]
    if removed:
        lines.append("The key is still valid; an admin can end it with: parley key revoke KEY")
    if left.logins and not left.current:
        lines.append(f"No login is in use now; choose one of {', '.join(left.names)}: parley context use NAME")
    show_result(args, screen_of(args), {"removed": removed, "left": left.names}, "\n".join(lines))
    return OK


def _whoami(args: argparse.Namespace) -> int:
    access = access_of(args)
    place = mailbox_place(settings_of(args))
    try:
        holder = connection_of(args).get("whoami")
    except ParleyError as error:
        if place is None or not has_no_server(error, args):
            raise
        return _show_mailbox(args, place)
    context = access.login.name if access.login else None
    if args.json:
        document = {"url": access.url, "context": context, "key_source": access.key_source, **holder}
        screen_of(args).json({**document, "mailbox": _mailbox_fields(place)})
        return OK
    fields = {
        "server": access.url,
        "context": context,
        "key": f"{holder['kind']}{' (operator)' if holder['operator'] else ''}, from {access.key_source}",
        "agent": holder["agent_id"],
        "person": holder["user_id"],
        "agents": holder.get("agents"),
        "approves": "for others, too" if holder.get("is_approver") else "",
        "roles": holder["roles"],
        "tenant": holder["tenant_id"],
        "expires": (holder["expires_at"] or "")[:19].replace("T", " "),
        "mailbox": _mailbox_text(place) if place is not None and place.agent else "",
    }
    show_fields(args, screen_of(args), fields)
    return OK


def _show_mailbox(args: argparse.Namespace, place: MailboxPlace) -> int:
    """Print who you are where there are mailboxes and no server."""
    screen = screen_of(args)
    if args.json:
        screen.json({"url": None, "mailbox": _mailbox_fields(place)})
    else:
        show_fields(args, screen, {"mailbox": _mailbox_text(place), "server": "none (start one with: parley up)"})
    return OK


def _mailbox_fields(place: MailboxPlace | None) -> dict[str, str | None] | None:
    return {"project": place.project, "agent": place.agent or None} if place is not None else None


def _mailbox_text(place: MailboxPlace) -> str:
    who = place.agent or "no agent (add --agent NAME, or set PARLEY_AGENT)"
    return f"{who}, project {place.project}"


COMMANDS = {
    "login": Command(
        "Save a key for a server, for commands and programs",
        _add_login,
        _login,
        ("parley login https://parley.example.org", "parley login http://127.0.0.1:8420 < key.txt"),
    ),
    "logout": Command("Forget a saved login", _add_logout, _logout, ("parley logout", "parley logout work")),
    "whoami": Command(
        "Show which server you use, with whose key",
        add_server_options,
        _whoami,
        ("parley whoami", "parley whoami --context ann --json"),
    ),
}
