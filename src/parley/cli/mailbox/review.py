"""`parley review status`: show the state of a code review."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox import find
from parley.cli.command import Command, add_mailbox_options, kernel_of, screen_of
from parley.cli.exits import OK
from parley.cli.output import Screen, safe
from parley.wiring import drive

if TYPE_CHECKING:
    import argparse

    from parley.domain.message.review import Review


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conversation", help="the conversation id, or any message in it")
    add_mailbox_options(parser)


def _status(args: argparse.Namespace) -> int:
    review = drive(find.review(kernel_of(args), args.conversation))
    screen = screen_of(args)
    if args.json:
        fields = review._asdict()
        fields["findings"] = [finding._asdict() for finding in review.findings]
        fields["open_findings"] = [finding.id for finding in review.open_findings]
        screen.json(fields)
    else:
        _show(screen, review)
    return OK


def _show(screen: Screen, review: Review) -> None:
    colour = {"approved": "green", "escalated": "red"}.get(review.state.value, "yellow")
    screen.line(f"{safe(review.conversation_id)}: {screen.paint(review.state.value, colour)}")
    screen.line(f"round {review.round} of {review.rounds_allowed}, {review.author} asks, {review.reviewer} reviews")
    judged = ("passes", "green") if review.gate_passed else ("fails", "red")
    gate, colour = judged if review.reviewed else ("pending", "")
    screen.line(f"quality gate: {screen.paint(gate, colour)}")
    if review.findings:
        rows = [
            (
                safe(finding.id),
                safe(finding.severity),
                "blocks" if finding.blocking else "",
                "resolved" if finding.resolved else "open",
                safe(finding.summary),
            )
            for finding in review.findings
        ]
        screen.table(("FINDING", "SEVERITY", "BLOCKS", "STATE", "SUMMARY"), rows)
    if review.nits:
        screen.line("nits: " + "; ".join(safe(nit) for nit in review.nits))
    if review.expected:
        screen.line(f"expected: {' or '.join(review.expected)} from {review.waiting_for}")
    elif review.waiting_for:
        screen.line(f"expected: a decision from {review.waiting_for}")
    for remark in review.remarks:
        screen.line(screen.paint(f"note: {safe(remark)}", "yellow"))


COMMANDS = {
    "review status": Command(
        "Show the state, findings and next step of a code review",
        _add_arguments,
        _status,
        ("parley review status conv-20260313-claude-001",),
    ),
}
