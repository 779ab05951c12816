"""`parley setup`: the settings files of coding agents in a repository, and back again."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.samples.hook_payloads import PAYLOADS
from tests.surface.stage import Stage, parley_script

HARNESSES = ("claude", "codex", "gemini", "opencode")


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its bytes and its mode."""
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mode)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def install(stage: Stage, folder: Path, name: str, script: str = "") -> None:
    """Put a program on the PATH."""
    program = folder / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    if str(program.parent) not in os.environ["PATH"].split(":"):
        stage.patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def add_claude_tools(folder: Path) -> None:
    """What `claude mcp add-json parley` leaves in Claude Code's own file."""
    servers = {"mcpServers": {"parley": {"command": "parley", "args": ["mcp"]}}}
    (Path(os.environ["HOME"]) / ".claude.json").write_text(json.dumps({"projects": {str(folder): servers}}))


@pytest.fixture
def repository(stage: Stage, tmp_path: Path) -> Path:
    """A repository in which the command runs, with settings of its owner."""
    stage.patch.setenv("HOME", str(tmp_path))
    stage.patch.delenv("XDG_STATE_HOME", raising=False)
    install(stage, tmp_path, "parley", f'exec "{sys.executable}" -m parley.cli.main "$@"')
    folder = tmp_path / "app"
    (folder / ".claude").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / ".claude" / "settings.local.json").write_text('{ "model":"opus" }')
    (folder / ".claude" / "settings.local.json").chmod(0o600)
    stage.patch.chdir(folder)
    return folder


@pytest.mark.parametrize("shared", [[], ["--shared"]])
@pytest.mark.parametrize("harness", HARNESSES)
def test_setup_twice_changes_nothing_more_and_remove_restores_every_byte(
    stage: Stage, repository: Path, harness: str, shared: list[str]
) -> None:
    before = tree(repository)

    first = stage.run("setup", harness, "--yes", *shared)
    after = tree(repository)
    second = stage.run("setup", harness, "--yes", *shared)

    assert (first.code, first.err, second.code) == (0, "", 0)
    assert second.out.startswith(f"Nothing to do: {harness} is set up.\n")
    assert after != before
    assert tree(repository) == after
    add_claude_tools(repository)
    checked = stage.run("setup", harness, "--check", *shared)
    assert (checked.code, checked.out) == (0, "Set up.\n")
    removed = stage.run("setup", harness, "--remove", "--yes", *shared)
    assert (removed.code, removed.err) == (0, "")
    assert tree(repository) == before
    assert stage.run("setup", harness, "--remove", "--yes", *shared).out == "Nothing to remove.\n"


def test_all_at_once_can_be_taken_back_one_by_one(stage: Stage, repository: Path) -> None:
    before = tree(repository)

    for harness in HARNESSES:
        assert stage.run("setup", harness, "--yes").code == 0
    for harness in HARNESSES:
        assert stage.run("setup", harness, "--remove", "--yes").code == 0

    assert tree(repository) == before


def test_several_are_set_up_checked_and_taken_back_in_one_command(stage: Stage, repository: Path) -> None:
    before = tree(repository)

    assert stage.run("setup", "gemini", "codex", "gemini", "--check").out.endswith(
        "Run: parley setup gemini codex gemini\n"
    )
    assert stage.run("setup", "gemini", "codex", "--yes").code == 0
    assert stage.run("setup", "gemini", "codex", "--check").code == 0
    assert not (repository / ".claude" / "skills").exists()
    assert stage.run("setup", "gemini", "codex", "--remove", "--yes").code == 0
    assert tree(repository) == before
    wrong = stage.run("setup", "gemini", "cloude")
    assert (wrong.code, wrong.err) == (2, 'error: HARNESS cannot be "cloude" (did you mean claude?) [invalid]\n')


def test_personal_files_are_not_offered_for_a_commit(stage: Stage, repository: Path) -> None:
    stage.run("setup", "codex", "--yes")
    stage.run("setup", "gemini", "--yes")

    status = ["git", "-C", str(repository), "status", "--porcelain", "--untracked-files=all"]
    shown = subprocess.run(status, capture_output=True, text=True, check=True).stdout

    assert shown == "?? .claude/settings.local.json\n"


def test_print_check_and_no_answer_change_nothing(stage: Stage, repository: Path) -> None:
    before = tree(repository)

    printed = stage.run("setup", "claude", "--print")
    checked = stage.run("setup", "claude", "--check")
    unasked = stage.run("setup", "claude")

    assert printed.code == 0
    assert "+++ .claude/settings.local.json\n" in printed.out
    assert "Would be changed: .claude/settings.local.json\n" in printed.out
    assert (checked.code, checked.out) == (
        1,
        "Not set up: .claude/settings.local.json. Run: parley setup claude\n",
    )
    assert unasked.code == 2
    assert "add --yes" in unasked.err
    assert tree(repository) == before


