"""Messages, drafts and bodies that tests change in one place and send through."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from parley.domain.message.compose import EMITTED_EXTRAS
from parley.domain.message.message import Body, Draft, Kind, Message, Priority, Value
from parley.wire.yaml.write import mapping_text

NOW = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)

# Slow machines and full test runs must not turn a property into a coin toss.
PROPERTY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

STRUCTURED: Mapping[Kind, dict[str, Value]] = {
    Kind.FOLLOW_UP: {
        "source_type": "review",
        "source_ref": "PR #42",
        "risk_tier": "P3",
        "summary": "File upload endpoint accepts any MIME type",
        "next_action": "Add allowlist for MIME types, write test",
        "owner": "claude",
    },
    Kind.HANDOFF: {
        "source_agent": "claude",
        "target_agent": "codex",
        "intent": "Review and merge the auth middleware PR",
        "artifacts_to_review": ["PR #42"],
        "definition_of_done": ["PR merged to main"],
        "context_bundle": {
            "files_touched": ["src/middleware/auth.ts"],
            "decisions_made": ["RS256 over HS256"],
            "blockers_hit": ["Key rotation endpoint not documented"],
            "suggested_next_steps": ["Add integration test"],
        },
    },
    Kind.HANDOFF_COMPLETE: {
        "issue": "#38",
        "pr": "#42",
        "branch": "feat/auth-middleware",
        "tests_run": True,
        "next_owner": "claude",
    },
    Kind.REVIEW_REQUEST: {"pr": "#55", "branch": "feat/rate-limit", "diff_summary": "Adds a rate limiter.\n280 lines."},
    Kind.REVIEW_FEEDBACK: {"findings_packet": "packets/review/pr-55-round-1.yaml", "round": 1, "blocking_count": 2},
    Kind.REVIEW_ADDRESSED: {
        "commit_sha": "a1b2c3d",
        "changes_summary": "Fixed race condition in token bucket reset.",
        "round": 1,
        "touched_files": ["src/middleware/rate-limit.ts"],
        "addressed_finding_ids": ["finding-001", "finding-002"],
    },
    Kind.REVIEW_LGTM: {"quality_gate_result": "pass", "merge_ready": True},
}


def a_body(kind: Kind) -> Body:
    """A body that the schema of `kind` accepts, free for the caller to change."""
    return copied(STRUCTURED[kind]) if kind in STRUCTURED else "All 142 tests pass.\nReady when you are.\n"


def fields_of(kind: Kind, **changes: Value) -> dict[str, Value]:
    """The structured body of `kind` with some fields changed; None takes a field away."""
    body = {**copied(STRUCTURED[kind]), **changes}
    return {name: value for name, value in body.items() if value is not None}


def copied(fields: Mapping[str, Value]) -> dict[str, Value]:
    return {key: _copied(value) for key, value in fields.items()}


def _copied(value: Value) -> Value:
    if isinstance(value, dict):
        return copied(value)
    return [_copied(item) for item in value] if isinstance(value, list) else value


def a_message(kind: Kind = Kind.TASK_REQUEST, /, **changes: object) -> Message:
    changed: dict[str, Any] = changes
    message = Message(
        id="msg-20260313T1430Z-claude-a8f3",
        sender="claude",
        to=("codex",),
        kind=kind,
        priority=Priority.P2,
        created_at=NOW,
        subject="Implement rate limiting",
        body=a_body(kind),
    )
    return message._replace(**changed)


def a_draft(kind: Kind = Kind.TASK_REQUEST, /, **changes: object) -> Draft:
    changed: dict[str, Any] = changes
    draft = Draft(sender="claude", to=("codex",), kind=kind, subject="Implement rate limiting", body=a_body(kind))
    return draft._replace(**changed)


def a_file(without: str = "", **changes: str) -> bytes:
    """A valid message file, each field as the text that stands after `key: `."""
    fields = {
        "id": '"msg-20260313T1430Z-claude-a8f3"',
        "from": "claude",
        "to": "codex",
        "type": "task_request",
        "priority": "P2",
        "created_at_utc": '"2026-03-13T14:30:00Z"',
        "subject": '"Implement rate limiting"',
        "body": "|\n  Add rate limiting to the /api/v1/* routes.\n  Token bucket.",
        **{name.rstrip("_"): text for name, text in changes.items()},
    }
    return "".join(f"{name}: {text}\n" for name, text in fields.items() if name != without).encode()


def with_blocks(text: str) -> str:
    """A message file whose envelope is spread over lines, as other tools may write it."""
    lines = []
    for line in text.splitlines(keepends=True):
        key, _, value = line.partition(": ")
        carried = key in ("ocip", "ocip_ext") and value.startswith("{")
        lines.append(mapping_text({key: json.loads(value)}) if carried else line)
    return "".join(lines)


_WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
# Never a device: those have no name that begins with these letters.
agent_names = st.builds(str.__add__, st.sampled_from("bdefghABDEGH"), st.text(_WORD, max_size=20))
# Everything that UTF-8 can carry, with what YAML readers stumble over drawn more often.
texts = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("\n\n\n\t\r \"'\\#:-|>?!&*%@`[]{},~\0\x07\x1b\x7f\x85\xa0\u2028\u2029\u3000\ufeff\ufffe\uffff"),
    )
)
filled_texts = texts.filter(lambda text: bool(text.strip()))
lines = texts.map(lambda text: "".join(text.split("\n"))[:200])
moments = st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC)).map(  # noqa: DTZ001
    lambda at: at.replace(microsecond=0)
)


@st.composite
def bodies(draw: st.DrawFn, kind: Kind) -> Body:
    """Any text, which scripts send under every kind; any content in the fields of a structured one."""
    if kind not in STRUCTURED or draw(st.integers(0, 3)) == 0:
        return draw(st.one_of(filled_texts, st.sampled_from(["Note: done", "a: b\nc: [d]\n", "round: 1\n"])))
    body = copied(STRUCTURED[kind])
    for name, value in body.items():
        if isinstance(value, str) and name not in {"source_type", "risk_tier", "quality_gate_result", "pr"}:
            body[name] = draw(texts.filter(bool))
        elif isinstance(value, list):
            body[name] = [*value, *draw(st.lists(texts, max_size=3))]
    return body


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Any message that a sender may send."""
    kind = draw(st.sampled_from(Kind))
    sender = draw(agent_names)
    alone = kind in {Kind.HANDOFF, Kind.HANDOFF_COMPLETE}
    names = st.lists(
        agent_names.filter(lambda name: name != sender), min_size=1, max_size=1 if alone else 10, unique=True
    )
    optional = st.one_of(st.just(""), lines)
    return Message(
        id=draw(lines.filter(bool)),
        sender=sender,
        to=tuple(draw(names)),
        kind=kind,
        priority=draw(st.sampled_from(Priority)),
        created_at=draw(moments),
        subject=draw(lines.filter(lambda text: bool(text.strip()))),
        body=draw(bodies(kind)),
        expires_at=draw(st.one_of(st.none(), moments)),
        tag=draw(st.one_of(st.just(""), st.text(_WORD, min_size=1, max_size=64))),
        related_packet=draw(optional),
        related_pr=draw(st.one_of(st.just(""), st.integers(1, 10**6).map(str))),
        conversation_id=draw(optional),
        in_reply_to=draw(optional),
        context_keys=draw(texts),
        extras=draw(st.dictionaries(st.sampled_from(EMITTED_EXTRAS), lines, max_size=3)),
    )
