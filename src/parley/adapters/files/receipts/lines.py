"""The lines of a receipt file: one step as JSON, about the message in one file of the inbox."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from parley.domain.hashes import digest
from parley.domain.names import is_whole_id, printable
from parley.domain.receipts import ReceiptState, ReceiptStep
from parley.domain.times import from_stamp

if TYPE_CHECKING:
    from typing import Any

_TEXT_MAX_CHARS = 200
_NAME_MAX_CHARS = 200


def file_name(message_id: str) -> str:
    """The id, where it may name a file; else its digest: other tools give any id."""
    if is_whole_id(message_id) and len(message_id) <= _NAME_MAX_CHARS:
        return message_id
    return f"sha256-{digest(printable(message_id).encode())}"


def encode_step(step: ReceiptStep, file: str) -> str:
    """A step as it is appended: in lines of its own, whatever stands before it."""
    texts = {name: str(value)[:_TEXT_MAX_CHARS] for name, value in step._asdict().items() if value}
    return f"\n{json.dumps({**texts, 'file': printable(file)})}\n"


def decode_steps(content: bytes, file: str) -> tuple[ReceiptStep, ...]:
    """The steps about the message in this file. What is none, half of one or about another file is passed over."""
    return tuple(step for line in content.split(b"\n") if (step := _decode(line, file)) is not None)


def _decode(line: bytes, file: str) -> ReceiptStep | None:
    """The step of a line about the message in this file; None for one about another, and for what is none."""
    if not line:
        return None
    try:
        fields: Any = json.loads(line)
        if not isinstance(fields, dict) or fields.get("file") != printable(file):
            return None
        texts = {
            name: value[:_TEXT_MAX_CHARS] for name in ReceiptStep._fields if isinstance(value := fields.get(name), str)
        }
        if from_stamp(texts.get("at", "")).tzinfo is None:
            return None
        state = ReceiptState(texts.pop("state", ""))
        return ReceiptStep(state, **texts)
    except (ValueError, RecursionError, TypeError):
        return None
