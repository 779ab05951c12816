"""The first content of a workspace's files is data that any YAML reader takes for what it is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import yaml

from parley.adapters.files import seeds
from parley.domain.message.message import KINDS

AT = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)
# Names that a careless writer turns into numbers, booleans, dates or nothing.
AWKWARD = ("no", "on", "null", "Yes", "123", "1e3", "1.5", "2026-01-01", "0x1F", "1_000", "a.b-c_d")


@pytest.mark.parametrize("name", AWKWARD)
def test_a_name_stays_text(name: str) -> None:
    profile = yaml.safe_load(seeds.profile(name, "", name))
    card = yaml.safe_load(seeds.card(name, "codex", "", ""))

    assert (profile["name"], profile["projects"], profile["description"]) == (name, [name], f"{name} agent")
    assert (card["name"], card["protocol"]["inbox_path"]) == (name, f"agents/{name}/inbox/")


@pytest.mark.parametrize("text", ['say "hi"', "back\\slash", "a: b # c", "tab\tand\nline", "é\u2028x", "- x", "!x"])
def test_what_a_profile_says_reaches_card_and_status_unharmed(text: str) -> None:
    card = yaml.safe_load(seeds.card("dave", "codex", text, text))
    status = yaml.safe_load(seeds.status("codex", text, AT))

    assert (card["model"], card["description"], status["model"]) == (text, text, text)


@pytest.mark.parametrize("runtime", seeds.RUNTIMES)
def test_a_runtime_has_capabilities_and_kinds(runtime: str) -> None:
    status = yaml.safe_load(seeds.status(runtime, "", AT))
    kinds = yaml.safe_load(seeds.card("dave", runtime, "", ""))["protocol"]["supported_message_types"]

    assert "git_ops" in status["capabilities"]
    assert (status["status"], status["updated_at"]) == ("available", "2026-03-13T14:30:00Z")
    assert set(kinds) <= set(KINDS)
    assert (set(kinds) == set(KINDS)) == (runtime in ("claude", "codex"))


def test_an_agent_named_like_a_runtime_runs_in_it() -> None:
    assert seeds.identity("claude", "")["runtime"] == "claude"
    assert seeds.identity("bob", "") == {
        "name": "bob",
        "runtime": "unknown",
        "model": "",
        "description": "bob agent",
    }


def test_by_default_nothing_happens_without_a_person() -> None:
    autonomy = yaml.safe_load(seeds.CONFIG)["autonomy"]

    assert autonomy["default_mode"] == "always_pause"
    assert autonomy["continuation_grants"] == {"enabled": False}
