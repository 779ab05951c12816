"""Decorators that mark the methods of a class as handlers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, overload

from parley.domain.errors.errors import Invalid
from parley.domain.message.message import KINDS, Pattern
from parley.sdk.protocol.flow import some_seconds
from parley.sdk.protocol.payloads import check_schema

F = TypeVar("F", bound=Callable[..., Any])

_SPECS_ATTRIBUTE = "__parley_handles__"

RETRIES_MAX = 100

MESSAGE, ASSIGNMENT, APPROVAL = "message", "assignment", "approval"


class HandlerSpec(NamedTuple):
    """What a method handles. An empty filter matches everything."""

    event: str
    channel: str = ""
    kind: str = ""
    senders: tuple[str, ...] = ()
    timeout: float | None = None
    # The type that the payload has to fit; None for what the method's annotations say.
    schema: Any = None
    intent: str = ""
    # How often a call that fails is tried again, and how many seconds after the first failure; then twice as many.
    retries: int = 0
    backoff: float = 1.0


@overload
def on_message(channel: F, /) -> F: ...


@overload
def on_message(
    channel: str | None = None,
    *,
    kind: str | None = None,
    from_: str | tuple[str, ...] | list[str] | None = None,
    intent: str | None = None,
    timeout: float | None = None,
    schema: Any = None,  # noqa: ANN401  # a type
    retries: int = 0,
    backoff: float = 1.0,
) -> Callable[[F], F]: ...


def on_message(
    channel: F | str | None = None,
    *,
    kind: str | None = None,
    from_: str | tuple[str, ...] | list[str] | None = None,
    intent: str | None = None,
    timeout: float | None = None,
    schema: Any = None,  # a type
    retries: int = 0,
    backoff: float = 1.0,
) -> F | Callable[[F], F]:
    """Call the method for each message that arrives: on this channel, of this kind, from these agents, on this intent.

    `kind` is how it is answered (request, response, notify, broadcast) or one of the twelve kinds (question,
    task_request, ...). `intent` is the id or the title of an intent, on a server. What the method returns for a
    request, a mapping, is its response. `timeout`, in seconds, ends a call that takes longer. A call that fails is
    tried again `retries` times, first after about `backoff` seconds, then after twice as many each time; an error of
    Parley that says no (`NotFound`, `Denied`, ...) is not. What fails for good and has no answer becomes a dead letter.

    Without any filter it gets every message. Several methods may get the same message: all are called, in the order in
    which they are written, and the first that returns something answers.

    `schema` is the type of the payload: a dataclass, a msgspec Struct, a TypedDict or a pydantic model. A parameter
    that is annotated with such a type says the same. The method gets the converted payload, and beside it the message
    if it has a parameter for that. What does not fit is refused with `payload_invalid` before the method is called.
    """
    kinds = [*(pattern.value for pattern in Pattern), *KINDS]
    if kind is not None and kind not in kinds:
        raise Invalid(f"on_message: {kind!r} is no kind of message", hint=f"one of {', '.join(kinds)}")
    filters = _Filters(from_, intent, timeout, schema, retries, backoff)
    return _handles("on_message", (kind or "",), channel, filters)


@overload
def on_request(channel: F, /) -> F: ...


@overload
def on_request(
    channel: str | None = None,
    *,
    from_: str | tuple[str, ...] | list[str] | None = None,
    intent: str | None = None,
    timeout: float | None = None,
    schema: Any = None,  # noqa: ANN401  # a type
    retries: int = 0,
    backoff: float = 1.0,
) -> Callable[[F], F]: ...


def on_request(
    channel: F | str | None = None,
    *,
    from_: str | tuple[str, ...] | list[str] | None = None,
    intent: str | None = None,
    timeout: float | None = None,
    schema: Any = None,  # a type
    retries: int = 0,
    backoff: float = 1.0,
) -> F | Callable[[F], F]:
    """Call the method for each request that arrives: what it returns is the answer. Otherwise as `on_message`."""
    filters = _Filters(from_, intent, timeout, schema, retries, backoff)
    return _handles("on_request", (Pattern.REQUEST.value,), channel, filters)


@overload
def on_notify(channel: F, /) -> F: ...


@overload
def on_notify(
    channel: str | None = None,
    *,
    from_: str | tuple[str, ...] | list[str] | None = None,
    intent: str | None = None,
    timeout: float | None = None,
    schema: Any = None,  # noqa: ANN401  # a type
    retries: int = 0,
    backoff: float = 1.0,
) -> Callable[[F], F]: ...


def on_notify(
    channel: F | str | None = None,
    *,
    from_: str | tuple[str, ...] | list[str] | None = None,
    intent: str | None = None,
    timeout: float | None = None,
    schema: Any = None,  # a type
    retries: int = 0,
    backoff: float = 1.0,
) -> F | Callable[[F], F]:
    """Call the method for what others tell: notifications and broadcasts, which need no answer. See `on_message`."""
    filters = _Filters(from_, intent, timeout, schema, retries, backoff)
    return _handles("on_notify", (Pattern.NOTIFY.value, Pattern.BROADCAST.value), channel, filters)


class _Filters(NamedTuple):
    """Which messages a handler is for, beside their channel and kind, and how it is called."""

    senders: str | tuple[str, ...] | list[str] | None
    intent: str | None
    timeout: float | None
    schema: Any
    retries: int
    backoff: float


def _handles(name: str, kinds: tuple[str, ...], channel: F | str | None, filters: _Filters) -> F | Callable[[F], F]:
    """Mark a method, or what marks one, for the messages of these kinds."""
    if filters.timeout is not None:
        some_seconds(f"{name}: timeout", filters.timeout)
    if filters.schema is not None:
        check_schema(filters.schema, f"{name}: schema")
    check_retries(name, filters.retries, filters.backoff)
    senders = (filters.senders,) if isinstance(filters.senders, str) else tuple(filters.senders or ())
    where = "" if callable(channel) else channel or ""
    intent, (timeout, schema, retries, backoff) = filters.intent or "", filters[2:]
    specs = [HandlerSpec(MESSAGE, where, kind, senders, timeout, schema, intent, retries, backoff) for kind in kinds]

    def mark(method: F) -> F:
        for spec in specs:
            method = _mark(method, spec)
        return method

    return mark(channel) if callable(channel) else mark


def on_assignment(method: F) -> F:
    """Call the method with the intent, each time the agent is assigned to one."""
    return _mark(method, HandlerSpec(ASSIGNMENT))


def on_approval(method: F) -> F:
    """Call the method with the approval, each time a person has decided about something this agent wanted to say."""
    return _mark(method, HandlerSpec(APPROVAL))


def check_retries(name: str, retries: int, backoff: float) -> None:
    """`Invalid` when a handler could not be tried again like this."""
    if retries not in range(RETRIES_MAX + 1):
        raise Invalid(f"{name}: retries is a number from 0 to {RETRIES_MAX}, not {retries!r}")
    some_seconds(f"{name}: backoff", backoff)


def specs_of(method: object) -> tuple[HandlerSpec, ...]:
    """The specs that a method was marked with."""
    specs: tuple[HandlerSpec, ...] = getattr(method, _SPECS_ATTRIBUTE, ())
    return specs


def _mark(method: F, spec: HandlerSpec) -> F:
    if not callable(method):
        raise Invalid(f"{method!r} cannot be called", hint="decorate a method: @on_message() above a def")
    setattr(method, _SPECS_ATTRIBUTE, (*specs_of(method), spec))
    return method
