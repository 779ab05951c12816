"""An intent's log: write, read, follow a trace, and prove that nothing was changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.sdk.client.area import AsyncArea
from parley.sdk.client.fields import NOTHING, timestamp_of, without_none
from parley.sdk.protocol.flow import header
from parley.wire.api.records.intents import ChainCheck, Checkpoint, Consistency, Event, EventProof

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.sdk.client.fields import Moment


class AsyncEvents(AsyncArea):
    """What a client does with logs."""

    async def log_event(
        self,
        intent_id: str,
        event_type: str,
        payload: Mapping[str, Any] = NOTHING,
        *,
        actor: str | None = None,
        trace_id: str | None = None,
        parent_event_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Event:
        """Write into an intent's log. Two calls with the same `idempotency_key` write one event."""
        body = without_none(event_type=event_type, payload=payload, actor=actor)
        body |= without_none(trace_id=trace_id, parent_event_id=parent_event_id)
        headers = {"idempotency-key": header("idempotency-key", idempotency_key)} if idempotency_key else None
        return await self._fetch(Event, "POST", "intents", intent_id, "events", body=body, headers=headers)

    async def list_events(
        self,
        intent_id: str,
        *,
        event_type: str | None = None,
        since: Moment | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> list[Event]:
        """The events of an intent in their order; without `after` and `since` the last ones.

        `after` is a `sequence`: what comes behind it.
        """
        query = without_none(event_type=event_type, since=timestamp_of(since), after=after, limit=limit)
        return await self._fetch(list[Event], "GET", "intents", intent_id, "events", query=query)

    async def get_event(self, intent_id: str, event_id: str) -> Event:
        """An event."""
        return await self._fetch(Event, "GET", "intents", intent_id, "events", event_id)

    async def verify_events(self, intent_id: str) -> ChainCheck:
        """Have the whole chain of an intent's log checked."""
        return await self._fetch(ChainCheck, "GET", "intents", intent_id, "events", "verify")

    async def trace(self, trace_id: str, *, limit: int | None = None) -> list[Event]:
        """The events of a trace, on all intents that you may see."""
        query = {"trace_id": trace_id, "limit": limit}
        return await self._fetch(list[Event], "GET", "events", query=query)

    async def make_checkpoint(self, intent_id: str) -> Checkpoint:
        """Make a checkpoint of an intent's log; without news it is the last one. Needs an admin's key."""
        body = {"intent_id": intent_id}
        return await self._fetch(Checkpoint, "POST", "admin", "checkpoints", body=body)

    async def list_checkpoints(self, intent_id: str | None = None) -> list[Checkpoint]:
        """The checkpoints of one intent, or of all that you may see."""
        return await self._fetch(list[Checkpoint], "GET", "checkpoints", query={"intent_id": intent_id})

    async def get_checkpoint(self, checkpoint_id: str) -> Checkpoint:
        """A checkpoint."""
        return await self._fetch(Checkpoint, "GET", "checkpoints", checkpoint_id)

    async def prove_event(self, checkpoint_id: str, event_id: str) -> EventProof:
        """The proof that an event is part of a checkpoint."""
        return await self._fetch(EventProof, "GET", "checkpoints", checkpoint_id, "proof", event_id)

    async def compare_checkpoints(self, from_checkpoint: str, to_checkpoint: str) -> Consistency:
        """Whether two checkpoints tell one story: the later log begins with the earlier one."""
        query = {"from_checkpoint": from_checkpoint, "to_checkpoint": to_checkpoint}
        return await self._fetch(Consistency, "GET", "verify", "consistency", query=query)
