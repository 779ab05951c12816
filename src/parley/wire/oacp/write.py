"""From a message to the text of its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.errors.errors import Invalid, Problem
from parley.domain.message.compose import EMITTED_EXTRAS
from parley.domain.times import format_time
from parley.wire.yaml.write import mapping_text, quoted, scalar

if TYPE_CHECKING:
    from parley.domain.limits import Limits
    from parley.domain.message.message import Message


def emit(message: Message, limits: Limits) -> str:
    """The file's text: every scalar in the one form that all readers agree on."""
    body = message.body if isinstance(message.body, str) else mapping_text(message.body)
    if len(body) > limits.body_chars:
        detail = f"{len(body)} characters, at most {limits.body_chars} are allowed"
        raise Invalid.because([Problem("body_too_long", "body", detail)])
    to = message.to
    lines = [
        f"id: {quoted(message.id)}",
        f"from: {quoted(message.sender)}",
        f"to: {quoted(to[0]) if len(to) == 1 else '[' + ', '.join(map(quoted, to)) + ']'}",
        f"type: {quoted(message.kind.value)}",
        f"priority: {quoted(message.priority.value)}",
        f"created_at_utc: {quoted(format_time(message.created_at))}",
    ]
    for key, text in (
        ("expires_at", format_time(message.expires_at) if message.expires_at else ""),
        ("channel", message.tag),
        ("related_packet", message.related_packet),
        ("related_pr", message.related_pr),
        ("conversation_id", message.conversation_id),
        ("parent_message_id", message.in_reply_to),
    ):
        if text:
            lines.append(f"{key}: {quoted(text)}")
    if message.context_keys:
        lines.append(f"context_keys: {scalar(message.context_keys)}")
    lines += [f"{key}: {quoted(str(message.extras[key]))}" for key in EMITTED_EXTRAS if key in message.extras]
    if "ocip" in message.extras:
        from parley.wire.oacp.envelope import annotation_lines  # few messages are under the rules

        lines.append(annotation_lines(message))
    lines += [f"subject: {quoted(message.subject)}", f"body: {scalar(body)}"]
    return "\n".join(lines) + "\n"
