"""`parley inbox` and `parley outbox`: list messages without claiming them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox import read
from parley.cli.command import Command, add_mailbox_options, kernel_of, screen_of
from parley.cli.exits import OK
from parley.cli.output import Screen, count_of, item_fields, names_of, refused_fields, show_items
from parley.domain.errors.errors import Invalid
from parley.domain.times import format_time
from parley.wiring import drive

if TYPE_CHECKING:
    import argparse

    from parley.domain.mailbox.listing import RefusedFile
    from parley.domain.message.message import Value


def _add_inbox(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="the inbox of every agent of the project")
    parser.add_argument("--all-projects", action="store_true", help="with every project of the home directory")
    add_mailbox_options(parser)


def _add_outbox(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--waiting", action="store_true", help="only what others have not answered: who owes an answer, since when"
    )
    parser.add_argument("--all", action="store_true", help="with --waiting: of every agent of the project")
    add_mailbox_options(parser)


def _inbox(args: argparse.Namespace) -> int:
    if args.all or args.all_projects:
        return _show_all(args)
    return _show(args, "inbox")


def _outbox(args: argparse.Namespace) -> int:
    if args.all and not args.waiting:
        raise Invalid("--all needs --waiting", hint="to list what one agent sent: parley outbox --agent NAME")
    if args.waiting:
        from parley.cli.mailbox.waiting import show_waiting

        show_waiting(args)
        return OK
    return _show(args, "outbox")


def _show(args: argparse.Namespace, place: str) -> int:
    kernel = kernel_of(args)
    items = drive(read.inbox(kernel) if place == "inbox" else read.outbox(kernel))
    dead = drive(read.dead_letters(kernel)) if place == "inbox" else []
    screen = screen_of(args)
    if args.json:
        screen.json([*map(item_fields, items), *map(_dead_fields, dead)])
        return OK
    if not items:
        screen.line(f"The {place} of {kernel.agent} is empty.")
    else:
        screen.line(f"{count_of(len(items), 'message')} in the {place} of {kernel.agent}")
        show_items(screen, items, format_time(kernel.clock.now().at), sent=place == "outbox")
    _show_dead(screen, dead)
    return OK


def _dead_fields(file: RefusedFile) -> dict[str, Value]:
    return {**refused_fields(file), "status": "dead"}


def _show_dead(screen: Screen, dead: list[RefusedFile], inbox: str = "") -> None:
    """Print a line about the files that were put aside."""
    if dead:
        whose = f"{inbox}: " if inbox else ""
        files = f"{whose}{count_of(len(dead), 'file')} in dead_letter/: {names_of(dead)}"
        screen.line(screen.paint(f"note: {files}", "yellow"))


def _show_all(args: argparse.Namespace) -> int:
    """List the inboxes of several agents, each in processing order. What cannot be read is named, and passed over."""
    import sys

    from parley.cli.parts.mailboxes import mailboxes_of
    from parley.domain.errors.errors import ParleyError

    mailboxes = mailboxes_of(args)
    several_projects = len({mailbox.project for mailbox in mailboxes}) > 1
    items, names, fields = [], [], []
    dead_letters: dict[str, list[RefusedFile]] = {}
    for mailbox in mailboxes:
        try:
            waiting, dead = drive(read.inbox(mailbox.kernel)), drive(read.dead_letters(mailbox.kernel))
        except ParleyError as error:
            sys.stderr.write(f"parley: {error.code}: inbox of {mailbox.agent}: {error.message}\n")
            continue
        items += waiting
        name = f"{mailbox.project}/{mailbox.agent}" if several_projects else mailbox.agent
        names += [name] * len(waiting)
        dead_letters[name] = dead
        shown = [*map(item_fields, waiting), *map(_dead_fields, dead)]
        fields += [{"project": mailbox.project, "agent": mailbox.agent, **item} for item in shown]
    screen = screen_of(args)
    if args.json:
        screen.json(fields)
        return OK
    if not items:
        screen.line(f"{count_of(len(mailboxes), 'inbox', 'inboxes')}, all empty.")
    else:
        screen.line(f"{count_of(len(items), 'message')} in {count_of(len(mailboxes), 'inbox', 'inboxes')}")
        show_items(screen, items, format_time(mailboxes[0].kernel.clock.now().at), inboxes=names)
    for name, dead in dead_letters.items():
        _show_dead(screen, dead, name)
    return OK


COMMANDS = {
    "inbox": Command(
        "List incoming messages, most urgent first",
        _add_inbox,
        _inbox,
        ("parley inbox", "parley inbox --agent codex --json", "parley inbox --all"),
    ),
    "outbox": Command(
        "List sent messages, newest first",
        _add_outbox,
        _outbox,
        ("parley outbox --agent claude", "parley outbox --waiting"),
    ),
}
