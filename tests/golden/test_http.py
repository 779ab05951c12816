"""A server answers every recorded request with the same status, headers and bytes."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.golden import http_replay, stories
from tests.rigs.team import in_loop


@pytest.mark.parametrize("name", stories.names("http"))
@in_loop
async def test_a_server_answers_a_story_as_it_was_recorded(name: str, tmp_path: Path) -> None:
    story = stories.load("http", name)

    answers = await http_replay.replay(story, tmp_path)

    changed = stories.differences(story, answers)
    assert not changed, f"\n{changed}"


def test_every_route_of_the_description_is_part_of_a_story() -> None:
    text = (stories.FOLDER / "http" / "bodies" / "openapi.json").read_text(encoding="utf-8")
    described = {(method.upper(), path) for path, methods in json.loads(text)["paths"].items() for method in methods}

    requests = [step["request"] for step in _steps()]
    asked = {(one["method"], _template(one["path"], {path for _, path in described})) for one in requests}

    assert described - asked == set()


def test_a_story_with_one_other_byte_is_told_with_its_step() -> None:
    story = stories.load("http", "tasks")
    answers = [copy.deepcopy(step["answer"]) for step in story["steps"]]
    assert stories.differences(story, answers) == ""

    answers[3]["json"]["name"] = "Writf"

    told = stories.differences(story, answers)
    assert "step 4: a task" in told
    assert '-  "name": "Write"' in told
    assert '+  "name": "Writf"' in told


def _steps() -> list[dict[str, Any]]:
    return [step for name in stories.names("http") for step in stories.load("http", name)["steps"]]


def _template(path: str, templates: set[str]) -> str:
    """The path of the description that a request goes to: the one with the fewest variables."""
    plain = path.partition("?")[0]
    fitting = [one for one in templates if re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", one), plain)]
    return min(fitting, key=lambda one: one.count("{"), default=path)
