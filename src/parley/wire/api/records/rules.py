"""Exchanges, approvals, policies and trials in API responses."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from parley.wire.api.records.record import Mapping, Record, Timestamp, repr_without

# ---------------------------------------------------------------- exchanges, approvals and suspensions


class Turn(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One message of an exchange, summarised in one line."""

    may_be_absent = ("person",)

    round: int
    sender: str
    summary: str
    # Who wrote it in place of the sender: a person. Absent when the sender wrote it.
    person: str | None = None


class DataShared(Record, frozen=True, kw_only=True):
    """Data that a message contained."""

    source: str
    fields: list[str]


class DataWithheld(Record, frozen=True, kw_only=True):
    """Data that was withheld, and why."""

    reason: str
    description: str


class ExchangeMessage(Record, frozen=True, kw_only=True):
    """A message of an exchange with what became of it: `delivered`, `held` or `denied`; from the audit log.

    A held message that was approved is delivered. `audit` has the numbers of all entries about it that you may see.
    """

    round: int
    sender: str
    to: str
    # Who wrote it in place of the sender.
    person: str | None = None
    summary: Annotated[str | None, Meta(description="In one line; null where its content was not kept.")] = None
    at: Timestamp
    outcome: str
    classification: str
    message_id: str | None = None
    approval: str | None = None
    decision: Annotated[str | None, Meta(description="What a person decided about the held message.")] = None
    decided_by: str | None = None
    code: str | None = None
    reason: str | None = None
    policy_version: str
    audit: list[int]


class Exchange(Record, frozen=True, kw_only=True):
    """A conversation of two agents under the rules, from its first message to its outcome.

    `transcript` has what was delivered, `messages` also what was held or denied; null in lists.
    """

    __module__ = "parley"

    exchange_id: str = msgspec.field(name="exchangeId")
    conversation_id: str = msgspec.field(name="conversationId")
    current_round: int = msgspec.field(name="currentRound")
    max_rounds: int = msgspec.field(name="maxRounds")
    transcript: list[Turn]
    outcome: str
    exchange_type: str
    initiator: str
    responder: str
    channel_id: str | None = None
    reply_policy: str
    requires_commitment: bool
    pending_approvals: list[str]
    data_shared: list[DataShared] = msgspec.field(name="dataShared", default_factory=list)
    data_withheld: list[DataWithheld] = msgspec.field(name="dataWithheld", default_factory=list)
    started_at: Timestamp
    expires_at: Timestamp
    ended_at: Timestamp | None = None
    ended_by: str | None = None
    reason: str | None = None
    policy_version: str
    messages: list[ExchangeMessage] | None = None


class HiddenCharacter(Record, frozen=True, kw_only=True):
    """A character that a reader cannot see, or that changes how others are read."""

    where: str
    position: int
    code_point: str
    name: str


class DetectedKeyword(Record, frozen=True, kw_only=True):
    """Where a commitment word is. `where` is a JSON Pointer to the text, with `#` at its end for a key."""

    where: str
    position: int
    length: int
    keyword: str


class ConfusableWord(Record, frozen=True, kw_only=True):
    """A word that mixes Latin with Cyrillic or Greek letters. `where` is a JSON Pointer, with `#` for a key."""

    where: str
    position: int
    length: int
    scripts: list[str]


