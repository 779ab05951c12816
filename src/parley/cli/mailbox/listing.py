"""`parley inbox` and `parley outbox`: list messages without claiming them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox import read
from parley.cli.command import Command, add_mailbox_options, kernel_of, screen_of
from parley.cli.exits import OK
from parley.cli.output import count_of, item_fields, show_items
from parley.domain.times import format_time
from parley.wiring import drive

if TYPE_CHECKING:
    import argparse


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_mailbox_options(parser)


def _inbox(args: argparse.Namespace) -> int:
    return _show(args, "inbox")


def _outbox(args: argparse.Namespace) -> int:
    return _show(args, "outbox")


def _show(args: argparse.Namespace, place: str) -> int:
    kernel = kernel_of(args)
    items = drive(read.inbox(kernel) if place == "inbox" else read.outbox(kernel))
    screen = screen_of(args)
    if args.json:
        screen.json([item_fields(item) for item in items])
    elif not items:
        screen.line(f"The {place} of {kernel.agent} is empty.")
    else:
        screen.line(f"{count_of(len(items), 'message')} in the {place} of {kernel.agent}")
        show_items(screen, items, format_time(kernel.clock.now().at), sent=place == "outbox")
    return OK


COMMANDS = {
    "inbox": Command(
        "List incoming messages in processing order",
        _add_arguments,
        _inbox,
        ("parley inbox", "parley inbox --agent codex --json"),
    ),
    "outbox": Command(
        "List sent messages, newest first",
        _add_arguments,
        _outbox,
        ("parley outbox --agent claude",),
    ),
}
