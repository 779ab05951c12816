"""What exchanges left behind, as a server tells it, and the rules that all of it together must keep.

What was tried, what was delivered, who had to be asked and what the audit log says are four accounts of one thing: they
must agree. Which of many tries wins is open; how many may is not.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

ROUND_LIMIT = "round_limit"


class Delivered(NamedTuple):
    """A governed message in a channel."""

    seq: int
    id: str
    exchange: str
    conversation: str
    round: int
    hops: int
    sender: str
    to: str
    level: str
    digest: str
    label: str
    at: str
    approval: str = ""


class Noted(NamedTuple):
    """An entry of the audit log."""

    number: int
    side: str
    seq: int
    hash: str
    document: dict[str, Any]

    def says(self, *names: str) -> tuple[Any, ...]:
        return tuple(self.document.get(name) for name in names)


class Asked(NamedTuple):
    """An approval: something that a person has to decide, or has decided."""

    id: str
    cause: str
    exchange: str
    conversation: str
    status: str
    message: str
    label: str
    decided_by: str


@dataclass
class Try:
    """One message that a client tried to say, however often it repeated it under the same key; `label` names it."""

    label: str
    conversation: str
    sender: str
    # Of every answer: its status, and the message or approval that it names.
    answers: list[tuple[int, str]] = field(default_factory=list)
    code: str = ""


@dataclass
class Account:
    """Everything about the exchanges of one server."""

    tries: list[Try] = field(default_factory=list)
    delivered: list[Delivered] = field(default_factory=list)
    # Labels of messages that are there without an envelope, although they asked for the rules.
    bare: list[str] = field(default_factory=list)
    # What the server told agents about what was decided: the approval, its status, and the message.
    told: list[tuple[str, str, str]] = field(default_factory=list)
    noted: list[Noted] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    # Of every exchange: its most rounds and its current one.
    exchanges: dict[str, tuple[int, int]] = field(default_factory=dict)


def delivered_of(message: dict[str, Any], digest: str) -> Delivered:
    """A message of the API."""
    envelope, ext = message["metadata"]["ocip"], message["metadata"]["ocip_ext"]
    return Delivered(
        message["seq"],
        message["id"],
        ext["exchange_id"],
        envelope["conversation_id"],
        envelope["exchange_round"],
        ext["hops"],
        message["sender"],
        message["to"],
        envelope["classification"],
        digest,
        message["payload"]["label"],
        message["created_at"],
        ext.get("approval", {}).get("id", ""),
    )


def digest_of(payload: object) -> str:
    """SHA-256 of a payload as a server keeps it: compact JSON in the order in which it was sent."""
    return hashlib.sha256(json.dumps(payload, separators=(",", ":")).encode()).hexdigest()


def check(account: Account) -> list[str]:
    """Every broken rule, in words; empty when all hold."""
    return [
        *_tries(account),
        *_rounds(account),
        *_escalations(account),
        *_approvals(account),
        *_both_sides(account),
        *_chains(account),
    ]


def _tries(account: Account) -> Iterable[str]:
    """I3 and I4: what was acknowledged is there, once; what was held or refused is not."""
    there = Counter(one.label for one in account.delivered)
    released = {one.label for one in account.asked if one.status == "approved"}
    ids = {one.id: one.label for one in account.delivered}
    for one in account.tries:
        if len({answer for answer in one.answers if answer[0] < 500}) > 1:
            yield f"I4: {one.label} was answered in two ways: {one.answers}"
        statuses = {status for status, _ in one.answers}
        if 201 in statuses and ids.get(one.answers[-1][1]) != one.label:
            yield f"I3: {one.label} was acknowledged as {one.answers[-1][1]} and is lost"
        stopped = 201 not in statuses and any(status < 500 for status in statuses)
        if stopped and there[one.label] and one.label not in released:
            yield f"I4: {one.label} was not let through ({one.answers}) and is there"
        if there[one.label] > 1:
            yield f"I4: {one.label} is there {there[one.label]} times"


def _rounds(account: Account) -> Iterable[str]:
    """I17: the n-th message of an exchange is round n, and there are never more than it may have."""
    by_exchange: dict[str, list[Delivered]] = defaultdict(list)
    for one in sorted(account.delivered):
        by_exchange[one.exchange].append(one)
    for exchange, messages in by_exchange.items():
        most, current = account.exchanges.get(exchange, (0, 0))
        rounds = [one.round for one in messages]
        if rounds != list(range(1, len(rounds) + 1)):
            yield f"I17: the rounds of {exchange} are {rounds}"
        if len(rounds) > most:
            yield f"I17: {exchange} has {len(rounds)} messages and may have {most}"
        if current != len(rounds):
            yield f"I17: {exchange} counts {current} rounds and has {len(rounds)} messages"
    begun = Counter((one.conversation, *sorted((one.sender, one.to))) for one in account.delivered if one.round == 1)
    for (conversation, *pair), count in begun.items():
        if count > 1:
            yield f"I17: {conversation} has {count} exchanges of {pair}"


def _escalations(account: Account) -> Iterable[str]:
    """I17: one escalation for each limit that somebody ran into, and everybody was told of that one."""
    limits: dict[str, list[Asked]] = defaultdict(list)
    for one in account.asked:
        if one.cause == ROUND_LIMIT:
            limits[one.conversation].append(one)
    told: dict[str, set[str]] = defaultdict(set)
    known = {one.id: one for one in account.asked}
    for tried in account.tries:
        for status, named in tried.answers:
            if status == 202 and (named not in known or known[named].cause == ROUND_LIMIT):
                told[tried.conversation].add(named)
    for conversation in limits.keys() | told.keys():
        there = {one.id for one in limits[conversation]}
        if len(there) != 1 or not told[conversation] <= there:
            yield f"I17: {conversation} has the escalations {there}, and told of {told[conversation]}"


def _approvals(account: Account) -> Iterable[str]:
    """I19: what a person approved went out once, as it was seen, after the person had said so."""
    by_id = {one.id: one for one in account.asked}
    used = Counter(one.approval for one in account.delivered if one.approval)
    said = [one for one in account.noted if one.document["action"] == "approval_decided"]
    for approval, count in used.items():
        if count > 1:
            yield f"I19: {approval} let {count} messages through"
    for one in account.asked:
        if one.status == "approved" and not used[one.id]:
            yield f"I19: {one.id} was approved and nothing went out"
        decisions = [entry for entry in said if entry.document["approval"] == one.id]
        if len(decisions) > 1:
            yield f"I19: {one.id} was decided {len(decisions)} times"
    for message in account.delivered:
        if not message.approval:
            continue
        asked = by_id.get(message.approval)
        if asked is None or asked.status != "approved" or asked.message != message.id:
            yield f"I19: {message.label} went out by {message.approval}, which is {asked}"
        approvals = [entry for entry in said if entry.says("approval", "decision") == (message.approval, "approved")]
        entries = [entry.number for entry in account.noted if entry.document.get("message_id") == message.id]
        for entry in approvals[:1]:
            if entry.document.get("content_digest") != message.digest or entry.number > min(entries, default=0):
                yield f"I19: {message.label} is not what was approved, or went out before"
        if not approvals:
            yield f"I19: nobody is on record for {message.approval}"


def _both_sides(account: Account) -> Iterable[str]:
    """I20: of every delivered message two entries that say the same, and none of anything else."""
    for label in account.bare:
        yield f"I20: {label} was delivered without an envelope"
    sides: dict[str, list[Noted]] = defaultdict(list)
    for one in account.noted:
        if one.says("action", "outcome") == ("agent_exchange", "delivered"):
            sides[one.document["message_id"]].append(one)
    for message in account.delivered:
        entries = sides.pop(message.id, [])
        roles = sorted((one.document["role"], one.side) for one in entries)
        if roles != [("receiver", message.to), ("sender", message.sender)]:
            yield f"I20: {message.label} is on record as {roles}"
        expected = (message.exchange, message.conversation, message.round, message.level, message.digest)
        for one in entries:
            told = one.says("exchange_id", "conversation_id", "round", "classification", "content_digest")
            if told != expected:
                yield f"I20: {message.label} is {expected}, the record says {told}"
    for message_id in sides:
        yield f"I20: {message_id} is on record as delivered and was not"
    held = Counter(one.document.get("approval") for one in account.noted if one.document.get("outcome") == "held")
    for asked in account.asked:
        if asked.cause in (ROUND_LIMIT, "commitment") and not held[asked.id]:
            yield f"I20: {asked.id} waits, and nothing is on record"


def _chains(account: Account) -> Iterable[str]:
    """I24: every entry has its place, and names the one before it on its side."""
    if [one.number for one in account.noted] != list(range(1, len(account.noted) + 1)):
        yield "I24: the audit log has gaps"
    heads: dict[str, tuple[int, str]] = {}
    for one in account.noted:
        seq, before = heads.get(one.side, (0, "0" * 64))
        if (one.seq, one.document["prev_hash"]) != (seq + 1, before):
            yield f"I24: entry {one.number} does not follow on its side {one.side}"
        heads[one.side] = (one.seq, one.hash)
