"""`parley outbox --waiting`: who owes this agent an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox import answers
from parley.cli.command import kernel_of, screen_of
from parley.cli.output import PRIORITY_COLOURS, count_of, item_fields
from parley.cli.table import ALWAYS, Column, id_column, show_rows, text_column
from parley.domain.times import age, parse_time
from parley.wiring import Kernel, drive

if TYPE_CHECKING:
    import argparse

    from parley.domain.mailbox.waiting import OwedAnswer
    from parley.domain.message.message import Value


def show_waiting(args: argparse.Namespace) -> None:
    """Print the answers that are owed to an agent, or with --all to every agent; late ones first."""
    kernels = _kernels(args)
    owed = [(kernel.agent, answer) for kernel in kernels for answer in drive(answers.waiting(kernel))]
    owed.sort(key=lambda pair: not pair[1].late)
    screen = screen_of(args)
    if args.json:
        screen.json([_fields(answer) for _, answer in owed])
        return
    whom = "the agents of the project" if args.all else kernels[0].agent
    if not owed:
        screen.prose(f"Nobody owes {whom} an answer.")
        return
    late = sum(answer.late for _, answer in owed)
    screen.prose(f"{count_of(len(owed), 'answer')} owed to {whom}{f', {late} late' if late else ''}")
    now = kernels[0].clock.now().at
    columns = (
        Column("PRI", lambda row: row[1].item.priority, 5),
        Column("TYPE", lambda row: row[1].item.kind, 4),
        Column("OWES", lambda row: row[1].agent, ALWAYS),
        *((Column("TO", lambda row: row[0], 8),) if args.all else ()),
        Column("SINCE", lambda row: age(parse_time(row[1].item.created_at), now), 7),
        Column("STATE", lambda row: _state(row[1]), 6, usual="waiting"),
        id_column("ID", lambda row: row[1].item.id, 8),
        text_column("SUBJECT", lambda row: row[1].item.subject),
    )
    colours = ["red" if answer.late else PRIORITY_COLOURS.get(answer.item.priority, "") for _, answer in owed]
    show_rows(screen, columns, owed, colours)


def _state(answer: OwedAnswer) -> str:
    return "late" if answer.late else "acknowledged" if answer.acknowledged_by else "waiting"


def _kernels(args: argparse.Namespace) -> list[Kernel]:
    if not args.all:
        return [kernel_of(args)]
    from parley.cli.parts.mailboxes import mailboxes_of

    args.all_projects = False
    return [mailbox.kernel for mailbox in mailboxes_of(args)]


def _fields(answer: OwedAnswer) -> dict[str, Value]:
    return {
        **item_fields(answer.item),
        "owes": answer.agent,
        "expects": [*answer.expected],
        "due_at": answer.due_at or None,
        "late": answer.late,
        "acknowledged_by": answer.acknowledged_by or None,
    }
