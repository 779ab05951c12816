"""A mailbox that a sandbox lets nobody write: looking works, and what writes says which setting is missing."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from parley import settings
from parley.cli.parts.sandbox import sandbox_hint
from tests.surface.stage import Ran, Stage, parley_script

_MOUNTED = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


def read_only(stage: Stage, *arguments: str, **environment: str) -> Ran:
    """Run a command while the home is mounted read-only."""
    namespace = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "-m"]
    ended = subprocess.run(
        [*namespace, "sh", "-c", _MOUNTED, "sh", str(stage.home), parley_script(), *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        cwd=stage.here,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return Ran(ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture(params=["with a log", "closed", "without a ledger"])
def sandboxed(stage: Stage, request: pytest.FixtureRequest) -> Stage:
    """A mailbox with two messages, one claimed and answered; its ledger as a command, or a program, has left it."""
    stage.script("send", "codex", "First?", "--from", "claude")
    stage.script("send", "codex", "Second?", "--from", "claude")
    if request.param != "without a ledger":
        stage.script("next", "-a", "codex")
        stage.script("reply", "-a", "codex", "--body", "Yes.", "--keep-open")
    for agent in ("claude", "codex") if request.param == "closed" else ():
        ledger = sqlite3.connect(stage.agent(agent) / ".parley" / "ledger.db")
        ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ledger.close()
        assert not (stage.agent(agent) / ".parley" / "ledger.db-wal").exists()
    if request.param == "without a ledger":
        shutil.rmtree(stage.agent("codex") / ".parley", ignore_errors=True)
    return stage


def ages_left_out(text: str) -> str:
    return re.sub(r"\b\d+[sm]\b", "AGE", text)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("inbox", "-a", "codex"), "Second?"),
        (("inbox", "--all"), "Second?"),
        (("outbox", "-a", "claude"), "First?"),
        (("outbox", "--waiting", "-a", "claude"), "Second?"),
        (("search", "second", "-a", "codex"), "Second?"),
        (("agent", "list"), "codex"),
        (("config",), "demo"),
    ],
)
def test_looking_works(sandboxed: Stage, words: tuple[str, ...], shown: str) -> None:
    ran = read_only(sandboxed, *words)

    assert (ran.code, ran.err) == (0, "")
    assert shown in ran.out
    assert ages_left_out(ran.out) == ages_left_out(sandboxed.script(*words).out)


def test_a_message_and_its_thread_can_be_read(sandboxed: Stage) -> None:
    first = sandboxed.mailbox("codex").inbox()[0]

    read, thread = (read_only(sandboxed, command, first.id, "-a", "codex") for command in ("read", "thread"))

    assert (read.code, thread.code) == (0, 0)
    assert first.subject in read.out
    assert first.subject in thread.out


def test_a_watch_shows_what_is_new_and_says_that_it_cannot_remember(sandboxed: Stage) -> None:
    ran = read_only(sandboxed, "watch", "--once", "-a", "codex")

    assert (ran.code, ran.out.count("\n")) == (0, 2)
    assert ran.err == "note: the mailbox of codex is read-only, so these messages will be shown again\n"


def test_a_watch_that_goes_on_shows_each_message_once(sandboxed: Stage) -> None:
    ran = read_only(sandboxed, "watch", "--timeout", "1s", "-a", "codex")

    assert (ran.code, ran.out.count("\n"), ran.err.count("\n")) == (0, 2, 1)


def test_a_log_without_its_index_is_refused_instead_of_read_without_it(stage: Stage) -> None:
    """The file alone would not show the claim, which is still in the log."""
    stage.script("send", "codex", "First?", "--from", "claude")
    stage.script("next", "-a", "codex")
    (stage.agent("codex") / ".parley" / "ledger.db-shm").unlink()

    ran = read_only(stage, "inbox", "-a", "codex")

    assert (ran.code, ran.error, ran.out) == (6, "forbidden", "")
    assert "claimed" in stage.script("inbox", "-a", "codex").out


def test_doctor_reports_it_with_what_else_it_finds(sandboxed: Stage) -> None:
    sandboxed.plant("codex", "bad.yaml").write_text("from: [\n")
    os.utime(sandboxed.inbox("codex") / "bad.yaml", (1, 1))

    ran = read_only(sandboxed, "doctor")

    assert ran.code == 1
    assert f"codex: this user cannot write to {sandboxed.agent('codex')}; this looks like a sandbox: " in ran.out
    assert "bad.yaml" in ran.out


WRITES = [
    ("next", "-a", "codex"),
    ("send", "codex", "Hi", "--from", "claude"),
    ("done", "REF", "-a", "codex"),
    ("reply", "REF", "x", "-a", "codex"),
    ("agent", "add", "other"),
    ("init", "other"),
]


@pytest.mark.parametrize("words", WRITES, ids=lambda words: words[0])
def test_what_writes_is_refused_with_the_missing_setting(sandboxed: Stage, words: tuple[str, ...]) -> None:
    ref = sandboxed.mailbox("codex").inbox()[0].id
    before = sandboxed.everything()

    ran = read_only(sandboxed, *(word.replace("REF", ref) for word in words), CODEX_SHELL="1")

    assert (ran.code, ran.error) == (6, "forbidden")
    assert ran.err.endswith(
        f"\nhint: this looks like a sandbox: start Codex with --add-dir {sandboxed.home}, or add it to"
        " sandbox_workspace_write.writable_roots in ~/.codex/config.toml, or keep the mailboxes in the repository:"
        " parley init --here\n"
    )
    assert sandboxed.everything() == before


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("CLAUDECODE", "add {home} to sandbox.filesystem.allowWrite in the settings.json of Claude Code"),
        ("GEMINI_CLI", "allow writing to {home} in the settings of the sandbox"),
        ("UNRELATED", "allow writing to {home} in the settings of the sandbox"),
    ],
)
def test_the_setting_is_that_of_the_runtime(stage: Stage, variable: str, setting: str) -> None:
    ran = read_only(stage, "send", "codex", "Hi", "--from", "claude", **{variable: "1"})

    assert f"\nhint: this looks like a sandbox: {setting.format(home=stage.home)}, or keep" in ran.err


def test_inside_the_repository_there_is_no_better_place(stage: Stage) -> None:
    (stage.home.parent / "repo").mkdir()
    own = stage.home.rename(stage.home.parent / "repo" / ".parley")
    stage.patch.setenv("PARLEY_HOME", str(own))

    ran = read_only(Stage(own, stage.here, stage.patch), "send", "codex", "Hi", "--from", "claude")

    assert ran.err.endswith(f"allow writing to {own} in the settings of the sandbox\n")


@pytest.mark.parametrize("runtime", ["", "codex"])
def test_a_refused_write_of_a_coding_agent_that_its_user_may_do_is_a_sandbox(stage: Stage, runtime: str) -> None:
    """Landlock and Seatbelt refuse what the modes of the files allow."""
    given = settings.load()._replace(runtime=runtime)

    hint = sandbox_hint(given, str(stage.agent("codex") / ".parley" / "ledger.db"))

    assert bool(hint) == bool(runtime)
    assert sandbox_hint(given, str(stage.here / "elsewhere")) == ""


def test_the_modes_of_another_users_folder_are_no_sandbox(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)

    assert sandbox_hint(settings.load()._replace(runtime="codex"), str(Path(stage.agent("codex")))) == ""
