"""What is read at a glance is what the whole message says."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parley.domain.limits import DEFAULT_LIMITS, Limits
from parley.domain.message.message import Heading, Message
from parley.domain.times import format_time
from parley.wire.oacp.format import OacpFormat
from parley.wire.oacp.heading import glance
from tests.samples.messages import NOW, PROPERTY, a_file, a_message, messages
from tests.unit.wire.yaml.test_plain import LINES, VALUES, mutated

# As the OACP tool writes it.
THEIRS = """\
id: msg-20260313143000-claude-a8f3
from: claude
to: codex
type: question
priority: P1
created_at_utc: "2026-03-13T14:30:00Z"
expires_at: "2026-03-14T14:30:00Z"
channel: review
related_pr: 42
conversation_id: conv-20260313-claude-093036
parent_message_id: msg-20260313142900-codex-77aa
context_keys: |
  - tokens
  - rotation
subject: "Is \\"this\\" right: yes or no?"
body: |
  The endpoint accepts any payload.
  \n
    - indented
"""
KEYS = [line.split(":")[0] for line in THEIRS.splitlines() if not line.startswith(" ") and line]
OURS = OacpFormat().encode(a_message(conversation_id="conv-20260313-claude-001", expires_at=NOW)).decode()


def whole(text: str, limits: Limits = DEFAULT_LIMITS) -> Heading:
    """The heading of the message that a full reading finds."""
    message = OacpFormat(limits).decode(text.encode())
    return Heading(
        message.id,
        message.sender,
        message.to,
        message.kind.value,
        message.priority.value,
        format_time(message.created_at),
        message.subject,
        format_time(message.expires_at) if message.expires_at else "",
        message.conversation_id,
        message.in_reply_to,
    )


def assert_agreement(text: str, limits: Limits = DEFAULT_LIMITS) -> bool:
    """The whole message says what the glance saw; whether it saw anything."""
    heading = glance(text, limits)
    if heading is None:
        return False
    assert whole(text, limits) == heading
    return True


@pytest.mark.parametrize("text", [THEIRS, OURS, a_file().decode()], ids=["theirs", "ours", "the least"])
def test_the_usual_shapes_are_read_at_a_glance(text: str) -> None:
    assert assert_agreement(text)


@PROPERTY
@given(messages())
def test_a_glance_at_what_parley_writes_sees_what_it_says(message: Message) -> None:
    assert_agreement(OacpFormat().encode(message).decode())


@PROPERTY
@given(st.sampled_from([THEIRS, OURS]).flatmap(mutated))
@example(THEIRS.replace("from: claude", "from: null"))
@example(THEIRS.replace("from: claude", 'from: "claude'))
@example(THEIRS.replace("channel: review", "channel: review\nchannel: review"))
@example(THEIRS.replace("-claude-a8f3", "-claude-a8f3 # first"))
@example(THEIRS.replace("2026-03-13T14", "2026-02-30T14"))
@example(THEIRS.replace("to: codex", "to: con"))
@example(THEIRS.replace("to: codex", "to: [codex, codex]"))
@example(THEIRS + "auth: x\n")
@example(THEIRS + "...\n")
def test_a_glance_at_a_damaged_file_sees_what_is_left_or_nothing(text: str) -> None:
    assert_agreement(text)


@pytest.mark.parametrize("key", KEYS)
def test_each_odd_value_in_each_field_is_seen_as_it_is_read(key: str) -> None:
    fields = {line.split(": ")[0]: line.split(": ", 1)[1] for line in OURS.splitlines() if not line.startswith(" ")}
    for value in VALUES:
        changed = {**fields, "body": '"b"', key: value}
        text = "".join(f"{name}: {changed[name]}\n" for name in KEYS if name in changed)

        assert_agreement(text)


@pytest.mark.parametrize("key", ["context_keys", "body"])
def test_each_odd_line_in_a_block_is_seen_as_it_is_read(key: str) -> None:
    for first in LINES:
        for second in ("  x", "", *LINES):
            assert_agreement(a_file(without=key).decode() + f"{key}: |\n  x\n{first}\n{second}\n")
            assert_agreement(THEIRS.replace("  - tokens", first).replace("  - rotation", second))


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(DEFAULT_LIMITS._replace(id_chars=29), id="a short id"),
        pytest.param(DEFAULT_LIMITS._replace(yaml_nodes=30), id="few values"),
    ],
)
def test_a_glance_declines_what_a_limit_might_refuse(limits: Limits) -> None:
    assert glance(THEIRS, limits) is None


def test_a_large_listing_turns_to_glances_and_sees_the_same() -> None:
    form = OacpFormat()
    files = [THEIRS, OURS, a_file(to="[codex, gemini]").decode(), OURS.replace("claude", "Claude")] * 60

    assert [form.heading(file.encode()) for file in files] == [whole(file) for file in files]
