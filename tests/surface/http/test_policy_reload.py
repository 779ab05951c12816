"""Policies change while agents talk: each message is under one whole policy, the one that its record names."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from parley.adapters.data.policy_files import PolicyFiles
from parley.app.team.decisions import policy_files
from parley.app.team.rules import policies
from parley.app.team.state.outside import PolicyState
from parley.domain.agents.party import Attributes
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.rules.meet import effective
from parley.domain.rules.policy import SHORTEST, CrossOrg
from tests.rigs.team import Answer, Client, LiveServer, with_server

# Whoever mixed them would allow what neither allows: seven rounds are only for those who may talk at all.
OPEN = "agent-to-agent:\n  cross_org: true\n  max_rounds: 7\n"
SHUT = "agent-to-agent:\n  cross_org: false\n  max_rounds: 2\n"
BROKEN = "agent-to-agent:\n  cross_org: true\n  max_rounds: 900\n  hop_limt: 3\n"
SENDERS, EACH = 4, 12


async def two_units(server: LiveServer) -> PolicyFiles:
    """Agents of two org units, and a folder with policies."""
    rig = server.rig
    await rig.tenant()
    await rig.agent("bob", attributes=Attributes(org_unit="law"))
    for number in range(SENDERS):
        await rig.agent(f"alice{number}", attributes=Attributes(org_unit="sales"))
    files = PolicyFiles(str(folder(server).parent))
    rig.team.policies = PolicyState(SHORTEST, files)
    await policy_files.follow(rig.team, files)
    return files


def folder(server: LiveServer) -> Path:
    return server.rig.path.parent / "policies" / DEFAULT_TENANT


async def say(client: Client, number: int) -> Answer:
    body = {"message_type": "request", "to": "bob", "payload": {"text": f"What is the status of ticket {number}?"}}
    return await client.post("/channels/chan_1/messages", body)


@with_server
async def test_every_message_is_under_one_whole_policy_while_files_change(server: LiveServer) -> None:
    files = await two_units(server)
    senders = [await server.client(f"alice{number}") for number in range(SENDERS)]
    answers: list[Answer] = []

    async def talk(client: Client) -> None:
        for number in itertools.count():
            # However fast they are, both policies have to be in force meanwhile.
            if number >= EACH and {201, 403} <= {answer.status for answer in answers}:
                return
            answers.append(await say(client, number))

    talks = [asyncio.ensure_future(talk(client)) for client in senders]
    turn = 0
    while not all(one.done() for one in talks):
        path = folder(server) / "enterprise" / "default.yaml"
        path.write_text((OPEN, BROKEN, SHUT, BROKEN)[turn % 4])
        await policy_files.follow(server.rig.team, files)
        turn += 1
    await asyncio.gather(*talks)

    known = {one.label: one for one in await policies.history(server.rig.team, DEFAULT_TENANT)}
    assert {answer.status for answer in answers} <= {201, 403}
    for answer in answers:
        if answer.status == 403:
            assert answer.code == "policy_denied"
            continue
        metadata = answer.json["metadata"]
        policy = effective(known[metadata["ocip_ext"]["policy_version"]], org="sales")
        assert policy is not None
        assert (policy.cross_org, policy.max_rounds) == (CrossOrg.ALLOW, metadata["ocip"]["max_rounds"])
    assert {answer.status for answer in answers} == {201, 403}, f"after {turn} changes"
    assert len(answers) >= SENDERS * EACH


@with_server
async def test_a_change_counts_from_the_next_message_on(server: LiveServer) -> None:
    await two_units(server)
    admin, alice = await server.client(kind=KeyKind.ADMIN), await server.client("alice0")

    async def put(text: str) -> None:
        assert (await admin.request("PUT", "/policies/enterprise/default", {"text": text})).status == 200

    seen = []
    for number, text in enumerate((OPEN, SHUT, OPEN, SHUT)):
        await put(text)
        seen.append((await say(alice, number)).status)

    assert seen == [201, 403, 201, 403]


@with_server
async def test_without_the_enterprises_policy_nothing_passes_between_org_units(server: LiveServer) -> None:
    await two_units(server)
    admin, alice = await server.client(kind=KeyKind.ADMIN), await server.client("alice0")
    await admin.request("PUT", "/policies/enterprise/default", {"text": OPEN})
    assert (await say(alice, 1)).status == 201

    await admin.delete("/policies/enterprise/default")

    refused = await say(alice, 2)
    assert (refused.status, refused.code) == (503, "policy_unavailable")
