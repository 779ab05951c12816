"""The review loop as a state machine.

    requested ──feedback──> feedback ──addressed──> addressed ──request(r+1)──> requested
        │                                               ├──feedback──> feedback (r+1)
        └──────────── lgtm ──> approved <── lgtm ───────┘
                                        any further round past the limit ──> escalated

P0 and P1 findings block, P2 by the reviewer's judgment, P3 never. The gate passes when no P0 and no blocking finding
is open.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import Invalid
from parley.domain.message.message import Kind, Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT_ROUNDS = 2
MOST_ROUNDS = 3
_RESOLVED = frozenset({"fixed", "wont_fix", "resolved", "closed"})


class ReviewState(StrEnum):
    """Where a review stands."""

    REQUESTED = "requested"
    FEEDBACK = "feedback"
    ADDRESSED = "addressed"
    APPROVED = "approved"
    ESCALATED = "escalated"


class Finding(NamedTuple):
    """One finding of a packet."""

    id: str
    severity: str
    blocking: bool
    resolved: bool
    summary: str


class Review(NamedTuple):
    """A review as its messages tell it."""

    conversation_id: str
    state: ReviewState
    round: int
    rounds_allowed: int
    author: str
    reviewer: str
    findings: tuple[Finding, ...]
    gate_passed: bool
    waiting_for: str
    expected: tuple[Kind, ...]
    nits: tuple[str, ...]
    remarks: tuple[str, ...]
    # Whether a reviewer has spoken at all; before that the gate is neither passed nor failed.
    reviewed: bool = True

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.resolved)


def blocks(severity: str, blocking: bool) -> bool:
    """Whether an open finding stands in the way of a merge."""
    return severity in ("P0", "P1") or (severity != "P3" and blocking)


def read_findings(packet: Mapping[str, object] | None) -> tuple[Finding, ...] | None:
    """The findings of a packet; None when it is missing or has no list of findings, which never passes."""
    listed = packet.get("findings") if packet is not None else None
    if not isinstance(listed, list):
        return None
    findings = []
    for number, item in enumerate(listed, 1):
        fields = item if isinstance(item, dict) else {"summary": str(item)}
        severity = str(fields.get("severity") or "P2").upper()
        findings.append(
            Finding(
                id=str(fields.get("id") or f"finding-{number:03d}"),
                severity=severity,
                blocking=blocks(severity, str(fields.get("blocking") or "").lower() in ("true", "yes")),
                resolved=str(fields.get("status") or "open").lower() in _RESOLVED,
                summary=str(fields.get("summary") or fields.get("description") or ""),
            )
        )
    return tuple(findings)


def gate(findings: tuple[Finding, ...] | None) -> bool:
    """Whether the quality gate passes."""
    return findings is not None and not any(
        not finding.resolved and (finding.severity == "P0" or finding.blocking) for finding in findings
    )


def follow_review(messages: Iterable[Message], packets: Mapping[str, Mapping[str, object] | None]) -> Review:
    """Where the review told by `messages` (oldest first) stands; `packets` are the findings files by path."""
    loop = _Loop(packets)
    for message in messages:
        step = _STEPS.get(message.kind)
        if step is not None:
            step(loop, message)
    return loop.review()


class _Loop:
    def __init__(self, packets: Mapping[str, Mapping[str, object] | None]) -> None:
        self._packets = packets
        self.request: Message | None = None
        self.state: ReviewState | None = None
        self.round = 0
        self.allowed = DEFAULT_ROUNDS
        self.findings: tuple[Finding, ...] | None = ()
        self.reviewed = False
        self.nits: tuple[str, ...] = ()
        self.remarks: list[str] = []

    def requested(self, message: Message) -> None:
        if self.state in (ReviewState.REQUESTED, ReviewState.FEEDBACK):
            self.remarks.append(f"{message.id}: a new request while the last one was still open")
        self._enter_round(self.round + 1, message)
        if self.request is None:
            self.request = message
            turns = _whole(message, "max_turns_reviewer")
            self.allowed = min(turns, MOST_ROUNDS) if turns else DEFAULT_ROUNDS
        self._go(ReviewState.REQUESTED)

    def feedback(self, message: Message) -> None:
        self._started(message)
        self.reviewed = True
        if self.state is ReviewState.FEEDBACK:
            self.remarks.append(f"{message.id}: feedback was given twice in one round")
        if self.state is ReviewState.ADDRESSED:
            self._enter_round(self.round + 1, message)
        number = _whole(message, "round")
        if number and number != self.round:
            self.remarks.append(f"{message.id}: says round {number}, but this is round {self.round}")
        path = str(_field(message, "findings_packet") or "")
        self.findings = read_findings(self._packets.get(path))
        if self.findings is None:
            self.remarks.append(f"{message.id}: the findings packet {path!r} has no list of findings")
        elif (counted := _whole(message, "blocking_count")) is not None:
            blocking = sum(1 for finding in self.findings if finding.blocking and not finding.resolved)
            if blocking != counted:
                self.remarks.append(f"{message.id}: says {counted} blocking, the packet has {blocking}")
        self._go(ReviewState.FEEDBACK)

    def addressed(self, message: Message) -> None:
        self._started(message)
        if self.state is not ReviewState.FEEDBACK:
            self.remarks.append(f"{message.id}: there was no feedback to address")
        ids = _field(message, "addressed_finding_ids")
        resolved = {str(finding_id) for finding_id in ids} if isinstance(ids, list) else set()
        known_ids = {finding.id for finding in self.findings or ()}
        if self.findings and resolved - known_ids:
            self.remarks.append(f"{message.id}: unknown findings {', '.join(sorted(resolved - known_ids))}")
        if self.findings is not None:
            self.findings = tuple(
                finding._replace(resolved=finding.resolved or finding.id in resolved) for finding in self.findings
            )
        self._go(ReviewState.ADDRESSED)

    def approved(self, message: Message) -> None:
        self._started(message)
        self.reviewed = True
        nits = _field(message, "nits")
        self.nits = tuple(str(nit) for nit in nits) if isinstance(nits, list) else ()
        if _field(message, "quality_gate_result") == "pass" and not gate(self.findings):
            self.remarks.append(f"{message.id}: says that the gate passes, but findings are open")
        self.state = ReviewState.APPROVED

    def _started(self, message: Message) -> None:
        if self.request is None:
            self.remarks.append(f"{message.id}: no review was requested before")
            self.request = message
            self.round = 1

    def _enter_round(self, number: int, message: Message) -> None:
        self.round = number
        if number > self.allowed and self.state is not ReviewState.ESCALATED:
            self.remarks.append(f"{message.id}: round {number} is past the {self.allowed} allowed; a human decides")
            self.state = ReviewState.ESCALATED

    def _go(self, state: ReviewState) -> None:
        if self.state is not ReviewState.ESCALATED:
            self.state = state

    def review(self) -> Review:
        if self.request is None or self.state is None:
            raise Invalid("no review in this conversation")
        is_request = self.request.kind is Kind.REVIEW_REQUEST
        others = ", ".join(self.request.to)
        author = self.request.sender if is_request else others
        reviewer = others if is_request else self.request.sender
        waiting, expected = _NEXT[self.state]
        return Review(
            conversation_id=self.request.conversation_id,
            state=self.state,
            round=self.round,
            rounds_allowed=self.allowed,
            author=author,
            reviewer=reviewer,
            findings=self.findings or (),
            gate_passed=self.reviewed and gate(self.findings),
            waiting_for={"author": author, "reviewer": reviewer}.get(waiting, waiting),
            expected=expected,
            nits=(*self.nits, *(nit for nit in self._small_findings() if nit not in self.nits)),
            remarks=tuple(self.remarks),
            reviewed=self.reviewed,
        )

    def _small_findings(self) -> list[str]:
        """Open P3 findings: they never block, so they end as nits."""
        return [
            finding.summary or finding.id
            for finding in self.findings or ()
            if finding.severity == "P3" and not finding.resolved
        ]


_STEPS = {
    Kind.REVIEW_REQUEST: _Loop.requested,
    Kind.REVIEW_FEEDBACK: _Loop.feedback,
    Kind.REVIEW_ADDRESSED: _Loop.addressed,
    Kind.REVIEW_LGTM: _Loop.approved,
}
_NEXT: dict[ReviewState, tuple[str, tuple[Kind, ...]]] = {
    ReviewState.REQUESTED: ("reviewer", (Kind.REVIEW_FEEDBACK, Kind.REVIEW_LGTM)),
    ReviewState.FEEDBACK: ("author", (Kind.REVIEW_ADDRESSED,)),
    ReviewState.ADDRESSED: ("reviewer", (Kind.REVIEW_FEEDBACK, Kind.REVIEW_LGTM)),
    ReviewState.APPROVED: ("", ()),
    ReviewState.ESCALATED: ("a human", ()),
}


def _field(message: Message, name: str) -> object:
    return message.body.get(name) if isinstance(message.body, dict) else None


def _whole(message: Message, name: str) -> int | None:
    value = _field(message, name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
