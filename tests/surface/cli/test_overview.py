"""The command as a whole: help, version, exit codes, completion, one line for every error."""

from __future__ import annotations

import shutil
import subprocess

import pytest

import parley
from parley.cli.dispatch import COMMANDS
from parley.cli.exits import INTERNAL, exit_code, exit_codes
from parley.domain.errors import errors
from parley.domain.errors import team as team_errors
from tests.surface.stage import Stage, parley_script

ERRORS = [
    one
    for module in (errors, team_errors)
    for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, errors.ParleyError) and one.__module__ == module.__name__
]
# On a data directory.
ON_DATA = {"up", "backup", "restore"}
# On files alone.
ON_FILES = {"policy check", "policy test", "workflow check", "audit reconcile"}
# On the file of saved logins. `login` takes an address, but no key where others could see it.
ON_LOGINS = {name for name in COMMANDS if name.startswith("context ")} | {"login", "logout"}
# On stores, which they are given.
ON_STORES = {"store copy", "store reopen"}
ON_A_SERVER = (
    {name for name, module in COMMANDS.items() if not module.startswith(("attention.", "mailbox.", "review."))}
    - ON_DATA
    - ON_FILES
    - ON_STORES
    - ON_LOGINS
    - {"config", "completion", "demo", "version"}
)


def test_help_all_names_every_command(stage: Stage) -> None:
    ran = stage.run("help", "all")

    assert (ran.code, ran.err) == (0, "")
    assert all(f"  {name} " in ran.out for name in COMMANDS)
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_the_first_page_has_four_ways_to_start_and_ten_commands(stage: Stage, words: list[str]) -> None:
    ran = stage.run(*words)

    lines = ran.out.splitlines()
    started = [line.split("  ")[1] for line in lines if line.startswith("  parley ")]
    assert (ran.code, ran.err) == (0, "")
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    assert started == ["parley demo", "parley init", "parley up", "parley setup claude"]
    assert len([line for line in lines if line.startswith("  ") and line.split()[0] in COMMANDS]) == 10
    assert "parley help all" in ran.out


def test_headings_of_help_are_bold_where_colours_are_wanted(stage: Stage) -> None:
    stage.patch.setenv("FORCE_COLOR", "1")

    assert "\x1b[1mevery day:\x1b[0m\n" in stage.run().out
    assert stage.run("next", "--help").out.startswith("\x1b[1musage:\x1b[0m parley next [options]\n")
    stage.patch.setenv("NO_COLOR", "1")
    assert "\x1b" not in stage.run("next", "--help").out


@pytest.mark.parametrize("width", [60, 80, 100])
def test_help_is_as_wide_as_columns_says(stage: Stage, width: int) -> None:
    stage.patch.setenv("COLUMNS", str(width))

    described, examples = stage.run("send", "--help").out.split("\nexamples:\n")

    assert width - 15 <= max(map(len, described.splitlines())) <= width
    assert width >= 80 or max(map(len, examples.splitlines())) <= width


def test_a_misspelt_value_is_answered_with_what_was_meant(stage: Stage) -> None:
    misspelt = stage.run("send", "codex", "x", "--type", "quesion")
    other = stage.run("intent", "list", "--status", "zebra")

    assert misspelt.err == 'error: --type cannot be "quesion" (did you mean question?) [invalid]\n'
    assert other.err == (
        'error: --status cannot be "zebra" [invalid]\nhint: one of draft, active, blocked, completed, abandoned\n'
    )
    assert (misspelt.code, other.code) == (2, 2)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(stage: Stage, name: str) -> None:
    ran = stage.run(*name.split(), "--help")
    helped = stage.run("help", *name.split())

    assert (ran.code, ran.err, helped.out) == (0, "", ran.out)
    assert ran.out.startswith(f"usage: parley {name} ")
    assert "\nexamples:\n" in ran.out
    assert max(map(len, ran.out.split("\nexamples:\n")[0].splitlines())) <= 100
    described = ran.out.split("\noptions:\n")[0].split("\npositional arguments:\n")[0].split("\n\n", 1)[1]
    assert max(map(len, described.splitlines())) <= 80


@pytest.mark.parametrize(
    "name",
    sorted(
        COMMANDS.keys()
        - ON_A_SERVER
        - ON_DATA
        - ON_FILES
        - ON_STORES
        - ON_LOGINS
        - {"init", "completion", "demo", "kinds", "setup", "version"}
    ),
)
def test_every_command_on_a_mailbox_takes_the_same_options(stage: Stage, name: str) -> None:
    shown = stage.run(*name.split(), "--help").out

    assert all(option in shown for option in ("--home", "--project", "--json"))


@pytest.mark.parametrize("name", sorted(ON_A_SERVER))
def test_every_command_on_a_server_takes_the_same_options(stage: Stage, name: str) -> None:
    shown = stage.run(*name.split(), "--help").out

    assert all(option in shown for option in ("--url", "--key", "--json"))


@pytest.mark.parametrize("name", sorted(ON_DATA))
def test_every_command_on_a_data_directory_takes_the_same_options(stage: Stage, name: str) -> None:
    shown = stage.run(*name.split(), "--help").out

    assert all(option in shown for option in ("--data", "--json"))


