"""Record what Parley answers now as the files that the tests of this folder compare with.

    python -m tests.golden.record [STORY...]    all stories, or those named
    python -m tests.golden.record --data        the data of a server and of a workspace, too

A recorded answer changes only together with a line in CHANGELOG.md that names the change: a person or a program may rely
on it. To add a step, write its request into the story file and record that story.

`data/` was written by version 0.5.0 and proves that later versions can open it. It is not written again: a new version
that writes something else adds a folder beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from tests.golden import command_replay, http_replay, stories
from tests.surface.stage import a_home


def record_http(name: str) -> None:
    story = stories.load("http", name)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        asyncio.run(http_replay.record_bodies(story, Path(other)))
        answers = asyncio.run(http_replay.replay(story, Path(folder)))
    for step, answer in zip(story["steps"], answers, strict=True):
        step["answer"] = answer
    stories.save("http", name, story)


def record_commands(name: str) -> None:
    story = stories.load("commands", name)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        answers = command_replay.replay(story, Path(folder), a_home(Path(other)))
    for step, answer in zip(story["steps"], answers, strict=True):
        step["answer"] = answer
    stories.save("commands", name, story)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.record")
    parser.add_argument("story", nargs="*")
    parser.add_argument("--data", action="store_true")
    words = parser.parse_args()
    for name in stories.names("http"):
        if not words.story or name in words.story:
            record_http(name)
    for name in stories.names("commands"):
        if not words.story or name in words.story:
            record_commands(name)


if __name__ == "__main__":
    main()
