"""Every command that a page prints is one that the command line accepts."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest

from parley import surfaces, wiring
from parley.cli.command import make_parser
from parley.cli.dispatch import COMMANDS, dispatch, load_command
from parley.domain.errors.errors import Invalid
from parley.settings import load
from parley.surfaces.mailbox_console import lists
from tests.rigs.source_trees import parsed

SURFACES = Path(surfaces.__path__[0])
# A command is a text of its own, or the end of a sentence.
COMMAND = re.compile(r"(?:^|: )(parley [a-z].*)", re.DOTALL)


def texts_of(tree: ast.Module) -> Iterator[str]:
    """Every text of a module, but for its docstrings. What is filled in when it runs is a 1 here, as an id may be."""
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            text = ""
            for part in node.values:
                # What follows a word at once is options, which may be none.
                filled = "1" if text.endswith((" ", "=", "'", '"')) else ""
                text += str(part.value) if isinstance(part, ast.Constant) else filled
            yield text
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value.replace("{}", "1")


def commands_of(text: str) -> list[list[str]]:
    """The words of each command of a line, without what the shell does with them."""
    line = COMMAND.search(text)
    if line is None:
        return []
    return [shlex.split(command.partition(" > ")[0])[1:] for command in line[1].split(" && ")]


PRINTED = sorted(
    {
        shlex.join(words)
        for package in ("console", "mailbox_console")
        for path in (SURFACES / package).rglob("*.py")
        for text in texts_of(parsed(path.read_text(encoding="utf-8"), str(path)))
        for words in commands_of(text)
    }
)


def parse(words: list[str]) -> None:
    """Have the command line read these words; it raises what it does not accept."""
    name = next((name for name in (" ".join(words[:2]), words[0]) if name in COMMANDS), None)
    if name is None:
        raise Invalid(f"no command {words}")
    make_parser(f"parley {name}", load_command(name)).parse_args(words[len(name.split()) :])


@pytest.mark.parametrize("line", PRINTED)
def test_the_command_line_accepts_what_a_page_prints(line: str) -> None:
    parse(shlex.split(line))


def test_the_commands_of_the_pages_are_found() -> None:
    assert {
        "approvals list",
        "post bob 'Is it done?' --agent alice",
        "post 1 Hello --intent 1 --agent 1",
        "console",
        "audit export",
        "audit verify audit.jsonl",
        "audit prove 1",
        "up --node NAME",
        "inbox --all --project 1",
    } <= set(PRINTED)


@pytest.mark.parametrize("line", ["approval list", "post bob 'Is it done?' --as alice", "audit prove"])
def test_what_it_does_not_accept_is_noticed(line: str) -> None:
    with pytest.raises(Invalid):
        parse(shlex.split(line))


@pytest.mark.parametrize("page", ["agents_page", "inbox_page", "threads_page", "reviews_page"])
def test_the_commands_of_empty_mailboxes_fill_them(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    agents = () if page == "agents_page" else ("claude", "codex")
    wiring.create_project(str(tmp_path), "demo", agents)
    monkeypatch.setenv("PARLEY_HOME", str(tmp_path))
    monkeypatch.setenv("PARLEY_AGENT", "claude")
    project = wiring.open_project_reader(str(tmp_path), "demo", load({}))

    def shown() -> str:
        given = ("codex",) if page == "inbox_page" else ()
        content: str = getattr(lists, page)(project, datetime.now(UTC), *given).content.encode().decode()
        return content

    (line,) = re.findall("<pre><code>parley (.*?)</code></pre>", shown())
    words = [{"AGENT": "codex", "NAME": "codex"}.get(word, word) for word in shlex.split(unescape(line))]

    assert dispatch(words) == 0, capsys.readouterr()
    assert "<table>" in shown()
