"""Trials of the rules as JSON: what to try, and what came of it; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from parley.domain.agents.party import Party
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Origin, Purpose
from parley.domain.rules.trial import Trial
from parley.wire.api.channels import Name, Time

if TYPE_CHECKING:
    from parley.domain.rules.replay import Change
    from parley.domain.rules.trial import Tried

Text = Annotated[str, Meta(max_length=64 * 1024)]


class ExplainIn(Struct, forbid_unknown_fields=True):
    """A message that nobody sends."""

    sender: Name
    to: Name
    exchange_type: Purpose | None = None
    classification: Classification | None = None
    text: Text = ""
    round: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    max_rounds: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    replies: bool = False
    human: bool = False
    data: Annotated[list[Classification], Meta(max_length=100)] = []


class ReplayIn(Struct, forbid_unknown_fields=True):
    """Policy documents, by scope/name; null takes one away. Everything else stays as it is in force."""

    documents: Annotated[dict[str, Text | None], Meta(max_length=1000)]
    since: Time | None = None
    after: Annotated[int, Meta(ge=0, le=2**53, description="What `next` said before.")] = 0
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 10_000


class StepOut(Struct):
    """One thing that was looked at."""

    check: str
    value: str
    source: str
    found: str


class ExplainedOut(Struct):
    """What the rules would make of a message, and everything that was looked at."""

    verdict: Literal["allow", "hold", "deny"]
    governed: bool
    code: str | None
    reason: str | None
    policy_version: str | None
    classification: Classification
    detectedKeywords: list[str]  # noqa: N815  # as the specification spells it
    steps: list[StepOut]


class ChangeOut(Struct):
    """A message that would fare otherwise."""

    entry_id: str
    at: Time
    message_id: str
    exchange_id: str
    sender: str
    receiver: str
    was: str
    now: str
    reason: str


class ReplayedOut(Struct):
    """What a replay found; `next` is null when there is nothing more to try."""

    messages: int
    with_content: int
    policy_version: str
    denied: int
    held: int
    released: int
    next: int | None
    changes: list[ChangeOut]


def trial_of(given: ExplainIn) -> Trial:
    return Trial(
        Party(given.sender),
        Party(given.to),
        given.exchange_type,
        classification=given.classification,
        texts=(given.text,) if given.text else (),
        origin=Origin.HUMAN if given.human else Origin.AGENT,
        round=given.round,
        max_rounds=given.max_rounds,
        initiates=not given.replies,
        data=tuple(given.data),
    )


def explained(found: Tried) -> dict[str, Any]:
    return {
        "verdict": found.word,
        "governed": found.governed,
        "code": found.code or None,
        "reason": found.why or None,
        "policy_version": found.policy.version if found.policy else None,
        "classification": found.level.value,
        "detectedKeywords": list(found.keywords),
        "steps": [
            {"check": one.check, "value": one.value, "source": one.source, "found": one.result} for one in found.steps
        ],
    }


def replayed(messages: int, with_content: int, label: str, changes: list[Change], after: int | None) -> dict[str, Any]:
    counted = {word: sum(one.now == word for one in changes) for word in ("deny", "hold", "allow")}
    return {
        "messages": messages,
        "with_content": with_content,
        "policy_version": label,
        "denied": counted["deny"],
        "held": counted["hold"],
        "released": counted["allow"],
        "next": after,
        "changes": [
            {
                "entry_id": one.entry_id,
                "at": one.at,
                "message_id": one.message_id,
                "exchange_id": one.exchange_id,
                "sender": one.sender,
                "receiver": one.receiver,
                "was": one.was,
                "now": one.now,
                "reason": one.why,
            }
            for one in changes
        ],
    }
