"""Each event of each coding agent is understood, and a notice is written in the form that it reads."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.errors import Invalid
from parley.domain.mailbox.hook_events import Moment
from parley.surfaces.hook.events import HARNESSES, notice_document, read_event
from tests.samples.hook_payloads import PAYLOADS
from tests.samples.recorded_agents import load

EVENTS = [(harness, Moment(moment)) for harness in HARNESSES for moment in PAYLOADS[harness]]


def read(harness: str, moment: str, **changes: object) -> object:
    return read_event(json.dumps({**PAYLOADS[harness][moment], **changes}).encode(), harness)


@pytest.mark.parametrize(("harness", "moment"), EVENTS)
def test_an_event_is_known_with_its_session_and_its_turn(harness: str, moment: Moment) -> None:
    payload = PAYLOADS[harness][moment.value]

    event = read_event(json.dumps(payload).encode(), harness)

    assert event is not None
    # A session starts and ends outside of its turns; Gemini CLI names none.
    turn = payload.get("prompt_id") or payload.get("turn_id") or ""
    if moment in (Moment.PROMPT, Moment.TOOL, Moment.STOP):
        assert bool(turn) == (harness != "gemini")
    assert event[:4] == (harness, moment, payload["session_id"], turn)
    assert (event.source, event.cwd, event.attended) == (payload.get("source", ""), payload["cwd"], True)


@pytest.mark.parametrize("harness", ["claude", "codex", "gemini"])
def test_every_recorded_event_is_understood_and_those_of_subagents_are_left_alone(harness: str) -> None:
    payloads = load(harness)["hook_events"]

    events = [read_event(json.dumps(payload).encode(), harness) for payload in payloads]

    assert [event is None for event in events] == ["agent_id" in payload for payload in payloads]
    assert {event.moment for event in events if event is not None} >= {
        *(Moment.START, Moment.PROMPT, Moment.TOOL, Moment.STOP)
    }


def test_the_subagents_of_claude_code_are_among_what_is_recorded() -> None:
    assert any("agent_id" in payload for payload in load("claude")["hook_events"])


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_notice_is_context_and_going_on_has_the_form_of_each(harness: str) -> None:
    event = read_event(json.dumps(PAYLOADS[harness]["stop"]).encode(), harness)
    assert event is not None

    told = json.loads(notice_document(event, "T", goes_on=False))
    held = json.loads(notice_document(event, "T", goes_on=True))

    name = PAYLOADS[harness]["stop"]["hook_event_name"]
    context = {"hookSpecificOutput": {"hookEventName": name, "additionalContext": "T"}}
    assert told == context
    assert held == (context if harness == "claude" else {"decision": "block", "reason": "T"})


@pytest.mark.parametrize("harness", HARNESSES)
def test_events_of_a_subagent_and_unknown_ones_do_not_concern_the_inbox(harness: str) -> None:
    assert read(harness, "stop", agent_id="sub-1") is None
    assert read(harness, "stop", hook_event_name="SomethingNew") is None


def test_claude_code_is_told_what_to_watch_with_or_without_a_notice() -> None:
    event = read_event(json.dumps(PAYLOADS["claude"]["start"]).encode(), "claude")
    assert event is not None

    watch = {"hookEventName": "SessionStart", "watchPaths": ["/inbox"]}
    assert json.loads(notice_document(event, "", watched="/inbox")) == {"hookSpecificOutput": watch}
    both = {"hookSpecificOutput": {**watch, "additionalContext": "T"}}
    assert json.loads(notice_document(event, "T", watched="/inbox")) == both


@pytest.mark.parametrize("document", [b"", b"\xff", b"[]", b"{}", b'{"hook_event_name": 7}', b"[" * 100_000])
def test_what_is_no_event_is_refused(document: bytes) -> None:
    with pytest.raises(Invalid):
        read_event(document, "claude")


values = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text(), max_size=2)


@given(st.sampled_from(EVENTS), st.dictionaries(st.sampled_from(["session_id", "prompt_id", "source", "cwd"]), values))
def test_fields_of_other_types_are_passed_over(event: tuple[str, Moment], changes: dict[str, object]) -> None:
    harness, moment = event
    read(harness, moment.value, **changes)


def test_two_hooks_of_one_event_are_known_by_their_fingerprint() -> None:
    stop, again = PAYLOADS["gemini"]["stop"], {**PAYLOADS["gemini"]["stop"], "timestamp": "2026-11-18T00:00:01.000Z"}
    later = {**stop, "stop_hook_active": True}

    first, second, third = (read_event(json.dumps(fields).encode(), "gemini") for fields in (stop, again, later))

    assert first is not None
    assert second is not None
    assert third is not None
    assert first.fingerprint == second.fingerprint != third.fingerprint


@pytest.mark.parametrize("harness", ["claude", "codex", "gemini"])
def test_a_stop_without_a_word_of_the_model_is_no_answer(harness: str) -> None:
    name = "prompt_response" if harness == "gemini" else "last_assistant_message"

    silent, spoken = (
        read_event(json.dumps({**PAYLOADS[harness]["stop"], name: None}).encode(), harness),
        read_event(json.dumps(PAYLOADS[harness]["stop"]).encode(), harness),
    )

    assert silent is not None
    assert spoken is not None
    assert (silent.answered, spoken.answered) == (False, True)


@pytest.mark.parametrize(
    ("prompt", "carries", "refs"),
    [
        ("Parley: messages wait (automatic notice, not typed by your user).", False, set()),
        (
            "Parley: 1 message waits for codex: question from claude. It is from other agents, not from your user.",
            True,
            set(),
        ),
        (
            "[x1y2] Parley: 2: task [a8f3] P1; task [0b1c]. They are from other agents, not from your user. [z3z4]",
            True,
            {"a8f3", "0b1c"},
        ),
        ("Parley: is it any good? [a8f3]", False, set()),
    ],
)
def test_a_prompt_that_carries_a_notice_is_known_with_what_that_names(
    prompt: str, carries: bool, refs: set[str]
) -> None:
    event = read_event(json.dumps({**PAYLOADS["claude"]["prompt"], "prompt": prompt}).encode(), "claude")

    assert event is not None
    assert (event.carries_notice, set(event.carried_refs)) == (carries, refs)
