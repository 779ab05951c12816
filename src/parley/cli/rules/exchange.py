"""`parley exchange list|show|close`: the governed conversations of a server or a mailbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import label_of, safe
from parley.cli.parts.decisions import ExchangeFilter, add_server_or_mailbox_options, decisions_of
from parley.cli.parts.remote import age_column, field_column, parse_time_ago, show_result, show_table, time_text
from parley.cli.table import ALWAYS, Column, id_column
from parley.domain.content.classification import LEVELS
from parley.domain.content.envelope import Purpose
from parley.domain.exchange.exchange import Outcome

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.cli.output import Screen
    from parley.cli.parts.decisions import Decisions

_COLOURS = {"in_progress": "cyan", "resolved": "green", "escalated": "yellow", "denied": "red", "expired": "dim"}

_PURPOSES = tuple([purpose.value for purpose in Purpose])
_LEVELS = tuple([level.value for level in LEVELS])
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
    parser.add_argument("--user", default="", metavar="USER", help="only those of agents that act for this person")
    parser.add_argument("--org-unit", default="", metavar="UNIT", help="only those of agents in this org unit")
    parser.add_argument("--pair", default="", metavar="AGENT,AGENT", help="only those between these two agents")
    parser.add_argument(
        "--purpose", default="", choices=["", *_PURPOSES], metavar="PURPOSE", help="only of this purpose"
    )
    parser.add_argument(
        "--classification", default="", choices=["", *_LEVELS], metavar="LEVEL", help="highest level of the messages"
    )
    parser.add_argument("--since", default="", metavar="TIME", help="begun since this time or day; 1h is an hour ago")
    parser.add_argument("--until", default="", metavar="TIME", help="begun before this time, or by the end of this day")
    parser.add_argument("--after", default="", metavar="EXCHANGE", help=f"only those after this one: {_ID_OR_END}")
    parser.add_argument(
        "--before", default="", metavar="EXCHANGE", help="only those before this one, newest first: its id or its end"
    )
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
    names = ("outcome", "agent", "user", "org_unit", "pair", "purpose", "classification", "before")
    wanted = ExchangeFilter(
        **{name: getattr(args, name) for name in names},
        conversation_id=args.conversation,
        since=parse_time_ago(args.since, "--since"),
        until=parse_time_ago(args.until, "--until", ends=True),
    )
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
    for turn in exchange.get("messages") or exchange["transcript"]:
        _show_turn(screen, turn)
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


def _show_turn(screen: Screen, turn: Mapping[str, Any]) -> None:
    """One message; below one that was not delivered, why, and where the audit log has it."""
    who = screen.paint(f"{turn['round']:>3}  {writer_of(turn)}:", "cyan")
    outcome = turn.get("outcome", "delivered")
    if outcome == "delivered":
        screen.prose(f"{who} {safe(turn['summary'] or '(not readable)')}", indent=" " * 5)
        return
    what = screen.paint(outcome, _COLOURS.get(outcome, "yellow"))
    screen.prose(f"{who} {what}: {safe(turn['summary'] or turn['reason'] or '')}", indent=" " * 5)
    entries = ", ".join(map(str, turn["audit"]))
    decided = f", {turn['decision']} by {safe(turn['decided_by'])}" if turn["decision"] else ""
    reason = f"{safe(turn['reason'])}, " if turn["summary"] and turn["reason"] else ""
    screen.prose(f"     {reason}audit {entries}{decided}", indent=" " * 5)


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
        (
            "parley exchange list",
            "parley exchange list --outcome escalated --agent codex --json",
            "parley exchange list --pair ann-bot,bob-bot --since 7d",
        ),
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
