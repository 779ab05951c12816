"""`parley audit report|explain`: who told whom what, with which outcome, and by which rule it was allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.audit.filters import check_side
from parley.cli.command import Command, screen_of
from parley.cli.exits import OK
from parley.cli.output import count_of, safe
from parley.cli.parts.remote import add_server_options, connection_of, parse_time_ago, utc_text
from parley.domain.errors.errors import Invalid, NotFound
from parley.domain.lookup import Candidate, Noun, is_id, pick, unknown
from parley.domain.rules.deciding import DecidingRule
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
_MESSAGE, _DECIDED = "agent_exchange", "approval_decided"
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
    parser.add_argument("id", metavar="ID", help="a message or an exchange: its id or the end of it")
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
    connection = connection_of(args, agent=False)
    which, found = _find_subject(connection, args.id)
    entries = list(_entries(connection, {"exchange_id": found})) if which == "exchange_id" else []
    if which == "message_id":
        about = list(_entries(connection, {which: found})) or _search(connection, found)
        # Its approval is recorded about the exchange: the message did not exist yet.
        exchange = {"exchange_id": about[0]["document"]["exchange_id"], "action": _DECIDED} if about else {}
        entries = about + (list(_entries(connection, exchange)) if exchange else [])
    if not entries:
        raise unknown(_SUBJECT, args.id, ())
    return _show(args, _lines(connection, entries), "Nothing was sent.")


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


def _search(connection: Connection, message_id: str) -> list[dict[str, Any]]:
    """The entries about a message that is not stored: it was denied, or is no longer kept."""
    return [entry for entry in _newest(connection) if entry["document"].get("message_id") == message_id]


def _newest(connection: Connection) -> Iterator[dict[str, Any]]:
    """The newest entries about messages, as many as are searched."""
    before: int | None = _NUMBER_MAX
    searched = 0
    while before is not None and searched < _SEARCH_MAX:
        page = connection.get("audit", query={"action": _MESSAGE, "before": before, "limit": _PAGE})
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
    documents = [entry["document"] for entry in entries if entry["document"]]
    decided = {document["approval"]: document for document in documents if document["action"] == _DECIDED}
    messages = [document for document in documents if document["action"] == _MESSAGE]
    seen = {message.get("message_id") for message in messages if message.get("role") == "sender"}
    sent = []
    for message in messages:
        if message.get("role") == "sender" or message.get("message_id") not in seen:
            seen.add(message.get("message_id"))
            sent.append(message)
    # A held message that was released has an entry again when it is delivered.
    released = {
        message["approval"] for message in sent if message["outcome"] == "delivered" and message.get("approval")
    }
    shown = [message for message in sent if message["outcome"] != "held" or message.get("approval") not in released]
    return [_line(message, decided.get(message.get("approval")), exchanges) for message in shown]


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
        "why": [*_reasons(sent), *_decision(sent, decision)],
    }


def _with_places(name: str, *places: str | None) -> str:
    shown = [place for place in places if place and place != name]
    return f"{name} ({', '.join(shown)})" if shown else name


def _reasons(sent: Mapping[str, Any]) -> Iterator[str]:
    rule, outcome = _rule(sent), sent["outcome"]
    if outcome != "delivered":
        yield f"{str(sent['reason']).rstrip('.')}{f' [{code}]' if (code := sent.get('code')) else ''}"
    if rule:
        yield f"{'allowed' if outcome == 'delivered' else outcome} by {rule}"
    of = f" of {sent['max_rounds']}" if "max_rounds" in sent else ""
    yield f"{sent['classification']}, round {sent['round']}{of}, policies {sent['policy']}"


def _rule(sent: Mapping[str, Any]) -> str:
    """The rule that decided, as its entry names it; entries of Parley 0.6 and earlier name none."""
    if sent.get("tightened"):
        return f"the organisation's own rules {sent['rules']}"
    rule = sent.get("rule")
    return DecidingRule.from_facts(rule).text(sent["sender"], sent["to"]) if rule else ""


def _decision(sent: Mapping[str, Any], decision: Mapping[str, Any] | None) -> Iterator[str]:
    approved_by = sent.get("approved_by") or (decision or {}).get("actor")
    if decision is None and not approved_by:
        return
    note = f" ({decision['note']})" if decision and decision.get("note") else ""
    what = str((decision or {}).get("decision", "approved")).replace("_", " ")
    cause = f", held for {decision['cause']}" if decision and decision.get("cause") else ""
    yield f"{what} by {approved_by}{note}{cause}"


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
        ("parley audit explain V75R", "parley audit explain exch_01M7JZ32CN64B80WEKG461Q9Z7"),
    ),
}
