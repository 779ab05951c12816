"""`parley read`, `thread` and `search`: show messages without claiming them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.mailbox import find
from parley.cli.command import Command, add_conversation, add_mailbox_options, kernel_of, screen_of, settings_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import (
    UNLIMITED,
    Screen,
    count_of,
    located_message_fields,
    refused_fields,
    safe,
    safe_text,
    show_message,
    terminal_width,
)
from parley.domain.errors.errors import Invalid, UnknownMessage
from parley.domain.message.snippets import snippet
from parley.domain.times import age, ago, format_time
from parley.wiring import Kernel, drive

if TYPE_CHECKING:
    import argparse
    from datetime import datetime

    from parley.domain.mailbox.listing import FoundMessage, RefusedFile
    from parley.domain.message.message import Message, Value

# Of each body, unless all of it is asked for.
_BODY_LINES = 12
# Levels of indentation in a thread; deeper answers stand below each other.
_DEEPEST = 6


def _add_ref(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("message", metavar="MESSAGE", help="id, file name, or the end of an id")
    parser.add_argument("--raw", action="store_true", help="print the file unchanged")
    add_mailbox_options(parser)


def _add_thread(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser, optional=True)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--full", action="store_true", help="show whole bodies (default: their first lines)")
    shown.add_argument("--headings", action="store_true", help="show no bodies")
    parser.add_argument("--limit", type=int, default=0, metavar="N", help="only the newest N messages")
    add_mailbox_options(parser)


def _add_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", help="text to find in ids, subjects and bodies; case does not matter")
    parser.add_argument("--limit", type=int, default=1_000, metavar="N", help="only the newest N matches (1000)")
    add_mailbox_options(parser)


def _read(args: argparse.Namespace) -> int:
    kernel = kernel_of(args)
    try:
        located = drive(find.find(kernel, args.message))
    except (Invalid, UnknownMessage):
        refused = drive(find.refused_file(kernel, args.message))
        if refused is None:
            raise
        return _show_refused(args, *refused)
    screen = screen_of(args)
    if args.raw:
        _print_raw(located.content)
        _acknowledge(args, kernel, located)
        return OK
    expired = located.message.expired(kernel.clock.now().at)
    fields = {**located_message_fields(located), "expired": expired}
    if args.json:
        screen.json(fields)
    else:
        notes = ["expired"] if fields.pop("expired") else []
        doubts = fields.pop("doubts")
        notes += [str(doubt) for doubt in doubts] if isinstance(doubts, list) else []
        show_message(screen, fields, notes, kernel.clock.now().at)
    _acknowledge(args, kernel, located)
    return OK


def _acknowledge(args: argparse.Namespace, kernel: Kernel, located: FoundMessage) -> None:
    """Tell the sender that a message of the inbox was shown to a model; a person who looks leaves no trace."""
    if located.place == "inbox" and settings_of(args).runtime:
        import sys

        from parley.app.mailbox.receipts import steps

        sys.stdout.flush()
        steps.acknowledge_reading(kernel, located.message.id, located.file, "read")


def _print_raw(content: bytes) -> int:
    import sys

    sys.stdout.buffer.write(content)
    return OK


def _show_refused(args: argparse.Namespace, refused: RefusedFile, content: bytes) -> int:
    """Print a file that is no message: why, and what is in it."""
    if args.raw:
        _print_raw(content)
        return FOUND_PROBLEMS
    screen, text = screen_of(args), content.decode("utf-8", "replace")
    if args.json:
        screen.json({**refused_fields(refused), "content": text})
    else:
        fields: dict[str, Value] = {"file": refused.file, "place": refused.place, "body": text}
        show_message(screen, fields, [f"this is no message: {refused.problem}"])
    return FOUND_PROBLEMS


class _Conversation(NamedTuple):
    """A line in the list of conversations; `messages` are newest first."""

    id: str
    messages: list[Message]

    @property
    def people(self) -> str:
        """Who takes part, in the order of their names."""
        return ", ".join(sorted({name for message in self.messages for name in (message.sender, *message.to)}))


def _list_threads(args: argparse.Namespace) -> int:
    """Print the conversations of the agent, that with the newest message first."""
    kernel = kernel_of(args)
    members: dict[str, list[Message]] = {}
    for match in drive(find.search(kernel, "")):
        message = match.message
        members.setdefault(message.conversation_id or message.id, []).append(message)
    conversations = [_Conversation(*entry) for entry in members.items()][: _checked_limit(args) or None]
    screen = screen_of(args)
    if args.json:
        screen.json([_conversation_fields(conversation) for conversation in conversations])
    elif not conversations:
        screen.prose(f"{kernel.agent} has no conversations.")
    else:
        from parley.cli.table import ALWAYS, Column, show_rows, text_column

        now = kernel.clock.now().at
        columns = (
            Column("CONVERSATION", lambda conversation: safe(conversation.id), ALWAYS),
            Column("PEOPLE", lambda conversation: safe(conversation.people), 7),
            Column("MESSAGES", lambda conversation: str(len(conversation.messages)), 4),
            Column("AGE", lambda conversation: age(conversation.messages[0].created_at, now), 6),
            text_column("SUBJECT", lambda conversation: safe(conversation.messages[-1].subject)),
        )
        show_rows(screen, columns, conversations)
    return OK


def _conversation_fields(conversation: _Conversation) -> dict[str, Value]:
    first, last = conversation.messages[-1], conversation.messages[0]
    return {
        "conversation_id": conversation.id,
        "people": [*conversation.people.split(", ")],
        "messages": len(conversation.messages),
        "subject": first.subject,
        "newest_at": format_time(last.created_at),
    }


def _thread(args: argparse.Namespace) -> int:
    if not args.conversation:
        return _list_threads(args)
    kernel = kernel_of(args)
    messages = drive(find.thread(kernel, args.conversation))
    earlier = max(0, len(messages) - args.limit) if _checked_limit(args) else 0
    screen = screen_of(args)
    if args.json:
        screen.json([located_message_fields(located) for located in messages[earlier:]])
        return OK
    depths = _depths(messages)
    if earlier:
        screen.prose(f"{count_of(earlier, 'earlier message')} not shown")
    lines = 0 if args.headings else UNLIMITED if args.full else _BODY_LINES
    for located in messages[earlier:]:
        _show_in_thread(
            screen, located.message, min(depths[located.message.id], _DEEPEST), kernel.clock.now().at, lines
        )
    return OK


def _checked_limit(args: argparse.Namespace) -> int:
    limit: int = args.limit
    if limit < 0:
        raise Invalid("--limit must be at least 1")
    return limit


def _show_in_thread(screen: Screen, message: Message, depth: int, now: datetime, lines: int) -> None:
    """Print who said what when, the subject, the id on a line of its own, and the beginning of the body."""
    indent = "  " * depth
    inner = f"{indent}{'  ' if depth else ''}"
    head = (
        f"{indent}{'└ ' if depth else ''}{message.sender} → {', '.join(message.to)}  {message.kind} {message.priority}"
    )
    screen.fitted_line(f"{head}  {ago(message.created_at, now)}", "cyan")
    screen.fitted_line(f"{inner}{safe(message.subject)}")
    screen.line(f"{inner}[{safe(message.id)}]")
    if not lines:
        return
    body = _body_lines(message, terminal_width() - len(inner) - 2)
    for line in body[:lines]:
        screen.line(f"{inner}  {line}".rstrip())
    if len(body) > lines:
        screen.line(f"{inner}  … {count_of(len(body) - lines, 'more line')} (--full)")


def _body_lines(message: Message, width: int) -> list[str]:
    from textwrap import wrap

    from parley.wire.yaml.write import mapping_text

    text = message.body if isinstance(message.body, str) else mapping_text(message.body)
    lines = safe_text(text).rstrip("\n").expandtabs(4).split("\n")
    # Words are not broken: a path or an id stays whole.
    width = max(20, width)
    return [
        part for line in lines for part in (wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""])
    ]


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
    kernel = kernel_of(args)
    limit = _checked_limit(args)
    matches = drive(find.search(kernel, args.text))
    refused = drive(find.search_refused(kernel, args.text))
    screen = screen_of(args)
    shown = matches[: limit or len(matches)]
    if args.json:
        rows = [{**located_message_fields(match), "snippet": snippet(match.message, args.text)} for match in shown]
        screen.json([*rows, *map(refused_fields, refused)])
        return OK
    if not matches and not refused:
        screen.prose(f"No message contains {safe(args.text)!r}.")
    for match in shown:
        _show_match(screen, match, args.text, kernel.clock.now().at)
    if len(matches) > len(shown):
        screen.prose(f"{count_of(len(matches) - len(shown), 'more match', 'more matches')} (--limit)")
    for file in refused:
        screen.prose(safe(f"{file.place}/{file.file} is no message ({file.problem})"))
    return OK


def _show_match(screen: Screen, match: FoundMessage, text: str, now: datetime) -> None:
    message = match.message
    head = (
        f"{message.sender} → {', '.join(message.to)}  {message.kind} {message.priority}  {ago(message.created_at, now)}"
    )
    screen.fitted_line(f"{head}  {match.place}", "cyan")
    screen.fitted_line(f"  {safe(message.subject)}  [{safe(message.id)}]")
    screen.fitted_line(f"  {safe(snippet(message, text))}")


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
        (
            "parley thread",
            "parley thread conv-20260313-claude-001",
            "parley thread a8f3 --full",
            "parley thread a8f3 --headings",
        ),
    ),
    "search": Command(
        "Search sent and received messages",
        _add_search,
        _search,
        ('parley search "rate limiting"', "parley search JWT --limit 5"),
    ),
}
