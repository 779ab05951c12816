"""The twelve kinds as one table: who answers with what, how urgent, and which fields a body must carry."""

# Annotations are evaluated here: from text, a NamedTuple would compile each of them at every start.

import re
from enum import StrEnum
from typing import NamedTuple

from parley.domain.errors.errors import Problem
from parley.domain.message.message import Body, Kind, Message, Pattern, Priority, Value


class Shape(StrEnum):
    """What a body field may hold."""

    TEXT = "string"
    PATH = "string (relative path)"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    LIST = "list"
    FULL_LIST = "list (non-empty)"


class Field(NamedTuple):
    """One field of a structured body; a dot in the name reaches into a mapping."""

    name: str
    shape: Shape = Shape.TEXT
    required: bool = True
    choices: tuple[str, ...] = ()
    least: int = 0
    description: str = ""


class KindSpec(NamedTuple):
    """All that the specification says about one kind."""

    purpose: str
    pattern: Pattern
    answers: tuple[Kind, ...]
    typical: tuple[Priority, ...]
    fields: tuple[Field, ...] = ()
    # Same urgency as the message it answers.
    inherits_priority: bool = False
    point_to_point: bool = False


_P0, _P1, _P2, _P3 = Priority
_CONTEXT = "context_bundle."

KIND_SPECS: dict[Kind, KindSpec] = {
    Kind.TASK_REQUEST: KindSpec(
        "Ask an agent to perform work",
        Pattern.REQUEST,
        (Kind.NOTIFICATION, Kind.FOLLOW_UP),
        (_P2, _P1),
    ),
    Kind.QUESTION: KindSpec(
        "Ask for information or a decision",
        Pattern.REQUEST,
        (Kind.NOTIFICATION, Kind.FOLLOW_UP),
        (_P2, _P1),
    ),
    Kind.NOTIFICATION: KindSpec("Status update, for information", Pattern.NOTIFY, (), (_P2, _P3)),
    Kind.FOLLOW_UP: KindSpec(
        "Track deferred work, or continue a conversation",
        Pattern.NOTIFY,
        (Kind.NOTIFICATION, Kind.FOLLOW_UP),
        (_P2, _P3),
        (
            Field(
                "source_type",
                choices=("review", "task", "deploy", "incident", "other"),
                description="where it originated",
            ),
            Field("source_ref", description="PR number, message id or file path it came from"),
            Field("risk_tier", choices=("P2", "P3"), description="risk; also the priority"),
            Field("summary", description="the deferred item in brief"),
            Field("next_action", description="the concrete next step"),
            Field("owner", description="agent responsible for it"),
            Field("tracking_issue", required=False, description="issue that tracks it"),
            Field("due_hint", required=False, description="when it should be done"),
        ),
    ),
    Kind.HANDOFF: KindSpec(
        "Transfer ownership of a task",
        Pattern.REQUEST,
        (Kind.HANDOFF_COMPLETE,),
        (_P1,),
        (
            Field("source_agent", description="agent transferring ownership"),
            Field("target_agent", description="agent receiving ownership"),
            Field("intent", description="what the recipient should accomplish"),
            Field("artifacts_to_review", Shape.FULL_LIST, description="files, PRs or documents to examine"),
            Field("definition_of_done", Shape.FULL_LIST, description="criteria for completion"),
            Field(_CONTEXT + "files_touched", Shape.FULL_LIST, description="files modified so far"),
            Field(_CONTEXT + "decisions_made", Shape.FULL_LIST, description="key decisions with rationale"),
            Field(_CONTEXT + "blockers_hit", Shape.FULL_LIST, description="blockers and resolutions"),
            Field(_CONTEXT + "suggested_next_steps", Shape.FULL_LIST, description="recommended actions"),
        ),
        point_to_point=True,
    ),
    Kind.HANDOFF_COMPLETE: KindSpec(
        "Confirm that a handoff is done",
        Pattern.RESPONSE,
        (),
        (_P1,),
        (
            Field("issue", description="issue number or URL"),
            Field("pr", description="pull request number or URL"),
            Field("branch", description="branch name"),
            Field("tests_run", Shape.BOOLEAN, description="whether tests were executed"),
            Field("next_owner", description="who owns the work from here on"),
        ),
        inherits_priority=True,
        point_to_point=True,
    ),
    Kind.REVIEW_REQUEST: KindSpec(
        "Ask for a code review",
        Pattern.REQUEST,
        (Kind.REVIEW_FEEDBACK, Kind.REVIEW_LGTM),
        (_P1,),
        (
            Field("pr", description="PR number or URL"),
            Field("branch", description="branch name"),
            Field("diff_summary", description="summary of the changes"),
            Field("max_turns_reviewer", Shape.INTEGER, False, least=1, description="rounds before escalation"),
            Field("max_runtime_s_reviewer", Shape.INTEGER, False, least=1, description="seconds to spend"),
        ),
    ),
    Kind.REVIEW_FEEDBACK: KindSpec(
        "Return review findings",
        Pattern.RESPONSE,
        (Kind.REVIEW_ADDRESSED, Kind.QUESTION),
        (_P1,),
        (
            Field("findings_packet", Shape.PATH, description="path of the findings packet, inside the project"),
            Field("round", Shape.INTEGER, least=1, description="review round, from 1"),
            Field("blocking_count", Shape.INTEGER, description="findings that block the merge"),
        ),
        inherits_priority=True,
    ),
    Kind.REVIEW_ADDRESSED: KindSpec(
        "Say that feedback was addressed",
        Pattern.RESPONSE,
        (Kind.REVIEW_FEEDBACK, Kind.REVIEW_LGTM, Kind.REVIEW_REQUEST),
        (_P1,),
        (
            Field("commit_sha", description="commit that addresses the findings"),
            Field("changes_summary", description="what was changed"),
            Field("round", Shape.INTEGER, least=1, description="round being addressed"),
            Field("touched_files", Shape.LIST, description="files modified"),
            Field("addressed_finding_ids", Shape.LIST, description="findings that were resolved"),
        ),
        inherits_priority=True,
    ),
    Kind.REVIEW_LGTM: KindSpec(
        "Approve the change",
        Pattern.RESPONSE,
        (),
        (_P1,),
        (
            Field("quality_gate_result", choices=("pass", "fail"), description="result of the gate"),
            Field("merge_ready", Shape.BOOLEAN, description="whether the PR may be merged"),
            Field("nits", Shape.LIST, False, description="notes that do not block"),
        ),
        inherits_priority=True,
    ),
    Kind.BRAINSTORM_REQUEST: KindSpec(
        "Ask for ideas or research",
        Pattern.REQUEST,
        (Kind.NOTIFICATION, Kind.BRAINSTORM_FOLLOWUP),
        (_P2, _P3),
    ),
    Kind.BRAINSTORM_FOLLOWUP: KindSpec(
        "Narrow or continue a brainstorm",
        Pattern.REQUEST,
        (Kind.NOTIFICATION, Kind.BRAINSTORM_FOLLOWUP),
        (_P2, _P3),
        inherits_priority=True,
    ),
}

