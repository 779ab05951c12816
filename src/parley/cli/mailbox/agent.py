"""`parley agent add|list|show`: the agents of a project, or of a server."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from parley.adapters.files.seeds import RUNTIMES
from parley.adapters.files.workspace import Workspace
from parley.cli.command import Command, add_mailbox_options, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import label_of, safe
from parley.cli.table import ALWAYS, Column, show_rows
from parley.domain.errors.errors import NotFound, ParleyError
from parley.domain.names import agent_name, is_message_file
from parley.wiring import add_agent, find_home, find_project, notices_messages, read_card

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.domain.message.message import Value

# Whether a coding agent notices its messages by itself; not known for other agents.
_NOTICES: Mapping[object, str] = {True: "yes", False: "does not notice", None: ""}


def _add_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--runtime", default="", choices=["", *RUNTIMES], metavar="RUNTIME", help=f"one of {', '.join(RUNTIMES)}"
    )
    parser.add_argument("--shared", action="store_true", help="let other users of your group deliver to the inbox")
    add_mailbox_options(parser, agent=False)


def _add_list(parser: argparse.ArgumentParser) -> None:
    add_mailbox_options(parser, agent=False)
    group = _add_server(parser)
    group.add_argument("--status", default="", metavar="STATUS", help="only agents with this status, such as active")
    group.add_argument("--role", default="", metavar="ROLE", help="only agents with this role")


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="AGENT")
    add_mailbox_options(parser, agent=False)
    _add_server(parser)


def _add_server(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    group = parser.add_argument_group("server")
    group.add_argument("--server", action="store_true", help="agents registered on the server instead of a project")
    group.add_argument("--url", default="", help="address of the server (default: $PARLEY_URL, http://127.0.0.1:8420)")
    group.add_argument(
        "--key", default="", help="API key (default: $PARLEY_KEY, which is safer: process lists show --key)"
    )
    return group


def _wants_server(args: argparse.Namespace) -> bool:
    """Whether the options ask for the agents of a server; the default is a project."""
    return bool(args.server or args.url)


def _workspace(args: argparse.Namespace) -> Workspace:
    settings = settings_of(args)
    home = find_home(settings).value
    return Workspace(home, find_project(settings, home).value)


def _project_to_list(args: argparse.Namespace) -> Workspace:
    """Find the project; without one, but with a server configured, hint at --server."""
    try:
        return _workspace(args)
    except NotFound as missing:
        if _has_server(args):
            missing.hint = f"{missing.hint}; for the agents of the server, add --server"
        raise


def _has_server(args: argparse.Namespace) -> bool:
    """Whether commands have a server to use: from a setting, or from a saved login."""
    from parley.login_wiring import login_file

    sources = args.settings.sources
    if any(setting.name in ("url", "key") and setting.value and setting.source != "default" for setting in sources):
        return True
    with suppress(ParleyError):
        return bool(login_file(settings_of(args)).load().current)
    return False


def _add(args: argparse.Namespace) -> int:
    workspace = _workspace(args)
    agent_name(args.name)
    added = add_agent(workspace.home, workspace.project, args.name, runtime=args.runtime, shared=args.shared)
    screen = screen_of(args)
    if args.json:
        screen.json({"agent": args.name, "project": workspace.project, "path": added.path, "created": added.created})
    elif added.created:
        screen.prose(f"Added agent {args.name} to project {workspace.project}")
    else:
        screen.prose(f"Agent {args.name} is already in project {workspace.project}")
    return OK


def _facts(workspace: Workspace, name: str) -> dict[str, Value]:
    folder = workspace.agent(name)
    card = read_card(folder)
    return {
        "agent": folder.name,
        "runtime": card.get("runtime", ""),
        "description": card.get("description", ""),
        "waiting": _count(f"{folder.path}/inbox"),
        "sent": _count(f"{folder.path}/outbox"),
        "dead_letters": _count(f"{folder.path}/dead_letter"),
        "ledger": folder.has_ledger,
        "notices": notices_messages(workspace.home, workspace.project, folder.name),
        "path": folder.path,
    }


def _count(path: str) -> int:
    try:
        return sum(1 for name in os.listdir(path) if is_message_file(name))
    except OSError:
        return 0


def _list(args: argparse.Namespace) -> int:
    if _wants_server(args):
        from parley.cli.channels.agents import list_registered

        return list_registered(args)
    workspace = _project_to_list(args)
    facts = [_facts(workspace, name) for name in workspace.agents()]
    screen = screen_of(args)
    if args.json:
        screen.json(facts)
    elif not facts:
        screen.prose(f"Project {workspace.project} has no agents; add one with: parley agent add NAME")
    else:
        columns = (
            Column("AGENT", lambda agent: agent["agent"], ALWAYS),
            Column("RUNTIME", lambda agent: str(agent["runtime"]), 6),
            Column("WAITING", lambda agent: str(agent["waiting"]), 8),
            Column("SENT", lambda agent: str(agent["sent"]), 7),
            Column("DEAD LETTERS", lambda agent: str(agent["dead_letters"]), 5),
            Column("USES PARLEY", lambda agent: "yes" if agent["ledger"] else "no", 4),
            Column("NOTICES", lambda agent: _NOTICES[agent["notices"]], 3),
        )
        show_rows(screen, columns, facts)
    return OK


def _show(args: argparse.Namespace) -> int:
    if _wants_server(args):
        from parley.cli.channels.agents import show_registered

        return show_registered(args)
    workspace = _project_to_list(args)
    workspace.agent(args.name).open().close()
    facts = _facts(workspace, args.name)
    screen = screen_of(args)
    if args.json:
        screen.json(facts)
    else:
        for key, value in facts.items():
            text = _NOTICES[value] if key == "notices" and not isinstance(value, str) else str(value)
            if text:
                screen.field(label_of(key), safe(text))
    return OK


COMMANDS = {
    "agent add": Command("Add an agent to a project", _add_add, _add, ("parley agent add codex --runtime codex",)),
    "agent list": Command(
        "List the agents of a project or of a server",
        _add_list,
        _list,
        ("parley agent list", "parley agent list --server --role reviewer"),
    ),
    "agent show": Command(
        "Show an agent of a project or of a server",
        _add_show,
        _show,
        ("parley agent show codex --json", "parley agent show codex --server"),
    ),
}
