"""`parley review gate`: whether a change is approved, as an exit code for CI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox import reviews
from parley.cli.command import Command, add_conversation, add_mailbox_options, kernel_of, screen_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import safe
from parley.cli.review.status import review_name
from parley.wiring import drive

if TYPE_CHECKING:
    import argparse

    from parley.domain.message.review import Review


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)
    add_mailbox_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "Exit code 0: approved by every reviewer that was asked, with no blocking finding\n"
        "open, or approved by a person. Exit code 1: not approved; the line says why.\n"
        "Exit code 2: wrong usage. Exit code 3: no such review."
    )


def _gate(args: argparse.Namespace) -> int:
    review = drive(reviews.get(kernel_of(args), args.conversation))
    screen = screen_of(args)
    if args.json:
        fields = ("conversation_id", "state", "approved", "gate_passed", "quality_gate_result", "merge_ready")
        screen.json({**{name: getattr(review, name) for name in fields}, "reasons": list(review.reasons)})
    else:
        screen.prose(f"{review_name(review)}: {_verdict(review)}")
    return OK if review.approved else FOUND_PROBLEMS


def _verdict(review: Review) -> str:
    if review.closure:
        return f"{review.state} by {safe(review.closure.by)}: {safe(review.closure.reason)}"
    if review.approved:
        return f"approved by {', '.join(safe(reviewer.name) for reviewer in review.reviewers)}"
    return f"not approved: {'; '.join(map(safe, review.reasons))}"


COMMANDS = {
    "review gate": Command(
        "Check whether a change is approved, for CI",
        _add_arguments,
        _gate,
        ("parley review gate conv-20260313-claude-001 --agent claude && gh pr merge 55",),
    ),
}
