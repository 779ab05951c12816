"""A reader takes a message and dies; the message is handed to the next one, and to nobody after that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.e2e.shell import Shell, agents

READER = """
import os, sys
import parley
with parley.Mailbox("demo") as mailbox:
    message = mailbox.next(lease=None)
    print(message.id, flush=True)
    sys.stdin.read()
"""


def read_and_wait(shell: Shell) -> subprocess.Popen[str]:
    """A reader that has its message and will never finish it."""
    return subprocess.Popen(
        [sys.executable, "-c", READER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=shell.home,
        env=shell.environment(),
    )


def test_a_crashed_readers_message_returns_at_once(tmp_path: Path) -> None:
    claude, codex = agents(tmp_path, "claude", "codex")
    sent = claude.say("send", "--to", "codex", "--type", "question", "--subject", "Which port?", body="Tell me.\n")

    with read_and_wait(codex) as reader:
        # Given a reader that holds the message as long as it lives
        assert reader.stdout is not None
        assert reader.stdout.readline().strip() == sent["id"]
        assert codex.say("next") is None

        # When it is killed
        reader.send_signal(signal.SIGKILL)
        reader.wait()

    # Then the next reader has the message, told that it is the second try, and nobody has it after that
    again = codex.say("next")
    assert (again["id"], again["tries"]) == (sent["id"], 2)
    codex.say("done", again["id"])
    assert codex.say("next") is None
    assert codex.files("inbox", "archive") == [sent["file"]]


def test_a_lease_outlives_its_process_and_ends_by_itself(tmp_path: Path) -> None:
    claude, codex = agents(tmp_path, "claude", "codex")
    sent = claude.say("send", "--to", "codex", "--type", "question", "--subject", "Which port?", body="Tell me.\n")

    # Given a claim of a command that has ended long ago
    began = time.monotonic()
    first = codex.say("next", "--lease", "2s")

    # When others ask for it again and again
    while (again := codex.say("next")) is None:
        assert time.monotonic() < began + 60

    # Then one has it when the lease is over, and the first one is refused
    assert again["id"] == first["id"] == sent["id"]
    assert time.monotonic() - began >= 2
    late = codex.run("done", sent["id"], "--token", first["lease"]["token"])
    assert late.returncode != 0
    assert "lease_lost" in late.stderr
    codex.say("done", sent["id"], "--token", again["lease"]["token"])
    assert codex.files("inbox", "archive") == [sent["file"]]


def test_a_sender_killed_before_it_delivered_is_finished_by_its_next_command(tmp_path: Path) -> None:
    claude, codex = agents(tmp_path, "claude", "codex")
    # Given a send that is decided and cannot be carried: the inbox takes nothing at this moment
    code = "import os, signal\nfrom parley.adapters.files.courier import FileCourier as C\n"
    code += "async def die(*a): os.kill(os.getpid(), signal.SIGKILL)\nC.deliver = die\n"
    code += "import parley\nparley.Mailbox('demo').send('codex', 'question', 'Which port?', 'Tell me.')"
    killed = subprocess.run(
        [sys.executable, "-c", code], env=claude.environment(), cwd=tmp_path, check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL
    assert codex.files("inbox") == claude.files("outbox") == []

    # When claude runs any command that writes
    assert claude.say("next") is None

    # Then codex has the message, once
    assert len(codex.files("inbox")) == len(claude.files("outbox")) == 1
    question = codex.say("next")
    assert question["subject"] == "Which port?"
    codex.say("done", question["id"])
    assert os.listdir(codex.folder("dead_letter")) == [".gitkeep"]
