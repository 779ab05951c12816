"""A shared project: other users may drop messages, and nothing else."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from pwd import getpwuid

import pytest

from parley.cli.parts.refusals import explain_refusal
from parley.domain.errors.errors import Forbidden
from tests.samples.messages import a_file
from tests.surface.stage import Stage, bare_environment

NOBODY = 65534


@pytest.fixture
def shared() -> Iterator[Stage]:
    """A shared project in a folder that other users can reach."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        folder.chmod(0o711)
        bare_environment(patch, folder)
        patch.chdir(folder)
        patch.setenv("PARLEY_HOME", str(folder / "home"))
        stage = Stage(folder / "home", folder, patch)
        assert stage.run("init", "demo", "--agents", "claude,codex", "--shared").code == 0
        yield stage


def as_another_user(stage: Stage, command: str, content: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a shell command as a user who shares only the group."""
    return subprocess.run(
        ["/bin/sh", "-c", command],
        input=content,
        cwd="/",
        env={"INBOX": str(stage.inbox("codex")), "AGENT": str(stage.agent("codex")), "PATH": os.environ["PATH"]},
        user=NOBODY,
        group=os.stat(stage.inbox("codex")).st_gid,
        extra_groups=[],
        capture_output=True,
        check=False,
    )


def test_another_user_may_drop_a_message_which_is_marked_as_unverified(shared: Stage) -> None:
    dropped = as_another_user(shared, 'cat > "$INBOX/dropped.yaml"', a_file())
    assert dropped.returncode == 0, dropped.stderr

    claimed = shared.run("next", "-a", "codex", "--json").json

    assert claimed["file"] == "dropped.yaml"
    assert claimed["doubts"] == [f"from: the file belongs to user {NOBODY}, claude to user 0"]
    assert shared.run("done", claimed["id"], "-a", "codex").code == 0


def test_where_it_is_enforced_a_message_of_another_user_goes_to_the_dead_letters(shared: Stage) -> None:
    as_another_user(shared, 'cat > "$INBOX/dropped.yaml"', a_file())
    shared.patch.setenv("PARLEY_SENDER_CHECK", "enforce")

    assert shared.run("next", "-a", "codex", "--json").json is None

    reason = json.loads((shared.agent("codex") / "dead_letter" / "dropped.yaml.reason.json").read_text())
    assert reason["code"] == "from_uid_mismatch"


@pytest.mark.parametrize(
    "command",
    [
        'ls "$INBOX"',
        'cat "$INBOX"/*.yaml',
        'ls "$AGENT"',
        'ls "$AGENT/outbox"',
        'ls "$AGENT/inbox/archive"',
        'ls "$AGENT/dead_letter"',
        'echo x > "$AGENT/outbox/x.yaml"',
    ],
)
def test_another_user_may_neither_look_nor_take(shared: Stage, command: str) -> None:
    sent = shared.send()

    ended = as_another_user(shared, command)

    assert ended.returncode != 0
    assert shared.run("next", "-a", "codex", "--json").json["id"] == sent["id"]


@pytest.mark.parametrize(
    "command",
    ['rm "$INBOX/{}"', 'mv "$INBOX/{}" "$INBOX/x"', 'echo x > "$INBOX/x" && mv "$INBOX/x" "$INBOX/{}"'],
)
def test_another_user_who_knows_the_name_may_neither_delete_nor_replace_a_message(shared: Stage, command: str) -> None:
    sent = shared.send()

    ended = as_another_user(shared, command.format(sent["file"]))

    assert ended.returncode != 0
    claimed = shared.run("next", "-a", "codex", "--json").json
    assert (claimed["id"], claimed["body"]) == (sent["id"], sent["body"])


def test_a_lock_that_somebody_holds_on_one_file_stops_no_other_message(shared: Stage) -> None:
    urgent, other = shared.send("--priority", "P0"), shared.send()
    holder = os.open(shared.inbox("codex") / urgent["file"], os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)

        assert shared.run("next", "-a", "codex", "--json").json["id"] == other["id"]
    finally:
        os.close(holder)

    assert shared.run("next", "-a", "codex", "--json").json["id"] == urgent["id"]


def test_a_folder_of_another_user_is_named_with_what_to_do(shared: Stage) -> None:
    ledger = str(shared.agent("codex") / ".parley" / "ledger.db")
    os.chown(shared.agent("codex"), NOBODY, -1)
    error = Forbidden(f"{ledger}: Permission denied", facts={"path": ledger})

    explain_refusal(error, Namespace())

    name = getpwuid(NOBODY).pw_name
    assert error.hint == (
        f"{shared.agent('codex')} belongs to user {name}: run the command as {name}, or let {name} share the project"
        " with your group, or keep the mailboxes in the repository: parley init --here"
    )
