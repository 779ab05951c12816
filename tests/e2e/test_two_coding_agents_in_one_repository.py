"""Claude Code and Codex in one repository: one command of their person, and nothing copied by hand."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.terminal import Person, wrapped_lines

# What the person types once in a repository: `parley init`.
COMMANDS_OF_THE_PERSON = 1
# What the agents type for one question and its answer: next, send, reply.
COMMANDS_OF_THE_AGENTS = 3


@pytest.fixture
def person(tmp_path: Path) -> Person:
    """Somebody who has Claude Code and Codex, a project from before, and a repository."""
    (tmp_path / "bin").mkdir()
    for command in ("claude", "codex"):
        (tmp_path / "bin" / command).touch(mode=0o755)
    for folder in ("src/api", "tests"):
        (tmp_path / "app" / folder).mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(tmp_path / "app")], check=True)
    Person(tmp_path).type("parley init before --agents claude,codex")
    return Person(tmp_path)


@pytest.mark.parametrize("options", ["", " --here"])
def test_one_asks_and_the_other_answers_from_any_folder(person: Person, options: str) -> None:
    app = person.home / "app"
    claude = partial(person.type, cwd=app / "src" / "api", CLAUDECODE="1")
    codex = partial(person.type, cwd=app / "tests", CODEX_SHELL="1")

    # Given a repository that was set up with one command
    created = person.type(f"parley init{options}", cwd=app)
    assert "Agents: claude, codex (installed on this machine)" in created
    assert len(person.typed) == COMMANDS_OF_THE_PERSON

    # When Codex waits for work, and Claude asks and waits for the answer
    with ThreadPoolExecutor() as terminals:
        waiting = terminals.submit(codex, "parley next --wait 1m")
        asking = terminals.submit(claude, "parley send codex 'mTLS or JWT for internal calls?' --wait 1m")
        question = waiting.result()
        replied = codex("parley reply 'Signed JWTs.'")
        answer = asking.result()
    assert len(person.typed) == COMMANDS_OF_THE_PERSON + COMMANDS_OF_THE_AGENTS

    # Then each has read the other, and nothing is left over
    assert "\nmTLS or JWT for internal calls?\n--- " in question
    assert answer.endswith("\n\nSigned JWTs.\n")
    assert claude("parley next", code=14) == "No message for claude.\n"
    assert codex("parley next", code=14) == "No message for codex.\n"
    shown = (created + question + replied + answer).replace(str(person.home), "/home/me")
    assert wrapped_lines(shown) == []
    # And neither the other project nor the repository was touched
    assert person.type("parley inbox --all --project before --home oacp") == "2 inboxes, all empty.\n"
    status = ["git", "-C", str(app), "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.run(status, capture_output=True, check=True).stdout == b""
    assert os.path.isdir(app / ".parley") == bool(options)
