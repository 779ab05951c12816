"""What `parley setup` writes is accepted by the real coding agents, and is taken back without a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.conftest import Stages
from tests.harness.programs import AGENTS
from tests.harness.scripted_model import Script, use_tool

TOOLS = ("inbox", "next", "reply", "done", "send", "agents")
WITH_HOOKS = ("claude", "codex", "gemini")


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a repository but those of git itself, and its list of what to leave out."""
    files = [path for path in folder.rglob("*") if path.is_file() and ".git" not in path.relative_to(folder).parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in [*files, folder / ".git/info/exclude"]}


@pytest.mark.parametrize("name", AGENTS)
def test_the_tools_are_listed_and_can_be_called(stages: Stages, name: str) -> None:
    stage = stages(name, Script([use_tool("agents")]))
    stage.place.set_up()

    stage.place.print_mode("Who is there?")

    first, second = stage.model.requests[:2]
    assert [first.tool(tool) is not None for tool in TOOLS] == [True] * len(TOOLS)
    others = ", ".join(f"{agent} (does not notice)" for agent in AGENTS if agent != name)
    assert f"You are {name}. Others: {others}." in second.news


@pytest.mark.parametrize("name", WITH_HOOKS)
def test_the_hooks_fire_and_the_model_is_told(stages: Stages, name: str) -> None:
    stage = stages(name, Script([]))
    stage.place.set_up()
    message = stage.place.send("Which colour?")

    stage.place.print_mode("Hello.")

    assert f"Parley: 1 message waits for {name}: " in stage.model.received[-1].text
    assert f"[{message[-4:]}]" in stage.model.received[-1].text


@pytest.mark.parametrize("name", AGENTS)
def test_the_files_that_a_team_shares_are_accepted_too(stages: Stages, name: str) -> None:
    stage = stages(name, Script([use_tool("agents")]))
    stage.place.parley("setup", name, "--shared", "--yes")
    stage.place.send("Which colour?")

    stage.place.print_mode("Who is there?")

    assert f"You are {name}. Others: " in stage.model.requests[1].news
    if name in WITH_HOOKS:
        assert "Parley: 1 message waits" in stage.model.received[-1].text


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("options", [(), ("--shared",)], ids=["personal", "shared"])
def test_setup_twice_changes_nothing_and_remove_restores_the_first_state(
    stages: Stages, name: str, options: tuple[str, ...]
) -> None:
    stage = stages(name, Script([]))
    first = tree(stage.place.repository)

    stage.place.parley("setup", name, "--yes", *options)
    written = tree(stage.place.repository)
    stage.place.print_mode("Hello.")
    again = stage.place.parley("setup", name, "--yes", *options).stdout
    unchanged = tree(stage.place.repository)
    stage.place.parley("setup", name, "--remove", "--yes", *options)

    assert written != first
    assert "Nothing to do: " in again
    assert unchanged == written
    assert tree(stage.place.repository) == first
