"""Policies: what an organisation allows between agents, in four scopes. Each scope can only narrow the one above.

enterprise ──> org unit ──> team ──> user          meet: the stricter of two values, key by key
     each side of an exchange has its own policy; the meet of both is in force
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, fields, make_dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from parley.domain.content.classification import Classification, ContentPattern, OnOver
from parley.domain.content.commitment import Match
from parley.domain.content.disclosure import DISCLOSURE
from parley.domain.content.envelope import Purpose
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


class Meet(StrEnum):
    """How two values of a key become one."""

    ALL_ALLOW = "allowed when all allow it"
    LOWEST = "the lowest"
    STRICTEST = "the strictest"
    COMMON = "what all have"
    ADDED = "all together"
    ENTERPRISE = "the enterprise's"


class ItemType(StrEnum):
    """What a list holds."""

    PURPOSE = "purpose"
    WORD = "word"
    PERSON = "person"
    PATTERN = "pattern"


class PolicyKey(NamedTuple):
    """A key of a policy: its default (whose type says what a value is), how two values meet, and its bounds."""

    default: Any
    meet: Meet
    # Of a number.
    least: int
    most: int
    # Of a list.
    items: ItemType | None


def _key(meet: Meet, least: int = 0, most: int = 0, items: ItemType | None = None) -> dict[str, Any]:
    return {"meet": meet, "least": least, "most": most, "items": items}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The policy in force for one agent, or for two together: every key has a value.

    The defaults are the limits of the product; an enterprise document narrows them. What each key means is said in
    `policies/enterprise.yaml`, from which the reference is made.
    """

    # Of the snapshot that it comes from.
    version: str = ""
    # Whether people were named as approvers and none of them is left, so that nobody may decide for others.
    approvers_closed: bool = False
    enabled: bool = field(default=True, metadata=_key(Meet.ALL_ALLOW))
    exchange_types: tuple[Purpose, ...] = field(
        default=tuple(Purpose), metadata=_key(Meet.COMMON, items=ItemType.PURPOSE)
    )
    max_rounds: int = field(default=3, metadata=_key(Meet.LOWEST, 1, 1_000))
    max_classification: Classification = field(default=Classification.RESTRICTED, metadata=_key(Meet.LOWEST))
    cross_org: CrossOrg = field(default=CrossOrg.DENY, metadata=_key(Meet.STRICTEST))
    commitments: Commitments = field(default=Commitments.ENFORCE, metadata=_key(Meet.STRICTEST))
    commitment_words: tuple[str, ...] = field(default=(), metadata=_key(Meet.ADDED, items=ItemType.WORD))
    match: Match = field(default=Match.WORD, metadata=_key(Meet.STRICTEST))
    on_over_classified: OnOver = field(default=OnOver.BLOCK, metadata=_key(Meet.STRICTEST))
    applies_to: AppliesTo = field(default=AppliesTo.CROSS_ORG, metadata=_key(Meet.STRICTEST))
    meeting_approval: MeetingApproval = field(default=MeetingApproval.BOTH, metadata=_key(Meet.STRICTEST))
    self_approval: bool = field(default=True, metadata=_key(Meet.ALL_ALLOW))
    approvers: tuple[str, ...] = field(default=(), metadata=_key(Meet.COMMON, items=ItemType.PERSON))
    patterns: tuple[ContentPattern, ...] = field(default=(), metadata=_key(Meet.ADDED, items=ItemType.PATTERN))
    pair_budget: int = field(default=600, metadata=_key(Meet.LOWEST, 1, 1_000_000))
    hop_limit: int = field(default=8, metadata=_key(Meet.LOWEST, 1, 1_000))
    open_approvals: int = field(default=200, metadata=_key(Meet.LOWEST, 1, 1_000_000))
    # At most as long as anything may be valid.
    exchange_hours: int = field(default=24, metadata=_key(Meet.LOWEST, 1, 720))
    approval_hours: int = field(default=24, metadata=_key(Meet.LOWEST, 1, 720))
    disclosure: str = field(default=DISCLOSURE, metadata=_key(Meet.ENTERPRISE))


