"""`parley inbox` and `parley outbox`: list messages without claiming them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox import read
from parley.cli.command import Command, add_mailbox_options, kernel_of, screen_of
from parley.cli.exits import OK
from parley.cli.mailbox.compact import add_model_options, wants_compact
from parley.cli.output import PRIORITY_COLOURS, Screen, count_of, item_fields, names_of, refused_fields, safe
from parley.cli.table import ALWAYS, Column, id_column, show_cells, text_column
from parley.domain.errors.errors import Invalid
from parley.domain.times import ages, format_time, parse_time
from parley.wiring import Kernel, drive

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from parley.domain.mailbox.listing import Item, RefusedFile
    from parley.domain.message.message import Value


# Each takes a look into a file of its recipient.
_STATES_SHOWN = 1_000


def _add_inbox(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="the inbox of every agent of the project")
    parser.add_argument("--all-projects", action="store_true", help="with every project of the home directory")
    add_model_options(parser)
    add_mailbox_options(parser)


def _add_outbox(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--waiting", action="store_true", help="only what others have not answered: who owes an answer, since when"
    )
    parser.add_argument("--all", action="store_true", help="with --waiting: of every agent of the project")
    add_mailbox_options(parser)


def _inbox(args: argparse.Namespace) -> int:
    if args.all or args.all_projects:
        if args.budget:
            raise Invalid("--budget is for the inbox of one agent", hint="leave out --all")
        return _show_all(args)
    if wants_compact(args):
        return _show_compact(args)
    return _show(args, "inbox")


def _show_compact(args: argparse.Namespace) -> int:
    """Print the inbox for a model: headings, and with a budget whole bodies as far as they fit."""
    from parley.app.mailbox import find
    from parley.wire.model_text import inbox_text

    kernel = kernel_of(args)
    items = drive(read.inbox(kernel))
    bodies = find.readable_bodies(kernel, items) if args.budget else ()
    now = kernel.clock.now().at
    screen_of(args).line(inbox_text(kernel.agent, items, now, kernel.ids.token(), args.budget, bodies))
    return OK


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
    states = _receipt_states(kernel, items) if place == "outbox" else {}
    dead = drive(read.dead_letters(kernel)) if place == "inbox" else []
    screen = screen_of(args)
    if args.json:
        state_fields = [{"state": states[item.id]} if item.id in states else {} for item in items]
        fields = [{**item_fields(item), **state} for item, state in zip(items, state_fields, strict=True)]
        screen.json([*fields, *map(_dead_fields, dead)])
        return OK
    if not items:
        screen.prose(f"The {place} of {kernel.agent} is empty.")
    else:
        screen.prose(f"{count_of(len(items), 'message')} in the {place} of {kernel.agent}")
        shown = [item._replace(status=states.get(item.id, item.status)) for item in items] if states else items
        _show_items(screen, shown, format_time(kernel.clock.now().at), sent=place == "outbox")
    _show_dead(screen, dead)
    return OK


def _receipt_states(kernel: Kernel, items: Sequence[Item]) -> dict[str, str]:
    """How far the newest messages have come at their recipients, by their ids."""
    from parley.app.mailbox.receipts import status

    newest = [item for item in items if item.status == "sent"][:_STATES_SHOWN]
    return {message_id: state.value for message_id, state in drive(status.states(kernel, newest)).items()}


def _show_items(
    screen: Screen, items: Sequence[Item], now: str, *, sent: bool = False, inboxes: Sequence[str] = ()
) -> None:
    """Print a list of messages as a table; for sent messages with recipients instead of senders.

    For a list over several mailboxes, `inboxes` names the one of each item, which stands in place of a number.
    """
    ids, senders, to, kinds, priorities, created, subjects, _, _, _, files, states, expired, problems, doubts = zip(
        *items, strict=True
    )
    cells: list[list[str]] = [
        [*inboxes] or [*map(str, range(1, len(items) + 1))],
        [*priorities],
        [*kinds],
        [",".join(names) for names in to] if sent else [*senders],
        ages(created if all(created) else [time or now for time in created], parse_time(now)),  # a bad file has none
        [*map(_status_of, expired, doubts, states)] if any(expired) or any(doubts) else [*states],
        [*ids],
        [*subjects],
    ]
    colours = [PRIORITY_COLOURS.get(priority, "") for priority in priorities]
    for row in [row for row, over in enumerate(expired) if over] if any(expired) else ():
        colours[row] = "dim"
    for row in [row for row, problem in enumerate(problems) if problem] if any(problems) else ():
        colours[row] = "red"
        unreadable = ("-", "-", "-", "-", states[row], "-", f"{files[row]}  {problems[row]}")
        for column, cell in zip(cells[1:], unreadable, strict=True):
            column[row] = cell
    # The cells are made column by column: for ten thousand messages, a row at a time takes twice as long.
    columns = (
        Column("INBOX", str, ALWAYS) if inboxes else Column("#", str, 2),
        Column("PRI", str, 4),
        Column("TYPE", str, 3),
        Column("TO" if sent else "FROM", str, ALWAYS),
        Column("AGE", str, 7),
        Column("STATUS", str, 6, usual=None if sent else "new"),
        id_column("ID", str, 8),
        text_column("SUBJECT", str),
    )
    show_cells(screen, columns, cells, colours)
    for id_, notes in zip(ids, doubts, strict=True) if any(doubts) else ():
        for note in notes:
            screen.prose(safe(f"note: [{id_}] {note}"), "yellow")


def _status_of(expired: bool, doubts: tuple[str, ...], status: str) -> str:
    return "expired" if expired else "doubtful" if doubts and status == "new" else status


def _dead_fields(file: RefusedFile) -> dict[str, Value]:
    return {**refused_fields(file), "status": "dead"}


def _show_dead(screen: Screen, dead: list[RefusedFile], inbox: str = "") -> None:
    """Print a line about the files that were put aside."""
    if dead:
        whose = f"{inbox}: " if inbox else ""
        files = f"{whose}{count_of(len(dead), 'file')} in dead_letter/: {names_of(dead)}"
        screen.prose(f"note: {files}", "yellow")


def _show_all(args: argparse.Namespace) -> int:
    """List the inboxes of several agents, each in processing order. What cannot be read is named, and passed over."""
    from parley.cli.parts.mailboxes import mailboxes_of
    from parley.cli.reports import report_error
    from parley.domain.errors.errors import ParleyError

    mailboxes = mailboxes_of(args)
    several_projects = len({mailbox.project for mailbox in mailboxes}) > 1
    items, names, fields = [], [], []
    dead_letters: dict[str, list[RefusedFile]] = {}
    for mailbox in mailboxes:
        try:
            waiting, dead = drive(read.inbox(mailbox.kernel)), drive(read.dead_letters(mailbox.kernel))
        except ParleyError as error:
            report_error(error, about=f"inbox of {mailbox.agent}: ")
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
        screen.prose(f"{count_of(len(mailboxes), 'inbox', 'inboxes')}, all empty.")
    else:
        screen.prose(f"{count_of(len(items), 'message')} in {count_of(len(mailboxes), 'inbox', 'inboxes')}")
        _show_items(screen, items, format_time(mailboxes[0].kernel.clock.now().at), inboxes=names)
    for name, dead in dead_letters.items():
        _show_dead(screen, dead, name)
    return OK


COMMANDS = {
    "inbox": Command(
        "List incoming messages, most urgent first",
        _add_inbox,
        _inbox,
        ("parley inbox", "parley inbox --budget 2000", "parley inbox --agent codex --json", "parley inbox --all"),
    ),
    "outbox": Command(
        "List sent messages, newest first",
        _add_outbox,
        _outbox,
        ("parley outbox --agent claude", "parley outbox --waiting"),
    ),
}
