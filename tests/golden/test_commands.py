"""A command prints what was recorded, on both streams, and ends with the same exit code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.golden import command_replay, stories

_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.parametrize("name", stories.names("commands"))
def test_commands_of_a_story_print_what_was_recorded(name: str, tmp_path: Path, home_to_copy: Path) -> None:
    story = stories.load("commands", name)
    if story.get("python", _PYTHON) != _PYTHON:
        pytest.skip(f"argparse of Python {story['python']} lays out help and words errors in its own way")

    answers = command_replay.replay(story, tmp_path, home_to_copy)

    changed = stories.differences(story, answers)
    assert not changed, f"\n{changed}"
