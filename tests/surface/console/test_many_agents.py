"""A person with many agents sees in the console what any of them sees, and the store is not asked for each of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from parley.domain.agents.agent import AgentRecord
from parley.domain.agents.party import Attributes
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.store.changes import TeamChanges
from tests.conformance.ocip.governed import admin_of, person
from tests.rigs.team import LiveServer, with_server
from tests.rigs.visitor import person_signed_in, text_of

pytestmark = pytest.mark.both_stores

AGENTS = [f"agent-{number:03}" for number in range(120)]
LAST = AGENTS[-1]
READS = ("find", "children", "every", "page", "post", "conversation_posts", "list_channels", "feed", "tally")


async def many_agents(server: LiveServer) -> str:
    """120 agents of ann, of which only the last is on an intent; the id of a message there."""
    rig = server.rig
    records = [
        AgentRecord(
            id=name,
            tenant_id=DEFAULT_TENANT,
            registered_at=rig.at(),
            attributes=Attributes(user_id="ann", org_unit="lab"),
        )
        for name in AGENTS
    ]
    await rig.store.commit(TeamChanges(DEFAULT_TENANT, puts=tuple(records)))
    await rig.intent("intent_closed", policy=AccessPolicy.CLOSED, agents=(LAST,), grants=(rig.grant(LAST),))
    await rig.channel("chan_closed", intent_id="intent_closed", label="quiet-room")
    body = {"payload": {"text": "only for the last"}, "metadata": {"conversation_id": "conv-120"}}
    alice = await server.client("alice")
    return str((await alice.post("/channels/chan_closed/messages", body)).json["id"])


def count_reads(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the store is asked from now on, beside records by their ids."""
    asked: list[str] = []

    def counted(name: str, read: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        def call(*args: Any, **options: Any) -> Awaitable[Any]:  # noqa: ANN401  # as the store
            asked.append(name)
            return read(*args, **options)

        return call

    for name in READS:
        monkeypatch.setattr(server.rig.store, name, counted(name, getattr(server.rig.store, name)))
    return asked


@with_server
async def test_what_only_the_last_of_many_agents_sees_is_shown(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = await many_agents(server)
    visitor = await person_signed_in(server, "ann")
    foreign = await person_signed_in(server, "eve")
    asked = count_reads(server, monkeypatch)
    paths = ("channels", "channels/chan_closed", f"channels/chan_closed/messages/{message}", "threads/conv-120")

    for path in paths:
        page = await visitor.open(f"/console/{path}")
        other = await foreign.open(f"/console/{path}")

        assert page.status == 200, path
        assert "only for the last" in text_of(page), path
        assert f"seat={LAST}" in page.body.decode(), path
        assert "only for the last" not in text_of(other), path

    # Both people, four pages each.
    assert len(asked) < len(AGENTS), asked


@with_server
async def test_the_api_says_which_agent_sees_it_and_lists_channels_of_all(server: LiveServer) -> None:
    message = await many_agents(server)
    ann, eve = await person(server, "ann"), await person(server, "eve")

    for query in ("channel_id=chan_closed", f"channel_id=chan_closed&message_id={message}", "conversation_id=conv-120"):
        assert (await ann.get(f"/viewer?{query}")).json == {"seat": LAST}
        assert (await eve.get(f"/viewer?{query}")).status == 404
        assert (await ann.get(f"/viewer?{query}&seat={AGENTS[0]}")).status == 404
    assert (await ann.get("/viewer")).status == 422
    assert (await ann.get("/viewer", channel_id="chan_closed", message_id="msg_unknown")).status == 404

    listed = [channel for channel in (await ann.get("/channels")).json if channel["id"] == "chan_closed"]
    assert [(channel["seat"], channel["last_message"]["sender"]) for channel in listed] == [(LAST, "alice")]
    assert all(channel["id"] != "chan_closed" for channel in (await eve.get("/channels")).json)


@with_server
async def test_nobody_reads_as_a_suspended_agent(server: LiveServer) -> None:
    await many_agents(server)
    await server.rig.access("intent_closed", grants=(server.rig.grant(AGENTS[0]), server.rig.grant(LAST)))
    admin, visitor = await admin_of(server), await person_signed_in(server, "ann")

    before = await visitor.open("/console/channels/chan_closed")
    await admin.post("/suspensions", {"what": "agent", "name": AGENTS[0], "reason": "leak"})
    after = [await visitor.open(path) for path in ("/console/channels/chan_closed", "/console/channels")]

    assert f"as {AGENTS[0]} sees it" in text_of(before)
    assert f"as {LAST} sees it" in text_of(after[0])
    assert (after[1].status, f"seat={LAST}" in after[1].body.decode()) == (200, True)
