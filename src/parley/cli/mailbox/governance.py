"""`parley governance init|add-human|show`: set up policies and approvers for the mailboxes of a project."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from parley.adapters.files.workspace import Workspace
from parley.cli.command import Command, add_mailbox_options, screen_of, settings_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.table import ALWAYS, Column, show_rows
from parley.domain.directory.callers import SECRET_PREFIX
from parley.wiring import SystemIds, find_home, find_project, governance_files, public_key_of

if TYPE_CHECKING:
    import argparse

    from parley.adapters.files.governance import GovernanceFiles
    from parley.domain.agents.party import Attributes

_SAME_USER = (
    "Anyone who can write the governance file controls who is who. Agents that run\n"
    "as the same operating system user can write as each other and change the file.\n"
    "Where that matters, run each agent as its own user (parley init --shared), keep\n"
    "the file under your user, and set sender_check to enforce."
)


def _add_init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tenant", default="", metavar="NAME", help="name of the organisation (default: the project's name)"
    )
    add_mailbox_options(parser, agent=False)
    parser.description = (
        f"{parser.description}.\n\n"
        "From then on policies apply to all messages, also to those without an envelope.\n\n"
        f"{_SAME_USER}"
    )


def _add_human(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER", help="name or address of the person, as in the agents' user_id")
    add_mailbox_options(parser, agent=False)
    parser.description = (
        f"{parser.description}.\n\n"
        "The key is printed once. It signs the person's decisions; the governance file\n"
        "keeps only its public half, so no one else can decide in that name. A person who\n"
        "has a key gets a new one. The old one stops working: unread messages that it\n"
        "approved are refused. Set PARLEY_HUMAN_KEY, or enter the key when asked.\n\n"
        f"{_SAME_USER}"
    )


def _add_show(parser: argparse.ArgumentParser) -> None:
    add_mailbox_options(parser, agent=False)


def _files(args: argparse.Namespace) -> GovernanceFiles:
    settings = settings_of(args)
    home = find_home(settings).value
    workspace = Workspace(home, find_project(settings, home).value)
    workspace.open().close()
    return governance_files(workspace, settings)


def _init(args: argparse.Namespace) -> int:
    path = _files(args).set_up(args.tenant)
    screen = screen_of(args)
    if args.json:
        screen.json({"path": path})
        return OK
    screen.prose(f"Wrote {safe(path)}")
    screen.prose("Next: set user_id and org_unit of each agent in it, then run: parley governance add-human USER")
    return OK


def _human(args: argparse.Namespace) -> int:
    key = SECRET_PREFIX + SystemIds().secret()
    _files(args).add_human(args.user, public_key_of(key))
    screen = screen_of(args)
    if args.json:
        screen.json({"user": args.user, "key": key})
        return OK
    # The key goes to standard output alone, so that KEY=$(parley governance add-human ...) works.
    sys.stderr.write(f"Key of {safe(args.user)}. Save it; it is not shown again:\n")
    screen.line(key)
    return OK


def _show(args: argparse.Namespace) -> int:
    governance = _files(args).load()
    directory = governance.directory
    agents = {name: _attribute_fields(attributes) for name, attributes in directory.agents.items()}
    suspensions = directory.stopped.stopped if directory.stopped is not None else ()
    documents = sorted(governance.book.snapshot.fragments)
    suspended = [f"{suspension.what.value} {suspension.name}".strip() for suspension in suspensions]
    document = {
        "set_up": governance.set_up,
        "tenant": directory.tenant,
        "agents": agents,
        "humans": sorted(directory.humans),
        "suspended": suspended,
        "policy": governance.book.label,
        "documents": documents,
    }
    screen = screen_of(args)
    if args.json:
        screen.json(document)
        return OK
    if not governance.set_up:
        screen.prose(
            "No governance file: policies apply only to messages with an envelope. To create it: parley governance init"
        )
    screen.prose(f"tenant {directory.tenant}, policy {governance.book.label} ({', '.join(documents)})")
    if agents:
        columns = (
            Column("AGENT", lambda pair: pair[0], ALWAYS),
            Column("ACTS FOR", lambda pair: pair[1]["user_id"] or "-", 8, usual=None),
            Column("ORG UNIT", lambda pair: pair[1]["org_unit"], 7, usual=None),
            Column("TEAM", lambda pair: pair[1]["team"] or "-", 5),
            Column("MAX LEVEL", lambda pair: pair[1]["max_classification"], 6),
            Column("MAX ROUNDS", lambda pair: str(pair[1]["rounds"]), 4),
        )
        show_rows(screen, columns, [*agents.items()])
    screen.prose(f"people with a key: {', '.join(map(safe, sorted(directory.humans))) or 'none'}")
    for suspension in suspended:
        screen.prose(f"suspended: {safe(suspension)}", "red")
    return OK


def _attribute_fields(attributes: Attributes) -> dict[str, Any]:
    return {
        "user_id": attributes.user_id,
        "org_unit": attributes.org_unit,
        "team": attributes.team,
        "max_classification": attributes.max_classification.value,
        "can_receive_queries": attributes.can_receive_queries,
        "can_auto_respond": attributes.can_auto_respond,
        "supported_exchange_types": [purpose.value for purpose in attributes.supported_exchange_types],
        "max_rounds_accepted": attributes.max_rounds_accepted,
        "rounds": attributes.max_rounds_accepted or "-",
    }


COMMANDS = {
    "governance init": Command(
        "Apply policies and approvals to a project's mailboxes",
        _add_init,
        _init,
        ("parley governance init --tenant acme", "parley governance init --project demo"),
    ),
    "governance add-human": Command(
        "Create the key with which a person approves messages",
        _add_human,
        _human,
        (
            "parley governance add-human alice@acme.example",
            "export PARLEY_HUMAN_KEY=$(parley governance add-human alice@acme.example)",
        ),
    ),
    "governance show": Command(
        "Show the agents, people and policies of a project",
        _add_show,
        _show,
        ("parley governance show", "parley governance show --json"),
    ),
}