def test_a_group_lists_its_commands(stage: Stage) -> None:
    ran = stage.run("agent", "--help")

    assert [line.split()[2] for line in ran.out.splitlines()] == [
        "add",
        "list",
        "show",
        "register",
        "heartbeat",
        "leave",
    ]
    assert stage.run("help", "agent") == ran
    bare = stage.run("agent")
    assert (bare.code, bare.error) == (2, "invalid")
    assert "add, list, show, register, heartbeat, leave" in bare.err


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_the_packages(stage: Stage, option: str) -> None:
    assert stage.run(option).out == f"parley {parley.__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["shout"],
        ["agent", "shout"],
        ["inbox", "--loud"],
        ["inbox", "extra"],
        ["send"],
        ["send", "--to", "codex", "--type", "shout", "--subject", "x"],
        ["read"],
        ["completion", "tcsh"],
        ["inbox", "--agent"],
        ["send", "--t", "codex"],
    ],
)
def test_wrong_usage_is_one_line_that_says_where_to_look(stage: Stage, words: list[str]) -> None:
    ran = stage.run(*words)

    assert (ran.code, ran.error, ran.out) == (2, "invalid", "")


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_error_has_an_exit_code_of_its_own_kind(error: type[errors.ParleyError]) -> None:
    code = exit_code(error())

    assert code in {number for _, number, _ in exit_codes()} or error is errors.ParleyError
    # 1 is for what a command has found out, such as the answer of an agent that failed.
    assert code not in (0, 1, INTERNAL) or error in (errors.ParleyError, team_errors.AgentFailed)


def test_exit_codes_are_these() -> None:
    assert {kind.__name__: code for kind, code, _ in exit_codes()} == {
        "AgentFailed": 1,
        "BadConfig": 78,
        "UnsafeMode": 78,
        "LogChanged": 13,
        "WorkflowUnsupported": 15,
        "Invalid": 2,
        "NotFound": 3,
        "VersionRequired": 2,
        "Gone": 3,
        "Conflict": 4,
        "Undelivered": 5,
        "Forbidden": 6,
        "Unauthorized": 6,
        "Unavailable": 7,
        "RateLimited": 7,
        "AskTimeout": 8,
        "MessageHeld": 9,
        "WorkflowFailed": 10,
        "WorkflowTimedOut": 11,
        "WorkflowAbandoned": 12,
    }


def test_the_real_script_exits_with_them(stage: Stage) -> None:
    (stage.here / "parley.toml").write_text("x = 1\n")

    ran = stage.script("inbox", "-a", "codex")

    assert (ran.code, ran.error, ran.out) == (78, "bad_config", "")


def test_a_bug_is_one_line_without_a_traceback(stage: Stage) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a secret")

    stage.patch.setattr("parley.cli.dispatch.load_command", broken)

    ran = stage.run("inbox", "-a", "codex")

    assert (ran.code, ran.error) == (70, "internal")
    assert "a secret" not in ran.err
    assert "Traceback" not in ran.err


def test_a_reader_that_leaves_early_is_no_error_worth_a_word(stage: Stage) -> None:
    command = f"'{parley_script()}' --help | true; exit ${{PIPESTATUS[0]}}"

    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)

    assert ended.returncode in (0, 1)
    assert ended.stderr == ""


@pytest.mark.parametrize(("redirection", "said"), [(">&-", "standard output is closed"), (">/dev/full", "No space")])
def test_output_that_cannot_be_written_is_an_error(stage: Stage, redirection: str, said: str) -> None:
    command = f"'{parley_script()}' config {redirection}"

    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)

    assert ended.returncode == 7
    assert ended.stderr.startswith("error: ")
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1 + ("\nhint: " in ended.stderr)


def test_a_message_is_not_sent_when_nobody_could_learn_its_id(stage: Stage) -> None:
    words = "send -a claude --to codex --type question --subject x --body y"

    ended = subprocess.run(["bash", "-c", f"'{parley_script()}' {words} >&-"], check=False, stderr=subprocess.DEVNULL)

    assert ended.returncode == 7
    assert stage.files("codex") == []


def test_the_bash_completion_is_bash(stage: Stage) -> None:
    script = stage.run("completion", "bash").out

    checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)

    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["in"], {"inbox", "init", "intent"}),
        (["oa"], {"oacp"}),
        (["agent", ""], {"add", "list", "show", "register", "heartbeat", "leave"}),
        (["agent", "l"], {"list", "leave"}),
        (["messages", "--si"], {"--since"}),
        (["key", "r"], {"rotate", "revoke"}),
        (["review", ""], {"status", "gate", "findings", "close"}),
        (["send", "--su"], {"--subject"}),
        (["agent", "add", "--ru"], {"--runtime"}),
        (["next", "--le"], {"--lease"}),
        (["review", "status", "--js"], {"--json"}),
        (["zzz"], set()),
    ],
)
def test_bash_completes_commands_and_options(stage: Stage, typed: list[str], offered: set[str]) -> None:
    words = " ".join(f"'{word}'" for word in ["parley", *typed])
    script = stage.run("completion", "bash").out + (
        f'\nCOMP_WORDS=({words}); COMP_CWORD={len(typed)}; _parley; printf "%s\\n" "${{COMPREPLY[@]}}"\n'
    )

    ended = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=True)

    assert (set(ended.stdout.split()), ended.stderr) == (offered, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_completions_are_accepted_by_their_shell(stage: Stage, shell: str) -> None:
    script = stage.run("completion", shell).out

    assert all(f"{name.split()[0]}" in script for name in COMMANDS)
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_a_mistyped_word_of_a_group_is_named_with_what_was_meant(stage: Stage) -> None:
    close, far = stage.run("audit", "lst"), stage.run("audit", "dance")

    assert (close.code, far.code) == (2, 2)
    assert "no command 'audit lst' (did you mean list?)" in close.err
    assert "audit has: list, export, prove" in far.err
