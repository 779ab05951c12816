"""What is said: a Draft is proposed, a Message is a fact and never changes."""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import Problem
from parley.domain.message.kinds import DEFAULT_PRIORITY, GOES_FIRST, KINDS, PRIORITIES, Kind, Pattern, Priority

if TYPE_CHECKING:
    from typing import Any

# The kinds are part of what a message is: who imports one gets the other here.
__all__ = [
    "DEFAULT_PRIORITY",
    "GOES_FIRST",
    "KINDS",
    "NO_FIELDS",
    "PRIORITIES",
    "Body",
    "Draft",
    "Heading",
    "Kind",
    "Message",
    "Pattern",
    "Priority",
    "Reading",
    "Value",
    "search_text",
    "texts_in",
]

# What a body or a kept foreign field may hold. Recursion is bounded by the reader, not by the type.
Value = str | int | bool | None | list["Value"] | dict[str, "Value"]
Body = str | dict[str, Value]

NO_FIELDS: Mapping[str, Value] = {}


class Draft(NamedTuple):
    """What a sender proposes, before it has an id, a time and a place.

    `wishes` puts it under the rules of an exchange (`domain.content.envelope.Wishes`, which few messages need).
    """

    sender: str
    to: tuple[str, ...]
    kind: Kind
    subject: str
    body: Body
    priority: Priority | None = None
    expires_at: datetime | None = None
    tag: str = ""
    related_packet: str = ""
    related_pr: str = ""
    conversation_id: str = ""
    in_reply_to: str = ""
    context_keys: str = ""
    extras: Mapping[str, Value] = NO_FIELDS
    wishes: "Any" = None


class Message(NamedTuple):
    """A message as it was said. `extras` are fields of others that Parley keeps without reading them."""

    id: str
    sender: str
    to: tuple[str, ...]
    kind: Kind
    priority: Priority
    created_at: datetime
    subject: str
    body: Body
    expires_at: datetime | None = None
    tag: str = ""
    related_packet: str = ""
    related_pr: str = ""
    conversation_id: str = ""
    in_reply_to: str = ""
    context_keys: str = ""
    extras: Mapping[str, Value] = NO_FIELDS

    def expired(self, now: datetime) -> bool:
        """Whether the sender said that it no longer matters."""
        return self.expires_at is not None and self.expires_at <= now


Message.__module__ = "parley"


def texts_in(value: Value) -> list[str]:
    """Every text in a value, the names of its fields included."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (str(key), *texts_in(item))]
    return [text for item in value for text in texts_in(item)] if isinstance(value, list) else []


def search_text(message: Message) -> str:
    """What a search looks into: subject, id and body, in the one spelling that knows no case."""
    return "\n".join([message.subject, message.id, *texts_in(message.body)]).casefold()


class Heading(NamedTuple):
    """The part of a message that a listing shows; times in their one sortable spelling."""

    id: str
    sender: str
    to: tuple[str, ...]
    kind: str
    priority: str
    created_at: str
    subject: str
    expires_at: str
    conversation_id: str
    in_reply_to: str


class Reading(NamedTuple):
    """What a file says and all that is wrong with it.

    A *problem* makes it unacceptable (then there is no message); a *doubt* is a breach of the specification that costs
    nobody the message.
    """

    message: Message | None
    problems: list[Problem]
    doubts: list[Problem]
