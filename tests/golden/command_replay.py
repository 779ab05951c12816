"""Run a story of commands on a home, and on a server when the story wants one."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.golden.fixed_process import FIRST_ID, fix_process
from tests.golden.normalise import normal_text
from tests.golden.servers import OPERATOR_KEY, a_server
from tests.golden.stories import Answer, Step, filled, saved_values
from tests.rigs.team import FakeClock, LiveServer
from tests.surface.stage import Ran, Stage, a_stage

_START_SECONDS = 60


def replay(
    story: dict[str, Any], folder: Path, home_to_copy: Path, variables: dict[str, str] | None = None
) -> list[Answer]:
    """The exit codes and outputs of all steps of a story. What the steps save is added to the variables."""
    variables = {} if variables is None else variables
    with pytest.MonkeyPatch.context() as patch:
        stage = a_stage(folder, patch, home_to_copy)
        with _server(folder / "server") if story.get("server") else nullcontext() as server:
            clock = server.rig.clock if server else FakeClock()
            fix_process(patch, clock, story.get("first_id", FIRST_ID))
            places = {str(stage.home): "<home>", str(stage.here): "<here>", str(folder / "user"): "<user>"}
            if server:
                url = f"http://127.0.0.1:{server.listener.port}"
                places[url] = "<url>"
                patch.setenv("PARLEY_URL", url)
                patch.setenv("PARLEY_KEY", OPERATOR_KEY)
            return [_run(step, stage, clock, variables, places) for step in story["steps"]]


def _run(step: Step, stage: Stage, clock: FakeClock, variables: dict[str, str], places: dict[str, str]) -> Answer:
    if "advance" in step:
        clock.pass_by(**step["advance"])
    for name, text in step.get("files", {}).items():
        path = stage.home.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(filled(text, variables), encoding="utf-8")
    with stage.patch.context() as patch:
        for name, value in step.get("env", {}).items():
            patch.setenv(name, filled(value, variables))
        ran = stage.run(*filled(step["command"], variables), stdin=filled(step.get("stdin", ""), variables).encode())
    _keep(step, ran, stage, variables)
    return {"code": ran.code, "stdout": normal_text(ran.out, places), "stderr": normal_text(ran.err, places)}


def _keep(step: Step, ran: Ran, stage: Stage, variables: dict[str, str]) -> None:
    """Take values from JSON on standard output, and write standard output to a file, as the step says."""
    if "save" in step:
        assert ran.out.startswith(("{", "[")), f"{step['name']}: {ran}"
        variables.update(saved_values(step, json.loads(ran.out)))
    if "output" in step:
        (stage.here / step["output"]).write_text(ran.out, encoding="utf-8")


@contextmanager
def _server(folder: Path) -> Iterator[LiveServer]:
    """A server in a thread of its own: commands wait for its answers."""
    folder.mkdir()
    started: Future[tuple[LiveServer, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        async with a_server(folder) as server:
            over = asyncio.Event()
            started.set_result((server, asyncio.get_running_loop(), over))
            await over.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    server, loop, over = started.result(_START_SECONDS)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
