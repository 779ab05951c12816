"""Timers, on a real server."""

from __future__ import annotations

from datetime import timedelta

import pytest

from parley.app.team.work.sweep import sweep
from parley.domain.errors.errors import Invalid, NotFound
from parley.sdk.client.timers import AsyncTimers
from tests.rigs.team import CHANNEL, LiveServer, with_server
from tests.unit.sdk.client.recorded import public_methods, recorded


@with_server
async def test_messages_are_scheduled_listed_cancelled_and_posted(server: LiveServer) -> None:
    async with recorded(server, "alice") as alice:
        moment = server.rig.clock.at + timedelta(minutes=5)
        first = await alice.schedule_message(CHANNEL, None, "bob", "request", {"n": 1}, deliver_at=moment)
        second = await alice.schedule_message(CHANNEL, to="bob", payload={"n": 2}, after=timedelta(minutes=1))
        third = await alice.schedule_message(CHANNEL, to="bob", payload={"n": 3}, after=90)

        assert [timer.id for timer in await alice.list_timers()] == [second.id, third.id, first.id]
        assert (first.deliver_at, (await alice.get_timer(first.id)).payload) == (moment, {"n": 1})
        await alice.cancel_timer(third.id)
        with pytest.raises(NotFound):
            await alice.cancel_timer(third.id)

        server.rig.clock.pass_by(minutes=5)
        await sweep(server.rig.team)

        posted = await alice.list_messages(CHANNEL)
        assert [(one.id, one.payload) for one in posted] == [
            (second.message_id, {"n": 2}), (first.message_id, {"n": 1}),
        ]  # fmt: skip
        assert alice.called >= public_methods(AsyncTimers)


@pytest.mark.parametrize("when", [{}, {"after": 1, "deliver_at": "2026-03-14T00:00:00Z"}, {"after": -1}])
@with_server
async def test_a_moment_is_needed_and_only_one(server: LiveServer, when: dict[str, object]) -> None:
    async with recorded(server, "alice") as alice:
        with pytest.raises(Invalid):
            await alice.schedule_message(CHANNEL, to="bob", **when)
