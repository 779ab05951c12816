"""Why a recorded message was delivered, held or denied, from the entries of the audit log; in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.audit.entry import AGENT_EXCHANGE
from parley.domain.rules.deciding import DecidingRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Facts = Mapping[str, Any]

APPROVAL_DECIDED = "approval_decided"
# An outcome of a message, as a verdict.
VERDICTS = {"delivered": "allow", "held": "hold", "denied": "deny"}


class RecordedMessage(NamedTuple):
    """A message as the audit log has it: the facts of its last entry, the decision about it, and all its entries."""

    number: int
    facts: Facts
    decision: Facts | None
    numbers: tuple[int, ...]


def recorded_messages(entries: Iterable[tuple[int, Facts]]) -> list[RecordedMessage]:
    """Every message once, in order: by its sender's entry, else by a receiver's, where the sender's cannot be read.

    A held message that was released has an entry again when it is delivered: that one counts.
    """
    entries = list(entries)
    decided = {facts["approval"]: facts for _, facts in entries if facts["action"] == APPROVAL_DECIDED}
    messages = [(number, facts) for number, facts in entries if facts["action"] == AGENT_EXCHANGE]
    by_sender = {facts.get("message_id") for _, facts in messages if facts.get("role") == "sender"}
    once: dict[object, tuple[int, Facts]] = {}
    for number, facts in messages:
        is_senders = facts.get("role") == "sender"
        if is_senders or facts.get("message_id") not in by_sender:
            once.setdefault(number if is_senders else facts.get("message_id") or number, (number, facts))
    released = {facts["approval"] for _, facts in once.values() if _is_release(facts)}
    return [
        RecordedMessage(number, facts, decided.get(facts.get("approval")), _numbers_of(facts, number, entries))
        for number, facts in once.values()
        if facts["outcome"] != "held" or facts.get("approval") not in released
    ]


def _is_release(facts: Facts) -> bool:
    return facts["outcome"] == "delivered" and bool(facts.get("approval"))


def _numbers_of(message: Facts, own: int, entries: list[tuple[int, Facts]]) -> tuple[int, ...]:
    """All entries about a message: of every side, of its approval and of the decision."""
    message_id, approval = message.get("message_id"), message.get("approval")
    return tuple(
        [
            number
            for number, facts in entries
            if number == own
            or (message_id and facts.get("message_id") == message_id)
            or (approval and facts.get("approval") == approval)
        ]
    )


def reasons_of(facts: Facts, decision: Facts | None = None) -> list[str]:
    """Why a message was delivered, held or denied: the reason, the rule, the policies, and who decided about it."""
    return [*_recorded_reasons(facts), *_decision(facts, decision)]


def _recorded_reasons(facts: Facts) -> Iterator[str]:
    rule, outcome = rule_text(facts), facts["outcome"]
    if outcome != "delivered":
        yield f"{str(facts['reason']).rstrip('.')}{f' [{code}]' if (code := facts.get('code')) else ''}"
    if rule:
        yield f"{'allowed' if outcome == 'delivered' else outcome} by {rule}"
    of = f" of {facts['max_rounds']}" if "max_rounds" in facts else ""
    yield f"{facts['classification']}, round {facts['round']}{of}, policies {facts['policy']}"


def rule_text(facts: Facts) -> str:
    """The rule that decided, as its entry names it; entries of Parley 0.6 and earlier name none."""
    if facts.get("tightened"):
        return f"the organisation's own rules {facts['rules']}"
    rule = facts.get("rule")
    return DecidingRule.from_facts(rule).text(facts["sender"], facts["to"]) if rule else ""


def _decision(facts: Facts, decision: Facts | None) -> Iterator[str]:
    approved_by = facts.get("approved_by") or (decision or {}).get("actor")
    if decision is None and not approved_by:
        return
    note = f" ({decision['note']})" if decision and decision.get("note") else ""
    what = str((decision or {}).get("decision", "approved")).replace("_", " ")
    cause = f", held for {decision['cause']}" if decision and decision.get("cause") else ""
    yield f"{what} by {approved_by}{note}{cause}"
