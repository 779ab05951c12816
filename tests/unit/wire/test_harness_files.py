"""What setup adds to the settings files of coding agents, and that it can be taken out again."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.errors import Invalid
from parley.wire.harness_files import (
    HARNESSES,
    SettingsFile,
    claude_server_command,
    exclude_lines,
    settings_files,
    without_lines,
)

PARLEY = "/opt/tools/bin/parley"
THEIRS: dict[str, Any] = {
    "model": "opus",
    "hooks": {"Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "./notify.sh"}]}]},
    "permissions": {"allow": ["Bash(git:*)"]},
}


def files_of(harness: str, *, shared: bool = False, parley: str = PARLEY) -> dict[str, SettingsFile]:
    return {file.path: file for file in settings_files(harness, parley, shared=shared)}


JSON_FILES = [
    (harness, shared, path)
    for harness in HARNESSES
    for shared in (False, True)
    for path in files_of(harness, shared=shared)
    if path.endswith(".json")
]


def file_of(harness: str, path: str, *, shared: bool = False, parley: str = PARLEY) -> SettingsFile:
    return files_of(harness, shared=shared, parley=parley)[path]


def test_the_files_of_each_harness() -> None:
    assert {harness: [*files_of(harness)] for harness in HARNESSES} == {
        "claude": [".claude/settings.local.json"],
        "codex": [".codex/hooks.json", ".codex/config.toml"],
        "gemini": [".gemini/settings.json"],
        "opencode": ["opencode.json", ".opencode/plugin/parley.js"],
    }
    assert [*files_of("claude", shared=True)] == [".claude/settings.json", ".mcp.json"]


def test_claude_gets_hooks_a_process_that_wakes_it_and_may_use_the_tools() -> None:
    document = json.loads(file_of("claude", ".claude/settings.local.json").add(""))

    hook = {"type": "command", "command": f"{PARLEY} hook --for claude", "timeout": 10}
    command = f"{PARLEY} hook wait --for claude"
    wait = {"type": "command", "command": command, "asyncRewake": True, "timeout": 86_400}
    assert document == {
        "permissions": {"allow": ["mcp__parley"]},
        "hooks": {
            "SessionStart": [{"hooks": [hook, wait]}],
            "UserPromptSubmit": [{"hooks": [hook]}],
            "PostToolBatch": [{"hooks": [hook]}],
            "Stop": [{"hooks": [hook, wait]}],
            "SessionEnd": [{"hooks": [{**hook, "timeout": 2}]}],
            "FileChanged": [{"hooks": [wait]}],
        },
    }


def test_a_file_of_before_gets_what_is_new_and_each_command_once() -> None:
    file = file_of("claude", ".claude/settings.local.json")
    hook = {"type": "command", "command": "/old/parley hook --for claude", "timeout": 5}
    before = json.dumps({"hooks": {"Stop": [{"hooks": [hook]}, {"hooks": [{"type": "command", "command": "x"}]}]}})

    after = file.add(before)
    groups = json.loads(after)["hooks"]["Stop"]

    commands = [entry["command"] for group in groups for entry in group["hooks"]]
    assert commands == [f"{PARLEY} hook --for claude", "x", f"{PARLEY} hook wait --for claude"]
    assert file.add(after) == after
    assert json.loads(file.remove(after)) == {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}


def test_codex_is_named_by_its_path_where_it_is_known() -> None:
    (_, config) = settings_files("codex", PARLEY, shared=False, codex="/opt/bin/codex")

    assert 'args = ["mcp", "--for", "codex", "--codex", "/opt/bin/codex"]\n' in config.add("")


def test_a_shared_hook_is_silent_where_parley_is_not_installed() -> None:
    document = json.loads(file_of("claude", ".claude/settings.json", shared=True, parley="parley").add(""))

    (group,) = document["hooks"]["Stop"]
    assert group["hooks"][0]["command"] == ("command -v parley >/dev/null || exit 0; exec parley hook --for claude")
    assert document["enabledMcpjsonServers"] == ["parley"]


def test_gemini_counts_in_milliseconds_and_trusts_the_server() -> None:
    document = json.loads(file_of("gemini", ".gemini/settings.json").add(""))

    assert document["hooks"]["AfterAgent"][0]["hooks"][0]["timeout"] == 10_000
    assert document["mcpServers"]["parley"] == {
        "command": PARLEY,
        "args": ["mcp", "--for", "gemini"],
        "trust": True,
    }


def test_a_new_file_of_opencode_has_the_schema_that_opencode_would_add() -> None:
    file = file_of("opencode", "opencode.json")

    assert [*json.loads(file.add(""))] == ["$schema", "mcp"]
    assert [*json.loads(file.add('{"theme": "dark"}'))] == ["theme", "mcp"]


def test_what_others_have_set_stays_and_stands_first() -> None:
    text = file_of("claude", ".claude/settings.local.json").add(json.dumps(THEIRS, indent=4))

    document = json.loads(text)
    assert text.startswith('{\n    "model": "opus"')
    assert document["hooks"]["Stop"][0] == THEIRS["hooks"]["Stop"][0]
    assert document["permissions"]["allow"] == ["Bash(git:*)", "mcp__parley"]


@pytest.mark.parametrize(("harness", "shared", "path"), JSON_FILES)
def test_adding_twice_changes_nothing_and_removing_leaves_what_was_there(harness: str, shared: bool, path: str) -> None:
    file = file_of(harness, path, shared=shared)
    before = json.dumps(THEIRS, indent=2) + "\n"

    added = file.add(before)

    assert added != before
    assert file.add(added) == added
    assert json.loads(file.remove(added)) == THEIRS
    assert json.loads(file.remove(file.add(""))) == {}


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_parley_that_has_moved_replaces_its_own_entries(harness: str) -> None:
    for path, file in files_of(harness).items():
        old = file_of(harness, path, parley="/old place/parley").add("")

        assert file.add(old) == file.add("")


@pytest.mark.parametrize(
    "text",
    [
        '{"hooks": {}} // mine',
        "{",
        "[]",
        '{"a": 1, "a": 2}',
        '{"hooks": []}',
        '{"hooks": {"Stop": {}}}',
        '{"permissions": {"allow": "all"}}',
        "[" * 100_000,
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        file_of("claude", ".claude/settings.local.json").add(text)


def test_a_server_of_our_name_that_is_not_ours_is_left_alone() -> None:
    text = json.dumps({"mcpServers": {"parley": {"command": "other"}}})

    with pytest.raises(Invalid):
        file_of("gemini", ".gemini/settings.json").add(text)
    assert file_of("gemini", ".gemini/settings.json").remove(text) == text


@pytest.mark.parametrize("before", ["", 'model = "gpt-5"\n', 'model = "gpt-5"', "[mcp_servers.other]\ncommand = 'x'\n"])
def test_codex_gets_a_table_behind_what_is_there(before: str) -> None:
    file = file_of("codex", ".codex/config.toml")

    added = file.add(before)

    assert added.startswith(before)
    table = tomllib.loads(added)["mcp_servers"]["parley"]
    assert (table["command"], table["args"], table["tool_timeout_sec"]) == (PARLEY, ["mcp", "--for", "codex"], 65)
    assert file.add(added) == added
    assert tomllib.loads(file.remove(added)) == tomllib.loads(before)


@pytest.mark.parametrize("text", ["[mcp_servers.parley]\ncommand = 'mine'\n", "model = ", "[" * 10_000])
def test_a_table_of_our_name_and_what_is_no_toml_are_left_alone(text: str) -> None:
    with pytest.raises(Invalid):
        file_of("codex", ".codex/config.toml").add(text)


def test_the_command_for_the_user_is_one_word_for_a_shell() -> None:
    assert claude_server_command("/a b/parley").startswith('claude mcp add-json parley \'{"type": "stdio"')


names = st.sampled_from(["a", "notify.sh", "./parley.sh hook --for gemini.txt", "parley hook --for codex"])
their_hooks = st.fixed_dictionaries({"type": st.just("command"), "command": names})
their_groups = st.fixed_dictionaries({"hooks": st.lists(their_hooks, min_size=1, max_size=2)})
their_events = st.dictionaries(
    st.sampled_from(["SessionStart", "AfterAgent", "Other"]), st.lists(their_groups, min_size=1, max_size=2), min_size=1
)
their_servers = st.dictionaries(names, st.fixed_dictionaries({"command": names}), min_size=1, max_size=2)


@given(
    st.fixed_dictionaries({}, optional={"model": names, "hooks": their_events, "mcpServers": their_servers}),
    st.sampled_from([None, 2, 4, "\t"]),
)
def test_what_others_have_set_is_the_same_after_adding_and_removing(
    document: dict[str, Any], indent: int | str | None
) -> None:
    file = file_of("gemini", ".gemini/settings.json")

    added = file.add(json.dumps(document, indent=indent))

    assert json.loads(file.remove(added)) == document
    for event, groups in document.get("hooks", {}).items():
        assert json.loads(added)["hooks"][event][: len(groups)] == groups


def test_the_exclude_file_gets_each_path_once() -> None:
    text = exclude_lines("*.log", (".codex/hooks.json",))

    assert text == "*.log\n/.codex/hooks.json\n"
    assert exclude_lines(text, (".codex/hooks.json",)) == text
    assert without_lines(text, (".codex/hooks.json",)) == "*.log\n"
