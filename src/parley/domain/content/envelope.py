"""What every governed message carries: who speaks for whom, how secret it is, in which exchange, and who may answer."""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from enum import StrEnum
from typing import NamedTuple

from parley.domain.content.classification import DEFAULT_LEVEL, Classification, DataItem, highest
from parley.domain.errors.rules import EnvelopeInvalid

VERSION = "1.0"
# The person an agent acts for when the directory names none.
NOBODY = "unassigned"


class Origin(StrEnum):
    """Who wrote it: a program, a program with a person's approval, or a person."""

    AGENT = "agent-generated"
    ASSISTED = "agent-assisted"
    HUMAN = "human"


class Purpose(StrEnum):
    """What an exchange is for."""

    INFORMATION_QUERY = "information_query"
    COMMITMENT_REQUEST = "commitment_request"
    MEETING_SCHEDULING = "meeting_scheduling"


class ReplyPolicy(StrEnum):
    """Who may answer."""

    AGENT_OK = "agent-ok"
    HUMAN_ONLY = "human-only"
    NO_REPLY = "no-reply-needed"


class Semantics(NamedTuple):
    """What follows from a purpose."""

    reply_policy: ReplyPolicy
    requires_commitment: bool


SEMANTICS: dict[Purpose, Semantics] = {
    Purpose.INFORMATION_QUERY: Semantics(ReplyPolicy.AGENT_OK, requires_commitment=False),
    Purpose.COMMITMENT_REQUEST: Semantics(ReplyPolicy.AGENT_OK, requires_commitment=True),
    Purpose.MEETING_SCHEDULING: Semantics(ReplyPolicy.HUMAN_ONLY, requires_commitment=True),
}


def purpose_of(reply_policy: ReplyPolicy, *, requires_commitment: bool) -> Purpose:
    """The purpose that an envelope means; it has no field of its own for it."""
    if not requires_commitment:
        return Purpose.INFORMATION_QUERY
    return Purpose.MEETING_SCHEDULING if reply_policy is ReplyPolicy.HUMAN_ONLY else Purpose.COMMITMENT_REQUEST


class Source(NamedTuple):
    """Who sends, as the credential says."""

    instance_id: str
    user_id: str
    org_unit: str
    tenant_id: str


class Envelope(NamedTuple):
    """The fields of the specification, all of them and no others."""

    message_type: Origin
    source_agent: Source
    classification: Classification
    conversation_id: str
    exchange_round: int
    max_rounds: int
    can_commit: bool
    can_share: tuple[Classification, ...]
    reply_policy: ReplyPolicy
    requires_commitment: bool
    # As it was written: RFC 3339.
    expires_at: str
    version: str = VERSION


class Ext(NamedTuple):
    """What travels beside the envelope, so that the envelope stays exact."""

    exchange_id: str
    purpose: Purpose
    hops: int
    policy: str
    approval_id: str = ""
    approved_by: str = ""
    # Of that person, over this message: where there is no server that knows whose key it was.
    signature: str = ""
    # For a receiver with a ledger of its own: the data in the message, what was left out, and how the exchange ended.
    shared: tuple[DataItem, ...] = ()
    withheld: tuple[DataItem, ...] = ()
    outcome: str = ""


class Carried(NamedTuple):
    """What a message that was sent carries because of the rules."""

    envelope: Envelope
    ext: Ext | None
    # The label that stands beside the envelope, as its sender wrote it.
    label: str = ""


class Wishes(NamedTuple):
    """What a sender asks for beside the body: single fields, or a whole envelope. None is left to the rules."""

    purpose: Purpose | None = None
    classification: Classification | None = None
    conversation_id: str = ""
    max_rounds: int | None = None
    # A stamp.
    expires_at: str = ""
    data: tuple[DataItem, ...] = ()
    envelope: Envelope | None = None
    # What it goes back to where that is no reply: the message that led to this one.
    parent_message_id: str = ""
    # Why it cannot be read: a refusal, if the message turns out to be governed.
    problem: EnvelopeInvalid | None = None
    # Whether what cannot be read put the message under the rules.
    meant: bool = False

    @property
    def declared(self) -> Classification:
        """The level that the sender declares; declared twice, the higher one counts."""
        if self.envelope is None:
            return self.classification or DEFAULT_LEVEL
        claimed = self.envelope.classification
        return claimed if self.classification is None else highest(claimed, self.classification)

    @property
    def named_conversation(self) -> str:
        """The conversation that the sender names, or nothing."""
        return self.conversation_id or (self.envelope.conversation_id if self.envelope else "")

    @property
    def annotated(self) -> bool:
        """Whether the sender itself put this message under the rules."""
        return (
            self.meant
            or self.envelope is not None
            or self.purpose is not None
            or self.classification is not None
            or self.max_rounds is not None
            or self.data != ()
        )


def disclosure_of(origin: Origin, label: str) -> str:
    """The label that a message of this origin carries; a person's has none."""
    return "" if origin is Origin.HUMAN else label
