"""`Mailbox.send` against the bare sequence of system calls that makes two files durable."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from bench.figures import Figure, Goal
from bench.measure import calls_in_turns
from bench.workspace import PROJECT, READER, SENDER, Bench, agent_folder
from parley import Mailbox

_GOAL = Goal("<=", 2.0, "x")
_SUBJECT = "Rotation of the signing keys"
_BODY = "The new key is in place and the old one stays valid until Friday noon. " * 4


def run(bench: Bench) -> list[Figure]:
    home = bench.home("durable-send")
    bare_folders = [f"{bench.folder}/{name}" for name in ("bare-inbox", "bare-outbox")]
    for folder in bare_folders:
        os.mkdir(folder)
    with Mailbox(PROJECT, agent=SENDER, home=home) as mailbox:

        def send() -> None:
            mailbox.send(READER, "notification", _SUBJECT, _BODY)

        send()
        (copy,) = Path(agent_folder(home, SENDER, "outbox")).glob("*.yaml")
        content, names = copy.read_bytes(), count()

        def bare() -> None:
            name = f"20260313T1430Z_claude_notification_{next(names):04d}.yaml"
            for folder in bare_folders:
                place_bare(folder, name, content)

        ours, least = calls_in_turns(bench.repeat(50), 10, send, bare)
    what = "durable send in process, over the bare sequence"
    return [Figure("durable_send", what, "ms", ours, least, _GOAL, faster=False)]


def place_bare(folder: str, name: str, content: bytes) -> None:
    """Nothing but what durability needs, in the order that it needs."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    file = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o640, dir_fd=directory)
    os.write(file, content)
    os.fsync(file)
    os.link(f"/proc/self/fd/{file}", name, dst_dir_fd=directory, follow_symlinks=True)
    os.fsync(directory)
    os.close(file)
    os.close(directory)
