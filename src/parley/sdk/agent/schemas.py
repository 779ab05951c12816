"""What a handler of messages is called with: the message, its payload as the type that it asks for, or both; pure."""

from __future__ import annotations

import inspect
import types
import typing
from functools import wraps
from typing import TYPE_CHECKING, Any

from parley.domain.errors.errors import Invalid
from parley.sdk.agent.decorators import MESSAGE, HandlerSpec
from parley.sdk.protocol.payloads import convert, is_schema
from parley.wire.api.records.channels import ChannelMessage

if TYPE_CHECKING:
    from collections.abc import Callable

_PAYLOAD, _MESSAGE, _EITHER = "payload", "message", "either"
_ANY_MESSAGE = inspect.Signature([inspect.Parameter("message", inspect.Parameter.POSITIONAL_ONLY)])


def with_payload(name: str, call: Callable[..., Any], spec: HandlerSpec) -> Callable[..., Any]:
    """A handler that takes a message, from one that may ask for its payload."""
    if spec.event != MESSAGE:
        return call
    parameters = _required(call)
    uses, schema = _uses(name, call, parameters, spec)
    if schema is None:
        return call

    @wraps(call)
    def converted(message: ChannelMessage) -> Any:  # noqa: ANN401  # what the handler returns
        payload = convert(message.payload, schema)
        return call(*[payload if use == _PAYLOAD else message for use in uses])

    converted.__signature__ = _ANY_MESSAGE  # type: ignore[attr-defined]  # what it is called with
    return converted


def _required(call: Callable[..., Any]) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(call).parameters.values()
    return [one for one in parameters if one.kind in kinds and one.default is inspect.Parameter.empty]


def _uses(
    name: str, call: Callable[..., Any], parameters: list[inspect.Parameter], spec: HandlerSpec
) -> tuple[list[str], Any]:
    """What each parameter gets, and the schema; None when the handler takes messages as they are."""
    annotated = [_annotation(name, call, parameter, spec) for parameter in parameters]
    uses = [_use_of(kind) for kind in annotated]
    payloads = [kind for kind, use in zip(annotated, uses, strict=True) if use == _PAYLOAD]
    schema = spec.schema if spec.schema is not None else payloads[0] if payloads else None
    if schema is None or len(uses) not in (1, 2):
        return uses, None  # with more parameters it is refused with the other handlers that cannot be called
    if _PAYLOAD not in uses and _EITHER in uses:
        uses[uses.index(_EITHER)] = _PAYLOAD
    uses = [_MESSAGE if use == _EITHER else use for use in uses]
    if len(uses) == 2 and sorted(uses) != [_MESSAGE, _PAYLOAD]:
        raise Invalid(f"{name}() has to take the payload and the message: annotate the second as ChannelMessage")
    return uses, schema


def _use_of(kind: object) -> str:
    if kind in (inspect.Parameter.empty, Any, object):
        return _EITHER
    if isinstance(kind, type) and (issubclass(kind, ChannelMessage) or kind.__name__ == ChannelMessage.__name__):
        return _MESSAGE
    return _PAYLOAD if is_schema(kind) else _EITHER


def _annotation(name: str, call: Callable[..., Any], parameter: inspect.Parameter, spec: HandlerSpec) -> object:
    """The type of a parameter, which may be written as text."""
    kind = parameter.annotation
    if not isinstance(kind, str):
        return kind
    if kind.rpartition(".")[2] == ChannelMessage.__name__:
        return ChannelMessage  # often imported for type checkers only
    function = inspect.unwrap(call)
    holder = types.SimpleNamespace(__annotations__={parameter.name: kind})
    try:
        return typing.get_type_hints(holder, getattr(function, "__globals__", {}))[parameter.name]
    except (NameError, AttributeError, TypeError, SyntaxError, ValueError, LookupError):
        if spec.schema is not None:
            return Any
        hint = f"import it at the top of the module, or write @on_message(schema={kind})"
        raise Invalid(f"{name}(): the type {kind!r} of {parameter.name} cannot be found", hint=hint) from None
