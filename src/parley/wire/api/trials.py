"""Policy trials as JSON: requests and results; pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from parley.domain.agents.party import Party
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Origin, Purpose
from parley.domain.rules.trial import Trial
from parley.wire.api.channels import Name, Time
from parley.wire.api.records.record import fill_record
from parley.wire.api.records.rules import Explanation, ExplanationStep, Replay, ReplayChange

if TYPE_CHECKING:
    from parley.domain.rules.replay import Change
    from parley.domain.rules.trial import TrialResult

Text = Annotated[str, Meta(max_length=64 * 1024)]


class ExplainIn(Struct, forbid_unknown_fields=True):
    """A message to evaluate; it is not sent."""

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
    """Changed policy documents, by scope/name; null removes one. All others stay in force."""

    documents: Annotated[dict[str, Text | None], Meta(max_length=1000)]
    since: Time | None = None
    after: Annotated[int, Meta(ge=0, le=2**53, description="What `next` said before.")] = 0
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 10_000


def trial_of(body: ExplainIn) -> Trial:
    return Trial(
        Party(body.sender),
        Party(body.to),
        body.exchange_type,
        classification=body.classification,
        texts=(body.text,) if body.text else (),
        origin=Origin.HUMAN if body.human else Origin.AGENT,
        round=body.round,
        max_rounds=body.max_rounds,
        initiates=not body.replies,
        data=tuple(body.data),
    )


def explanation_of(trial: TrialResult) -> Explanation:
    return Explanation(
        verdict=trial.word,
        governed=trial.governed,
        code=trial.code or None,
        reason=trial.why or None,
        policy_version=trial.policy.version if trial.policy else None,
        classification=trial.level.value,
        detected_keywords=list(trial.keywords),
        steps=steps_of(trial),
    )


def steps_of(trial: TrialResult) -> list[ExplanationStep]:
    return [fill_record(ExplanationStep, step, found=step.result) for step in trial.steps]


def replay_of(messages: int, with_content: int, label: str, changes: list[Change], after: int | None) -> Replay:
    counts = Counter(change.now for change in changes)
    return Replay(
        messages=messages,
        with_content=with_content,
        policy_version=label,
        denied=counts["deny"],
        held=counts["hold"],
        released=counts["allow"],
        next=after,
        changes=[fill_record(ReplayChange, change, reason=change.why) for change in changes],
    )
