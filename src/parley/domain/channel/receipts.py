"""How far a message of a server has come at one recipient, from what the store holds anyway.

| step | proved by |
|---|---|
| queued | the message is committed |
| acknowledged | the recipient marked it as read, showed the lease that came with it, or saved a bookmark behind it |
| acted | the recipient answered it, handed it on, or finished it under its lease |

What a server wrote to a connection proves nothing: the other end may be gone. So neither an open stream nor a claim
counts. A coding agent's hook looks at mailboxes only, so nothing here is offered or injected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.channel.bookmark import has_passed
from parley.domain.channel.job import JobState, failure_of
from parley.domain.receipts import DeliveryReceipt, ReceiptState, ReceiptStep, state_after
from parley.domain.times import from_stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley.domain.channel.bookmark import Bookmark
    from parley.domain.channel.job import Job
    from parley.domain.channel.post import Post
    from parley.domain.channel.request import Forwarding

NO_HOLDER = "nobody holds the role yet"
WITHDRAWN = "withdrawn"


class DeliveryFacts(NamedTuple):
    """What a server holds about one message and one recipient."""

    recipient: str
    # When the recipient marked it as read, and when it finished it under its lease.
    read_at: str = ""
    done_at: str = ""
    job: Job | None = None
    # Those of its bookmarks that may prove something: it could see the message when it saved them.
    bookmarks: tuple[Bookmark, ...] = ()
    answers: tuple[Post, ...] = ()
    forwarding: Forwarding | None = None
    note: str = ""


def receipt_of(post: Post, facts: DeliveryFacts, now: str, withdrawn_at: str = "") -> DeliveryReceipt:
    """How far a message has come at a recipient at this moment."""
    acted = _acts(facts)
    steps = [*_acknowledgements(post, facts), *_of_job(facts.job)]
    if acted:
        # What the recipient did afterwards takes nothing back.
        steps = [step for step in steps if step.state is ReceiptState.ACKNOWLEDGED and step.at <= acted[0].at]
    steps = [*sorted(steps, key=lambda step: step.at), *acted]
    state, note = state_after(steps, from_stamp(now)), facts.note
    if state is ReceiptState.QUEUED and (withdrawn_at or post.over(now)):
        state, note = ReceiptState.EXPIRED, WITHDRAWN if withdrawn_at else note
    return DeliveryReceipt(facts.recipient, state, tuple(steps), note)


def _acknowledgements(post: Post, facts: DeliveryFacts) -> list[ReceiptStep]:
    steps = [ReceiptStep(ReceiptState.ACKNOWLEDGED, facts.read_at, evidence="read")] if facts.read_at else []
    steps += [
        ReceiptStep(ReceiptState.ACKNOWLEDGED, answer.created_at, evidence=f"partial answer {answer.id}")
        for answer in facts.answers[:1]
        if answer.partial
    ]
    if not steps:
        passed = [bookmark for bookmark in facts.bookmarks if _is_behind(bookmark, post)]
        # It passed the message at this moment or before.
        saved_at = min([bookmark.saved_at for bookmark in passed], default="")
        steps += [ReceiptStep(ReceiptState.ACKNOWLEDGED, saved_at, evidence="bookmark")] if saved_at else []
    return steps


def _is_behind(bookmark: Bookmark, post: Post) -> bool:
    """Whether a bookmark was saved behind a message that the agent's stream had shown.

    A stream leaves out what is over or erased, and the bookmark passes it all the same.
    """
    was_over = post.expires_at != "" and bookmark.saved_at >= post.expires_at
    return has_passed(bookmark, post.position) and not was_over and not post.erased


def _of_job(job: Job | None) -> list[ReceiptStep]:
    if job is None:
        return []
    is_held = job.state is JobState.CLAIMED and job.received
    steps = []
    if job.received_at:
        until = job.until if is_held else ""
        steps.append(ReceiptStep(ReceiptState.ACKNOWLEDGED, job.received_at, evidence="claim", until=until))
        if not is_held:
            steps.append(ReceiptStep(ReceiptState.QUEUED, job.changed_at, evidence="given back"))
    if job.state is JobState.DEAD:
        # What a reader wrote about its failure was judged for nobody.
        steps.append(ReceiptStep(ReceiptState.DEAD, job.changed_at, evidence=failure_of(job)[1]))
    return steps


def _acts(facts: DeliveryFacts) -> Sequence[ReceiptStep]:
    answers = [answer for answer in facts.answers if not answer.partial]
    steps = [
        ReceiptStep(ReceiptState.ACTED, answer.created_at, evidence=f"answered by {answer.id}")
        for answer in answers[:1]
    ]
    if facts.forwarding is not None:
        handed_on = f"handed on to {facts.forwarding.to}"
        steps.append(ReceiptStep(ReceiptState.ACTED, facts.forwarding.at, evidence=handed_on))
    if facts.done_at and not answers:
        steps.append(ReceiptStep(ReceiptState.ACTED, facts.done_at, evidence="done"))
    return sorted(steps, key=lambda step: step.at)
