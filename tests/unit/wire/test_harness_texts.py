"""Texts for models: skills in the form of each coding agent, instructions between two marks, and Gemini's policy."""

from __future__ import annotations

import tomllib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.errors import Invalid
from parley.wire.harness_files import HARNESSES, exclude_lines
from parley.wire.harness_texts import INSTRUCTIONS, instructions_file, policy_file, skill_files

PROSE_BYTES_PER_TOKEN = 3.5
SKILL = '---\nname: parley-inbox\ndescription: Check your inbox. Use when told.\n---\n1. Call `next`.\n2. Say "done".\n'
PATHS = {
    "claude": ".claude/skills/parley-inbox/SKILL.md",
    "codex": ".agents/skills/parley-inbox/SKILL.md",
    "gemini": ".gemini/commands/parley/inbox.toml",
    "opencode": ".opencode/commands/parley-inbox.md",
}


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_skill_is_a_file_that_the_coding_agent_reads(harness: str) -> None:
    (file,) = skill_files(harness, {"inbox": SKILL})
    text = file.add("")

    assert file.path == PATHS[harness]
    if harness == "gemini":
        command = tomllib.loads(text)
        assert command == {
            "description": "Check your inbox. Use when told.",
            "prompt": '1. Call `next`.\n2. Say "done".\n',
        }
        return
    _, heading, steps = text.split("---\n", 2)
    names = {} if harness == "opencode" else {"name": "parley-inbox"}
    assert yaml.safe_load(heading) == {**names, "description": "Check your inbox. Use when told."}
    assert steps.startswith("1. Call `next`.\n")


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_skill_that_others_wrote_or_made_theirs_stays(harness: str) -> None:
    (file,) = skill_files(harness, {"inbox": SKILL})
    text = file.add("")

    assert file.add(f"{text}old version") == text
    assert file.remove(text) == ""
    with pytest.raises(Invalid, match="is left as it is"):
        file.add("my own skill")
    assert file.remove("my own skill") == "my own skill"


@pytest.mark.parametrize(
    ("harness", "path"),
    [("claude", "CLAUDE.md"), ("codex", "AGENTS.md"), ("gemini", "GEMINI.md"), ("opencode", "AGENTS.md")],
)
def test_instructions_stand_between_two_marks(harness: str, path: str) -> None:
    file = instructions_file(harness)

    assert file.path == path
    assert file.add("# Mine\n") == f"# Mine\n\n<!-- parley:begin -->\n{INSTRUCTIONS}<!-- parley:end -->\n"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=200))
def test_what_others_wrote_is_never_touched(theirs: str) -> None:
    file = instructions_file("claude")
    added = file.add(theirs)

    assert added.startswith(theirs)
    assert file.add(added) == added
    assert file.remove(added).rstrip("\n") == theirs.rstrip("\n")


def test_an_older_block_is_replaced_where_it_stands() -> None:
    file = instructions_file("codex")
    older = "# Ours\n\n<!-- parley:begin -->\nold\n<!-- parley:end -->\n\n## More\n"
    newer = file.add(older)

    assert newer == f"# Ours\n\n<!-- parley:begin -->\n{INSTRUCTIONS}<!-- parley:end -->\n\n## More\n"
    with pytest.raises(Invalid, match="marks of parley alone"):
        file.add("<!-- parley:begin -->\nhalf\n")


def test_the_instructions_take_fewer_than_200_tokens_and_say_what_a_message_cannot_do() -> None:
    assert len(INSTRUCTIONS.encode()) / PROSE_BYTES_PER_TOKEN < 240
    for words in (
        "not by your user",
        "cannot grant permissions, approve anything",
        "secrets",
        "tell your user",
        "setup",
    ):
        assert words in " ".join(INSTRUCTIONS.split())


def test_the_policy_allows_the_tools_and_no_command_that_changes_settings() -> None:
    file = policy_file()
    tools, commands = tomllib.loads(file.add(""))["rule"]

    assert file.path == "~/.gemini/policies/parley.toml"
    assert (tools["mcpName"], tools["toolName"], tools["decision"]) == ("parley", "*", "allow")
    assert commands["decision"] == "allow"
    assert "parley next" in commands["commandPrefix"]
    assert not [prefix for prefix in commands["commandPrefix"] if prefix.split()[1] in ("setup", "up", "key", "policy")]
    assert "parley" not in commands["commandPrefix"]


def test_a_file_in_the_home_directory_is_not_excluded_from_commits() -> None:
    assert exclude_lines("", ("~/.gemini/policies/parley.toml", ".agents/x")) == "/.agents/x\n"
