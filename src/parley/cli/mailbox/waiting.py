"""`parley outbox --waiting`: who owes this agent an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox import answers
from parley.cli.command import kernel_of, screen_of
from parley.cli.output import PRIORITY_COLOURS, count_of, item_fields, safe
from parley.domain.times import ago, parse_time
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
        screen.line(f"Nobody owes {whom} an answer.")
        return
    late = sum(answer.late for _, answer in owed)
    screen.line(f"{count_of(len(owed), 'answer')} owed to {whom}{f', {late} late' if late else ''}")
    now = kernels[0].clock.now().at
    rows, colours = [], []
    for agent, answer in owed:
        item = answer.item
        state = "late" if answer.late else "acknowledged" if answer.acknowledged_by else "waiting"
        since = ago(parse_time(item.created_at), now).removesuffix(" ago")
        to_whom = (agent,) if args.all else ()
        subject = safe(f"{item.subject}  [{item.id}]")
        rows.append((item.priority, item.kind, answer.agent, *to_whom, since, state, subject))
        colours.append("red" if answer.late else PRIORITY_COLOURS.get(item.priority, ""))
    columns = ("PRI", "TYPE", "OWES", *(("TO",) if args.all else ()), "SINCE", "STATE", "SUBJECT [ID]")
    screen.table(columns, rows, colours)


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
