"""`parley read`, `thread` and `search`: show messages without claiming them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox import find
from parley.cli.command import Command, add_mailbox_options, kernel_of, screen_of
from parley.cli.exits import OK
from parley.cli.output import Screen, located_message_fields, safe, show_message
from parley.domain.times import format_time
from parley.wiring import drive

if TYPE_CHECKING:
    import argparse

    from parley.domain.mailbox.listing import FoundMessage


def _add_ref(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("message", help="id, file name, or the end of an id")
    parser.add_argument("--raw", action="store_true", help="print the file unchanged")
    add_mailbox_options(parser)


def _add_thread(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conversation", help="a conversation id, or any message in it")
    add_mailbox_options(parser)


def _add_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", help="text to find in ids, subjects and bodies; case does not matter")
    add_mailbox_options(parser)


def _read(args: argparse.Namespace) -> int:
    located = drive(find.find(kernel_of(args), args.message))
    screen = screen_of(args)
    if args.raw:
        import sys

        sys.stdout.buffer.write(located.content)
        return OK
    fields = located_message_fields(located)
    if args.json:
        screen.json(fields)
    else:
        doubts = fields.pop("doubts")
        show_message(screen, fields, [str(doubt) for doubt in doubts] if isinstance(doubts, list) else [])
    return OK


def _thread(args: argparse.Namespace) -> int:
    messages = drive(find.thread(kernel_of(args), args.conversation))
    screen = screen_of(args)
    if args.json:
        screen.json([located_message_fields(located) for located in messages])
        return OK
    depths = _depths(messages)
    for located in messages:
        message = located.message
        indent = "  " * depths[message.id]
        arrow = "└ " if depths[message.id] else ""
        head = f"{indent}{arrow}{format_time(message.created_at)}  {message.sender} → {', '.join(message.to)}"
        screen.line(f"{screen.paint(head, 'cyan')}  {message.kind} {message.priority}")
        screen.line(f"{indent}{'  ' if arrow else ''}{safe(message.subject)}  [{safe(message.id)}]")
    return OK


def _depths(messages: list[FoundMessage]) -> dict[str, int]:
    """The distance of each message from the start of its thread."""
    parents = {located.message.id: located.message.in_reply_to for located in messages}
    depths: dict[str, int] = {}
    for message_id in parents:
        depth, at = 0, message_id
        while parents.get(at) in parents and depth < len(parents):
            at, depth = parents[at], depth + 1
        depths[message_id] = depth
    return depths


def _search(args: argparse.Namespace) -> int:
    matches = drive(find.search(kernel_of(args), args.text))
    screen = screen_of(args)
    if args.json:
        screen.json([located_message_fields(match) for match in matches])
    elif not matches:
        screen.line(f"No message contains {safe(args.text)!r}.")
    else:
        _show_matches(screen, matches)
    return OK


def _show_matches(screen: Screen, matches: list[FoundMessage]) -> None:
    rows = [
        (
            format_time(match.message.created_at),
            match.message.sender,
            ",".join(match.message.to),
            match.message.kind.value,
            match.place,
            f"{safe(match.message.subject)}  [{safe(match.message.id)}]",
        )
        for match in matches
    ]
    screen.table(("TIME", "FROM", "TO", "TYPE", "FOLDER", "SUBJECT [ID]"), rows)


COMMANDS = {
    "read": Command(
        "Show a message without claiming it",
        _add_ref,
        _read,
        ("parley read msg-20260313T1430Z-claude-a8f3", "parley read a8f3 --json"),
    ),
    "thread": Command(
        "Show a conversation, oldest message first",
        _add_thread,
        _thread,
        ("parley thread conv-20260313-claude-001", "parley thread a8f3"),
    ),
    "search": Command(
        "Search sent and received messages",
        _add_search,
        _search,
        ('parley search "rate limiting"',),
    ),
}
