"""From a file's fields to a message, collecting everything that is wrong on the way.

A *problem* makes a file unacceptable; a *doubt* is a breach of the specification that costs nobody the message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from parley.domain.errors.errors import Invalid, Problem
from parley.domain.message import bodies
from parley.domain.message.compose import check_recipients, is_one_line, normal_pr
from parley.domain.message.message import DEFAULT_PRIORITY, KINDS, PRIORITIES, Body, Kind, Message, Reading, Value
from parley.domain.names import is_name
from parley.domain.times import read_foreign_time
from parley.wire.yaml.write import mapping_text

if TYPE_CHECKING:
    from datetime import datetime

    from parley.domain.limits import Limits

REQUIRED = ("id", "from", "to", "type", "priority", "created_at_utc", "subject", "body")
OPTIONAL = (
    "expires_at",
    "channel",
    "related_packet",
    "related_pr",
    "conversation_id",
    "parent_message_id",
    "context_keys",
)
_KNOWN = frozenset(REQUIRED + OPTIONAL)

# A mapping is no value of any other field.
_EMPTY: dict[str, tuple[Value, ...]] = {"body": ("", [], {})}

_MappingOf = Callable[[str], dict[str, Value] | None]
_Report = Callable[[str, str, str], None]


def body_of_text(kind: Kind, text: str, parent: str, mapping_of: _MappingOf) -> Body:
    """The fields that a text holds where its kind asks for fields, else the text.

    A follow_up that answers a message may be free text, and "Note: done" is not meant as a field: only a
    complete set of fields is taken as one.
    """
    fields = mapping_of(text) if bodies.is_structured(kind) else None
    if fields is None:
        return text
    shaped = bodies.shape_body(kind, fields)
    continues = kind is Kind.FOLLOW_UP and parent
    return text if continues and bodies.check_body(kind, shaped) else shaped


def body_of_mapping(kind: Kind, fields: dict[str, Value]) -> Body:
    """The fields where the kind asks for fields; elsewhere they are written, and so read, as text."""
    return fields if bodies.is_structured(kind) else mapping_text(fields)


class Schema:
    """Fields to message, collecting everything that is wrong on the way."""

    def __init__(self, fields: dict[str, Value], limits: Limits, mapping_of: _MappingOf) -> None:
        self._fields = fields
        self._limits = limits
        self._mapping_of = mapping_of
        self._problems: list[Problem] = []
        self._doubts: list[Problem] = []

    def read(self) -> Reading:
        for name in REQUIRED:
            if self._fields.get(name) is None or self._fields[name] in _EMPTY.get(name, ("", [])):
                self._miss(name)
        type_ = self._text("type")
        kind = KINDS.get(type_)
        if kind is None and type_:
            self._problem("bad_type", "type", f"{type_[:70]!r} is not one of the 12 message types")
        priority = PRIORITIES.get(self._text("priority") or DEFAULT_PRIORITY.value)
        if priority is None:
            self._problem("bad_priority", "priority", "must be P0, P1, P2 or P3")
        created = self._time("created_at_utc", self._problem)
        expires = self._time("expires_at", self._doubt)
        id_, sender, to = self._bounded("id"), self._agent("from"), self._recipients()
        conversation, parent = self._bounded("conversation_id"), self._bounded("parent_message_id")
        subject, tag = self._text("subject"), self._text("channel")
        packet, context = self._text("related_packet"), self._context()
        related_pr = self._text("related_pr")
        body = self._body(kind, parent) if kind else ""
        self._extents(subject, tag, body, context, related_pr)
        if self._problems or kind is None or priority is None or created is None:
            return Reading(None, self._problems, self._doubts)
        extras = {key: value for key, value in self._fields.items() if key not in _KNOWN}
        self._labels(extras)
        self._doubts += bodies.check_body(kind, body, in_reply_to=parent, received=True)
        self._doubts += check_recipients(kind, sender, to, self._limits)
        self._doubts += bodies.contradictions(kind, sender, to, body)
        tier = body.get("risk_tier") if kind is Kind.FOLLOW_UP and isinstance(body, dict) else None
        if tier in ("P2", "P3") and priority != tier:
            self._doubt("priority_mismatch", "priority", f"is {priority}; the risk_tier of this follow_up is {tier}")
        message = Message(
            id=id_,
            sender=sender,
            to=to,
            kind=kind,
            priority=priority,
            created_at=created,
            subject=subject,
            body=body,
            expires_at=expires,
            tag=tag,
            related_packet=packet,
            related_pr=related_pr,
            conversation_id=conversation,
            in_reply_to=parent,
            context_keys=context,
            extras=extras,
        )
        return Reading(message, [], self._doubts)

    def _problem(self, code: str, field: str, detail: str) -> None:
        self._problems.append(Problem(code, field, detail))

    def _doubt(self, code: str, field: str, detail: str) -> None:
        self._doubts.append(Problem(code, field, detail))

    def _miss(self, name: str) -> None:
        if name == "priority":
            self._doubt("missing_field", name, "is missing; P2 is assumed")
        elif name == "body" and self._fields.get(name) in ("", {}):
            self._doubt("missing_field", name, "is empty")
        else:
            self._problem("missing_field", name, "is missing")

    def _text(self, name: str) -> str:
        value = self._fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            self._problem("bad_field", name, "must be text")
            return ""
        return value

    def _bounded(self, name: str) -> str:
        text = self._text(name)
        if len(text) > self._limits.id_chars:
            detail = f"{len(text)} characters, at most {self._limits.id_chars} are allowed"
            self._problem("too_long", name, detail)
        return text

    def _agent(self, name: str) -> str:
        text = self._text(name)
        if text and not is_name(text):
            self._problem("bad_agent_name", name, f"{text[:70]!r} is not a valid agent name")
        return text

    def _recipients(self) -> tuple[str, ...]:
        value = self._fields.get("to")
        names = value if isinstance(value, list) else [] if value in (None, "") else [value]
        texts = [name for name in names if isinstance(name, str) and is_name(name)]
        if len(texts) != len(names):
            self._problem("bad_agent_name", "to", "must be an agent name or a list of agent names")
        return tuple(dict.fromkeys(texts))

    def _time(self, name: str, report: _Report) -> datetime | None:
        text = self._text(name)
        if not text:
            return None
        try:
            time = read_foreign_time(text)
        except Invalid as error:
            report("bad_time", name, error.message)
            return None
        if not time.has_zone:
            self._doubt("no_time_zone", name, "has no time zone; UTC is assumed")
        elif not time.is_utc:
            self._doubt("local_time", name, "is in a local time zone; the specification asks for UTC")
        return time.at

    def _context(self) -> str:
        value = self._fields.get("context_keys")
        if isinstance(value, list):
            return "\n".join(f"- {bodies.item_text(item)}" for item in value)
        return self._text("context_keys")

    def _body(self, kind: Kind, parent: str) -> Body:
        value = self._fields.get("body")
        if isinstance(value, str):
            return body_of_text(kind, value, parent, self._mapping_of)
        if isinstance(value, dict):
            return bodies.shape_body(kind, value)
        if value is not None:
            self._problem("bad_field", "body", "must be text or named fields")
        return ""

    def _labels(self, extras: dict[str, Value]) -> None:
        """Doubt a label that the rules did not give: it would say wrongly who wrote the message."""
        label, envelope, beside = extras.get("disclosure"), extras.get("ocip"), extras.get("ocip_ext")
        if label is not None and not isinstance(envelope, dict):
            self._doubt("false_label", "disclosure", "was written by the sender; only a governed message carries one")
        if not isinstance(envelope, dict):
            return
        by_person = envelope.get("message_type") == "human"
        if by_person is (label is not None):
            detail = (
                "is the label of an agent, and a person wrote this" if by_person else "is missing: an agent wrote this"
            )
            self._doubt("false_label", "disclosure", detail)
        stamped = beside.get("disclosure") if isinstance(beside, dict) else None
        if label is not None and isinstance(stamped, dict) and stamped.get("label") != label:
            self._doubt("false_label", "disclosure", "is not the one beside the envelope")

    def _extents(self, subject: str, tag: str, body: Body, context: str, related_pr: str) -> None:
        limits = self._limits
        for name, text, most in (
            ("subject", subject, limits.subject_chars),
            ("channel", tag, limits.tag_chars),
        ):
            if len(text) > most:
                self._doubt("too_long", name, f"{len(text)} characters, at most {most} are allowed")
        if subject and not is_one_line(subject):
            self._doubt("not_one_line", "subject", "must be one line")
        if isinstance(body, str) and len(body) > limits.body_chars:
            detail = f"{len(body)} characters, at most {limits.body_chars} are allowed"
            self._doubt("body_too_long", "body", detail)
        if len(context.split()) > limits.context_words:
            self._doubt("long_context", "context_keys", f"more than {limits.context_words} words")
        if related_pr and normal_pr(related_pr) is None:
            self._doubt("bad_related_pr", "related_pr", "is not a number, #42 or a URL")
