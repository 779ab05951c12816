"""What a body must carry: its fields as the kind declares them, and the defaults that follow from the kind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parley.domain.errors.errors import Problem
from parley.domain.message.kinds import REVIEW_ROUNDS_MAX, Field, Kind, Priority, Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley.domain.message.message import Body, Message, Value

_TRUE, _FALSE = frozenset({"true", "yes", "on"}), frozenset({"false", "no", "off"})
_DIGITS = r"[+-]?[0-9]{1,9}\Z"
_BARE_NUMBER = r"[0-9]{1,9}\Z"


def is_structured(kind: Kind) -> bool:
    """Whether bodies of this kind have required fields."""
    return bool(kind.spec.fields)


_QUESTION_MARKS = ("?", "\uff1f", "\u061f")


def default_reply(kind: Kind) -> Kind:
    """The kind that answers `kind` when nobody says otherwise."""
    return kind.answers[0] if kind.spec.answers else Kind.NOTIFICATION


def default_kind(text: str) -> Kind:
    """The kind of a message whose sender gave only a text: a question ends with a question mark."""
    return Kind.QUESTION if text.rstrip().endswith(_QUESTION_MARKS) else Kind.NOTIFICATION


def default_subject(text: str, most_chars: int) -> str:
    """The first line of a text, cut after a word when it is too long for a subject."""
    line = " ".join(text.strip().partition("\n")[0].split())
    if len(line) <= most_chars:
        return line
    cut = line[: most_chars - 1]
    return f"{cut.rpartition(' ')[0] or cut}…"


def default_priority(kind: Kind, body: Body, parent: Message | None, origin: Message | None = None) -> Priority:
    """How urgent a message is when its sender does not say; `origin` is the message that its thread goes back to."""
    if kind is Kind.FOLLOW_UP and isinstance(body, dict):
        return Priority.P3 if body.get("risk_tier") == "P3" else Priority.P2
    if not kind.spec.origin:
        return kind.spec.typical[0]
    inherited = origin or parent
    return inherited.priority if inherited is not None else Priority.P2


def origin_in(thread: Sequence[Message], kind: Kind, parent: Message | None) -> Message | None:
    """The message of a thread, oldest first, that a message of this kind goes back to.

    That is the nearest one above its parent, or the newest of the thread when there is none above it.
    """
    wanted = kind.origin
    by_id = {message.id: message for message in thread}
    above: dict[str, Message] = {}
    while parent is not None and parent.id not in above:
        if parent.kind is wanted:
            return parent
        above[parent.id] = parent
        parent = by_id.get(parent.in_reply_to)
    return next((message for message in reversed(thread) if message.kind is wanted), None)


def lookup(body: dict[str, Value], name: str) -> Value:
    """The value at a dotted name, None when it is not there."""
    value: Value = body
    for part in name.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def shape_body(kind: Kind, body: dict[str, Value]) -> dict[str, Value]:
    """The body with each known field in the type its kind gives it and all else as text.

    What does not fit its type stays as it is, for `check_body` to name.
    """
    shapes = {field.name: field.shape for field in kind.spec.fields}
    shaped = _shaped_mapping(body, shapes, "")
    pr = shaped.get("pr")
    if kind is Kind.HANDOFF_COMPLETE and isinstance(pr, str) and re.match(_BARE_NUMBER, pr):
        shaped["pr"] = "#" + pr
    return shaped


def _shaped_mapping(body: dict[str, Value], shapes: dict[str, Shape], path: str) -> dict[str, Value]:
    return {str(key): _shaped(value, shapes, f"{path}{key}") for key, value in body.items() if value is not None}


def _shaped(value: Value, shapes: dict[str, Shape], path: str) -> Value:
    shape = shapes.get(path)
    if shape is Shape.INTEGER:
        return int(value) if isinstance(value, str) and re.match(_DIGITS, value) else value
    if shape is Shape.BOOLEAN:
        word = value.lower() if isinstance(value, str) else ""
        return True if word in _TRUE else False if word in _FALSE else value
    if isinstance(value, dict):
        return _shaped_mapping(value, shapes, f"{path}.")
    if isinstance(value, list):
        return [item_text(item) if shape else _shaped(item, {}, "") for item in value]
    return _word(value)


def _word(value: Value) -> str:
    """A scalar as the text a YAML reader sees."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def item_text(item: Value) -> str:
    """A list item as one text: a mapping becomes `key: value` pairs."""
    if isinstance(item, dict):
        return "; ".join(f"{key}: {item_text(value)}" for key, value in item.items())
    if isinstance(item, list):
        return ", ".join(item_text(value) for value in item)
    return _word(item)