class Approval(Record, frozen=True, kw_only=True):
    """A held message that a person must decide about, exactly as it would be sent.

    `digest` identifies what is shown here: a decision applies to exactly this content. `barred` is the error code that
    your decision would get; None when you may decide, and then `decisions` are those that you may make. `stale`: the
    policies have changed since; approving shows it again instead of sending it. A summary has no content: `payload`,
    `metadata`, `visible_text`, `hidden_characters`, `confusable`, `detected`, `escalation` and `closes` are absent.
    `exchange` is there when it was asked for.
    """

    __module__ = "parley"

    may_be_absent = (
        *("payload", "metadata", "visible_text", "hidden_characters", "confusable", "detected", "escalation"),
        *("closes", "exchange"),
    )

    id: str
    status: str
    cause: str
    reason: str
    detected_keywords: list[str] = msgspec.field(name="detectedKeywords")
    escalation: dict[str, Any] | None = None
    exchange_id: str | None = None
    conversation_id: str | None = None
    channel_id: str | None = None
    agent: str
    user: str
    deciders: list[str]
    barred: str | None = None
    decisions: list[str] = msgspec.field(default_factory=list)
    stale: bool = False
    to: str
    exchange_type: str
    classification: str
    summary: Annotated[str, Meta(description="The beginning of the message, on one line.")] = ""
    bytes: Annotated[int, Meta(description="The size of the payload.")] = 0
    hidden: Annotated[int, Meta(description="How many characters in it cannot be seen.")] = 0
    payload: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    message_type: str | None = None
    correlation_id: str | None = None
    visible_text: str = ""
    hidden_characters: list[HiddenCharacter] = msgspec.field(default_factory=list)
    confusable: list[ConfusableWord] = msgspec.field(default_factory=list)
    detected: list[DetectedKeyword] = msgspec.field(default_factory=list)
    digest: str
    # Other held messages that are closed when this one is rejected, or were when it was.
    closes: list[str] = msgspec.field(default_factory=list)
    policy_version: str
    created_at: Timestamp
    expires_at: Timestamp
    decided_at: Timestamp | None = None
    decided_by: str | None = None
    note: str | None = None
    message_id: str | None = None
    exchange: Exchange | None = None


class ApprovalCount(Record, frozen=True, kw_only=True):
    """How many approvals match. `more`: there are more than were counted."""

    __module__ = "parley"

    count: int
    more: bool


class ApprovalLink(Record, frozen=True, kw_only=True):
    """A link by which its creator decides about one held message without signing in. `path` contains a secret."""

    __module__ = "parley"

    approval: str
    # Below the address of the server.
    path: str
    expires_at: Timestamp

    def __repr__(self) -> str:
        return repr_without("path", self)


class HeldMessage(Struct, kw_only=True):
    """A message held for approval. It has not been delivered."""

    status: Literal["held"]
    approval: str
    reason: str
    cause: str
    requires_human: bool = msgspec.field(name="requiresHuman")
    detected_keywords: list[str] = msgspec.field(name="detectedKeywords")
    exchange_id: str
    conversation_id: str
    digest: str
    expires_at: Timestamp
    deciders: Annotated[list[str], Meta(description="The people who may decide about it.")]
    escalation: Mapping | UnsetType = UNSET


class Suspension(Record, frozen=True, kw_only=True):
    """A suspended agent, pair, org unit or tenant."""

    __module__ = "parley"

    what: str
    name: str
    reason: str
    by: str
    at: Timestamp
    # When it is lifted by itself.
    until: Timestamp | None = None


class SuspensionPreview(Record, frozen=True, kw_only=True):
    """What a suspension would halt. Each count ends at 1000; the ids are the first 20."""

    __module__ = "parley"

    what: str
    name: str
    # Whether it is suspended now.
    suspended: bool
    # Registered agents that could send nothing; of a pair, nothing to each other.
    agents: int
    # Exchanges that are not over.
    exchanges: int
    exchange_ids: list[str]
    # Held messages that nobody could approve.
    approvals: int
    approval_ids: list[str]
    # Requests without an answer.
    asks: int
    ask_ids: list[str]


# ---------------------------------------------------------------- policies


class Policy(Record, frozen=True, kw_only=True):
    """A policy document: its source (`text`) and its rules, key by key (`rules`)."""

    __module__ = "parley"

    scope: str
    name: str
    label: Annotated[str, Meta(description="Of everything that is in force.")]
    rules: Mapping = msgspec.field(name="keys")
    text: str | None = None


class PolicyFlaw(Record, frozen=True, kw_only=True):
    """An error in one line of a policy file."""

    file: str
    line: int
    key: str
    code: str
    detail: str


class BrokenPolicy(Record, frozen=True, kw_only=True):
    """An invalid policy file; it is not in force."""

    file: str
    message: str
    flaws: list[PolicyFlaw]


