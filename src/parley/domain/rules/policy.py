"""Policy: what an organisation allows between agents, in four scopes of which each can only narrow the one above.

enterprise ──> org unit ──> team ──> user          meet: the stricter of two values, key by key
     every side of an exchange has its own; both have to allow it, so an exchange is under the meet of both
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from parley.domain.content.classification import Classification, ContentPattern, OnOver
from parley.domain.content.commitment import Match
from parley.domain.content.envelope import DISCLOSURE, Purpose
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.hashes import digest
from parley.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping


class Scope(StrEnum):
    """Whose policy it is, from the widest to the narrowest."""

    ENTERPRISE = "enterprise"
    ORG = "org"
    TEAM = "team"
    USER = "user"


class CrossOrg(StrEnum):
    """Whether agents of different org units may talk; the strictest first."""

    DENY = "deny"
    APPROVAL = "approval"
    ALLOW = "allow"


class Commitments(StrEnum):
    """What a commitment signal does; the strictest first."""

    ENFORCE = "enforce"
    REPORT = "report"


class AppliesTo(StrEnum):
    """Which messages are governed; the strictest first."""

    ALL = "all"
    CROSS_ORG = "cross_org"
    ANNOTATED = "annotated"


class MeetingApproval(StrEnum):
    """Whose people decide about a meeting; the strictest first."""

    BOTH = "both"
    RESPONDER = "responder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """What one policy document says; None where it says nothing."""

    enabled: bool | None = None
    exchange_types: tuple[Purpose, ...] | None = None
    max_rounds: int | None = None
    max_classification: Classification | None = None
    cross_org: CrossOrg | None = None
    commitments: Commitments | None = None
    commitment_words: tuple[str, ...] | None = None
    match: Match | None = None
    on_over_classified: OnOver | None = None
    applies_to: AppliesTo | None = None
    meeting_approval: MeetingApproval | None = None
    self_approval: bool | None = None
    approvers: tuple[str, ...] | None = None
    patterns: tuple[ContentPattern, ...] | None = None
    pair_budget: int | None = None
    hop_limit: int | None = None
    open_approvals: int | None = None
    exchange_hours: int | None = None
    approval_hours: int | None = None
    disclosure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What is in force for somebody, or for two together: every key has a value.

    The defaults are the limits of the product; an enterprise document narrows them.
    """

    # Of the snapshot that it comes from.
    version: str = ""
    enabled: bool = True
    exchange_types: tuple[Purpose, ...] = tuple(Purpose)
    max_rounds: int = 3
    max_classification: Classification = Classification.RESTRICTED
    cross_org: CrossOrg = CrossOrg.DENY
    commitments: Commitments = Commitments.ENFORCE
    commitment_words: tuple[str, ...] = ()
    match: Match = Match.WORD
    on_over_classified: OnOver = OnOver.BLOCK
    applies_to: AppliesTo = AppliesTo.CROSS_ORG
    meeting_approval: MeetingApproval = MeetingApproval.BOTH
    # Whether a person may approve what its own agent asks.
    self_approval: bool = True
    # People who may decide for others. While nobody was named, a narrower scope may name some; when it is closed, all
    # that were named have dropped out again, and none may.
    approvers: tuple[str, ...] = ()
    approvers_closed: bool = False
    patterns: tuple[ContentPattern, ...] = ()
    # Governed messages of two agents in an hour.
    pair_budget: int = 600
    hop_limit: int = 8
    open_approvals: int = 200
    exchange_hours: int = 24
    approval_hours: int = 24
    disclosure: str = DISCLOSURE


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySnapshot(Record):
    """Everything that is in force in a tenant, as one: it is swapped as a whole. Its id is `CURRENT`."""

    kind: ClassVar[str] = "policy"

    # Counts on with each change.
    number: int = 0
    # SHA-256 over the texts.
    digest: str = ""
    # By "scope/name".
    fragments: dict[str, Fragment] = field(default_factory=dict)
    # What was written, as it was written.
    texts: dict[str, str] = field(default_factory=dict)
    made_at: str = ""
    made_by: str = ""

    @property
    def label(self) -> str:
        """What stands in every record of a decision."""
        return f"{self.number}-{self.digest[:12]}"


CURRENT = "current"
# The enterprise's document of a fresh install.
DEFAULT_DOCUMENT = "enterprise/default"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRevision(Record):
    """A snapshot that was in force once, or still is; its id is its label."""

    kind: ClassVar[str] = "policy_revision"

    snapshot: PolicySnapshot


class Document(NamedTuple):
    """A policy document: what was written, and what it says."""

    text: str
    fragment: Fragment


_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@+-")
_LONGEST_NAME = 128
# The least that an enterprise can say: everything else is built in.
SHORTEST = Document("agent-to-agent:\n  enabled: true\n", Fragment(enabled=True))


def document_name(scope: str, name: str) -> str:
    """`scope/name` if a document may be called so."""
    if scope not in tuple(Scope):
        raise Invalid.because([Problem("invalid", "scope", f"must be {', '.join(Scope)}")])
    if not 1 <= len(name) <= _LONGEST_NAME or not _NAME_CHARACTERS.issuperset(name) or not name[0].isalnum():
        raise Invalid.because(
            [Problem("bad_name", "name", f"must be 1 to {_LONGEST_NAME} letters, digits or . _ @ + -")]
        )
    return f"{scope}/{name}"


def first_snapshot(tenant: str, document: Document) -> PolicySnapshot:
    """What is in force in a tenant in which nobody has changed anything."""
    return with_document(PolicySnapshot(id=CURRENT, tenant_id=tenant), DEFAULT_DOCUMENT, *document)


def with_document(snapshot: PolicySnapshot, name: str, text: str, fragment: Fragment) -> PolicySnapshot:
    """The next snapshot: with this document in place of the one that had its name."""
    return _next(snapshot, {**snapshot.fragments, name: fragment}, {**snapshot.texts, name: text})


def without_document(snapshot: PolicySnapshot, name: str) -> PolicySnapshot:
    """The next snapshot: without this document."""
    fragments = {one: fragment for one, fragment in snapshot.fragments.items() if one != name}
    return _next(snapshot, fragments, {one: text for one, text in snapshot.texts.items() if one != name})


def _next(snapshot: PolicySnapshot, fragments: dict[str, Fragment], texts: dict[str, str]) -> PolicySnapshot:
    written = json.dumps(texts, sort_keys=True).encode()
    number = snapshot.number + 1
    return replace(snapshot, number=number, digest=digest(written), fragments=fragments, texts=texts)


class PolicyEdit(NamedTuple):
    """A policy file that somebody changed or added, and that can be read."""

    # "scope/name"
    document: str
    text: str
    fragment: Fragment
    # The digest of the text that it was before; empty when that is not known.
    base: str = ""


class BrokenPolicy(NamedTuple):
    """A policy file that cannot be read, or lies where none belongs. `flaws` say where: file, line, key, detail."""

    file: str
    message: str
    flaws: tuple[Mapping[str, object], ...] = ()


class PolicyLook(NamedTuple):
    """What there is to know about a tenant's policy files at this moment."""

    edited: tuple[PolicyEdit, ...] = ()
    broken: tuple[BrokenPolicy, ...] = ()
    # Whether a file that was mirrored is no longer there.
    gone: bool = False