def check_body(kind: Kind, body: Body, *, in_reply_to: str = "", received: bool = False) -> list[Problem]:
    """Everything that the kind's schema finds wrong with `body`, each problem naming its field.

    `received` accepts what other tools write and Parley does not.
    """
    fields = kind.spec.fields
    if not fields:
        return []
    if isinstance(body, str):
        if kind is Kind.FOLLOW_UP and in_reply_to:
            return []  # a continuation of a conversation is free text
        names = ", ".join(field.name for field in fields if field.required)
        return [Problem("body_not_structured", "body", f"{kind} needs the fields {names}")]
    problems = []
    for field in fields:
        value = lookup(body, field.name)
        if received and field.text_accepted and isinstance(value, str) and value.strip():
            continue
        problem = _check_field(kind, field, value)
        if problem is not None:
            problems.append(problem)
    return problems


def contradictions(kind: Kind, sender: str, to: tuple[str, ...], body: Body) -> list[Problem]:
    """What a body says against its own message or against itself: allowed, but hardly meant."""
    if not isinstance(body, dict):
        return []
    remarks = []
    if kind is Kind.HANDOFF:
        source, target = body.get("source_agent"), body.get("target_agent")
        if isinstance(source, str) and source != sender:
            remarks.append(Problem("contradiction", "body.source_agent", f"is {source!r}, the sender is {sender}"))
        if isinstance(target, str) and target not in to:
            detail = f"is {target!r}, the recipient is {', '.join(to)}"
            remarks.append(Problem("contradiction", "body.target_agent", detail))
    if kind is Kind.REVIEW_LGTM and body.get("quality_gate_result") == "fail" and body.get("merge_ready") is True:
        detail = "is true although the quality gate fails; this is not an approval"
        remarks.append(Problem("contradiction", "body.merge_ready", detail))
    turns = body.get("max_turns_reviewer")
    if kind is Kind.REVIEW_REQUEST and isinstance(turns, int) and turns > REVIEW_ROUNDS_MAX:
        detail = f"a review has at most {REVIEW_ROUNDS_MAX} rounds; it escalates after them, not after {turns}"
        remarks.append(Problem("too_many_rounds", "body.max_turns_reviewer", detail))
    return remarks


def is_inside(path: str) -> bool:
    """Whether a path stays inside the folder it is relative to. One with a NUL names no file."""
    return "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))


def _check_field(kind: Kind, field: Field, value: Value) -> Problem | None:
    where = f"body.{field.name}"
    if value is None or value == "":
        return Problem("missing_body_field", where, f"required by {kind}") if field.required else None
    if field.shape in (Shape.TEXT, Shape.PATH):
        if not isinstance(value, str):
            return Problem("bad_body_field", where, "must be text")
        if field.shape is Shape.PATH and not is_inside(value):
            return Problem("bad_body_field", where, "must be a relative path inside the project")
        if field.choices and value not in field.choices:
            return Problem("bad_body_field", where, f"must be one of {', '.join(field.choices)}")
    elif field.shape is Shape.INTEGER:
        if not isinstance(value, int) or isinstance(value, bool) or value < field.least:
            return Problem("bad_body_field", where, f"must be a whole number, {field.least} or more")
    elif field.shape is Shape.BOOLEAN:
        if not isinstance(value, bool):
            return Problem("bad_body_field", where, "must be true or false")
    elif not isinstance(value, list):
        return Problem("bad_body_field", where, "must be a list")
    elif field.shape is Shape.FULL_LIST and not any(str(item).strip() for item in value):
        return Problem("bad_body_field", where, "must not be empty")
    return None
