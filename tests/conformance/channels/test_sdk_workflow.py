"""RFC-0021, YAML workflow integration: the file of the text runs as it is written."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from parley import Workflow
from parley.testing import Stage, stage
from tests.conformance.channels.rfc_sdk import WORKFLOW
from tests.rigs.chosen_store import a_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from parley import Intent

# What the text leaves to the reader: the two functions.
HANDLERS = """
logged = []

def log_progress(message, agent):
    logged.append((agent.name, message.payload))

async def answer_questions(message):
    return {"answer": "v2.3", "asked_by": message.sender}
"""
RESEARCH, DATA = "research-agent", "data-agent"


@pytest.fixture(autouse=True)
def paths_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workflow's folder is put on the path and stays there; only the test knows that it goes away."""
    monkeypatch.setattr(sys, "path", [*sys.path])


@asynccontextmanager
async def at_work(team: Stage, folder: Path) -> AsyncIterator[Intent]:
    """The text's workflow while it runs, by its intent; then it is completed, and has ended well."""
    (folder / "research.yaml").write_text(WORKFLOW, encoding="utf-8")
    (folder / "handlers.py").write_text(HANDLERS, encoding="utf-8")
    workflow, ready = Workflow.load(folder / "research.yaml"), asyncio.Event()
    async with team.async_client(kind="service") as client:
        running = asyncio.ensure_future(
            workflow.run_async(
                client=client, on_event=lambda event: ready.set() if event.name == "agents_ready" else None
            )
        )
        await asyncio.wait((running, asyncio.ensure_future(ready.wait())), return_when=asyncio.FIRST_COMPLETED)
        assert not running.done(), running.result()
        [intent] = await client.list_intents()
        yield intent
        await client.complete_intent(intent.id)
        result = await running
        assert result.ok, result


@pytest.mark.requirement("RFC21-S-YAML-CHANNELS")
def test_the_channels_are_created_as_the_file_declares_them(tmp_path: Path) -> None:
    async def story(team: Stage) -> None:
        async with at_work(team, tmp_path) as intent:
            found = {one.name: one for one in team.admin.list_channels(intent.id)}

            assert intent.title == "Research Q1 Financials"
            clarification, progress = found["data-clarification"], found["progress"]
            assert {*clarification.members} >= {RESEARCH, DATA}
            assert (clarification.member_policy, clarification.options.audit) == ("explicit", True)
            assert (progress.member_policy, progress.options.audit) == ("intent", False)

    with a_database(tmp_path) as store, stage(store=store) as team:
        asyncio.run(story(team))


@pytest.mark.requirement("RFC21-S-YAML-HANDLERS")
def test_each_agent_hands_the_messages_of_a_channel_to_the_function_that_the_file_names(tmp_path: Path) -> None:
    async def story(team: Stage) -> None:
        async with at_work(team, tmp_path) as intent, team.async_client(RESEARCH) as research:
            found = {one.name: one.id for one in await research.list_channels(intent.id)}

            answer = await research.ask(found["data-clarification"], None, DATA, {"question": "What schema version?"})
            team.admin.grant_access(intent.id, "coordinator", "write")
            progress = team.client("coordinator").send_message(
                found["progress"], None, "*", "broadcast", {"status": "half of it"}
            )

            assert (answer.sender, answer.payload) == (DATA, {"answer": "v2.3", "asked_by": RESEARCH})
            assert progress.to == "*"
        assert logged(tmp_path) == [(RESEARCH, {"status": "half of it"})]

    with a_database(tmp_path) as store, stage(store=store) as team:
        asyncio.run(story(team))


def logged(folder: Path) -> list[tuple[str, object]]:
    """What the workflow's own module has kept."""
    [module] = [one for one in [*sys.modules.values()] if getattr(one, "__file__", None) == str(folder / "handlers.py")]
    kept: list[tuple[str, object]] = module.logged
    return kept
