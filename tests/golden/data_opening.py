"""Open copies of the recorded data with the present code, and run the stories that say what must work on them."""

from __future__ import annotations

import shutil
from pathlib import Path

import asyncpg

from parley.adapters.postgres import schema
from parley.adapters.postgres.connect import connect
from tests.golden import command_replay, http_replay, stories
from tests.golden.data_files import DATA, STORIES, known, unpacked
from tests.golden.servers import LATER_IDS, a_server
from tests.golden.stories import Answer


async def answers_on_the_file(folder: Path) -> list[Answer]:
    """What a server answers on a copy of the recorded SQLite file."""
    shutil.copy(unpacked("server", folder) / "parley.db", folder / "team.db")
    return await _answers(folder)


async def answers_on_the_database(folder: Path, dsn: str) -> list[Answer]:
    """What a server answers on a database that the recorded dump is restored into."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute((DATA / "server.sql").read_text(encoding="utf-8"))
    finally:
        await connection.close()
    connection = await connect(dsn, "tests")
    try:
        await schema.migrate(connection)  # as at each start
    finally:
        await connection.close()
    return await _answers(folder, dsn)


async def _answers(folder: Path, dsn: str = "") -> list[Answer]:
    async with a_server(folder, first_id=LATER_IDS, dsn=dsn) as server:
        return await http_replay.replay_on(server, stories.load(STORIES, "server_opening"), known("server"))


def outputs_on_the_workspace(folder: Path) -> list[Answer]:
    """What commands print on a copy of the recorded workspace."""
    stage = folder / "stage"
    stage.mkdir()
    home = unpacked("workspace", folder)
    return command_replay.replay(stories.load(STORIES, "workspace_opening"), stage, home, known("workspace"))
