"""Mailbox messages as an agent sees them, and payloads as bodies; pure.

A payload goes as JSON text into the body of a kind that is free text: people can read it, and it comes back as it was.
A kind with fields of its own gets them as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from parley.domain.errors.errors import Invalid
from parley.domain.message.bodies import check_body, shape_body
from parley.domain.message.message import KINDS, Kind, Message, Pattern, Value
from parley.sdk.protocol.flow import as_payload, encoded
from parley.wire.api.records.channels import ChannelMessage

if TYPE_CHECKING:
    from parley.domain.message.message import Body

# What a mailbox message has besides its payload, by the name that metadata gives it.
_METADATA = frozenset({"kind", "subject", "priority", "conversation", "related_pr"})
_ELLIPSIS = "…"


def to_channel_message(agent: str, message: Message, file: str = "", *, answers: bool = False) -> ChannelMessage:
    """A mailbox message as a channel message; `answers` marks the answer to a question of this agent."""
    payload = payload_of(message.body)
    return ChannelMessage(
        id=message.id,
        channel_id=message.tag,
        channel=message.tag,
        sender=message.sender,
        to="*" if len(message.to) > 1 else agent if agent in message.to else ",".join(message.to),
        message_type=_pattern(message, answers=answers).value,
        correlation_id=message.in_reply_to or None,
        payload=payload,
        metadata=_metadata(message, payload, file),
        created_at=message.created_at,
        expires_at=message.expires_at,
    )


def expects_answer(kind: Kind) -> bool:
    """Whether an answer is expected: to requests, and to review findings and fixes, which are answers themselves."""
    spec = kind.spec
    return spec.pattern is Pattern.REQUEST or (spec.pattern is Pattern.RESPONSE and bool(spec.answers))


def _pattern(message: Message, *, answers: bool) -> Pattern:
    pattern = message.kind.spec.pattern
    if answers:
        return Pattern.RESPONSE
    if expects_answer(message.kind):
        return Pattern.REQUEST
    return Pattern.BROADCAST if pattern is Pattern.NOTIFY and len(message.to) > 1 else pattern


def _metadata(message: Message, payload: Mapping[str, Any], file: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "kind": message.kind.value,
        "subject": message.subject,
        "priority": message.priority.value,
        "conversation_id": message.conversation_id,
        "related_pr": message.related_pr,
        "related_packet": message.related_packet,
        "file": file,
        **message.extras,
    }
    error = payload.get("error")
    if message.in_reply_to and len(payload) == 1 and isinstance(error, Mapping) and "code" in error:
        metadata["error"] = error["code"]  # an agent of ours could not answer, and says why
    return {name: value for name, value in metadata.items() if value}


def payload_of(body: Body) -> dict[str, Any]:
    """The payload of a body: its fields, its JSON object, or its text."""
    if isinstance(body, dict):
        return dict(body)
    if body.lstrip().startswith("{"):
        try:
            document = json.loads(body, parse_constant=_reject_constant)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict):
            return document
    return {"text": body}


def _reject_constant(constant: str) -> object:
    raise ValueError(constant)


def plain_payload(value: object) -> dict[str, Any]:
    """A value as a payload of JSON values only; `Invalid` when it is no JSON."""
    payload: dict[str, Any] = json.loads(encoded(as_payload(value)))
    return payload


def body_of(kind: Kind, payload: Mapping[str, Any]) -> Body:
    """A payload as the body of a message of this kind; `Invalid` when it is no JSON."""
    encoded(dict(payload))
    if kind.spec.fields:
        return _fields(payload)
    return json.dumps(payload, ensure_ascii=False, indent=2)


def answer_kind(request_kind: Kind, payload: Mapping[str, Any]) -> Kind:
    """The kind that answers: the first with fields that the payload has; else a notification, which holds anything."""
    for kind in request_kind.answers:
        if kind.spec.fields and not check_body(kind, shape_body(kind, _fields(payload))):
            return kind
    return Kind.NOTIFICATION


def _fields(payload: Mapping[str, Any]) -> dict[str, Value]:
    return {name: value for name, value in payload.items() if value is not None}


def kind_from(metadata: Mapping[str, Any], default: Kind) -> Kind:
    """The kind that metadata names. `Invalid` for metadata that a mailbox message has no place for."""
    if unknown := sorted(metadata.keys() - _METADATA):
        raise Invalid(f"a mailbox message has no {unknown[0]}", hint=f"it has {', '.join(sorted(_METADATA))}")
    name = metadata.get("kind", default)
    if name not in KINDS:
        raise Invalid(f"{name!r} is no kind of message", hint=f"one of {', '.join(KINDS)}")
    return KINDS[name]


def subject_of(payload: Mapping[str, Any], channel: str, max_chars: int) -> str:
    """A subject line: the question where there is one, else the channel."""
    for name in ("subject", "question", "title"):
        if isinstance(text := payload.get(name), str) and (line := " ".join(text.split())):
            return line if len(line) <= max_chars else line[: max_chars - 1] + _ELLIPSIS
    return channel
