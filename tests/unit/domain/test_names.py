"""Names, ids and file names."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain import names
from parley.domain.errors.errors import BadAgentName, BadProjectName
from parley.domain.message.message import Kind
from tests.samples.messages import NOW, PROPERTY, agent_names, moments

GOOD = ["a", "A9", "claude", "my-agent_2.0", "9lives", "a" * 64, "console", "a.con", "com", "com10", "a."]
BAD = [
    "", ".", "..", "a..b", ".a", "-a", "_a", "a/b", "../../etc", "a\\b", "a b", "a\n", "a\0", "a" * 65, "a" * 300,
    "con", "CON", "Nul", "aux.txt", "com1", "LPT9.yaml", "\u0430lice", "claud\u00e9", "a:b", "~", "*", "role:x",
]  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_an_ordinary_name_is_allowed(name: str) -> None:
    assert names.is_name(name)
    assert names.agent_name(name) == name
    assert names.project_name(name) == name


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    assert not names.is_name(name)
    with pytest.raises(BadAgentName, match="agent name"):
        names.agent_name(name)
    with pytest.raises(BadProjectName, match="project name"):
        names.project_name(name)


@PROPERTY
@given(st.text())
def test_an_allowed_name_is_one_harmless_path_component(name: str) -> None:
    if names.is_name(name):
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name)
        assert ".." not in name


def test_a_long_bad_name_is_shown_short() -> None:
    with pytest.raises(BadAgentName) as refusal:
        names.agent_name("x" * 10_000)

    assert len(refusal.value.message) < 120
    assert refusal.value.hint == f"use {names.NAME_RULE}"


def test_ids_and_names_look_as_in_the_specification() -> None:
    at = datetime(2026, 3, 13, 14, 30, 59, tzinfo=UTC)

    assert names.compact(at) == "20260313T1430Z"
    assert names.message_id(at, "claude", "a8f3") == "msg-20260313T1430Z-claude-a8f3"
    assert names.conversation_id(at, "claude", 1) == "conv-20260313-claude-001"
    assert names.conversation_id(at, "claude", 1234) == "conv-20260313-claude-1234"
    assert names.file_name(at, "codex", "task_request") == "20260313T1430Z_codex_task_request.yaml"
    assert names.file_name(at, "codex", "task_request", "a8f3") == "20260313T1430Z_codex_task_request_a8f3.yaml"


@PROPERTY
@given(moments, agent_names, st.text("abc019", min_size=4, max_size=10))
def test_the_suffix_of_an_id_can_be_found_again(at: datetime, sender: str, suffix: str) -> None:
    assert names.message_id(at, sender, suffix).rsplit("-", 1)[-1] == suffix


@PROPERTY
@given(moments, agent_names, st.sampled_from(Kind), st.text("abc019", max_size=10))
def test_a_file_name_is_one_harmless_path_component(at: datetime, sender: str, kind: Kind, suffix: str) -> None:
    name = names.file_name(at, sender, kind, suffix)

    assert re.fullmatch(r"[0-9]{8}T[0-9]{4}Z_[A-Za-z0-9._-]+_[a-z_]+(_[a-z0-9]+)?\.yaml", name)
    assert names.is_message_file(name)
    assert len(name.encode()) <= 255


@PROPERTY
@given(moments, agent_names, st.integers(1, 10**6))
def test_a_conversation_id_begins_with_its_prefix(at: datetime, agent: str, sequence: int) -> None:
    prefix = names.conversation_prefix(at, agent)

    assert names.conversation_id(at, agent, sequence) == f"{prefix}{sequence:03d}"


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("a.yaml", True), (".hidden.yaml", True), ("a.yml", True), (".hidden.yml", True),
        ("a.yaml.tmp", False), ("yaml", False), ("a.YAML", False), ("a.YML", False),
    ],
)  # fmt: skip
def test_every_yaml_file_is_a_message_file(name: str, counts: bool) -> None:
    assert names.is_message_file(name) is counts


def test_the_minute_is_all_that_a_name_says_of_time() -> None:
    assert names.compact(NOW) == names.compact(NOW.replace(second=59))


@PROPERTY
@given(st.lists(st.integers(0, 59_999), min_size=2, max_size=20), st.text("0123456789abcdef", min_size=20, max_size=20))
def test_suffixes_of_one_minute_sort_by_their_millisecond(ticks: list[int], noise: str) -> None:
    minute = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)
    ordered = sorted({minute + timedelta(milliseconds=tick) for tick in ticks})

    suffixes = [names.time_ordered(moment, noise) for moment in ordered]

    assert suffixes == sorted(suffixes)
    assert len(set(suffixes)) == len(ordered)
    assert all(re.fullmatch("[0-9a-z]{4}[0-9a-f]+", suffix) for suffix in suffixes)


def test_what_was_probably_meant_is_named() -> None:
    assert names.meant("gemni", ["claude", "gemini"]) == "did you mean gemini?"
    assert names.meant("zzz", ["claude", "gemini"]) == ""


@pytest.mark.parametrize(
    ("name", "similar"),
    [
        ("planer", ["planner"]),
        ("plannner", ["planner"]),
        ("plannre", ["planner"]),
        ("Planner", ["planner"]),
        ("lpanner", ["planner"]),
        ("data-agent-1", ["data-agent-2", "data-agent"]),
        ("writer", []),
        ("x", []),
    ],
)
def test_a_typing_error_leads_to_the_name_that_was_meant(name: str, similar: list[str]) -> None:
    candidates = ["planner", "data-agent", "data-agent-2", "critic", "y"]

    assert names.near_misses(name, candidates, 3) == similar


@given(st.text("abcdef-", min_size=5, max_size=20), st.data())
@PROPERTY
def test_one_typing_error_is_always_found_among_many_names(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from("abcdefxyz"))
    typed = data.draw(
        st.sampled_from(
            [
                name[:at] + name[at + 1 :],
                name[:at] + letter + name[at:],
                name[:at] + letter + name[at + 1 :],
                name[:at] + name[at : at + 2][::-1] + name[at + 2 :],
            ]
        )
    )
    others = [f"other-agent-{number}" for number in range(300)]

    assert name in names.near_misses(typed, [*others, name], 5)


@given(st.text(max_size=100))
@PROPERTY
def test_what_is_made_of_any_text_is_a_name_or_nothing(text: str) -> None:
    made = names.name_from(text)

    assert made == "" or names.is_name(made)
    if names.is_name(text) and text.strip("-._") == text:
        assert made == text