def test_what_was_changed_since_is_kept_when_setup_is_taken_back(stage: Stage, repository: Path) -> None:
    path = repository / ".claude" / "settings.local.json"
    stage.run("setup", "claude", "--yes")
    document = json.loads(path.read_text())
    document["theme"] = "dark"
    path.write_text(json.dumps(document))

    stage.run("setup", "claude", "--remove", "--yes")

    assert json.loads(path.read_text()) == {"model": "opus", "theme": "dark"}


def test_what_was_changed_between_two_setups_is_kept_too(stage: Stage, repository: Path) -> None:
    path = repository / ".claude" / "settings.local.json"
    stage.run("setup", "claude", "--yes")
    document = json.loads(path.read_text())
    document["theme"] = "dark"
    del document["hooks"]["Stop"]
    path.write_text(json.dumps(document))

    stage.run("setup", "claude", "--yes")
    assert "Stop" in json.loads(path.read_text())["hooks"]
    stage.run("setup", "claude", "--remove", "--yes")

    assert json.loads(path.read_text()) == {"model": "opus", "theme": "dark"}


@pytest.mark.parametrize("text", ['{\n  // mine\n  "model": "opus"\n}', "{", '{"hooks": []}'])
def test_a_file_that_cannot_be_edited_is_left_and_the_snippet_is_printed(
    stage: Stage, repository: Path, text: str
) -> None:
    path = repository / ".claude" / "settings.local.json"
    path.write_text(text)

    ran = stage.run("setup", "claude", "--yes")

    assert (ran.code, path.read_text()) == (1, text)
    assert "Edit .claude/settings.local.json by hand:\n{" in ran.out
    assert '"mcp__parley"' in ran.out


def test_another_table_of_codex_is_left_alone_and_the_hooks_are_written(stage: Stage, repository: Path) -> None:
    path = repository / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text("[mcp_servers.parley]\ncommand = 'mine'\n")

    ran = stage.run("setup", "codex", "--yes", "--no-skills", "--json")

    assert ran.code == 1
    assert [change["file"] for change in ran.json["changes"]] == [".codex/hooks.json", ".git/info/exclude"]
    assert [left["file"] for left in ran.json["left"]] == [".codex/config.toml"]
    assert path.read_text() == "[mcp_servers.parley]\ncommand = 'mine'\n"


def test_a_folder_that_cannot_be_written_is_named(stage: Stage, repository: Path) -> None:
    (repository / ".codex").symlink_to("/proc")  # where not even root makes files

    ran = stage.run("setup", "codex", "--yes")

    assert ran.code in (6, 7)
    assert f"cannot write {repository}/.codex/hooks.json" in ran.err
    assert "--print shows what to add by hand" in ran.err


def test_without_a_record_of_the_first_state_nothing_is_changed(stage: Stage, repository: Path) -> None:
    before = tree(repository)
    stage.patch.setenv("HOME", "/proc")  # a home directory that cannot be written

    ran = stage.run("setup", "codex", "--yes")

    assert ran.code in (6, 7)
    assert "/proc/.local" in ran.err
    assert tree(repository) == before


def test_without_the_command_on_the_path_no_settings_name_it(stage: Stage, repository: Path) -> None:
    before = tree(repository)
    stage.patch.setenv("PATH", "/nowhere")

    ran = stage.run("setup", "codex", "--yes")

    assert ran.code == 2
    assert "no command parley on the PATH" in ran.err
    assert tree(repository) == before


def test_a_parley_that_has_moved_is_found_by_check_and_replaced(stage: Stage, repository: Path, tmp_path: Path) -> None:
    stage.run("setup", "codex", "--yes")
    (tmp_path / "new").mkdir()
    (tmp_path / "bin" / "parley").rename(tmp_path / "new" / "parley")
    stage.patch.setenv("PATH", f"{tmp_path / 'new'}:{os.environ['PATH']}")

    assert stage.run("setup", "codex", "--check").code == 1
    install(stage, tmp_path, "codex")
    findings = stage.run("doctor", "--json").json
    assert ("not_set_up", "codex") in {(finding["code"], finding["agent"]) for finding in findings}
    assert stage.run("setup", "codex", "--yes").code == 0

    text = (repository / ".codex" / "hooks.json").read_text()
    assert f"{tmp_path}/new/parley hook --for codex" in text
    assert f"{tmp_path}/bin/parley" not in text


