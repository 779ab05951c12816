"""`parley outbox --waiting`: who owes this agent an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox import answers
from parley.cli.output import PRIORITY_COLOURS, count_of, item_fields, safe
from parley.domain.times import ago, parse_time
from parley.wiring import Kernel, drive

if TYPE_CHECKING:
    from parley.cli.output import Screen
    from parley.domain.mailbox.waiting import OwedAnswer
    from parley.domain.message.message import Value


def show_waiting(screen: Screen, kernel: Kernel, *, as_json: bool) -> None:
    """Print the answers that are owed, late ones first."""
    owed = drive(answers.waiting(kernel))
    if as_json:
        screen.json([_fields(answer) for answer in owed])
        return
    if not owed:
        screen.line(f"Nobody owes {kernel.agent} an answer.")
        return
    late = sum(answer.late for answer in owed)
    late_too = f", {late} late" if late else ""
    screen.line(f"{count_of(len(owed), 'answer')} owed to {kernel.agent}{late_too}")
    now = kernel.clock.now().at
    rows, colours = [], []
    for answer in owed:
        item = answer.item
        state = "late" if answer.late else "acknowledged" if answer.acknowledged_by else ""
        since = ago(parse_time(item.created_at), now).removesuffix(" ago")
        rows.append((item.priority, item.kind, answer.agent, since, state, safe(f"{item.subject}  [{item.id}]")))
        colours.append("red" if answer.late else PRIORITY_COLOURS.get(item.priority, ""))
    screen.table(("PRI", "TYPE", "OWES", "SINCE", "STATE", "SUBJECT [ID]"), rows, colours)


def _fields(answer: OwedAnswer) -> dict[str, Value]:
    return {
        **item_fields(answer.item),
        "owes": answer.agent,
        "expects": [*answer.expected],
        "due_at": answer.due_at or None,
        "late": answer.late,
        "acknowledged_by": answer.acknowledged_by or None,
    }
