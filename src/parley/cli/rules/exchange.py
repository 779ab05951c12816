"""`parley exchange list|show|close`: the governed conversations of a server or a mailbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import label_of, safe
from parley.cli.parts.decisions import ExchangeFilter, add_server_or_mailbox_options, decisions_of
from parley.cli.parts.remote import age_column, field_column, show_result, show_table, time_text
from parley.cli.table import ALWAYS, Column, id_column
from parley.domain.exchange.exchange import Outcome

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.cli.output import Screen
    from parley.cli.parts.decisions import Decisions

_COLOURS = {"in_progress": "cyan", "resolved": "green", "escalated": "yellow", "denied": "red", "expired": "dim"}

_ID_OR_END = "its id or the end of it"


def _add_list(parser: argparse.ArgumentParser) -> None:
    outcomes = [outcome.value for outcome in Outcome]
    parser.add_argument(
        "--outcome", default="", choices=["", *outcomes], metavar="OUTCOME", help=f"one of {', '.join(outcomes)}"
    )
    parser.add_argument("--agent", default="", metavar="AGENT", help="only exchanges of this agent")
    parser.add_argument(
        "--conversation", default="", metavar="CONVERSATION", help=f"only those of this conversation: {_ID_OR_END}"
    )
    parser.add_argument("--after", default="", metavar="EXCHANGE", help=f"only those after this one: {_ID_OR_END}")
    parser.add_argument(
        "--limit", type=int, default=100, metavar="N", help="number of exchanges at most (default: 100)"
    )
    add_server_or_mailbox_options(parser, agent=False)


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "exchange", metavar="EXCHANGE", help="id of the exchange, or the end of it; see: parley exchange list"
    )
    add_server_or_mailbox_options(parser)


def _add_close(parser: argparse.ArgumentParser) -> None:
    _add_show(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="reason, for the audit log")


def _decisions(args: argparse.Namespace) -> Decisions:
    """Connect as --agent, else as the holder of the key; $PARLEY_AGENT does not apply to a human key."""
    return decisions_of(args, agent=bool(args.agent))


def _list(args: argparse.Namespace) -> int:
    wanted = ExchangeFilter(args.outcome, args.agent, args.conversation)
    exchanges = decisions_of(args).list_exchanges(wanted, after=args.after, limit=args.limit)
    columns = (
        id_column("ID", field_column("exchangeId")),
        Column("OUTCOME", field_column("outcome"), ALWAYS),
        Column("TYPE", field_column("exchange_type"), 2),
        Column("ROUND", lambda exchange: f"{exchange['currentRound']}/{exchange['maxRounds']}", 6),
        Column("AGE", age_column("started_at"), 5),
        Column("FROM", field_column("initiator"), 8),
        Column("TO", field_column("responder"), 7),
        id_column("CONVERSATION", field_column("conversationId"), 3),
    )
    show_table(args, screen_of(args), exchanges, columns, "No exchanges.")
    return OK


def _show(args: argparse.Namespace) -> int:
    exchange = _decisions(args).get_exchange(args.exchange)
    screen = screen_of(args)
    if args.json:
        screen.json(exchange)
    else:
        show_exchange(screen, exchange)
    return OK


def show_exchange(screen: Screen, exchange: Mapping[str, Any]) -> None:
    """Print an exchange: its state, its transcript and its pending approvals."""
    outcome = str(exchange["outcome"])
    screen.prose(
        f"{safe(exchange['initiator'])} to {safe(exchange['responder'])}: {safe(exchange['exchange_type'])}, "
        f"{screen.paint(safe(outcome), _COLOURS.get(outcome, ''))}, "
        f"round {exchange['currentRound']} of {exchange['maxRounds']}"
    )
    for name in ("exchangeId", "conversationId", "channel_id", "reply_policy", "policy_version", "started_at"):
        _show_field(screen, exchange, name)
    for name in ("ended_at", "ended_by", "reason") if exchange["ended_at"] else ("expires_at",):
        _show_field(screen, exchange, name)
    screen.line()
    for turn in exchange["transcript"]:
        who = screen.paint(f"{turn['round']:>3}  {writer_of(turn)}:", "cyan")
        screen.prose(f"{who} {safe(turn['summary'])}", indent=" " * 5)
    if not exchange["transcript"]:
        screen.prose("No messages were delivered.")
    for data in exchange["dataShared"]:
        fields = f" ({', '.join(map(safe, data['fields']))})" if data["fields"] else ""
        screen.prose(f"Data shared: {safe(data['source'])}{fields}")
    for data in exchange["dataWithheld"]:
        screen.prose(f"Data withheld: {safe(data['description'])}: {safe(data['reason'])}")
    for approval in exchange["pending_approvals"]:
        waits = f"Held for approval: parley approvals show {safe(approval)}"
        screen.prose(waits, "yellow")


def writer_of(turn: Mapping[str, Any]) -> str:
    """Who wrote a message: a person, where one wrote it in place of an agent."""
    sender, person = safe(turn["sender"]), turn.get("person")
    return f"{safe(person)} (instead of {sender})" if person else sender


def _show_field(screen: Screen, exchange: Mapping[str, Any], name: str) -> None:
    if exchange[name]:
        screen.field(label_of(name), time_text(exchange[name]) if name.endswith("_at") else safe(str(exchange[name])))


def _close(args: argparse.Namespace) -> int:
    closed = _decisions(args).close_exchange(args.exchange, args.reason)
    line = f"Closed {safe(closed['exchangeId'])} after round {closed['currentRound']}: {safe(closed['outcome'])}"
    show_result(args, screen_of(args), closed, line)
    return OK


COMMANDS = {
    "exchange list": Command(
        "List exchanges (governed conversations)",
        _add_list,
        _list,
        ("parley exchange list", "parley exchange list --outcome escalated --agent codex --json"),
    ),
    "exchange show": Command(
        "Show an exchange with its transcript",
        _add_show,
        _show,
        ("parley exchange show 7K2M",),
    ),
    "exchange close": Command(
        "Close an exchange",
        _add_close,
        _close,
        ("parley exchange close 7K2M --reason 'settled by phone'",),
    ),
}