def test_setup_alone_finds_what_is_installed(stage: Stage, repository: Path, tmp_path: Path) -> None:
    stage.patch.setenv("PATH", str(tmp_path / "bin"))
    assert "no coding agent is installed here" in stage.run("setup", "--check").err
    for name in ("codex", "gemini"):
        install(stage, tmp_path, name)

    ran = stage.run("setup", "--yes")

    assert (repository / ".codex" / "hooks.json").exists()
    assert (repository / ".gemini" / "settings.json").exists()
    assert "Codex: choose Trust when it asks about hooks at the next start.\n" in ran.out
    assert json.loads((repository / ".claude" / "settings.local.json").read_text()) == {"model": "opus"}


def test_doctor_knows_who_will_not_notice(stage: Stage, repository: Path, tmp_path: Path) -> None:
    del repository
    install(stage, tmp_path, "codex")

    before = stage.run("doctor", "--json").json
    stage.run("setup", "codex", "--yes")
    after = stage.run("doctor", "--json").json

    assert ("not_set_up", "codex") in {(finding["code"], finding["agent"]) for finding in before}
    assert ("not_set_up", "codex") not in {(finding["code"], finding["agent"]) for finding in after}


def test_from_a_clone_to_a_noticed_message_in_three_commands(stage: Stage, repository: Path) -> None:
    for variable in ("PARLEY_HOME", "OACP_HOME"):
        stage.patch.delenv(variable, raising=False)

    assert stage.run("init", "--agents", "claude,codex").code == 0
    assert stage.run("setup", "codex", "--yes").code == 0
    assert stage.run("send", "codex", "mTLS or JWT?", "--from", "claude").code == 0

    # Codex runs the hook that its settings name, in the repository, and gives it the event.
    hooks = json.loads((repository / ".codex" / "hooks.json").read_text())["hooks"]
    command = hooks["SessionStart"][0]["hooks"][0]["command"]
    event = json.dumps(PAYLOADS["codex"]["start"])
    ran = subprocess.run(
        ["/bin/sh", "-c", command], input=event, capture_output=True, text=True, check=True, cwd=repository
    )
    context = json.loads(ran.stdout)["hookSpecificOutput"]["additionalContext"]
    assert context.startswith("Parley: 1 message waits for codex: question from claude [")


ADD_TOOLS = "Add them with: claude mcp add-json parley "
ASK_FOR_TOOLS = "A settings file of Claude Code cannot be read. Ask it with: claude mcp get parley"


@pytest.mark.parametrize(
    ("file", "state", "step"),
    [(None, "not added", ADD_TOOLS), ("{}", "not added", ADD_TOOLS), ("{", "not known", ASK_FOR_TOOLS)],
)
def test_check_and_doctor_say_that_the_tools_of_claude_code_are_missing(
    stage: Stage, repository: Path, tmp_path: Path, file: str | None, state: str, step: str
) -> None:
    install(stage, tmp_path, "claude")
    stage.run("setup", "claude", "--yes")
    if file is not None:
        (tmp_path / ".claude.json").write_text(file)

    checked, document = (stage.run("setup", "claude", "--check", *more) for more in ((), ("--json",)))
    examined = stage.run("doctor")

    assert checked.code == 1
    assert checked.out.startswith(f"Files: set up. Tools of Claude Code: {state}. {step}")
    assert document.json == {"set_up": False, "missing": [], "tools": state}
    assert f"claude: the tools of Claude Code are {state}. {step}" in examined.out
    add_claude_tools(repository)
    assert "the tools of Claude Code" not in stage.run("doctor").out


def test_the_tools_of_a_claude_code_that_keeps_its_settings_elsewhere_are_found(
    stage: Stage, repository: Path, tmp_path: Path
) -> None:
    install(stage, tmp_path, "claude")
    stage.run("setup", "claude", "--yes")
    (tmp_path / "elsewhere").mkdir()
    servers: dict[str, dict[str, dict[str, dict[str, dict[str, str]]]]] = {
        "projects": {str(repository): {"mcpServers": {"parley": {}}}}
    }
    (tmp_path / "elsewhere" / ".claude.json").write_text(json.dumps(servers))

    before = stage.run("setup", "claude", "--check")
    stage.patch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "elsewhere"))
    after = stage.run("setup", "claude", "--check")

    assert (before.code, after.code, after.out) == (1, 0, "Set up.\n")


@pytest.mark.parametrize("harness", ["claude", "codex", "gemini", "opencode"])
def test_what_remove_would_do_is_shown_and_not_done(stage: Stage, repository: Path, harness: str) -> None:
    stage.run("setup", harness, "--yes")
    before = tree(repository)

    shown = stage.run("setup", harness, "--remove", "--print")
    document = stage.run("setup", harness, "--remove", "--print", "--json")
    between = tree(repository)
    removed = stage.run("setup", harness, "--remove", "--yes", "--json")

    assert (shown.code, document.code) == (0, 0)
    assert "Would be removed: " in shown.out
    assert between == before
    assert document.json == removed.json
    assert tree(repository) != before


