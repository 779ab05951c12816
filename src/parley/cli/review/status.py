"""`parley review status`: show the state of a code review."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox import reviews
from parley.cli.command import Command, add_conversation, add_mailbox_options, kernel_of, screen_of
from parley.cli.exits import OK
from parley.cli.output import Screen, safe
from parley.cli.table import ALWAYS, Column, show_rows, text_column
from parley.domain.message.review import ReviewState
from parley.wiring import drive

if TYPE_CHECKING:
    import argparse

    from parley.domain.message.review import Review, ReviewerState

_COLOURS = {ReviewState.APPROVED: "green", ReviewState.ESCALATED: "red", ReviewState.REJECTED: "red"}


def review_name(review: Review) -> str:
    """Return the name of a review for people: some tools leave the conversation out."""
    return safe(review.conversation_id or review.request_id)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)
    add_mailbox_options(parser)


def _status(args: argparse.Namespace) -> int:
    review = drive(reviews.get(kernel_of(args), args.conversation))
    screen = screen_of(args)
    if args.json:
        screen.json(review_fields(review))
    else:
        show_review(screen, review)
    return OK


def review_fields(review: Review) -> dict[str, object]:
    """Return a review as a mapping."""
    fields = review._asdict()
    fields["findings"] = [finding._asdict() for finding in review.findings]
    fields["open_findings"] = [finding.id for finding in review.open_findings]
    fields["reviewers"] = [reviewer._asdict() for reviewer in review.reviewers]
    fields["closure"] = review.closure._asdict() if review.closure else None
    fields["approved"] = review.approved
    return fields


def show_review(screen: Screen, review: Review) -> None:
    """Print a review: state, rounds, gate, reviewers, findings, and what is expected from whom."""
    screen.prose(f"{review_name(review)}: {screen.paint(review.state.value, _COLOURS.get(review.state, 'yellow'))}")
    screen.prose(f"{_rounds(review)}, {safe(review.author)} asks, {_reviewers(review)}")
    judged = ("passes", "green") if review.gate_passed else ("fails", "red")
    gate, colour = judged if review.reviewed else ("pending", "")
    screen.prose(f"quality gate: {screen.paint(gate, colour)}")
    for reviewer in review.reviewers:
        if len(review.reviewers) > 1 or reviewer.quality_gate_result:
            screen.prose(f"{safe(reviewer.name)}: {_position(reviewer)}")
    if review.findings:
        _show_findings(screen, review)
    if review.nits:
        screen.prose("nits: " + "; ".join(safe(nit) for nit in review.nits))
    if review.closure:
        screen.prose(f"closed by {safe(review.closure.by)}: {safe(review.closure.reason)}")
    elif review.expected:
        screen.prose(f"expected: {' or '.join(review.expected)} from {safe(review.waiting_for)}")
    elif review.waiting_for:
        screen.prose(f"expected: a decision from {review.waiting_for} (parley review close)")
    for remark in review.remarks:
        screen.prose(f"note: {safe(remark)}", "yellow")


def _rounds(review: Review) -> str:
    if review.round > review.rounds_allowed:
        return f"past round {review.rounds_allowed} of {review.rounds_allowed}"
    return f"round {review.round} of {review.rounds_allowed}"


def _reviewers(review: Review) -> str:
    *others, last = [safe(reviewer.name) for reviewer in review.reviewers] or ["nobody"]
    return f"{', '.join(others)} and {last} review" if others else f"{last} reviews"


def _position(reviewer: ReviewerState) -> str:
    words = [reviewer.state.value]
    if reviewer.quality_gate_result:
        words.append(f"gate {reviewer.quality_gate_result}")
        words.append("ready to merge" if reviewer.merge_ready else "not ready to merge")
    return ", ".join(words)


def _show_findings(screen: Screen, review: Review) -> None:
    several = len(review.reviewers) > 1
    columns = (
        Column("FINDING", lambda finding: finding.id, ALWAYS),
        Column("SEVERITY", lambda finding: finding.severity, 5),
        Column("BLOCKS", lambda finding: "blocks" if finding.blocking else "", 7),
        Column("STATE", lambda finding: "resolved" if finding.resolved else "open", 8),
        *((Column("REVIEWER", lambda finding: finding.reviewer, 6),) if several else ()),
        text_column("SUMMARY", lambda finding: finding.summary),
    )
    show_rows(screen, columns, review.findings)


COMMANDS = {
    "review status": Command(
        "Show the state, findings and next step of a code review",
        _add_arguments,
        _status,
        ("parley review status conv-20260313-claude-001",),
    ),
}
