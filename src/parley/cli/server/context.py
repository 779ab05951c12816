"""`parley context list|use|show|rename|remove`: manage saved logins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, add_json, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.logins import note_overrides
from parley.cli.parts.remote import field_column, show_fields, show_result, show_table
from parley.cli.table import ALWAYS, Column
from parley.domain.errors.errors import NotFound
from parley.login_wiring import login_file

if TYPE_CHECKING:
    import argparse

    from parley.domain.logins import Login, SavedLogins

_NAME_HELP = "name of the context; see: parley context list"


def _document(login: Login, saved: SavedLogins) -> dict[str, Any]:
    """A login without its key."""
    fields = {name: value or None for name, value in login._asdict().items() if name != "key"}
    return {**fields, "current": login.name == saved.current}


def _add_list(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def _list(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    saved = login_file(settings).load()
    columns = (
        Column("", lambda login: "*" if login["current"] else "", ALWAYS),
        Column("NAME", field_column("name"), ALWAYS),
        Column("HOLDER", _holder_column, 8),
        Column("TENANT", field_column("tenant"), 5, usual="default"),
        Column("SERVER", field_column("url"), 7),
    )
    nothing = "No saved logins. Log in with: parley login URL; or start a server of your own: parley up"
    show_table(args, screen_of(args), [_document(login, saved) for login in saved.logins], columns, nothing)
    note_overrides(settings)
    return OK


def _holder_column(login: dict[str, Any]) -> str:
    return " ".join(filter(None, (login["kind"], login["agent"] or login["user"]))) or "-"


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="CONTEXT", help=_NAME_HELP)
    add_json(parser)


def _use(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    saved = login_file(settings).change(lambda saved: saved._replace(current=saved.get(args.name).name))
    login = saved.get(args.name)
    line = f'Now in use: context "{login.name}", {safe(login.url)} as {safe(login.holder)}'
    show_result(args, screen_of(args), _document(login, saved), line)
    note_overrides(settings)
    return OK


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", default="", metavar="CONTEXT", help=f"{_NAME_HELP} (default: the one in use)"
    )
    add_json(parser)


def _show(args: argparse.Namespace) -> int:
    file = login_file(settings_of(args))
    saved = file.load()
    login = saved.get(args.name) if args.name else saved.in_use()
    if login is None:
        raise NotFound("no login is saved", hint="log in with: parley login URL; or start a server: parley up")
    show_fields(args, screen_of(args), {**_document(login, saved), "file": file.path})
    return OK


def _add_rename(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="CONTEXT", help=_NAME_HELP)
    parser.add_argument("new_name", metavar="NEW", help="its new name")
    add_json(parser)


def _rename(args: argparse.Namespace) -> int:
    saved = login_file(settings_of(args)).change(lambda saved: saved.renamed(args.name, args.new_name))
    document = _document(saved.get(args.new_name), saved)
    show_result(args, screen_of(args), document, f'Renamed context "{safe(args.name)}" to "{args.new_name}"')
    return OK


def _remove(args: argparse.Namespace) -> int:
    saved = login_file(settings_of(args)).change(lambda saved: saved.without(saved.get(args.name).name))
    line = f'Removed context "{safe(args.name)}"; its key is still valid'
    if saved.logins and not saved.current:
        line += f"\nNo login is in use now; choose one of {', '.join(saved.names)}: parley context use NAME"
    show_result(args, screen_of(args), {"removed": args.name, "left": saved.names}, line)
    return OK


COMMANDS = {
    "context list": Command("List saved logins, without their keys", _add_list, _list, ("parley context list",)),
    "context use": Command("Use another saved login from now on", _add_name, _use, ("parley context use work",)),
    "context show": Command(
        "Show a saved login, without its key", _add_show, _show, ("parley context show", "parley context show work")
    ),
    "context rename": Command("Rename a saved login", _add_rename, _rename, ("parley context rename local laptop",)),
    "context remove": Command("Remove a saved login", _add_name, _remove, ("parley context remove work",)),
}
