"""What the metadata of requests and answers say: partial answers, questions in return, conversations, and who handed a
request on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from parley.domain.errors.errors import Invalid, Problem
from parley.domain.message.message import Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

ACCEPTS = "accepts_partial"
PARTIAL = "partial"
ARTIFACT, PROGRESS = "artifact", "progress"
KINDS = (ARTIFACT, PROGRESS)
# Only the server says who handed a request on.
FORWARDED = "forwarded"


class _Fields(msgspec.Struct):
    accepts_partial: Any = None
    partial: Any = None
    kind: Any = None
    forwarded: Any = None
    ocip: Any = None


class _Named(msgspec.Struct):
    conversation_id: Any = ""


class _Enveloped(msgspec.Struct):
    ocip: _Named | None = None


_CONVERSATION = b'"conversation_id":"'
CONVERSATION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,127}", re.ASCII)
_decode = msgspec.json.Decoder(_Fields).decode
# An envelope is long; all but one of its fields are passed over.
_decode_envelope = msgspec.json.Decoder(_Enveloped).decode


def is_partial(pattern: Pattern, metadata: bytes) -> bool:
    """Whether a stored request accepts partial answers, or a stored response is one."""
    # Both keys end like this; most metadata have neither, and are not parsed.
    if b'partial"' not in metadata:
        return False
    if pattern is Pattern.REQUEST:
        return _decode(metadata).accepts_partial is True
    return pattern is Pattern.RESPONSE and _decode(metadata).partial in KINDS


def is_question(metadata: bytes) -> bool:
    """Whether an answer asks something back."""
    return b'"question"' in metadata and _decode(metadata).kind == "question"


def forwarded_of(metadata: bytes) -> tuple[str, str]:
    """The request that a request stands for, and who sent that first; empty when it was not handed on."""
    forwarded = _decode(metadata).forwarded if b'"forwarded"' in metadata else None
    if not isinstance(forwarded, dict):
        return "", ""
    return str(forwarded.get("request_id", "")), str(forwarded.get("asker", ""))


def conversation_of(metadata: bytes, exchange_id: str) -> str:
    """The conversation of a stored message: that of its exchange, else the first that its metadata name; or empty.

    The stores find the messages of a conversation by the same bytes.
    """
    place = metadata.find(_CONVERSATION)
    if place < 0:
        return ""
    if exchange_id:
        try:
            envelope = _decode_envelope(metadata).ocip
        except msgspec.ValidationError:
            return ""  # it is no envelope
        name = envelope.conversation_id if envelope is not None else ""
        return name if isinstance(name, str) else ""
    place += len(_CONVERSATION)
    text = metadata[place : metadata.find(b'"', place)].decode()
    return text if CONVERSATION_ID.fullmatch(text) else ""


def partial_of(pattern: Pattern, metadata: Mapping[str, Any]) -> bool:
    """The same of a message that is sent; `Invalid` when it cannot be understood."""
    if pattern is Pattern.REQUEST:
        return _value(metadata, ACCEPTS, (True, False, None), "is true or false") is True
    if pattern is Pattern.RESPONSE:
        return _value(metadata, PARTIAL, (*KINDS, None), f"is {' or '.join(KINDS)}") is not None
    return False


def _value(metadata: Mapping[str, Any], key: str, allowed: tuple[object, ...], meaning: str) -> object:
    value = metadata.get(key)
    # By identity: 1 is not true.
    if not any(value is one or (isinstance(value, str) and value == one) for one in allowed):
        raise Invalid.because([Problem("invalid", f"metadata.{key}", meaning)])
    return value
