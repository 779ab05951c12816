"""Who talked to whom, in a file: what nobody got is not counted as said to everyone, kept or removed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parley.domain.channel.channel import Channel
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.store.changes import TeamChanges, TrafficQuery
from tests.rigs.team import CHANNEL, Rig, with_rig

pytestmark = pytest.mark.sqlite_only


@with_rig
async def test_what_was_said_to_everyone_when_nobody_was_there_has_no_receivers(rig: Rig) -> None:
    await rig.open_channel()
    post = await rig.say("alice")
    unheard = post._replace(id="msg_unheard", recipients=(), position=0, seq=0)
    await rig.store.commit(TeamChanges(DEFAULT_TENANT, (unheard,)))
    everything = TrafficQuery(0, 1_000, "", "9999")

    kept = await rig.store.count_traffic(DEFAULT_TENANT, everything)
    channel = await rig.store.get(Channel, DEFAULT_TENANT, CHANNEL)
    assert channel is not None
    await rig.put(replace(channel, options=replace(channel.options, max_messages=1)))
    await rig.say("bob")
    removed = await rig.store.count_traffic(DEFAULT_TENANT, everything)

    for count in (kept, removed):
        from_alice = [(group.to, group.recipients, group.number) for group in count.groups if group.sender == "alice"]
        assert sorted(from_alice, key=str) == [("", (), 1), ("", None, 1)]
