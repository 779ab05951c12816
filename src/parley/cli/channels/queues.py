"""`parley queue` and `parley dead`: count the jobs of work queues, and look after those that nobody could finish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.parts.lookup import id_of
from parley.cli.parts.remote import (
    add_server_options,
    age_column,
    connection_of,
    field_column,
    payload_text,
    show_result,
    show_table,
    time_text,
)
from parley.cli.table import ALWAYS, Column, id_column, text_column
from parley.sdk.protocol.lookup import DEAD_LETTERS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any


def _add_queue(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "A queue is any:ROLE, or an agent whose processes share its mail. DONE counts\n"
        "since the start of the server that answers."
    )


def _queue(args: argparse.Namespace) -> int:
    counts = connection_of(args).send("GET", "queues").document
    importance = {"queue": ALWAYS, "waiting": 8, "dead": 7, "claimed": 6, "done": 5}
    names = ("queue", "waiting", "claimed", "done", "dead")
    columns = [Column(name.upper(), field_column(name), importance[name]) for name in names]
    show_table(args, screen_of(args), counts, columns, "No queues.")
    return OK


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queue", default="", metavar="QUEUE", help="only those of this queue: any:ROLE, or an agent")
    parser.add_argument("--after", default="", metavar="LETTER", help="only those after this dead letter")
    parser.add_argument(
        "--limit", type=int, default=None, metavar="N", help="number of dead letters at most: 1 to 1000"
    )
    add_server_options(parser)


def _list(args: argparse.Namespace) -> int:
    query = {"queue": args.queue, "after": args.after, "limit": args.limit}
    letters = connection_of(args).send("GET", "dead", query=query).document
    columns = (
        id_column("ID", field_column("id")),
        Column("AGE", age_column("changed_at"), 7),
        Column("QUEUE", field_column("queue"), 8),
        Column("FROM", field_column("sender"), 6),
        Column("TRIES", field_column("attempts"), 5),
        text_column("ERROR", field_column("error")),
    )
    show_table(args, screen_of(args), letters, columns, "No dead letters.")
    return OK


def _add_letter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("letter", metavar="LETTER", help="id of the dead letter, or the end of it; see: dead list")
    add_server_options(parser)


def _show(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    letter = connection.get("dead", id_of(connection, DEAD_LETTERS, args.letter))
    show_result(args, screen_of(args), letter, _described(letter))
    return OK


def _described(letter: Mapping[str, Any]) -> str:
    message = letter["message"]
    lines = [
        f"Dead letter {safe(letter['id'])} of {safe(letter['queue'])}",
        f"  error:    {safe(letter['error'] or '-')}",
        f"  tries:    {letter['attempts']}, of which {letter['lost_readers']} ended the reader",
        f"  since:    {time_text(letter['changed_at'])}",
    ]
    if message is None:
        lines.append("  message:  no longer kept" if letter["channel_id"] else "  message:  none, it was an event")
    else:
        lines.append(f"  message:  {safe(message['message_type'])} from {safe(message['sender'])}")
        lines.append(f"  payload:  {payload_text(message['payload'])}")
    return "\n".join(lines)


def _retry(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    job = connection.post("dead", id_of(connection, DEAD_LETTERS, args.letter), "retry")
    show_result(args, screen_of(args), job, f"{safe(job['id'])} waits in {safe(job['queue'])} again")
    return OK


def _drop(args: argparse.Namespace) -> int:
    connection = connection_of(args)
    letter = id_of(connection, DEAD_LETTERS, args.letter)
    connection.send("DELETE", "dead", letter)
    show_result(args, screen_of(args), {"id": letter, "dropped": True}, f"Dropped {safe(letter)}")
    return OK


COMMANDS = {
    "queue": Command("Count waiting, claimed, done and dead jobs by queue", _add_queue, _queue, ("parley queue",)),
    "dead list": Command(
        "List dead letters: messages that no reader could finish",
        _add_list,
        _list,
        ("parley dead list", "parley dead list --queue any:coder --json"),
    ),
    "dead show": Command(
        "Show a dead letter: its message, and why it is dead", _add_letter, _show, ("parley dead show 7K2M",)
    ),
    "dead retry": Command("Put a dead letter back into its queue", _add_letter, _retry, ("parley dead retry 7K2M",)),
    "dead drop": Command(
        "Delete a dead letter; its message stays in its channel", _add_letter, _drop, ("parley dead drop 7K2M",)
    ),
}
