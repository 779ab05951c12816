"""`parley audit report|explain`: who told whom what, with which outcome, and by which rule it was allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.audit.filters import check_side
from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import count_of, safe
from parley.cli.parts.remote import add_server_options, connection_of, parse_time_ago, show_steps, utc_text
from parley.domain.audit.entry import AGENT_EXCHANGE
from parley.domain.errors.errors import Invalid, NotFound
from parley.domain.lookup import Candidate, Noun, is_id, pick, unknown
from parley.domain.rules.reasons import APPROVAL_DECIDED, reasons_of, recorded_messages
from parley.domain.times import is_day

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from parley.cli.output import Screen
    from parley.sdk.blocking.connection import Connection

_PAGE = 1_000
# Entries that are searched for the end of an id.
_SEARCH_MAX = 20_000
_NUMBER_MAX = 10**15 - 1
_COLOURS = {"delivered": "green", "held": "yellow", "denied": "red"}
_FIELDS = {"msg": "message_id", "exch": "exchange_id"}
_SUBJECT = Noun("message or exchange", "", "parley audit report 1d.., parley exchange list")


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "period",
        nargs="?",
        default="today",
        metavar="DAY|FROM..TO",
        help="a day (2026-11-16, today), or two days or times, in UTC; 1h.. is the last hour, FROM.. is until now "
        "(default: today)",
    )
    parser.add_argument("--agent", default="", metavar="AGENT", help="only what this agent sent or received")
    add_server_options(parser, agent=False)
    parser.description = (
        f"{parser.description}.\n\n"
        "Prints every governed message once: when, from whom to whom, its text, what\n"
        "came of it, and why: the rule and the version of the policies that allowed it,\n"
        "the reason that it was held or denied, and the human who approved it. Times and\n"
        "days are in UTC."
    )


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", default="", metavar="ID", help="a message or an exchange: its id or its end")
    parser.add_argument(
        "--entry",
        default="",
        metavar="NUMBER",
        help="an entry, by its number or id: with every check of that time",
    )
    add_server_options(parser, agent=False)


def _report(args: argparse.Namespace) -> int:
    begins, dots, ends = args.period.partition("..")
    if not dots and begins and not is_day(begins):
        parse_time_ago(begins, "the period")
        hint = f"everything since then is {begins}.."
        raise Invalid(f"the period {begins} is a time, neither a day nor FROM..TO", hint=hint)
    query = {
        "since": parse_time_ago(begins, "the period"),
        "until": parse_time_ago(ends if dots else begins, "the period", ends=True),
    }
    if query["since"] and query["until"] and query["since"] >= query["until"]:
        raise Invalid(f"the period {args.period} ends before it begins", hint="write the earlier time first")
    connection = connection_of(args, agent=False)
    lines = _lines(connection, list(_entries(connection, query)))
    about = args.agent
    lines = [line for line in lines if not about or about in (line["sender"], line["to"], *line["receivers"])]
    if about and not lines:
        check_side(connection, about, "--agent")
    return _show(args, lines, "No message was sent or received in this time.")


def _explain(args: argparse.Namespace) -> int:
    if bool(args.id) == bool(args.entry):
        raise Invalid("need either an ID or --entry", hint="parley audit explain ID, or --entry NUMBER")
    connection = connection_of(args, agent=False)
    if args.entry:
        return _explain_entry(args, connection)
    which, found = _find_subject(connection, args.id)
    entries = list(_entries(connection, {"exchange_id": found})) if which == "exchange_id" else []
    if which == "message_id":
        about = list(_entries(connection, {which: found}))
        # Its approval is recorded about the exchange: the message did not exist yet.
        exchange = {"exchange_id": about[0]["document"]["exchange_id"], "action": APPROVAL_DECIDED} if about else {}
        entries = about + (list(_entries(connection, exchange)) if exchange else [])
    if not entries:
        raise unknown(_SUBJECT, args.id, ())
    return _show(args, _lines(connection, entries), "Nothing was sent.")


def _explain_entry(args: argparse.Namespace, connection: Connection) -> int:
    explanation = connection.get("audit", args.entry, "explain")
    screen = screen_of(args)
    if args.json:
        screen.json(explanation)
        return OK
    outcome = explanation["outcome"] or explanation["action"] or "trimmed"
    painted = screen.paint(safe(outcome), _COLOURS.get(outcome, ""))
    screen.prose(f"{utc_text(explanation['at'])}  entry {explanation['number']}  {painted}")
    for reason in explanation["reasons"]:
        screen.prose(f"    {safe(reason)}", indent="      ")
    if explanation["steps"]:
        screen.line()
        show_steps(screen, explanation["steps"])
    if explanation["agrees"] is False:
        screen.line()
        screen.prose(
            f"Now these checks come to {safe(explanation['verdict'])}: what they depend on beside the policies"
            " has changed since, or stricter rules decided.",
            "yellow",
        )
    return OK


def _find_subject(connection: Connection, text: str) -> tuple[str, str]:
    """What an id, or the end of one, names: the field of entries that holds it, and the whole id."""
    for prefix, field in _FIELDS.items():
        if is_id(text, prefix):
            return field, text
    names: dict[str, str] = {}
    for entry in _newest(connection):
        names |= {entry["document"][field]: field for field in _FIELDS.values() if entry["document"].get(field)}
    chosen = pick(_SUBJECT, text, [Candidate(name) for name in names])
    return names[chosen.id], chosen.id


def _newest(connection: Connection) -> Iterator[dict[str, Any]]:
    """The newest entries about messages, as many as are searched."""
    before: int | None = _NUMBER_MAX
    searched = 0
    while before is not None and searched < _SEARCH_MAX:
        page = connection.get("audit", query={"action": AGENT_EXCHANGE, "before": before, "limit": _PAGE})
        yield from (entry for entry in page["entries"] if entry["document"])
        searched += _PAGE
        before = page["previous"]


def _show(args: argparse.Namespace, lines: list[dict[str, Any]], nothing: str) -> int:
    screen = screen_of(args)
    if args.json:
        screen.json(lines)
        return OK
    for line in lines:
        _show_line(screen, line)
    outcomes = [line["outcome"] for line in lines]
    counts = [f"{outcomes.count(outcome)} {outcome}" for outcome in _COLOURS if outcome in outcomes]
    screen.prose(f"{count_of(len(lines), 'message')}: {', '.join(counts)}" if lines else nothing)
    return OK


def _show_line(screen: Screen, line: Mapping[str, Any]) -> None:
    outcome = screen.paint(safe(line["outcome"]), _COLOURS.get(line["outcome"], ""))
    screen.prose(f"{utc_text(line['at'])}  {safe(line['who'])} -> {safe(line['whom'])}  {outcome}")
    if line["text"]:
        screen.prose(f'    "{safe(line["text"])}"', indent="    ")
    for why in line["why"]:
        screen.prose(f"    {safe(why)}", indent="      ")


# ---------------------------------------------------------------- what is printed of an entry


def _lines(connection: Connection, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One document per message, from the sender's entry; else from a receiver's, whose person may not see the other."""
    exchanges = _Exchanges(connection)
    messages = recorded_messages([(entry["number"], entry["document"]) for entry in entries if entry["document"]])
    return [_line(message.facts, message.decision, exchanges) for message in messages]


