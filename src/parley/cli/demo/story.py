"""The story of the demo: who takes part, how it begins, and one round after the other at the pace of a person."""

from __future__ import annotations

import asyncio
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

from parley.cli.demo.agents import Deal, Erik, Quinn, Sally, Tess
from parley.cli.demo.narration import PACE_SECONDS
from parley.domain.errors.errors import ParleyError, Unavailable
from parley.sdk.agent.running import serve_agents

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from parley.cli.demo.agents import ScriptedAgent
    from parley.cli.demo.narration import Narrator
    from parley.sdk.client.client import AsyncClient

POLICY = "agent-to-agent:\n  cross_org: true\n  max_rounds: 6\n"
INTENT = "Launch"
_DEALS = (
    Deal("Acme", "ENG-1234", "Friday"),
    Deal("Globex", "ENG-1250", "Monday"),
    Deal("Initech", "ENG-1301", "the end of June"),
    Deal("Umbrella", "ENG-1322", "next week"),
)
_ROUND_SECONDS = 8.0
_READY_SECONDS = 20.0


class Person(NamedTuple):
    """Somebody whose agents take part."""

    name: str
    org_unit: str
    agents: tuple[str, str]


ANN, BOB = Person("ann", "sales", ("sally", "quinn")), Person("bob", "engineering", ("erik", "tess"))
PEOPLE = (ANN, BOB)


class Story:
    """The four agents at work, and what they talk about."""

    def __init__(self, narrator: Narrator, intent_id: str) -> None:
        self._narrator = narrator
        self._sally, self._quinn = Sally(narrator, intent_id), Quinn(narrator, intent_id)
        self._erik, self._tess = Erik(narrator, intent_id), Tess(narrator, intent_id)
        self._deals = cycle(_DEALS)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def agents(self) -> tuple[ScriptedAgent, ...]:
        return (self._sally, self._quinn, self._erik, self._tess)

    @property
    def is_waiting(self) -> bool:
        """Whether somebody has to decide before an agent goes on."""
        return self._sally.is_waiting or self._quinn.is_waiting

    async def begin(self, clients: dict[str, AsyncClient]) -> None:
        """Let the agents work, and tell the first round without pauses: whoever opens a page finds something there."""
        readies = [self._start_agent(agent, clients[agent.name]) for agent in self.agents]
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await asyncio.gather(*[ready.wait() for ready in readies])
                await self.tell_round()
                await self._erik.has_committed.wait()
        except TimeoutError:
            raise Unavailable("the agents of the demo did not start in time", hint="try it again") from None

    async def go_on(self) -> None:
        """Tell one round after the other, at the pace of a person, until this is cancelled."""
        self._narrator.pace = PACE_SECONDS
        while True:
            await asyncio.sleep(_ROUND_SECONDS)
            await self.tell_round()

    async def tell_round(self) -> None:
        """One round. Nothing new is held while something of the same agent waits for its person."""
        deal = next(self._deals)
        await self._tell(self._sally.ask_for_state(deal))
        await self._tell(self._sally.ask_for_price(deal))
        if not self._sally.is_waiting:
            self._start(self._tell(self._sally.ask_for_date(deal)))
        if not self._quinn.is_waiting:
            await self._tell(self._quinn.promise_seats(deal))
        await self._tell(self._tess.tell_too_much(deal))

    async def end(self) -> None:
        """Stop everybody."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _tell(self, scene: Coroutine[None, None, None]) -> None:
        """Play a scene. A refusal, for example because an agent was suspended, ends the scene and not the demo."""
        try:
            await scene
        except ParleyError as error:
            self._narrator.report(error)

    def _start_agent(self, agent: ScriptedAgent, client: AsyncClient) -> asyncio.Event:
        ready = asyncio.Event()
        self._start(self._tell(serve_agents([agent], client=client, ready=ready.set)))
        return ready

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
