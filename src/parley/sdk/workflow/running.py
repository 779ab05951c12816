"""A workflow from its intent to its end.

agents at work ──> intent, channels, tasks ──> steps ──> what was said is dealt with ──> intent completed
                                                 └── failed, out of time, interrupted ──> intent abandoned
                                                 └── the intent was resolved by somebody else: that is the end
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from parley.domain.directory.intent import RESOLVED, IntentStatus, TaskStatus
from parley.domain.errors.errors import Conflict, ParleyError
from parley.domain.workflow.plan import WorkflowOutcome, outcome_of_intent
from parley.sdk.agent.running import serve_crew
from parley.sdk.workflow.crew import Hands, in_channel
from parley.sdk.workflow.result import UNHEARD, WorkflowEvent, WorkflowResult
from parley.sdk.workflow.retry import insist
from parley.sdk.workflow.steps import Steps

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from parley.domain.workflow.plan import HandlerRef, WorkflowPlan
    from parley.sdk.client.client import AsyncClient
    from parley.sdk.protocol.event_stream import StreamEvent
    from parley.sdk.workflow.importing import Function
    from parley.sdk.workflow.steps import Tell
    from parley.wire.api.records.channels import ChannelMessage
    from parley.wire.api.records.intents import Intent

# How long what was said last may take to be dealt with, and how long the server may take to hear how it ended.
_CATCH_UP_SECONDS = 30.0
_ENDING_SECONDS = 20.0
_HURRIED_SECONDS = 10.0
_LOOK_SECONDS = 5.0
_LOOK_OFTEN_SECONDS = 1.0
_PAGE = 1_000

_log = logging.getLogger("parley.workflow")


class Run:
    """One run of a workflow."""

    def __init__(
        self,
        plan: WorkflowPlan,
        functions: Mapping[HandlerRef, Function],
        client: AsyncClient,
        *,
        tell: Tell,
        monotonic: Callable[[], float],
    ) -> None:
        self._plan = plan
        # Whoever sets this up is nobody in particular, whatever the environment says.
        self._client = client.as_agent("")
        self._tell = tell
        self._monotonic = monotonic
        self._began = monotonic()
        self._hands = Hands(plan, functions)
        self._steps = Steps(plan, functions, self._hands.agents, self._client, tell, monotonic)
        self._intent: Intent | None = None
        self._detail = ""

    async def run(self, stop: asyncio.Event, limit: float | None) -> WorkflowResult:
        """Run to the end: all is done, a step failed, `limit` seconds have passed, or `stop` was set."""
        done, ready = asyncio.Event(), asyncio.Event()
        serving = asyncio.ensure_future(serve_crew(self._hands.crew, client=self._client, stop=done, ready=ready.set))
        stopping = asyncio.ensure_future(stop.wait())
        outcome: WorkflowOutcome | None = None
        try:
            outcome = await self._ran(serving, ready, stopping, limit)
        except ParleyError as error:
            await self._give_up(str(error))
            raise
        except asyncio.CancelledError:
            if not stop.is_set():  # else it was ending already, and somebody cannot wait
                await self._give_up("interrupted")
            raise
        finally:
            stopping.cancel()
            done.set()
            if (current := asyncio.current_task()) is not None and current.cancelling():
                serving.cancel()
            await asyncio.wait((serving,))
            broke = None if serving.cancelled() else serving.exception()
            if outcome is not None and broke is not None:  # else it is raised, or something worse is
                _log.warning("an agent stopped", extra={"action": "workflow_agent_stopped", "why": str(broke)})
        seconds = self._monotonic() - self._began
        self._tell(WorkflowEvent("ended", detail=self._detail or outcome.value, seconds=seconds))
        intent = self._intent
        return WorkflowResult(
            outcome,
            intent.id if intent else "",
            dict(self._steps.results),
            intent.state if intent else {},
            self._detail,
            seconds,
        )

    async def _ran(
        self, serving: asyncio.Future[None], ready: asyncio.Event, stopping: asyncio.Future[Any], limit: float | None
    ) -> WorkflowOutcome:
        waiting = asyncio.ensure_future(ready.wait())
        await asyncio.wait((serving, waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if serving.done():
            serving.result()  # what keeps the agents from working
        if not ready.is_set():
            self._detail = "interrupted before it began"
            return WorkflowOutcome.INTERRUPTED
        outcome = await self._set_up() or await self._until_over(serving, stopping, limit)
        await self._wind_up(outcome)
        return outcome

    # ---------------------------------------------------------------- the beginning

    async def _set_up(self) -> WorkflowOutcome | None:
        """The intent with its channels and tasks; how it ended if somebody was faster than that."""
        intent = await self._created()
        try:
            await self._equipped(intent)
        except Conflict:
            now = await self._client.get_intent(intent.id)
            if now.status in RESOLVED:
                return self._resolved_by_others(IntentStatus(now.status))
            raise
        self._tell(WorkflowEvent("agents_ready", detail=", ".join(self._hands.agents)))
        return None

    def _resolved_by_others(self, status: IntentStatus) -> WorkflowOutcome:
        self._detail = f"the intent was {status.value} by somebody else"
        return outcome_of_intent(status) or WorkflowOutcome.ABANDONED

    async def _created(self) -> Intent:
        """The intent. The agents are there already, and miss nothing."""
        planned, client = self._plan.intent, self._client
        constraints = planned.constraints
        intent = self._intent = await client.create_intent(
            planned.title,
            planned.description or None,
            state=dict(planned.state),
            constraints=list(constraints) if isinstance(constraints, tuple) else dict(constraints),
            status="active",
        )
        self._hands.intent_id = intent.id
        self._tell(WorkflowEvent("intent_created", detail=intent.id))
        return intent

    async def _equipped(self, intent: Intent) -> None:
        for channel in self._plan.channels:
            options = channel.options
            await self._client.create_channel(
                intent.id,
                channel.name,
                channel.members,
                channel.policy.value,
                {"audit": options.audit, "ttl_seconds": options.ttl_seconds, "max_messages": options.max_messages},
            )
        await self._steps.prepare(intent)

    # ---------------------------------------------------------------- until it is over

    async def _until_over(
        self, serving: asyncio.Future[None], stopping: asyncio.Future[Any], limit: float | None
    ) -> WorkflowOutcome:
        assert self._intent is not None  # noqa: S101  # it was set up
        watching = asyncio.ensure_future(_resolved(self._client, self._intent.id))
        working = asyncio.ensure_future(self._steps.run() if self._plan.steps else _never())
        left = None if limit is None else max(0.0, limit - (self._monotonic() - self._began))
        try:
            await asyncio.wait(
                (working, watching, serving, stopping), timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
            if working.done():
                return working.result()
            if watching.done():
                return self._resolved_by_others(watching.result())
            if serving.done():
                serving.result()  # what keeps the agents from going on
                self._detail = "all agents were told to stop"
                return WorkflowOutcome.ABANDONED
            if stopping.done():
                self._detail = "interrupted"
                self._tell(WorkflowEvent("stopping"))
                return WorkflowOutcome.INTERRUPTED
            self._detail = f"it took longer than {limit:g} seconds"
            return WorkflowOutcome.TIMED_OUT
        finally:
            await _ended(working, watching)

    # ---------------------------------------------------------------- the end

    async def _wind_up(self, outcome: WorkflowOutcome) -> None:
        """Let what was said be dealt with, and tell the server how it ended."""
        if outcome is WorkflowOutcome.COMPLETED:
            await self._catch_up()
        elif outcome is WorkflowOutcome.FAILED:
            failed = [
                one for one in self._steps.results.values() if one.status in (TaskStatus.FAILED, TaskStatus.CANCELLED)
            ]
            self._detail = "; ".join(f"{one.name}: {one.error}" for one in failed)
        hurried = outcome in (WorkflowOutcome.INTERRUPTED, WorkflowOutcome.ABANDONED)
        status = IntentStatus.COMPLETED if outcome is WorkflowOutcome.COMPLETED else IntentStatus.ABANDONED
        reason = self._detail or outcome.value
        try:
            async with asyncio.timeout(_HURRIED_SECONDS if hurried else _ENDING_SECONDS):
                await self._steps.cancel(reason)
                await insist(lambda: self._resolve(status, reason))
        except TimeoutError:
            _log.error("nobody could be told how the workflow ended", extra={"action": "workflow_unheard"})
            self._detail = f"{reason}; {UNHEARD}"

    async def _resolve(self, status: IntentStatus, reason: str) -> None:
        """The intent in its last status, unless somebody else has resolved it."""
        assert self._intent is not None  # noqa: S101  # it was set up
        client, intent_id = self._client, self._intent.id
        while True:
            intent = self._intent = await client.get_intent(intent_id)
            if intent.status in RESOLVED:
                return
            if intent.status == IntentStatus.BLOCKED.value and status is IntentStatus.COMPLETED:
                await client.set_status(intent_id, IntentStatus.ACTIVE.value, version=intent.version)
                continue
            with suppress(Conflict):  # it changed in this moment
                self._intent = await client.set_status(
                    intent_id, status.value, reason=reason[:2000], version=intent.version
                )
                return

    async def _catch_up(self) -> None:
        """Wait until the agents have dealt with everything that was said, within reason."""
        try:
            async with asyncio.timeout(_CATCH_UP_SECONDS):
                await self._hands.heard(await insist(self._everything_said))
        except TimeoutError:
            _log.warning("some messages were not dealt with", extra={"action": "workflow_unheard_messages"})

    async def _everything_said(self) -> list[ChannelMessage]:
        assert self._intent is not None  # noqa: S101  # it was set up
        found: list[ChannelMessage] = []
        for channel in await self._client.list_channels(self._intent.id):
            since: str | None = None
            while True:
                page = await self._client.list_messages(channel.id, since, limit=_PAGE)
                found += [in_channel(one, channel.name, self._intent.id) for one in page]
                if len(page) < _PAGE:
                    break
                since = page[-1].id
        return found

    async def _give_up(self, reason: str) -> None:
        """After an error: leave nothing behind that looks as if it went on."""
        if self._intent is None:
            return
        with suppress(ParleyError, TimeoutError):
            async with asyncio.timeout(_HURRIED_SECONDS):
                await self._steps.cancel(reason)
                await self._resolve(IntentStatus.ABANDONED, reason)


async def _resolved(client: AsyncClient, intent_id: str) -> IntentStatus:
    """The status of an intent, once it is resolved."""
    followed = asyncio.ensure_future(_told(client, intent_id))
    # A stream tells at once, but only what happens after it was opened, and a server opens only so many.
    watched = {followed}
    try:
        while True:
            if watched:
                _, watched = await asyncio.wait(watched, timeout=_LOOK_SECONDS)
            else:
                await asyncio.sleep(_LOOK_OFTEN_SECONDS)
            intent = await insist(lambda: client.get_intent(intent_id))
            if intent.status in RESOLVED:
                return IntentStatus(intent.status)
    finally:
        await _ended(followed)


async def _never() -> WorkflowOutcome:
    """What a workflow without steps does: its intent says when it is over."""
    await asyncio.Event().wait()
    raise AssertionError  # it is cancelled


async def _told(client: AsyncClient, intent_id: str) -> None:
    """Return when the intent's stream says that it is resolved; raises what keeps it from being followed."""
    stream: AsyncGenerator[StreamEvent] = client.connection.follow("subscribe", "intents", intent_id)
    async with aclosing(stream) as events:
        async for event in events:
            if event.name == "status_changed" and json.loads(event.data).get("new_status") in RESOLVED:
                return


async def _ended(*tasks: asyncio.Future[Any]) -> None:
    """End tasks, and wait until they have ended."""
    for one in tasks:
        one.cancel()
    await asyncio.wait(tasks)
    for one in tasks:
        if not one.cancelled():
            one.exception()  # it was looked at
