"""Who owes an answer to what was sent, and since when.

A kind that expects an answer is answered by one of the kinds that the specification names for it. Any reply counts as
the first answer, which is due 2 hours after a P0, 24 hours after a P1 and 48 hours after a P2.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.message.kinds import KINDS, Kind, Pattern
from parley.domain.times import format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Protocol

    from parley.domain.mailbox.listing import Item

    class ReceivedHeading(Protocol):
        """What has to be known of a received message to tell what it answers."""

        @property
        def id(self) -> str: ...
        @property
        def sender(self) -> str: ...
        @property
        def kind(self) -> str: ...
        @property
        def created_at(self) -> str: ...
        @property
        def conversation_id(self) -> str: ...
        @property
        def in_reply_to(self) -> str: ...


FIRST_ANSWER = {"P0": timedelta(hours=2), "P1": timedelta(hours=24), "P2": timedelta(hours=48)}
_REVIEW = "review_"


class OwedAnswer(NamedTuple):
    """An answer that an agent has not given yet. `acknowledged_by` is its reply of another kind than expected."""

    item: Item
    agent: str
    expected: tuple[str, ...]
    due_at: str
    late: bool
    acknowledged_by: str = ""


def expects_answer(kind: Kind) -> bool:
    """Whether somebody owes an answer to a message of this kind; a follow_up is tracked, not answered."""
    return bool(kind.spec.answers) and kind.spec.pattern is not Pattern.NOTIFY


def owed_answers(item: Item, received: Iterable[ReceivedHeading], now: datetime) -> list[OwedAnswer]:
    """Who of the recipients of a sent message owes an answer, by what was received from them."""
    kind = KINDS.get(item.kind)
    if kind is None or not expects_answer(kind) or item.expired or item.problem:
        return []
    since = parse_time(item.created_at)
    length = FIRST_ANSWER.get(item.priority)
    owed = []
    for agent in item.to:
        if agent == item.sender:
            continue
        replies = [heading for heading in received if heading.sender == agent and _answers(heading, item)]
        if any(reply.kind in kind.spec.answers for reply in replies):
            continue
        acknowledged = next((reply.id for reply in replies), "")
        late = length is not None and now - since > length and not acknowledged
        due = format_time(since + length) if length is not None else ""
        owed.append(OwedAnswer(item, agent, kind.spec.answers, due, late, acknowledged))
    return owed


def _answers(reply: ReceivedHeading, item: Item) -> bool:
    """Whether a received message answers a sent one: by its parent, else by the conversation it continues.

    The messages of a review follow each other, so that a later one settles an earlier one whatever its parent.
    """
    if reply.in_reply_to == item.id:
        return True
    follows = bool(item.conversation_id) and reply.conversation_id == item.conversation_id
    later = reply.created_at >= item.created_at
    by_conversation = not reply.in_reply_to or (reply.kind.startswith(_REVIEW) and item.kind.startswith(_REVIEW))
    return follows and later and by_conversation
