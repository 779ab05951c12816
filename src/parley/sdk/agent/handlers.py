"""The handlers of an agent, and which of them an arrival is for; pure."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.errors.errors import Invalid
from parley.sdk.agent.decorators import APPROVAL, ASSIGNMENT, MESSAGE, Handles, handled_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from parley.wire.api.records.channels import ChannelMessage


class Handler(NamedTuple):
    """Something to be called with what arrived."""

    name: str
    call: Callable[..., Any]
    handles: Handles

    @property
    def awaits(self) -> bool:
        """Whether calling it gives a coroutine; otherwise it runs in a thread of its own."""
        function = inspect.unwrap(self.call)
        return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


class Handlers(tuple[Handler, ...]):
    """All handlers of an agent, in the order in which they are called."""

    __slots__ = ()

    def for_message(self, message: ChannelMessage) -> list[Handler]:
        """Those that a message is for."""
        return [one for one in self if one.handles.what == MESSAGE and _fits(one.handles, message)]

    @property
    def for_assignment(self) -> list[Handler]:
        """Those that are told of an assignment."""
        return [one for one in self if one.handles.what == ASSIGNMENT]

    @property
    def for_approval(self) -> list[Handler]:
        """Those that are told what a person has decided."""
        return [one for one in self if one.handles.what == APPROVAL]


def handlers_of(agent: object) -> Handlers:
    """The marked methods of an object, in the order of the text; a subclass's method replaces its base's."""
    names: dict[str, None] = {}
    for kind in reversed(type(agent).__mro__):
        names |= dict.fromkeys(name for name, value in vars(kind).items() if handled_by(value))
    return checked(
        Handler(name, getattr(agent, name), handles)
        for name in names
        for handles in handled_by(getattr(agent, name, None))
    )


def checked(found: Iterable[Handler]) -> Handlers:
    """Handlers, each of which can be called with what it is for; `Invalid` names the first that cannot."""
    handlers = Handlers(found)
    for one in handlers:
        try:
            inspect.signature(one.call).bind(object())
        except TypeError:
            what = "an intent" if one.handles.what == ASSIGNMENT else f"one {one.handles.what}"
            raise Invalid(f"{one.name}() has to take {what} and nothing else") from None
    return handlers


def _fits(handles: Handles, message: ChannelMessage) -> bool:
    if handles.channel and handles.channel not in (message.channel, message.channel_id):
        return False
    if handles.kind and handles.kind not in (message.message_type, message.kind):
        return False
    return not handles.senders or message.sender in handles.senders
