"""`parley review close`: a person decides a review that agents could not finish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox import reviews
from parley.cli.command import Command, add_conversation, add_mailbox_options, kernel_of, screen_of
from parley.cli.exits import OK
from parley.cli.output import safe
from parley.cli.review.status import review_fields, review_name
from parley.domain.message.review import ReviewState
from parley.wiring import drive

if TYPE_CHECKING:
    import argparse


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_conversation(parser)
    parser.add_argument("--by", required=True, metavar="PERSON", help="the person who decides; not an agent")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why; one line")
    parser.add_argument(
        "--outcome",
        required=True,
        choices=[outcome.value for outcome in reviews.OUTCOMES],
        metavar="OUTCOME",
        help=f"one of {', '.join(reviews.OUTCOMES)}",
    )
    add_mailbox_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "The decision is recorded in the ledger of this mailbox and holds there: for\n"
        "`review status` and `review gate`, whatever agents say afterwards."
    )


def _close(args: argparse.Namespace) -> int:
    outcome = ReviewState(args.outcome)
    review = drive(reviews.close(kernel_of(args), args.conversation, outcome, args.by, args.reason))
    screen = screen_of(args)
    if args.json:
        screen.json(review_fields(review))
    else:
        screen.prose(f"Closed {review_name(review)}: {review.state} by {safe(args.by)}.")
    return OK


COMMANDS = {
    "review close": Command(
        "Close a review as a person: approved or rejected",
        _add_arguments,
        _close,
        ("parley review close r1r1 --by ann --outcome approved --reason 'read the diff myself'",),
    ),
}