def test_check_does_not_take_print(stage: Stage, repository: Path) -> None:
    del repository
    refused = stage.run("setup", "claude", "--check", "--print")

    assert refused.code == 2
    assert refused.err.startswith("error: --check changes nothing")


def test_without_a_project_for_the_repository_nothing_is_set_up(stage: Stage, repository: Path) -> None:
    stage.patch.setenv("PARLEY_HOME", str(repository.parent / "nothing-here"))
    before = tree(repository)

    ran = stage.run("setup", "codex", "--yes")

    assert (ran.code, ran.err) == (
        3,
        "error: no project for this repository [unknown_project]\nhint: run parley init first\n",
    )
    assert tree(repository) == before


def test_several_that_are_set_up_are_named_in_the_plural(stage: Stage, repository: Path, tmp_path: Path) -> None:
    del repository
    stage.patch.setenv("PATH", f"{tmp_path / 'bin'}")
    for name in ("claude", "codex"):
        install(stage, tmp_path, name)
    stage.run("setup", "--yes")

    assert stage.run("setup", "--yes").out.startswith("Nothing to do: claude and codex are set up.\n")


def test_declining_the_question_is_no_error(stage: Stage, repository: Path) -> None:
    before = tree(repository)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [parley_script(), "setup", "codex"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=repository
    ) as process:
        os.close(theirs)
        os.write(ours, b"n\n")
        shown = b""
        with suppress(OSError):
            while part := os.read(ours, 65_536):
                shown += part
    os.close(ours)

    assert (process.returncode, shown.decode().splitlines()[-1]) == (1, "Change 6 files? [y/N] Nothing was changed.")
    assert tree(repository) == before


# ---------------------------------------------------------------- texts for the model


def test_skills_come_in_the_form_of_each_coding_agent_and_can_be_chosen(stage: Stage, repository: Path) -> None:
    stage.run("setup", "claude", "--yes", "--skills", "ask")
    stage.run("setup", "codex", "--yes", "--no-skills")
    stage.run("setup", "gemini", "--yes")
    wrong = stage.run("setup", "claude", "--yes", "--skills", "nope")

    assert [path.parent.name for path in repository.glob(".claude/skills/*/SKILL.md")] == ["parley-ask"]
    assert not (repository / ".agents").exists()
    commands = sorted(path.stem for path in repository.glob(".gemini/commands/parley/*.toml"))
    assert commands == ["ask", "inbox", "review"]
    assert (wrong.code, wrong.err) == (2, "error: no skill 'nope' [invalid]\nhint: one of inbox, ask, review\n")


def test_skills_that_were_changed_stay_and_the_rest_goes(stage: Stage, repository: Path) -> None:
    before = tree(repository)
    stage.run("setup", "claude", "--yes")
    mine = repository / ".claude" / "skills" / "parley-ask" / "SKILL.md"
    mine.write_text("my own words\n")

    again = stage.run("setup", "claude", "--yes")
    stage.run("setup", "claude", "--remove", "--yes")

    assert again.code == 1
    assert "is left as it is" in again.out
    assert tree(repository) == {
        **before,
        ".claude/skills/parley-ask/SKILL.md": (b"my own words\n", mine.stat().st_mode),
    }


def test_only_a_team_gets_instructions_into_its_files_unless_they_are_asked_for(stage: Stage, repository: Path) -> None:
    (repository / "CLAUDE.md").write_text("# Ours\n\nUse tabs.\n")
    stage.run("setup", "claude", "--yes")
    personal = (repository / "CLAUDE.md").read_text()
    stage.run("setup", "claude", "--yes", "--instructions")
    asked = (repository / "CLAUDE.md").read_text()
    stage.run("setup", "claude", "--remove", "--yes")

    assert personal == "# Ours\n\nUse tabs.\n"
    assert asked.startswith("# Ours\n\nUse tabs.\n\n<!-- parley:begin -->\n")
    assert (repository / "CLAUDE.md").read_text() == personal
    stage.run("setup", "codex", "--yes", "--shared")
    assert "cannot grant permissions" in (repository / "AGENTS.md").read_text()


def test_gemini_gets_a_policy_in_the_home_directory_and_loses_it_again(stage: Stage, repository: Path) -> None:
    policy = Path(os.environ["HOME"]) / ".gemini" / "policies" / "parley.toml"
    stage.run("setup", "gemini", "--yes", "--shared")
    shared = policy.exists()
    ran = stage.run("setup", "gemini", "--yes")
    text = policy.read_text()
    stage.run("setup", "gemini", "--remove", "--yes")

    assert not shared
    assert "created: ~/.gemini/policies/parley.toml\n" in ran.out
    assert 'mcpName = "parley"' in text
    assert not policy.parent.exists()
    assert (repository / ".git" / "info" / "exclude").read_text().count("~") <= 1  # a comment of git's own