_TRUE, _FALSE = frozenset({"true", "yes", "on"}), frozenset({"false", "no", "off"})
_DIGITS = r"[+-]?[0-9]{1,9}\Z"
_BARE_NUMBER = r"[0-9]{1,9}\Z"


def is_structured(kind: Kind) -> bool:
    """Whether bodies of this kind have required fields."""
    return bool(KIND_SPECS[kind].fields)


def default_reply(kind: Kind) -> Kind:
    """The kind that answers `kind` when nobody says otherwise."""
    answers = KIND_SPECS[kind].answers
    return answers[0] if answers else Kind.NOTIFICATION


def default_priority(kind: Kind, body: Body, parent: Message | None) -> Priority:
    """How urgent a message is when its sender does not say."""
    spec = KIND_SPECS[kind]
    if kind is Kind.FOLLOW_UP and isinstance(body, dict):
        return _P3 if body.get("risk_tier") == "P3" else _P2
    if spec.inherits_priority and parent is not None:
        return parent.priority
    return spec.typical[0] if not spec.inherits_priority else _P2


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
    shapes = {field.name: field.shape for field in KIND_SPECS[kind].fields}
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
        return [_line(item) if shape else _shaped(item, {}, "") for item in value]
    return _word(value)


def _word(value: Value) -> str:
    """A scalar as the text a YAML reader sees."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _line(item: Value) -> Value:
    """A list item as one text: a mapping becomes `key: value` pairs."""
    if isinstance(item, dict):
        return "; ".join(f"{key}: {_line(value)}" for key, value in item.items())
    if isinstance(item, list):
        return ", ".join(str(_line(value)) for value in item)
    return _word(item)


def check_body(kind: Kind, body: Body, *, in_reply_to: str = "") -> list[Problem]:
    """Everything that the kind's schema finds wrong with `body`, each problem naming its field."""
    fields = KIND_SPECS[kind].fields
    if not fields:
        return []
    if isinstance(body, str):
        if kind is Kind.FOLLOW_UP and in_reply_to:
            return []  # a continuation of a conversation is free text
        names = ", ".join(field.name for field in fields if field.required)
        return [Problem("body_not_structured", "body", f"{kind} needs the fields {names}")]
    problems = []
    for field in fields:
        problem = _check_field(kind, field, lookup(body, field.name))
        if problem is not None:
            problems.append(problem)
    return problems


def is_inside(path: str) -> bool:
    """Whether a path stays inside the folder it is relative to."""
    return all(part not in ("", ".", "..") for part in path.split("/"))


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
    elif field.shape is Shape.FULL_LIST and not value:
        return Problem("bad_body_field", where, "must not be empty")
    return None
