"""`parley read`, `thread` and `search`: whole messages, without consuming them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.command import Command, add_place, kernel_of, screen_of
from parley.cli.exits import OK
from parley.cli.output import Screen, found_fields, safe, show_message
from parley.domain.times import format_time
from parley.wiring import drive

if TYPE_CHECKING:
    import argparse

    from parley.domain.mailbox.listing import Found


def _add_ref(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("message", help="id, file name, or the end of an id")
    parser.add_argument("--raw", action="store_true", help="print the file's bytes as they are")
    add_place(parser)


def _add_thread(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conversation", help="a conversation id, or any message in it")
    add_place(parser)


def _add_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", help="what to look for in ids, subjects and bodies, in any case")
    add_place(parser)


def _read(args: argparse.Namespace) -> int:
    found = drive(kernel_of(args).find(args.message))
    screen = screen_of(args)
    if args.raw:
        import sys

        sys.stdout.buffer.write(found.content)
        return OK
    fields = found_fields(found)
    if args.json:
        screen.json(fields)
    else:
        doubts = fields.pop("doubts")
        show_message(screen, fields, [str(doubt) for doubt in doubts] if isinstance(doubts, list) else [])
    return OK


def _thread(args: argparse.Namespace) -> int:
    messages = drive(kernel_of(args).thread(args.conversation))
    screen = screen_of(args)
    if args.json:
        screen.json([found_fields(found) for found in messages])
        return OK
    depths = _depths(messages)
    for found in messages:
        message = found.message
        indent = "  " * depths[message.id]
        arrow = "└ " if depths[message.id] else ""
        head = f"{indent}{arrow}{format_time(message.created_at)}  {message.sender} → {', '.join(message.to)}"
        screen.line(f"{screen.paint(head, 'cyan')}  {message.kind} {message.priority}")
        screen.line(f"{indent}{'  ' if arrow else ''}{safe(message.subject)}  [{safe(message.id)}]")
    return OK


def _depths(messages: list[Found]) -> dict[str, int]:
    """How far each message is from the start of its thread."""
    parents = {found.message.id: found.message.in_reply_to for found in messages}
    depths: dict[str, int] = {}
    for message_id in parents:
        depth, at = 0, message_id
        while parents.get(at) in parents and depth < len(parents):
            at, depth = parents[at], depth + 1
        depths[message_id] = depth
    return depths


def _search(args: argparse.Namespace) -> int:
    found = drive(kernel_of(args).search(args.text))
    screen = screen_of(args)
    if args.json:
        screen.json([found_fields(one) for one in found])
    elif not found:
        screen.line(f"Nothing contains {safe(args.text)!r}.")
    else:
        _show_found(screen, found)
    return OK


def _show_found(screen: Screen, found: list[Found]) -> None:
    rows = [
        (
            format_time(one.message.created_at),
            one.message.sender,
            ",".join(one.message.to),
            one.message.kind.value,
            one.place,
            f"{safe(one.message.subject)}  [{safe(one.message.id)}]",
        )
        for one in found
    ]
    screen.table(("TIME", "FROM", "TO", "TYPE", "PLACE", "SUBJECT [ID]"), rows)


COMMANDS = {
    "read": Command(
        "Show one message without consuming it",
        _add_ref,
        _read,
        ("parley read msg-20260313T1430Z-claude-a8f3", "parley read a8f3 --json"),
    ),
    "thread": Command(
        "Show a whole conversation, oldest first",
        _add_thread,
        _thread,
        ("parley thread conv-20260313-claude-001", "parley thread a8f3"),
    ),
    "search": Command(
        "Find messages sent or received by their text",
        _add_search,
        _search,
        ('parley search "rate limiting"',),
    ),
}