def _line(sent: Mapping[str, Any], decision: Mapping[str, Any] | None, exchanges: _Exchanges) -> dict[str, Any]:
    sender, to = sent["sender"], sent["to"]
    person = f"{sent['actor']}, instead of {sender}" if sent["actor"] != sender else sender
    who = _with_places(person, sent.get("source_user"), sent.get("source_org"))
    return {
        **{name: sent.get(name) for name in ("at", "outcome", "sender", "to", "actor", "policy", "exchange_id")},
        **{name: sent.get(name) for name in ("message_id", "classification", "round", "approval", "code", "reason")},
        "rule": sent.get("rule"),
        "receivers": sent.get("receivers") or [],
        "approved_by": sent.get("approved_by") or None,
        "text": exchanges.text(sent["exchange_id"], sent["round"]) if sent["outcome"] == "delivered" else None,
        "who": who,
        "whom": _with_places(to, sent.get("target_org")),
        "why": reasons_of(sent, decision),
    }


def _with_places(name: str, *places: str | None) -> str:
    shown = [place for place in places if place and place != name]
    return f"{name} ({', '.join(shown)})" if shown else name


class _Exchanges:
    """Texts of messages, as far as the key may read them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, dict[int, str]] = {}

    def text(self, exchange_id: str, number: int) -> str | None:
        if exchange_id not in self._known:
            try:
                transcript = self._connection.get("exchanges", exchange_id)["transcript"]
            except NotFound:
                transcript = []
            self._known[exchange_id] = {turn["round"]: turn["summary"] for turn in transcript}
        return self._known[exchange_id].get(number)


def _entries(connection: Connection, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    after: int | None = 0
    while after is not None:
        page = connection.get("audit", query={**query, "after": after, "limit": _PAGE})
        yield from page["entries"]
        after = page["next"]


COMMANDS = {
    "audit report": Command(
        "Report who told whom what, and why it was allowed",
        _add_report,
        _report,
        (
            "parley audit report",
            "parley audit report 2026-11-16",
            "parley audit report 2h.. --agent ann-bot",
            "parley audit report 7d.. --json",
        ),
    ),
    "audit explain": Command(
        "Explain why a message was allowed, held or denied",
        _add_explain,
        _explain,
        (
            "parley audit explain V75R",
            "parley audit explain --entry 19",
            "parley audit explain exch_01M7JZ32CN64B80WEKG461Q9Z7",
        ),
    ),
}
