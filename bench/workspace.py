"""Workspaces to measure in: homes with mail in them, written as each tool writes it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from bench.measure import Runner
from parley.domain.message.message import KINDS, Kind, Message, Priority
from parley.wire.oacp.format import OacpFormat
from parley.wiring import create_project

PROJECT = "demo"
SENDER, READER = "claude", "codex"
BIN = Path(sys.executable).parent
PARLEY, OACP = str(BIN / "parley"), str(BIN / "oacp")
_START = datetime(2026, 3, 13, 8, 0, tzinfo=UTC)
SENDERS = ("claude", "gemini", "cursor", "reviewer-2")
# What the OACP tool takes as it is, because it checks no body; the structured kinds carry their fields as text.
_KINDS = (Kind.QUESTION, Kind.NOTIFICATION, Kind.TASK_REQUEST, Kind.BRAINSTORM_REQUEST)
_LINE = "The migration is ready on branch feature/tokens and waits for a second pair of eyes."
_LINES = f"{_LINE}\n\n- src/auth/token.py\n- src/auth/session.py\n{_LINE}\n"


class Bench(NamedTuple):
    """Where to measure and how thoroughly."""

    folder: str
    runner: Runner
    quick: bool

    def repeat(self, times: int) -> int:
        """`times`, or fewer when it must be quick."""
        return max(2, times // 5) if self.quick else times

    def home(self, name: str) -> str:
        """A home of its own with one project and its agents."""
        path = f"{self.folder}/{name}"
        os.mkdir(path)
        create_project(path, PROJECT, (*SENDERS, READER))
        return path


def agent_folder(home: str, agent: str, name: str) -> str:
    return f"{home}/projects/{PROJECT}/agents/{agent}/{name}"


def parley(verb: str, home: str, agent: str, *more: str, program: Sequence[str] = (PARLEY,)) -> list[str]:
    return [*program, verb, "--home", home, "--project", PROJECT, "--agent", agent, *more]


def oacp(verb: str, home: str, *more: str) -> list[str]:
    return [OACP, verb, PROJECT, "--oacp-dir", home, *more]


def fill(home: str, count: int) -> None:
    """Put `count` messages into the reader's inbox, every second one as the OACP tool writes it."""
    inbox = agent_folder(home, READER, "inbox")
    ours = OacpFormat()
    for number in range(count):
        at = _START + timedelta(seconds=7 * number)
        sender = SENDERS[number % len(SENDERS)]
        kind = _KINDS[number // 3 % len(_KINDS)]
        subject = f"Round {number}: token rotation" if number % 5 else f'Is "{number}" right: yes or no?'
        body = _LINES if number % 3 == 0 else _LINE
        if number % 2:
            name = f"{at:%Y%m%d%H%M%S}_{sender}_{kind}_{number:04x}.yaml"
            content = theirs(at, number, sender, kind, subject, body)
        else:
            name = f"{at:%Y%m%dT%H%MZ}_{sender}_{kind}_{number:04x}.yaml"
            content = ours.encode(_message(at, number, sender, kind, subject, body))
        with open(f"{inbox}/{name}", "wb") as file:
            file.write(content)


def _message(at: datetime, number: int, sender: str, kind: Kind, subject: str, body: str) -> Message:
    return Message(
        id=f"msg-{at:%Y%m%dT%H%MZ}-{sender}-{number:04x}",
        sender=sender,
        to=(READER,),
        kind=kind,
        priority=Priority(f"P{number % 4}"),
        created_at=at,
        subject=subject,
        body=body,
        conversation_id=f"conv-{at:%Y%m%d}-{sender}-{number:06d}",
    )


def theirs(at: datetime, number: int, sender: str, kind: Kind, subject: str, body: str) -> bytes:
    """A file as `oacp send` writes it; `check_shape` holds this against the real tool."""
    plain = '"' not in subject and ": " not in subject
    escaped = subject.replace('"', '\\"')
    text = "|\n" + "".join(f"  {line}\n" for line in body.splitlines())
    return (
        f"id: msg-{at:%Y%m%d%H%M%S}-{sender}-{number:04x}\n"
        f"from: {sender}\n"
        f"to: {READER}\n"
        f"type: {kind}\n"
        f"priority: P{number % 4}\n"
        f'created_at_utc: "{at:%Y-%m-%dT%H:%M:%SZ}"\n'
        f"conversation_id: conv-{at:%Y%m%d}-{sender}-{number:06d}\n"
        f"subject: {subject if plain else chr(34) + escaped + chr(34)}\n"
        f"body: {text if chr(10) in body else body + chr(10)}"
    ).encode()


def check_shape(bench: Bench) -> None:
    """Fail when the real tool no longer writes what `theirs` writes."""
    home = bench.home("shape")
    inbox = Path(agent_folder(home, READER, "inbox"))
    for number, body in ((2, _LINE), (6, _LINES)):
        subject = 'Is "2" right: yes or no?'
        more = ["--type", "question", "--subject", subject, "--body", body]
        bench.runner.run(oacp("send", home, "--from", SENDER, "--to", READER, "--priority", "P2", "--quiet", *more))
        (written,) = inbox.glob("*.yaml")
        real = written.read_text(encoding="utf-8").splitlines(keepends=True)
        written.unlink()
        expected = theirs(_START, number, SENDER, KINDS["question"], subject, body).decode().splitlines(keepends=True)
        same = [a == b or a.split(": ")[0] == b.split(": ")[0] in _VARYING for a, b in zip(real, expected, strict=True)]
        if not all(same):
            raise RuntimeError(f"oacp send writes another shape now:\n{''.join(real)}")


_VARYING = ("id", "created_at_utc", "conversation_id")
