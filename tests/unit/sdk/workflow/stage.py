"""A workflow on a real server, with functions that stand in the test."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from parley.domain.directory.callers import KeyKind
from parley.domain.workflow.plan import HandlerRef
from parley.sdk.client.client import AsyncClient
from parley.sdk.workflow.importing import Function
from parley.sdk.workflow.result import WorkflowEvent, WorkflowResult
from parley.sdk.workflow.running import Run
from parley.wire.api.records.intents import Intent
from parley.wire.files.workflow import read_workflow
from parley.wiring import monotonic
from tests.rigs.team import LiveServer

HEAD = 'version: "1.0"\nintent: {title: T, state: {quarter: Q1}}\n'


@dataclass
class Stage:
    """One run, and what was told on the way."""

    server: LiveServer
    client: AsyncClient
    events: list[WorkflowEvent] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    told: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(
        self, text: str, *functions: Callable[..., Any], limit: float | None = None, resume: str = ""
    ) -> WorkflowResult:
        """Run a workflow whose handlers are these functions, by their names."""
        known = {
            HandlerRef("", one.__name__): Function(one.__name__, one, len(inspect.signature(one).parameters) == 2)
            for one in functions
        }
        plan = read_workflow(text, "w.yaml").plan
        run = Run(plan, known, self.client, on_event=self._tell, monotonic=monotonic, resume=resume)
        return await run.run(self.stop, limit)

    def _tell(self, event: WorkflowEvent) -> None:
        self.events.append(event)
        self.told.set()

    async def until(self, name: str, step: str = "") -> WorkflowEvent:
        """The first event of this name."""
        while True:
            for event in self.events:
                if event.name == name and step in ("", event.step):
                    return event
            self.told.clear()
            await self.told.wait()

    async def intent_id(self) -> str:
        """The id of the intent, as soon as there is one."""
        return (await self.until("intent_created")).detail

    async def intent(self) -> Intent:
        return await self.client.get_intent(await self.intent_id())

    async def tasks(self) -> dict[str, str]:
        """The status of each step's task, as the server has it."""
        found = await self.client.list_tasks(await self.intent_id())
        return {one.metadata["step"]: one.status for one in found}

    def names(self, step: str) -> list[str]:
        """What was told about a step."""
        return [event.name.removeprefix("step_") for event in self.events if event.step == step]


async def a_stage(server: LiveServer, agent: str = "", kind: KeyKind = KeyKind.SERVICE) -> Stage:
    key = await server.rig.key(agent, kind)
    return Stage(server, AsyncClient(f"http://127.0.0.1:{server.listener.port}", key=key))


@contextmanager
def forgetting() -> Iterator[None]:
    """Whatever a workflow imports meanwhile is forgotten, and so is where it was found."""
    path, modules = list(sys.path), set(sys.modules)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if name.startswith(("wf_", "handlers", "parley_handlers_")):
                del sys.modules[name]