class Policies(Record, frozen=True, kw_only=True):
    """The policies in force, under one label."""

    __module__ = "parley"

    label: str
    made_at: Timestamp | None = None
    made_by: str | None = None
    policies: list[Policy]
    broken: list[BrokenPolicy]


class PolicyRevision(Record, frozen=True, kw_only=True):
    """A revision of the policies, and since when it was in force."""

    __module__ = "parley"

    label: str
    made_at: Timestamp | None = None
    made_by: str | None = None
    documents: list[str]


class PolicyInForce(Record, frozen=True, kw_only=True):
    """The effective policy of an agent. `policy` is None when the enterprise has none, and nothing is allowed.

    `origins` names the document of each key.
    """

    __module__ = "parley"

    label: str
    agent: str | None = None
    org_unit: str
    team: str | None = None
    user_id: str | None = None
    policy: Mapping | None = None
    origins: Mapping


class PolicyDifference(Record, frozen=True, kw_only=True):
    """One key that differs between two versions. `old` or `new` is None where the key is not set.

    `where` is a document, or in `effective` those for whom the key is in force: an org unit, team or user by its
    document, and `enterprise` for everybody else.
    """

    where: str
    key: str
    old: Any = None
    new: Any = None


class PolicyDifferences(Record, frozen=True, kw_only=True):
    """What differs between two versions of the policies: in their documents, and in what is in force for whom."""

    __module__ = "parley"

    old_label: str
    new_label: str
    documents: list[PolicyDifference]
    effective: list[PolicyDifference]


# ---------------------------------------------------------------- traffic


class TrafficPair(Record, frozen=True, kw_only=True):
    """How many messages went one way. A message to several recipients counts for each of them."""

    sender: Annotated[str, Meta(description="An agent, a person or an org unit; empty for none.")] = msgspec.field(
        name="from"
    )
    to: Annotated[str, Meta(description="The same; `*` is everyone in a channel.")]
    delivered: int
    held: Annotated[int, Meta(description="Messages that were held, whatever became of them.")]
    denied: int
    last_at: Timestamp


class Traffic(Record, frozen=True, kw_only=True):
    """Who talked to whom in a period, the busiest pairs first.

    Every message counts, also one that its channel has evicted or that was deleted with it. These are counted by the
    hour in which they were sent: at the ends of the period, such an hour counts as a whole. Messages of the server
    itself do not count. `complete` is false when the period has more than one answer counts (then the counts begin at
    `since`, or pairs are left out), when you may see a part of such an hour only, and when channels evicted messages of
    the period before Parley counted them.
    """

    __module__ = "parley"

    by: str
    since: Timestamp
    until: Timestamp
    complete: bool
    evicted_channels: Annotated[
        int, Meta(description="Channels that evicted messages of the period before Parley counted them.")
    ]
    pairs: list[TrafficPair]


# ---------------------------------------------------------------- trials


class ExplanationStep(Record, frozen=True, kw_only=True):
    """One check of an explanation."""

    check: str
    value: str
    source: str
    found: str


class Explanation(Record, frozen=True, kw_only=True):
    """How the policies would treat a message, with all checks."""

    __module__ = "parley"

    verdict: str
    governed: bool
    code: str | None = None
    reason: str | None = None
    policy_version: str | None = None
    classification: str
    detected_keywords: list[str] = msgspec.field(name="detectedKeywords")
    steps: list[ExplanationStep]


class ReplayChange(Record, frozen=True, kw_only=True):
    """A message that would be treated differently."""

    entry_id: str
    at: Timestamp
    message_id: str
    exchange_id: str
    sender: str
    receiver: str
    was: str
    now: str
    reason: str


class Replay(Record, frozen=True, kw_only=True):
    """The result of a replay. `next` is the entry to continue after; None at the end of the log."""

    __module__ = "parley"

    messages: int
    with_content: int
    policy_version: str
    denied: int
    held: int
    released: int
    next: int | None = None
    changes: list[ReplayChange]