KEYS = {each.name: PolicyKey(each.default, **each.metadata) for each in fields(Policy) if each.metadata}

if TYPE_CHECKING:

    class Fragment:
        """The keys that one policy document sets; the others are None."""

        def __init__(self, **keys: Any) -> None: ...  # noqa: ANN401  # of whatever the key holds

        def __getattr__(self, key: str) -> Any: ...  # noqa: ANN401

else:
    Fragment = make_dataclass(
        "Fragment",
        [(each.name, f"{each.type} | None", None) for each in fields(Policy) if each.metadata],
        namespace={"__module__": __name__, "__doc__": "The keys that one policy document sets; the others are None."},
        frozen=True,
        slots=True,
        kw_only=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySnapshot(Record):
    """All policy documents of a tenant, replaced as a whole. Its id is `CURRENT`."""

    kind: ClassVar[str] = "policy"

    # Counts on with each change.
    number: int = 0
    # SHA-256 over the texts.
    digest: str = ""
    # By "scope/name".
    fragments: dict[str, Fragment] = field(default_factory=dict)
    # The texts of the documents, unchanged.
    texts: dict[str, str] = field(default_factory=dict)
    made_at: str = ""
    made_by: str = ""

    @property
    def label(self) -> str:
        """The version that every record of a decision names."""
        return f"{self.number}-{self.digest[:12]}"


_LABEL = re.compile(r"[0-9]+-[0-9a-f]{12}", re.ASCII)


def is_label(text: str) -> bool:
    """Whether this is the label of a version, and no time or name."""
    return _LABEL.fullmatch(text) is not None


CURRENT = "current"
# The enterprise's document of a fresh install.
DEFAULT_DOCUMENT = "enterprise/default"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRevision(Record):
    """A snapshot that was in force once, or still is; its id is its label."""

    kind: ClassVar[str] = "policy_revision"

    snapshot: PolicySnapshot


class Document(NamedTuple):
    """A policy document: its text, and the keys that it sets."""

    text: str
    fragment: Fragment


_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@+-")
_LONGEST_NAME = 128
# The shortest enterprise document: every other key has its default.
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
    """The snapshot of a tenant whose policies were never changed."""
    return with_document(PolicySnapshot(id=CURRENT, tenant_id=tenant), DEFAULT_DOCUMENT, *document)


def with_document(snapshot: PolicySnapshot, name: str, text: str, fragment: Fragment) -> PolicySnapshot:
    """The next snapshot: with this document in place of the one that had its name."""
    return _next(snapshot, {**snapshot.fragments, name: fragment}, {**snapshot.texts, name: text})


def without_document(snapshot: PolicySnapshot, name: str) -> PolicySnapshot:
    """The next snapshot: without this document."""
    fragments = {document: fragment for document, fragment in snapshot.fragments.items() if document != name}
    return _next(snapshot, fragments, {document: text for document, text in snapshot.texts.items() if document != name})


def _next(snapshot: PolicySnapshot, fragments: dict[str, Fragment], texts: dict[str, str]) -> PolicySnapshot:
    written = json.dumps(texts, sort_keys=True).encode()
    number = snapshot.number + 1
    return replace(snapshot, number=number, digest=digest(written), fragments=fragments, texts=texts)


class PolicyEdit(NamedTuple):
    """A policy file that was changed or added, and can be read."""

    # "scope/name"
    document: str
    text: str
    fragment: Fragment
    # The digest of the text that it was before; empty when that is not known.
    base: str = ""


class BrokenPolicy(NamedTuple):
    """A policy file that cannot be read, or is in the wrong place. `flaws` say where: file, line, key, detail."""

    file: str
    message: str
    flaws: tuple[Mapping[str, object], ...] = ()


class PolicyLook(NamedTuple):
    """The state of a tenant's policy files."""

    edited: tuple[PolicyEdit, ...] = ()
    broken: tuple[BrokenPolicy, ...] = ()
    # Whether a mirrored file was deleted.
    gone: bool = False
