"""The review loop as a state machine: what the messages of a conversation say about a review.

    unrequested ──request──> requested ──feedback──> feedback ──addressed──> addressed ──request(r+1)──> requested
                                 │                                               ├──feedback──> feedback (r+1)
                                 └──────────── lgtm ──> approved <── lgtm ───────┘

    a round past the limit, or `escalation` in feedback ──> escalated ──a person closes──> approved or rejected

Each reviewer has a position of its own, and the state of the review follows from all of them. Findings are kept by
reviewer until the author addresses them or their reviewer resolves them. ADR 0044 has the tables.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import Ambiguous, NotFound
from parley.domain.message.findings import (
    Finding,
    gate,
    is_reference,
    nit_text,
    open_blocking,
    read_findings,
    unread_reason,
)
from parley.domain.message.kinds import REVIEW_ROUNDS_MAX, Kind

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from parley.domain.message.message import Message, Value

DEFAULT_ROUNDS = 3
_NO_ESCALATION = frozenset({"", "false", "no", "none", "null"})


class ReviewState(StrEnum):
    """Where a review stands."""

    UNREQUESTED = "unrequested"
    REQUESTED = "requested"
    FEEDBACK = "feedback"
    ADDRESSED = "addressed"
    APPROVED = "approved"
    ESCALATED = "escalated"
    REJECTED = "rejected"


class ReviewerState(NamedTuple):
    """One reviewer of a review: requested, feedback, addressed or approved, and what its last review_lgtm said."""

    name: str
    state: ReviewState = ReviewState.REQUESTED
    quality_gate_result: str = ""
    merge_ready: bool | None = None
    round: int = 0


class ReviewClosure(NamedTuple):
    """How a person ended a review: approved or rejected."""

    outcome: ReviewState
    by: str
    reason: str
    at: str


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
    reviewers: tuple[ReviewerState, ...] = ()
    # pass or fail as the reviewers said; "" before any did.
    quality_gate_result: str = ""
    # Whether all reviewers cleared it for the merge; None before any said so.
    merge_ready: bool | None = None
    escalation: str = ""
    closure: ReviewClosure | None = None
    request_id: str = ""
    # The newest message of the loop, which the next one answers.
    last_id: str = ""
    # Why the change is not approved; empty when it is.
    reasons: tuple[str, ...] = ()

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.resolved)

    @property
    def approved(self) -> bool:
        """Whether the change may be merged: what `parley review gate` answers."""
        return self.state is ReviewState.APPROVED


Review.__module__ = "parley"


def follow_review(
    messages: Iterable[Message],
    packets: Mapping[str, Mapping[str, object] | str | None],
    closure: ReviewClosure | None = None,
    *,
    author: str = "",
    unverified: Container[str] = (),
) -> Review:
    """Where the review told by `messages` (oldest first) stands.

    `packets` are the findings files by path: their fields, why one cannot be read, or None for a missing one. `author`
    is who is known to have asked for this review; without one it is the sender of the first request. Senders choose
    the times of their messages, so being the first proves nothing. Messages with an id in `unverified` may be of
    somebody else than they say: they count for nothing.
    """
    loop = _Loop(packets, author)
    for message in messages:
        step = _STEPS.get(message.kind)
        if step is not None and message.id in unverified:
            loop.ignore(message, f"its file does not belong to the user of {message.sender}")
        elif step is not None:
            step(loop, message)
    return loop.review(closure)


def author_of(messages: Sequence[Message], ref: Message | None, me: str) -> str:
    """Who asked for the review that is meant, or "" where nobody did. `Ambiguous` where several did and none is named.

    A conversation may hold the reviews of several authors. A message belongs to that of the request which it goes back
    to. Where only the conversation is named, my own review is meant, in a mailbox that has asked for one.
    """
    requests = {message.sender: message.id for message in reversed(messages) if message.kind is Kind.REVIEW_REQUEST}
    if ref is not None and len(requests) > 1:
        by_id = {message.id: message for message in messages}
        for _ in messages:
            if ref.kind is Kind.REVIEW_REQUEST or ref.in_reply_to not in by_id:
                break
            ref = by_id[ref.in_reply_to]
        named = [name for name in (ref.sender, *ref.to) if name in requests]
        if named and (ref.sender in requests or len(named) == 1):
            return named[0]
    if me in requests:
        return me
    if len(requests) > 1:
        ids = ", ".join(f"{requests[name]} ({name})" for name in sorted(requests))
        raise Ambiguous(f"{len(requests)} agents ask for a review in this conversation", hint=f"name a request: {ids}")
    return next(iter(requests), "")


class _Reviewer:
    """The side of one reviewer while the messages are followed."""

    def __init__(self, name: str) -> None:
        self.position = ReviewerState(name)
        self.round = 0
        self.findings: list[Finding] = []
        # Why nothing is known of its findings, or not enough; empty when all is known.
        self.unread = ""
        # Whether its review_lgtm settles that: it alone knows what is behind a reference.
        self.lgtm_settles = False
        self.packets: dict[str, tuple[Finding, ...]] = {}

    def enter(self, state: ReviewState) -> None:
        self.position = self.position._replace(state=state)

    def take(self, findings: tuple[Finding, ...]) -> None:
        """Findings of a new packet replace those of the same id; all others are carried on as they are."""
        ids = {finding.id for finding in findings}
        self.findings = [*[finding for finding in self.findings if finding.id not in ids], *findings]

    def resolve(self, ids: set[str]) -> None:
        self.findings = [finding._replace(resolved=finding.resolved or finding.id in ids) for finding in self.findings]

    @property
    def declined(self) -> bool:
        """Whether its last word was a review_lgtm that is no approval."""
        position = self.position
        return position.quality_gate_result == "fail" and position.state is not ReviewState.APPROVED


class _Loop:
    def __init__(self, packets: Mapping[str, Mapping[str, object] | str | None], author: str) -> None:
        self._packets = packets
        self.first: Message | None = None
        self.author = self.known_author = author
        self.requested_yet = False
        self.reviewers: dict[str, _Reviewer] = {}
        self.allowed = DEFAULT_ROUNDS
        self.escalation = ""
        self.reviewed = False
        self.nits: tuple[str, ...] = ()
        self.remarks: list[str] = []
        self.last_id = ""

    def request(self, message: Message) -> None:
        if message.sender != self.author and (self.requested_yet or self.known_author):
            self.ignore(message, f"only the author, {self.author}, asks for reviews")
            return
        if not self.requested_yet:
            self._first_request(message)
        elif any(reviewer.position.state in _OPEN for reviewer in self.reviewers.values()):
            self._remark(message, "a new request while the last one was still open")
        self.last_id = message.id
        recipients = [self._reviewer(name) for name in message.to if name != self.author]
        if self.author in message.to:
            self._remark(message, f"{self.author} cannot review its own change")
        number = 1 + max((reviewer.round for reviewer in recipients), default=0)
        for reviewer in recipients:
            reviewer.position = ReviewerState(reviewer.position.name)
            self._enter_round(reviewer, number, message)

    def _first_request(self, message: Message) -> None:
        """Whoever spoke before it and is not asked is no reviewer."""
        self.first, self.author, self.requested_yet = message, message.sender, True
        self.reviewers = {name: reviewer for name, reviewer in self.reviewers.items() if name in message.to}
        turns = _whole(message, "max_turns_reviewer")
        self.allowed = min(turns, REVIEW_ROUNDS_MAX) if turns and turns > 0 else DEFAULT_ROUNDS
        if turns and turns > REVIEW_ROUNDS_MAX:
            self._remark(message, f"asks for {turns} rounds, {REVIEW_ROUNDS_MAX} are the most")

    def feedback(self, message: Message) -> None:
        reviewer = self._speaking_reviewer(message)
        if reviewer is None:
            return
        if reviewer.position.state is ReviewState.FEEDBACK:
            self._remark(message, "feedback was given twice in one round")
        if reviewer.position.state is ReviewState.ADDRESSED:
            self._enter_round(reviewer, reviewer.round + 1, message)
        number = _whole(message, "round")
        if number and number != reviewer.round:
            self._remark(message, f"says round {number}, but this is round {reviewer.round}")
        self._take_packet(reviewer, message)
        reviewer.position = ReviewerState(message.sender, ReviewState.FEEDBACK)
        escalation = " ".join(str(_field(message, "escalation") or "").split())
        if escalation.lower() not in _NO_ESCALATION:
            self._escalate(message, f"escalated by {message.sender} ({escalation})", escalation)

    def _take_packet(self, reviewer: _Reviewer, message: Message) -> None:
        path = str(_field(message, "findings_packet") or "")
        packet = self._packets.get(path)
        reviewer.unread = unread_reason(path, packet)
        reviewer.lgtm_settles = packet is None and is_reference(path)
        if reviewer.unread or packet is None or isinstance(packet, str):
            self._remark(message, reviewer.unread)
            return
        if path not in reviewer.packets:
            findings = read_findings(packet, [finding.id for finding in reviewer.findings]) or ()
            reviewer.packets[path] = tuple(
                finding._replace(reviewer=message.sender, round=reviewer.round) for finding in findings
            )
        findings = reviewer.packets[path]
        reviewer.take(findings)
        counted, blocking = _whole(message, "blocking_count"), len(open_blocking(findings))
        if counted is not None and blocking != counted:
            self._remark(message, f"says {counted} blocking, the packet has {blocking}")
            if counted > blocking:
                # The packet was changed, or it is not the one that was meant: its reviewer has to say.
                reviewer.unread = f"{message.sender} counted {counted} blocking, the packet has {blocking}"
                reviewer.lgtm_settles = True

    def addressed(self, message: Message) -> None:
        self._begin(message, author=message.sender)
        if message.sender != self.author:
            self.ignore(message, f"only the author, {self.author}, addresses findings")
            return
        self.last_id = message.id
        reviewers = [reviewer for name, reviewer in self.reviewers.items() if name in message.to]
        if not any(reviewer.position.state is ReviewState.FEEDBACK for reviewer in reviewers):
            self._remark(message, "there was no feedback to address")
        ids = _field(message, "addressed_finding_ids")
        addressed = {str(finding_id) for finding_id in ids} if isinstance(ids, list) else set()
        unknown = addressed - {finding.id for reviewer in reviewers for finding in reviewer.findings}
        if unknown and not any(reviewer.unread for reviewer in reviewers):
            self._remark(message, f"unknown findings {', '.join(sorted(unknown))}")
        for reviewer in reviewers:
            reviewer.resolve(addressed)
            if reviewer.position.state is not ReviewState.APPROVED:
                reviewer.enter(ReviewState.ADDRESSED)

    def lgtm(self, message: Message) -> None:
        reviewer = self._speaking_reviewer(message)
        if reviewer is None or not self.requested_yet:
            return
        nits = _field(message, "nits")
        self.nits = (*self.nits, *(map(nit_text, nits) if isinstance(nits, list) else ()))
        result = str(_field(message, "quality_gate_result") or "").strip().lower()
        ready = _field(message, "merge_ready")
        if result not in ("pass", "fail") or not isinstance(ready, bool):
            self._remark(message, "does not say quality_gate_result and merge_ready, so it is not an approval")
            return
        approves = result == "pass" and ready
        state = ReviewState.APPROVED if approves else ReviewState.FEEDBACK
        reviewer.position = ReviewerState(message.sender, state, result, ready)
        if approves and reviewer.lgtm_settles:
            reviewer.unread = ""
        if result == "fail" and ready:
            self._remark(message, "says that the gate fails and that it is ready to merge; it is not an approval")
        if result == "pass" and (reviewer.unread or not gate(reviewer.findings)):
            self._remark(message, "says that the gate passes, but findings are open")

    def _speaking_reviewer(self, message: Message) -> _Reviewer | None:
        """The reviewer who sent a message; None, with a remark, for one who was not asked."""
        self._begin(message, author=message.to[0] if message.to else "")
        if message.sender == self.author:
            self.ignore(message, f"{message.sender} is the author and does not review its own change")
            return None
        if self.requested_yet and message.sender not in self.reviewers:
            self.ignore(message, f"{message.sender} was not asked for a review")
            return None
        if self.requested_yet and message.to and self.author not in message.to:
            self.ignore(message, f"it is for {', '.join(message.to)}, not for the author, {self.author}")
            return None
        self.reviewed, self.last_id = True, message.id
        return self._reviewer(message.sender)

    def _begin(self, message: Message, author: str) -> None:
        """A conversation whose first message is no request: it is told as far as it goes, and nobody can approve."""
        if self.first is None:
            self._remark(message, "no review was requested before")
            self.first, self.author = message, self.known_author or author
        if not self.requested_yet:
            for name in (message.sender, *message.to):
                if name != self.author:
                    self._reviewer(name).round = max(1, self._reviewer(name).round)

    def _reviewer(self, name: str) -> _Reviewer:
        return self.reviewers.setdefault(name, _Reviewer(name))

    def _remark(self, message: Message, text: str) -> None:
        self.remarks.append(f"{message.id}: {text}")

    def ignore(self, message: Message, why: str) -> None:
        self._remark(message, f"ignored: {why}")

    def _enter_round(self, reviewer: _Reviewer, number: int, message: Message) -> None:
        reviewer.round = number
        if number > self.allowed:
            self._escalate(message, f"round {number} is past the {self.allowed} allowed", "max_rounds_exceeded")

    def _escalate(self, message: Message, why: str, escalation: str) -> None:
        if not self.escalation:
            self._remark(message, f"{why}; a human decides")
            self.escalation = escalation

    def _state(self, findings: tuple[Finding, ...]) -> ReviewState:
        if self.escalation:
            return ReviewState.ESCALATED
        states = [reviewer.position.state for reviewer in self.reviewers.values()]
        for state in (ReviewState.FEEDBACK, ReviewState.ADDRESSED):
            if state in states:
                return state
        if not self.requested_yet or not states:
            return ReviewState.UNREQUESTED
        if ReviewState.REQUESTED in states:
            return ReviewState.REQUESTED
        # All approved. A finding that nobody addressed, or an unread packet, stands in the way all the same.
        unread = any(reviewer.unread for reviewer in self.reviewers.values())
        return ReviewState.APPROVED if gate(findings) and not unread else ReviewState.FEEDBACK

    def _reasons(self, state: ReviewState, findings: tuple[Finding, ...]) -> list[str]:
        """Why the change is not approved."""
        reasons = []
        if state is ReviewState.ESCALATED:
            reasons.append(f"escalated ({self.escalation}): a human decides")
        blocking = [finding.id for finding in open_blocking(findings)]
        if blocking:
            reasons.append(f"{len(blocking)} blocking open: {', '.join(blocking)}")
        for name, reviewer in self.reviewers.items():
            position = reviewer.position
            if reviewer.unread:
                reasons.append(reviewer.unread)
            if position.state is ReviewState.APPROVED:
                continue
            if position.quality_gate_result == "fail":
                reasons.append(f"{name} says that the gate fails")
            elif position.merge_ready is False:
                reasons.append(f"{name} says that it is not ready to merge")
            else:
                reasons.append(f"{name} has not approved")
        return reasons or ["nobody was asked for a review"]

    def review(self, closure: ReviewClosure | None) -> Review:
        if self.first is None:
            raise NotFound("no review in this conversation")
        reviewers = tuple(reviewer.position._replace(round=reviewer.round) for reviewer in self.reviewers.values())
        findings = tuple(finding for reviewer in self.reviewers.values() for finding in reviewer.findings)
        state = closure.outcome if closure else self._state(findings)
        waiting, expected = self._next(state)
        fails = any(reviewer.unread or reviewer.declined for reviewer in self.reviewers.values())
        results = [position.quality_gate_result for position in reviewers]
        ready = [position.merge_ready for position in reviewers]
        return Review(
            conversation_id=self.first.conversation_id,
            state=state,
            round=max((reviewer.round for reviewer in self.reviewers.values()), default=1),
            rounds_allowed=self.allowed,
            author=self.author,
            reviewer=", ".join(self.reviewers),
            findings=findings,
            gate_passed=self.reviewed and gate(findings) and not fails,
            waiting_for=waiting,
            expected=expected,
            nits=tuple(dict.fromkeys((*self.nits, *_small(findings)))),
            remarks=tuple(self.remarks),
            reviewed=self.reviewed,
            reviewers=reviewers,
            quality_gate_result="fail" if "fail" in results else "pass" if "pass" in results else "",
            merge_ready=None if not any(word is not None for word in ready) else all(ready),
            escalation=self.escalation,
            closure=closure,
            request_id=self.first.id,
            last_id=self.last_id,
            reasons=() if state is ReviewState.APPROVED else tuple(self._reasons(state, findings)),
        )

    def _next(self, state: ReviewState) -> tuple[str, tuple[Kind, ...]]:
        """Who has to act, and with what."""
        if state is ReviewState.ESCALATED:
            return "a human", ()
        if state is ReviewState.FEEDBACK:
            return self.author, (Kind.REVIEW_ADDRESSED,)
        if state is ReviewState.UNREQUESTED:
            return self.author, (Kind.REVIEW_REQUEST,)
        if state in (ReviewState.REQUESTED, ReviewState.ADDRESSED):
            waiting = [name for name, reviewer in self.reviewers.items() if reviewer.position.state in _REVIEWERS_TURN]
            return ", ".join(waiting), (Kind.REVIEW_FEEDBACK, Kind.REVIEW_LGTM)
        return "", ()


_REVIEWERS_TURN = frozenset({ReviewState.REQUESTED, ReviewState.ADDRESSED})
_OPEN = frozenset({ReviewState.REQUESTED, ReviewState.FEEDBACK})
_STEPS = {
    Kind.REVIEW_REQUEST: _Loop.request,
    Kind.REVIEW_FEEDBACK: _Loop.feedback,
    Kind.REVIEW_ADDRESSED: _Loop.addressed,
    Kind.REVIEW_LGTM: _Loop.lgtm,
}


def _small(findings: Iterable[Finding]) -> list[str]:
    """Open P3 findings: they never block, so they end as nits."""
    return [finding.summary or finding.id for finding in findings if finding.severity == "P3" and not finding.resolved]


def _field(message: Message, name: str) -> Value:
    return message.body.get(name) if isinstance(message.body, dict) else None


def _whole(message: Message, name: str) -> int | None:
    value = _field(message, name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
