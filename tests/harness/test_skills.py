"""The skills that `parley setup` installs are offered to the model, and loaded when it or its user asks for one."""

from __future__ import annotations

import pytest

from parley.adapters.harness.skills import SKILLS, read_skill
from tests.harness.conftest import Stages
from tests.harness.model_apis import Step, Tool
from tests.harness.scripted_model import Script

WITH_LISTS = ("claude", "codex")
# Elsewhere a skill is a command that the user types.
COMMANDS = {"gemini": ("gemini", "-p", "/parley:inbox"), "opencode": ("opencode", "run", "--command", "parley-inbox")}
# A sentence of the skill that its description does not have.
SENTENCE = "It gives you one message, which is yours now."


def load_skill(name: str) -> Step:
    """How the model of a coding agent opens a skill: a tool of its own, or the file that the list names."""
    if name == "claude":
        return Step(tool=Tool("Skill"), arguments={"skill": "parley-inbox"})
    return Step(tool=Tool("exec_command"), arguments={"cmd": "cat .agents/skills/parley-inbox/SKILL.md"})


@pytest.mark.parametrize("name", WITH_LISTS)
def test_every_skill_is_in_the_list_of_the_model_and_can_be_loaded(stages: Stages, name: str) -> None:
    stage = stages(name, Script([load_skill(name)]))
    stage.place.set_up()

    stage.place.print_mode("Hello.")

    first, second = stage.model.requests[:2]
    offered = str(first.body)
    descriptions = [read_skill(skill).split("\n")[2].removeprefix("description: ") for skill in SKILLS]
    assert [description for description in descriptions if description not in offered] == []
    assert SENTENCE not in offered
    assert SENTENCE in second.news


@pytest.mark.parametrize("name", COMMANDS)
def test_a_skill_is_a_command_of_the_user(stages: Stages, name: str) -> None:
    stage = stages(name, Script([]))
    stage.place.set_up()

    stage.place.run(*COMMANDS[name])

    assert any(SENTENCE in request.news for request in stage.model.requests)
