"""The handlers of an agent, and which of them an arrival is for; pure."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.errors.errors import Invalid
from parley.sdk.agent.decorators import APPROVAL, ASSIGNMENT, MESSAGE, HandlerSpec, specs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from parley.wire.api.records.channels import ChannelMessage


_PLURALS = {"request": "requests", "response": "responses", "notify": "notifications", "broadcast": "broadcasts"}


def returns_awaitable(call: Callable[..., Any]) -> bool:
    """Whether calling it returns a coroutine."""
    function = inspect.unwrap(call)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


class Handler(NamedTuple):
    """A function that is called with what arrived."""

    name: str
    call: Callable[..., Any]
    spec: HandlerSpec

    @property
    def awaits(self) -> bool:
        """Whether it runs in the event loop: a coroutine, or an asynchronous generator; otherwise in a thread."""
        return returns_awaitable(self.call) or inspect.isasyncgenfunction(inspect.unwrap(self.call))

    @property
    def yields(self) -> bool:
        """Whether it is a generator, whose values are partial answers."""
        function = inspect.unwrap(self.call)
        return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


class Handlers(tuple[Handler, ...]):
    """All handlers of an agent, in the order in which they are called."""

    __slots__ = ()

    def for_message(self, message: ChannelMessage) -> list[Handler]:
        """The handlers for a message."""
        return [handler for handler in self if handler.spec.event == MESSAGE and _matches(handler.spec, message)]

    @property
    def need_titles(self) -> bool:
        """Whether a handler is for messages of an intent, which it may name by its title."""
        return any(handler.spec.intent for handler in self)

    @property
    def for_assignment(self) -> list[Handler]:
        """The handlers for assignments."""
        return [handler for handler in self if handler.spec.event == ASSIGNMENT]

    @property
    def for_approval(self) -> list[Handler]:
        """The handlers for decisions about approvals."""
        return [handler for handler in self if handler.spec.event == APPROVAL]


def handlers_of(agent: object) -> Handlers:
    """The marked methods of an object, in the order of the text; a subclass's method replaces its base's."""
    from parley.sdk.agent.schemas import with_payload  # with msgspec, which a class that does not run needs not

    names: dict[str, None] = {}
    for kind in reversed(type(agent).__mro__):
        names |= dict.fromkeys(name for name, value in vars(kind).items() if specs_of(value))
    return check_handlers(
        Handler(name, with_payload(name, getattr(agent, name), spec), spec)
        for name in names
        for spec in specs_of(getattr(agent, name, None))
    )


def check_handler_names(cls: type, base: type) -> None:
    """`Invalid` when a handler of a class has the name of an attribute of `base`, which the runtime needs."""
    for kind in cls.__mro__:
        if kind in base.__mro__:
            continue
        for name, value in vars(kind).items():
            if specs_of(value) and hasattr(base, name):
                raise Invalid(
                    f"{cls.__name__}.{name}: every agent has an attribute {name}, so no handler can have this name",
                    hint=f"rename it, for example to handle_{name.strip('_')}",
                )


def check_handlers(candidates: Iterable[Handler]) -> Handlers:
    """Handlers, each of which can be called with what it is for; `Invalid` names the first that cannot."""
    handlers = Handlers(candidates)
    for handler in handlers:
        try:
            inspect.signature(handler.call).bind(object())
        except TypeError:
            argument = "an intent" if handler.spec.event == ASSIGNMENT else f"one {handler.spec.event}"
            payload = ", or the payload and the message" if handler.spec.event == MESSAGE else ""
            raise Invalid(f"{handler.name}() has to take {argument} and nothing else{payload}") from None
    return handlers


def no_handler_text(message: ChannelMessage, specs: Iterable[HandlerSpec]) -> str:
    """Why no handler is called with a message: its channel has none, or one for other kinds of messages only."""
    text = f"has no handler for this {message.message_type} in {message.channel or message.channel_id!r}"
    specs = [spec for spec in specs if spec.event == MESSAGE]
    here = [spec for spec in specs if spec.kind and _matches(spec._replace(kind=""), message)]
    if here:
        kinds = dict.fromkeys(_PLURALS.get(spec.kind, spec.kind) for spec in here)
        return f"{text} (it has one for {' and '.join(kinds)} only)"
    channels = ", ".join(sorted({spec.channel for spec in specs if spec.channel}))
    return f"{text} (it has some for {channels})" if channels else text


def _matches(spec: HandlerSpec, message: ChannelMessage) -> bool:
    if spec.channel and spec.channel not in (message.channel, message.channel_id):
        return False
    if spec.kind and spec.kind not in (message.message_type, message.kind):
        return False
    if spec.intent and spec.intent not in (message.intent_id, message.intent):
        return False
    return not spec.senders or message.sender in spec.senders
