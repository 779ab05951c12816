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
    if timeout is not None:
        some_seconds("on_message: timeout", timeout)
    if schema is not None:
        check_schema(schema, "on_message: schema")
    check_retries("on_message", retries, backoff)
    if callable(channel):
        return _mark(channel, HandlerSpec(MESSAGE))
    senders = (from_,) if isinstance(from_, str) else tuple(from_ or ())
    spec = HandlerSpec(MESSAGE, channel or "", kind or "", senders, timeout, schema, intent or "", retries, backoff)
    return lambda method: _mark(method, spec)


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
