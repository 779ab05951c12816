"""Record what Parley answers now as the files that the tests of this folder compare with.

    python -m tests.golden.record [STORY...]    all stories, or those named
    python -m tests.golden.record --data        the data of a server and of a workspace first

A recorded answer changes only together with a line in CHANGELOG.md that names the change: a person or a program may
rely on it. To add a step, write its request into the story file and record that story.

`data/` was written by version 0.5.0 and proves that later versions can open it. It is not written again: a new version
that writes something else adds a folder beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from tests.golden import command_replay, data_opening, http_replay, stories
from tests.golden.data_files import STORIES
from tests.surface.stage import a_home


def record_http(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        asyncio.run(http_replay.record_bodies(stories.load("http", name), Path(other)))
        answers = asyncio.run(http_replay.replay(stories.load("http", name), Path(folder)))
    stories.save_answers("http", name, answers)


def record_commands(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        answers = command_replay.replay(stories.load("commands", name), Path(folder), a_home(Path(other)))
    stories.save_answers("commands", name, answers)


def record_opening(name: str) -> None:
    """What the present code makes of the data that 0.5.0 wrote."""
    with tempfile.TemporaryDirectory() as folder:
        if name == "server_opening":
            answers = asyncio.run(data_opening.answers_on_the_file(Path(folder)))
        else:
            answers = data_opening.outputs_on_the_workspace(Path(folder))
    stories.save_answers(STORIES, name, answers)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.record")
    parser.add_argument("story", nargs="*")
    parser.add_argument("--data", action="store_true")
    words = parser.parse_args()
    if words.data:
        from tests.golden.record_data import record_data

        record_data()
    recorders = {"http": record_http, "commands": record_commands, STORIES: record_opening}
    for kind, record in recorders.items():
        for name in stories.names(kind):
            if not name.endswith("_filling") and (not words.story or name in words.story):
                record(name)


if __name__ == "__main__":
    main()
