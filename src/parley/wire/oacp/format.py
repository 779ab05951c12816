"""OACP: a message as one YAML file.

    id, from, to, type, priority, created_at_utc,                    always
    expires_at, channel, related_packet, related_pr,                 when given
    conversation_id, parent_message_id, context_keys,
    subject, body                                                    always

Accept liberally, emit strictly. What only a whole message needs is imported when there is one: a listing reads
headings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.errors.errors import Invalid, NotText, TooLarge, Unreadable
from parley.domain.limits import DEFAULT_LIMITS, HARD_FILE_BYTES, Limits
from parley.domain.message.message import DEFAULT_PRIORITY, KINDS, PRIORITIES, Heading, Message, Reading, Value
from parley.domain.names import is_name
from parley.domain.times import format_time, is_canonical
from parley.wire.yaml.plain import Plain, read_plain

if TYPE_CHECKING:
    from collections.abc import Callable


# From this many headings on the compiled reader is faster: preparing it takes as long as reading these.
_MANY = 100


class OacpFormat:
    """Reads and writes message files within `limits`."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = self.limits = limits
        self._most = min(limits.file_bytes, HARD_FILE_BYTES)
        self._headings = 0
        self._glance: Callable[[str, Limits], Heading | None] | None = None

    def encode(self, message: Message) -> bytes:
        from parley.wire.oacp.write import emit

        content = emit(message, self._limits).encode("utf-8")
        # Nothing is handed on that our own reader would not take back as the same message.
        if self.settle(message) != self.decode(content):
            raise Unreadable("the message would not be read back as it was written")
        return content

    def settle(self, message: Message) -> Message:
        """The message as any reader will see it."""
        from parley.wire.oacp.read import body_of_mapping, body_of_text

        if isinstance(message.body, str):
            body = body_of_text(message.kind, message.body, message.in_reply_to, self._mapping_of)
        else:
            body = body_of_mapping(message.kind, message.body)
        return message._replace(body=body)

    def decode(self, content: bytes) -> Message:
        reading = self.inspect(content)
        if reading.message is None:
            raise Invalid.because(reading.problems)
        return reading.message

    def inspect(self, content: bytes) -> Reading:
        """Everything at once: the message if there is one, its problems and its doubts."""
        from parley.wire.oacp.read import Schema

        text = self._text(content)
        fields = self._fields(text)
        if "auth" in fields:
            from parley.wire.oacp.auth import check_trailer

            check_trailer(text, list(fields))
        return Schema(fields, self._limits, self._mapping_of).read()

    def heading(self, content: bytes) -> Heading:
        text = self._text(content)
        if self._glance is None:
            self._count_heading()
        elif (glanced := self._glance(text, self._limits)) is not None:
            return glanced
        plain = read_plain(text, self._limits)
        if plain is not None and "auth" not in plain:
            heading = _plain_heading(plain, self._limits.id_chars)
            if heading is not None:
                return heading
        message = self.decode(content)
        return Heading(
            message.id,
            message.sender,
            message.to,
            message.kind.value,
            message.priority.value,
            format_time(message.created_at, fraction=True),
            message.subject,
            format_time(message.expires_at) if message.expires_at else "",
            message.conversation_id,
            message.in_reply_to,
        )

    def _count_heading(self) -> None:
        self._headings += 1
        if self._headings >= _MANY:
            from parley.wire.oacp.heading import glance

            self._glance = glance

    def packet(self, content: bytes) -> dict[str, Value]:
        """The fields of any bounded YAML file, such as a findings packet."""
        return self._fields(self._text(content))

    def fields(self, message: Message) -> dict[str, Value]:
        """The message under OACP's field names, for people and for `--json`."""
        shown: dict[str, Value] = {
            "id": message.id,
            "from": message.sender,
            "to": message.to[0] if len(message.to) == 1 else list(message.to),
            "type": message.kind.value,
            "priority": message.priority.value,
            "created_at_utc": format_time(message.created_at),
            "expires_at": format_time(message.expires_at) if message.expires_at else None,
            "channel": message.tag or None,
            "related_packet": message.related_packet or None,
            "related_pr": message.related_pr or None,
            "conversation_id": message.conversation_id or None,
            "parent_message_id": message.in_reply_to or None,
            "context_keys": message.context_keys or None,
            "subject": message.subject,
            "body": message.body,
        }
        extras = message.extras
        if "ocip" in extras:
            from parley.wire.oacp.envelope import typed_extras

            extras = typed_extras(message)
        return {**{key: value for key, value in shown.items() if value is not None}, **extras}

    def _text(self, content: bytes) -> str:
        if len(content) > self._most:
            raise TooLarge(f"larger than the {self._most} bytes a message may have")
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotText(f"byte {error.start} is not UTF-8") from None
        if "\x00" in text:
            raise NotText("the file holds a NUL character")
        return text

    def _fields(self, text: str) -> dict[str, Value]:
        plain = read_plain(text, self._limits)
        if plain is not None:
            return plain  # type: ignore[return-value]  # a dict is invariant
        from parley.wire.yaml.strict import read_strict  # PyYAML costs 25 ms to import

        return read_strict(text, self._limits)

    def _mapping_of(self, text: str) -> dict[str, Value] | None:
        try:
            return self._fields(text)
        except Unreadable:
            return None


def _plain_heading(plain: Plain, most_chars: int) -> Heading | None:
    """The heading of a file in the plain form, or None when anything about it needs a closer look."""
    to = plain.get("to")
    if to.__class__ is list:
        plain = {**plain, "to": ""}
    for value in plain.values():
        if value.__class__ is not str:
            return None
    texts: dict[str, str] = plain  # type: ignore[assignment]  # the loop has looked
    get = texts.get
    id_, sender, kind, created = get("id"), get("from"), get("type"), get("created_at_utc")
    subject, priority = get("subject"), get("priority", DEFAULT_PRIORITY.value)
    expires, conversation, parent = get("expires_at", ""), get("conversation_id", ""), get("parent_message_id", "")
    if not (id_ and sender and to and subject and created and "body" in plain):
        return None
    if kind not in KINDS or priority not in PRIORITIES:
        return None
    recipients = (to,) if isinstance(to, str) else tuple(dict.fromkeys(to))
    if len(id_) > most_chars or len(conversation) > most_chars or len(parent) > most_chars:
        return None
    if not is_name(sender) or not all(map(is_name, recipients)):
        return None
    if not is_canonical(created) or (expires and not is_canonical(expires)):
        return None
    return Heading(id_, sender, recipients, kind, priority, created, subject, expires, conversation, parent)
