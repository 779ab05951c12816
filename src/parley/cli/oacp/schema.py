"""What the OACP tool finds wrong with the fields of a message: its checks, its words, its order."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime

from parley.cli.oacp.places import NAME_PATTERN
from parley.domain.message.message import KINDS, PRIORITIES

REQUIRED = ("id", "from", "type", "priority", "created_at_utc", "subject", "body")
TELEMETRY = ("model", "turns", "input_tokens", "output_tokens", "wall_time_s", "est_cost_usd")
OPTIONAL = (
    "related_packet",
    "related_pr",
    "conversation_id",
    "parent_message_id",
    "context_keys",
    "expires_at",
    "channel",
    "autonomy_hint",
    *TELEMETRY,
    "auth",
)
_KNOWN = frozenset((*REQUIRED, "to", *OPTIONAL))
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z\Z")
_CONVERSATION = re.compile(r"conv-\d{8}-[A-Za-z0-9._-]{1,64}-\d{1,6}\Z")
_CHANNEL = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_REVIEWS = ("review_addressed", "review_feedback", "review_lgtm")
_POINT_TO_POINT = frozenset({"handoff", "handoff_complete"})
_MOST_RECIPIENTS = 10
_MOST_CHARS = {"parent_message_id": 200, "id": 200, "subject": 200, "body": 20_000}

Fields = Mapping[str, object]


def problems_of(fields: Fields) -> list[str]:
    """Every problem but those of the auth trailer, in the tool's order."""
    return [
        *_unknown(fields),
        *_required(fields),
        *_recipients(fields),
        *(f"field '{name}' must be a scalar value" for name in OPTIONAL if isinstance(fields.get(name), list | dict)),
        *_choices(fields),
        *_telemetry(fields),
        *_hint(fields),
        *_time(fields, "created_at_utc"),
        *_references(fields),
        *_time(fields, "expires_at"),
        *_channel(fields),
        *(text for name in ("id", "subject", "body") for text in _length(fields, name)),
    ]


def _text(fields: Fields, name: str) -> str:
    """The field without surrounding space; "" when it is missing or empty.

    What is no scalar counts as nothing in a required field, and as its text, which fits no rule, in an optional one.
    """
    value = fields.get(name, "")
    if not isinstance(value, str):
        return str(value) if value and name not in REQUIRED else ""
    return value.strip()


def _unknown(fields: Fields) -> Iterator[str]:
    unknown = sorted(str(name) for name in fields if name not in _KNOWN)
    if unknown:
        yield f"unknown field(s): {', '.join(unknown)}"


def _required(fields: Fields) -> Iterator[str]:
    for name in REQUIRED:
        if name not in fields:
            yield f"missing required field: {name}"
        elif not isinstance(fields[name], str):
            yield f"field '{name}' must be a scalar string, not nested YAML"
        elif not _text(fields, name):
            yield f"field '{name}' must be non-empty"


def _recipients(fields: Fields) -> Iterator[str]:
    if "to" not in fields:
        yield "missing required field: to"
        return
    to = fields["to"]
    if isinstance(to, dict):
        yield "field 'to' must be a string or list of strings, not a mapping"
    elif isinstance(to, list):
        yield from _recipient_list(fields, to)
    elif not _text(fields, "to"):
        yield "field 'to' must be non-empty"
    elif not _NAME.match(_text(fields, "to")):
        yield f"field 'to' must match {NAME_PATTERN}"


def _recipient_list(fields: Fields, to: list[object]) -> Iterator[str]:
    if not to:
        yield "field 'to' list must not be empty"
        return
    if len(to) > _MOST_RECIPIENTS:
        yield f"field 'to' list exceeds maximum of {_MOST_RECIPIENTS} recipients"
    names = [str(item).strip() for item in to]
    for name in names:
        if not name:
            yield "field 'to' list contains empty entry"
        elif not _NAME.match(name):
            yield f"field 'to' list entry '{name}' must match {NAME_PATTERN}"
    if _text(fields, "from") in names:
        yield "field 'to' list must not include the sender"
    if _text(fields, "type") in _POINT_TO_POINT and len(to) > 1:
        yield f"type '{_text(fields, 'type')}' does not support broadcast (multiple recipients)"


def _choices(fields: Fields) -> Iterator[str]:
    sender, kind, priority = (_text(fields, name) for name in ("from", "type", "priority"))
    if sender and not _NAME.match(sender):
        yield f"field 'from' must match {NAME_PATTERN}"
    if kind and kind not in KINDS:
        yield f"field 'type' must be one of: {', '.join(sorted(KINDS))}"
    if priority and priority not in PRIORITIES:
        yield f"field 'priority' must be one of: {', '.join(PRIORITIES)}"


def _telemetry(fields: Fields) -> Iterator[str]:
    present = [name for name in TELEMETRY if name in fields]
    if present and _text(fields, "type") not in _REVIEWS:
        yield f"review telemetry fields are allowed only for: {', '.join(_REVIEWS)}"
    for name in present:
        text = _text(fields, name)
        if name == "model" and (not text or not isinstance(fields[name], str)):
            yield "field 'model' must be a non-empty string"
        elif name in ("turns", "input_tokens", "output_tokens") and not text.isdecimal():
            yield f"field '{name}' must be a non-negative integer"
        elif name in ("wall_time_s", "est_cost_usd") and not _is_amount(text):
            yield f"field '{name}' must be a non-negative number"


def _is_amount(text: str) -> bool:
    try:
        number = float(text)
    except ValueError:
        return False
    return math.isfinite(number) and number >= 0


def _hint(fields: Fields) -> Iterator[str]:
    hint = fields.get("autonomy_hint")
    if isinstance(hint, str) and hint.strip() not in ("", "auto_proceed"):
        yield "field 'autonomy_hint' must be one of: auto_proceed"


def _time(fields: Fields, name: str) -> Iterator[str]:
    text = _text(fields, name)
    if not text:
        return
    if not _TIME.match(text):
        yield f"field '{name}' must be UTC RFC3339 seconds format: YYYY-MM-DDTHH:MM:SSZ"
        return
    try:
        datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z")
    except ValueError:
        yield f"field '{name}' is not a valid UTC timestamp"


def _references(fields: Fields) -> Iterator[str]:
    pr, conversation = _text(fields, "related_pr"), _text(fields, "conversation_id")
    if pr and not pr.isdecimal():
        yield "field 'related_pr' must be empty or a numeric PR id"
    if conversation and not _CONVERSATION.match(conversation):
        yield "field 'conversation_id' must match pattern conv-<YYYYMMDD>-<agent>-<seq>"
    yield from _length(fields, "parent_message_id")
    if isinstance(fields.get("context_keys"), list | dict):
        yield "field 'context_keys' must be a string (use YAML block scalar)"


def _channel(fields: Fields) -> Iterator[str]:
    text = _text(fields, "channel")
    if text and not _CHANNEL.match(text):
        yield "field 'channel' must be 1-64 chars of alphanumeric, hyphens, or underscores"


def _length(fields: Fields, name: str) -> Iterator[str]:
    if len(_text(fields, name)) > _MOST_CHARS[name]:
        yield f"field '{name}' is too long (max {_MOST_CHARS[name]} chars)"
