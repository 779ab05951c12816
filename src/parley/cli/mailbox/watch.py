"""`parley watch`: wait for messages and print them, or run a command for each."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from parley.app.mailbox import follow
from parley.app.mailbox.waiting import InboxWait
from parley.cli.command import Command, add_mailbox_options, screen_of
from parley.cli.exits import FOUND_PROBLEMS, NO_MESSAGE, OK
from parley.cli.output import Screen, item_fields, safe
from parley.cli.parts.mailboxes import OpenMailbox, add_several, mailboxes_of, names_several
from parley.cli.reports import note, report_failure
from parley.cli.waiting_line import waiting_for
from parley.domain.errors.errors import Invalid, ParleyError
from parley.domain.times import clock_time, format_time, parse_duration, parse_past, parse_time
from parley.wire.oacp.format import OacpFormat
from parley.wiring import Kernel, drive

if TYPE_CHECKING:
    import argparse

    from parley.domain.mailbox.listing import Item
    from parley.domain.message.message import Value

_RETRY_SECONDS, _RETRY_MAX_SECONDS = 1.0, 60.0


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--exec", default="", dest="run", metavar="CMD", help="run CMD in a shell for each message (see above)"
    )
    parser.add_argument("--once", action="store_true", help="print new messages and exit instead of waiting")
    parser.add_argument("--first", action="store_true", help="exit as soon as one message is shown")
    parser.add_argument("--timeout", default="", metavar="TIME", help="exit after this long without a message: 30s, 5m")
    parser.add_argument(
        "--watcher",
        default="default",
        metavar="NAME",
        help="name of the watcher; each remembers what it has shown (default: default)",
    )
    parser.add_argument("--new-only", action="store_true", help="skip messages that are already in the inbox")
    parser.add_argument(
        "--since",
        default="",
        metavar="TIME",
        help="skip messages older than this: 2h, 7d, a day or 2026-03-13T14:30:00Z",
    )
    add_several(parser)
    add_mailbox_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "Watching does not claim messages. A message counts as shown once its line is\n"
        "printed or CMD has exited with 0; otherwise it is shown again. CMD gets the\n"
        "message as JSON on standard input, and its id, file, sender and type in\n"
        "PARLEY_MESSAGE_ID, _FILE, _FROM and _TYPE. PARLEY_HOME, _PROJECT and _AGENT are\n"
        "set, so that parley inside CMD uses the same mailbox.\n\n"
        "--agent and --project take several names with commas; every line then begins\n"
        "with project and agent.\n\n"
        "Exit code 14: --first, and no message was shown."
    )


def _watch(args: argparse.Namespace) -> int:
    gc.enable()
    mailboxes = mailboxes_of(args)
    timeout = parse_duration(args.timeout).total_seconds() if args.timeout else None
    if not args.watcher:
        raise Invalid("--watcher needs a name")
    args.oldest = format_time(parse_past(args.since, mailboxes[0].kernel.clock.now().at)) if args.since else ""
    args.several = names_several(args)
    screen = screen_of(args)
    if args.new_only:
        for mailbox in mailboxes:
            items = drive(follow.unseen(mailbox.kernel, args.watcher))
            drive(follow.shown(mailbox.kernel, args.watcher, items))
    inbox_wait = InboxWait([mailbox.kernel for mailbox in mailboxes], time.sleep)
    quiet, retry, notes = 0.0, _RETRY_SECONDS, _ReadOnlyNote()
    with waiting_for(f"messages for {', '.join(mailbox.agent for mailbox in mailboxes)}").running() as line:
        while True:
            with line.hidden():
                shown, failed = _show_new(args, mailboxes, screen)
                notes.say(mailboxes)
            ends = args.once or (timeout is not None and quiet >= timeout)
            if ends or (args.first and shown):
                return FOUND_PROBLEMS if failed else NO_MESSAGE if args.first and not shown else OK
            quiet = 0.0 if shown else quiet
            if failed:
                time.sleep(retry)
                quiet += retry
                retry = min(retry * 2, _RETRY_MAX_SECONDS)
            else:
                retry = _RETRY_SECONDS
                quiet += inbox_wait.until_changed(timeout if timeout is not None else _RETRY_SECONDS)


class _ReadOnlyNote:
    """Says once that a mailbox is read-only."""

    def __init__(self) -> None:
        self._said = False

    def say(self, mailboxes: list[OpenMailbox]) -> None:
        unsaved = [mailbox.agent for mailbox in mailboxes if mailbox.kernel.unsaved_marks]
        if unsaved and not self._said:
            self._said = True
            whose = f"the mailbox of {', '.join(unsaved)}"
            note(f"{whose} is read-only, so these messages will be shown again")


def _show_new(args: argparse.Namespace, mailboxes: list[OpenMailbox], screen: Screen) -> tuple[int, bool]:
    """Show what is new in all mailboxes, with --first one message; how many, and whether a command failed."""
    shown, failed = 0, False
    for mailbox in mailboxes:
        count, failure = _show_new_items(args, mailbox, screen)
        shown, failed = shown + count, failed or failure
        if args.first and shown:
            break
    return shown, failed


def _show_new_items(args: argparse.Namespace, mailbox: OpenMailbox, screen: Screen) -> tuple[int, bool]:
    """Show new items; return how many, and whether a command failed. The cursor moves past every shown item."""
    shown, failed = 0, False
    for item in drive(follow.unseen(mailbox.kernel, args.watcher)):
        if not item.problem and item.created_at < args.oldest:
            continue
        if args.run and not item.problem:
            if not _execute(args, mailbox, item):
                failed = True
                continue
        else:
            _print(args, mailbox, screen, item)
        sys.stdout.flush()
        drive(follow.shown(mailbox.kernel, args.watcher, [item]))
        shown += 1
        if args.first:
            break
    return shown, failed


def _print(args: argparse.Namespace, mailbox: OpenMailbox, screen: Screen, item: Item) -> None:
    if args.json:
        screen.json({**_mailbox_fields(args, mailbox), **item_fields(item)}, compact=True)
        return
    name = f"{mailbox.project}/{mailbox.agent}  " if args.several else ""
    if item.problem:
        screen.prose(f"{name}unreadable  {safe(item.file)}  {safe(item.problem)}", "red")
        return
    at = clock_time(parse_time(item.created_at), mailbox.kernel.clock.now().at)
    expired = "  expired" if item.expired else ""
    subject = f"{safe(item.subject)}  [{safe(item.id)}]"
    screen.fitted_line(f"{name}{at}  {item.priority}  {item.kind}  {item.sender}{expired}  {subject}")


def _mailbox_fields(args: argparse.Namespace, mailbox: OpenMailbox) -> dict[str, Value]:
    """Whose message it is, where several mailboxes are watched."""
    return {"project": mailbox.project, "agent": mailbox.agent} if args.several else {}


def _execute(args: argparse.Namespace, mailbox: OpenMailbox, item: Item) -> bool:
    import json

    from parley.settings import child_environment

    environment = child_environment(
        PARLEY_MESSAGE_ID=item.id.replace("\0", "\ufffd"),  # which no environment can carry
        PARLEY_MESSAGE_FILE=item.file,
        PARLEY_MESSAGE_FROM=item.sender,
        PARLEY_MESSAGE_TYPE=item.kind,
        PARLEY_AGENT=mailbox.agent,
        PARLEY_HOME=mailbox.home,
        PARLEY_PROJECT=mailbox.project,
    )
    fields = {**_message_fields(mailbox.kernel, item), **_mailbox_fields(args, mailbox), **item_fields(item)}
    content = json.dumps(fields).encode()
    # Values travel in the environment and on standard input, never in the command's text.
    process = subprocess.run(  # noqa: S602  # the user's own command
        args.run, shell=True, input=content, env=environment, check=False
    )
    if process.returncode:
        report_failure(f"command exited with {process.returncode} for {item.id}; it will be run again", "exec_failed")
    return process.returncode == 0


def _message_fields(kernel: Kernel, item: Item) -> dict[str, Value]:
    """All fields of a message, with its body; none if the file has vanished."""
    for _, content, *_ in kernel.inbox.peek([item.file]):
        if isinstance(content, bytes):
            with suppress(ParleyError):  # it has become invalid; `next` moves it to dead_letter/
                return OacpFormat().fields(kernel.format.decode(content))
    return {}


COMMANDS = {
    "watch": Command(
        "Wait for messages; print them or run a command for each",
        _add_arguments,
        _watch,
        (
            "parley watch --agent codex",
            "parley watch --exec 'notify-send \"$PARLEY_MESSAGE_FROM\"'",
            "parley watch --once --json",
            "parley watch --first --new-only --timeout 5m",
            "parley watch --all --all-projects --since 1h",
        ),
    ),
}
