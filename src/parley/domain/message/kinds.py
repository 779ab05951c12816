"""The kinds of message, declared once: what each asks, who answers with what, how urgent, which fields its body has.

A new kind is one member of `Kind`. Options, help, reading, writing, checking and the reference page follow from it.
"""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any, Self


class Pattern(StrEnum):
    """How a message is answered."""

    REQUEST = "request"
    RESPONSE = "response"
    NOTIFY = "notify"
    BROADCAST = "broadcast"


class Priority(StrEnum):
    """How urgent it is; the text sorts in the order of urgency."""

    __module__ = "parley"

    P0 = "P0"
    P1 = "P1"
    P2 = "P2"
    P3 = "P3"


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
    # Other tools write text here, which readers accept.
    text_accepted: bool = False


class KindSpec(NamedTuple):
    """All that the specification says about one kind."""

    name: str
    purpose: str
    pattern: Pattern
    # Names of kinds, because they are declared with it.
    answers: tuple[str, ...]
    typical: tuple[Priority, ...]
    fields: tuple[Field, ...] = ()
    # The kind of the message that it goes back to, which also sets its priority.
    origin: str = ""
    point_to_point: bool = False
    # At the same priority it is handled before the others.
    goes_first: bool = False


# After this many rounds a review escalates, whatever it asks for.
REVIEW_ROUNDS_MAX = 20

_P0, _P1, _P2, _P3 = Priority
_CONTEXT = "context_bundle."


class Kind(StrEnum):
    """What a message asks: OACP's twelve types."""

    __module__ = "parley"

    _value_: str
    spec: KindSpec

    def __new__(cls, name: str, *rest: "Any") -> "Self":  # noqa: ANN401  # the other fields of KindSpec
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.spec = KindSpec(name, *rest)  # an enum hands over the fields of a tuple one by one
        return kind

    @property
    def answers(self) -> tuple["Kind", ...]:
        """The kinds that answer it, the usual one first."""
        return tuple([Kind(name) for name in self.spec.answers])

    @property
    def origin(self) -> "Kind | None":
        """The kind of the message that it goes back to."""
        return Kind(self.spec.origin) if self.spec.origin else None

    TASK_REQUEST = KindSpec(
        "task_request",
        "Ask an agent to perform work",
        Pattern.REQUEST,
        ("notification", "follow_up"),
        (_P2, _P1),
        goes_first=True,
    )
    QUESTION = KindSpec(
        "question",
        "Ask for information or a decision",
        Pattern.REQUEST,
        ("notification", "follow_up"),
        (_P2, _P1),
    )
    NOTIFICATION = KindSpec("notification", "Status update, for information", Pattern.NOTIFY, (), (_P2, _P3))
    FOLLOW_UP = KindSpec(
        "follow_up",
        "Track deferred work, or continue a conversation",
        Pattern.NOTIFY,
        ("notification", "follow_up"),
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
    )
    HANDOFF = KindSpec(
        "handoff",
        "Transfer ownership of a task",
        Pattern.REQUEST,
        ("handoff_complete",),
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
    )
    HANDOFF_COMPLETE = KindSpec(
        "handoff_complete",
        "Confirm that a handoff is done",
        Pattern.RESPONSE,
        (),
        (_P1,),
        (
            Field("issue", description="issue number or URL"),
            Field("pr", description="pull request number or URL"),
            Field("branch", description="branch name"),
            Field("tests_run", Shape.BOOLEAN, description="whether tests were executed", text_accepted=True),
            Field("next_owner", description="who owns the work from here on"),
        ),
        origin="handoff",
        point_to_point=True,
    )
    REVIEW_REQUEST = KindSpec(
        "review_request",
        "Ask for a code review",
        Pattern.REQUEST,
        ("review_feedback", "review_lgtm"),
        (_P1,),
        (
            Field("pr", description="PR number or URL"),
            Field("branch", description="branch name"),
            Field("diff_summary", description="summary of the changes"),
            Field("max_turns_reviewer", Shape.INTEGER, False, least=1, description="rounds before escalation"),
            Field("max_runtime_s_reviewer", Shape.INTEGER, False, least=1, description="seconds to spend"),
        ),
        goes_first=True,
    )
    REVIEW_FEEDBACK = KindSpec(
        "review_feedback",
        "Return review findings",
        Pattern.RESPONSE,
        ("review_addressed", "question"),
        (_P1,),
        (
            Field("findings_packet", Shape.PATH, description="path of the findings packet, inside the project"),
            Field("round", Shape.INTEGER, least=1, description="review round, from 1"),
            Field("blocking_count", Shape.INTEGER, description="findings that block the merge"),
        ),
        origin="review_request",
    )
    REVIEW_ADDRESSED = KindSpec(
        "review_addressed",
        "Say that feedback was addressed",
        Pattern.RESPONSE,
        ("review_feedback", "review_lgtm", "review_request"),
        (_P1,),
        (
            Field("commit_sha", description="commit that addresses the findings"),
            Field("changes_summary", description="what was changed"),
            Field("round", Shape.INTEGER, least=1, description="round being addressed"),
            Field("touched_files", Shape.LIST, description="files modified"),
            Field("addressed_finding_ids", Shape.LIST, description="findings that were resolved"),
        ),
        origin="review_request",
    )
    REVIEW_LGTM = KindSpec(
        "review_lgtm",
        "Approve the change",
        Pattern.RESPONSE,
        (),
        (_P1,),
        (
            Field("quality_gate_result", choices=("pass", "fail"), description="result of the gate"),
            Field("merge_ready", Shape.BOOLEAN, description="whether the PR may be merged"),
            Field("nits", Shape.LIST, False, description="notes that do not block"),
        ),
        origin="review_request",
    )
    BRAINSTORM_REQUEST = KindSpec(
        "brainstorm_request",
        "Ask for ideas or research",
        Pattern.REQUEST,
        ("notification", "brainstorm_followup"),
        (_P2, _P3),
    )
    BRAINSTORM_FOLLOWUP = KindSpec(
        "brainstorm_followup",
        "Narrow or continue a brainstorm",
        Pattern.REQUEST,
        ("notification", "brainstorm_followup"),
        (_P2, _P3),
        origin="brainstorm_request",
    )


KINDS: dict[str, Kind] = {kind.value: kind for kind in Kind}
PRIORITIES: dict[str, Priority] = {priority.value: priority for priority in Priority}
DEFAULT_PRIORITY = Priority.P2
GOES_FIRST = frozenset([kind for kind in Kind if kind.spec.goes_first])
