"""The crew of examples/crew.py, each agent with a key of its own: 330 seconds of everything down cost nothing."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING

import pytest

from parley.app.team.work.sweep import sweep
from parley.domain.directory.callers import KeyKind
from parley.sdk.agent.running import serve_agents
from parley.sdk.client.client import AsyncClient
from tests.fault.postgres.crew import NAMES, expected_text
from tests.rigs.process import ROOT
from tests.rigs.team import LiveServer, soon, with_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from parley.sdk.agent.agent import BaseAgent

pytestmark = pytest.mark.slow

TOPICS = ("tea", "rail", "ink", "wool")


def crew() -> list[BaseAgent]:
    """New agents, as examples/crew.py has them."""
    spec = spec_from_file_location("crew_example", ROOT / "examples" / "crew.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    agents: list[BaseAgent] = module.crew()
    return agents


@asynccontextmanager
async def at_work(server: LiveServer, keys: dict[str, str]) -> AsyncIterator[None]:
    """The whole crew, each agent with its own key, until all of them are cancelled at once."""
    url = f"http://127.0.0.1:{server.listener.port}"
    ready = [asyncio.Event() for _ in NAMES]
    tasks = [
        asyncio.ensure_future(serve_agents([agent], address=url, key=keys[agent.name], ready=event.set))
        for agent, event in zip(crew(), ready, strict=True)
    ]
    try:
        await asyncio.gather(*(event.wait() for event in ready))
        yield
    finally:
        while pending := [task for task in tasks if not task.done()]:
            for task in pending:  # the first time lets it finish what it began, the second does not
                task.cancel()
            await asyncio.wait(pending, timeout=0.1)


@asynccontextmanager
async def owner_of(server: LiveServer) -> AsyncIterator[AsyncClient]:
    url = f"http://127.0.0.1:{server.listener.port}"
    async with AsyncClient(url, key=await server.rig.key("", KeyKind.ADMIN), agent="owner") as owner:
        yield owner


async def order(owner: AsyncClient, topics: tuple[str, ...]) -> list[str]:
    intents = [await owner.create_intent(topic, status="active") for topic in topics]
    for intent in intents:
        for name in reversed(NAMES):
            await owner.assign_agent(intent.id, name)
    return [intent.id for intent in intents]


@with_server
async def test_a_crew_with_its_own_keys_is_simply_back_after_330_seconds(server: LiveServer) -> None:
    keys = {name: await server.rig.key(name) for name in NAMES}
    async with owner_of(server) as owner:
        for name in NAMES:
            if name.startswith("researcher"):
                await owner.grant_role("researcher", name)
        async with at_work(server, keys):
            ordered = await order(owner, TOPICS[:2])
        # Nobody works now; these are ordered in vain for the time being.
        ordered += await order(owner, TOPICS[2:])
    server.rig.clock.pass_by(seconds=330)
    await server.restart()
    await sweep(server.rig.team)

    async with AsyncExitStack() as stack:
        owner = await stack.enter_async_context(owner_of(server))
        await stack.enter_async_context(at_work(server, keys))

        async def all_written() -> bool:
            return len(await owner.list_intents("completed")) == len(TOPICS)

        await soon(all_written)
        texts = [(await owner.get_intent(intent)).state["report"] for intent in ordered]
        holders = (await owner.get_role("researcher")).holders

    assert texts == [expected_text(topic) for topic in TOPICS]
    assert sorted(holders) == ["researcher-1", "researcher-2", "researcher-3"]
