"""An organisation's own rules on a server: their no is a 403, their doubt a 202, and no answer is a no."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from parley.adapters.outside.rego import RegoRules
from parley.domain.directory.callers import KeyKind
from parley.domain.exchange.exchange import Exchange
from parley.domain.rules.policy import CrossOrg
from tests.rigs.governed import entries, place, put_policy
from tests.rigs.team import CHANNEL, PATIENCE, Answer, LiveServer, with_server

pytest.importorskip("regopy")

HEAD = "package parley\nimport rego.v1\n"
DENY = HEAD + 'deny contains "not to bob" if input.receiver.agent == "bob"\n'
HOLD = HEAD + 'hold contains "a person looks" if input.level == "internal"\n'
SECOND = HEAD + 'deny contains "one is enough" if input.round > 1\n'
FAILS = HEAD + 'deny contains "x" if to_number(input.to) > 1\n'


@asynccontextmanager
async def under(server: LiveServer, folder: Path, text: str) -> AsyncIterator[RegoRules]:
    """Two agents of one org unit, on a server that asks these rules."""
    (folder / "acme.rego").write_text(text)
    rules = RegoRules(str(folder / "acme.rego"), lambda: 0.0, PATIENCE)
    rules.start()
    for agent in ("alice", "bob"):
        await place(server.rig, agent, user_id=f"{agent}.h")
    server.rig.team.governance.extension = rules
    try:
        yield rules
    finally:
        rules.close()


async def say(server: LiveServer, text: str = "hello", **metadata: Any) -> Answer:  # noqa: ANN401
    alice = await server.client("alice")
    said = {"exchange_type": "information_query", **metadata}
    body = {"message_type": "request", "to": "bob", "payload": {"text": text}, "metadata": said}
    return await alice.post(f"/channels/{CHANNEL}/messages", body)


@with_server
async def test_what_they_deny_is_not_sent_and_is_on_record_with_their_label(
    server: LiveServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with under(server, tmp_path_factory.mktemp("rules"), DENY) as rules:
        answer = await say(server)

        (entry,) = await entries(server.rig, action="agent_exchange")
        assert (answer.status, answer.code, answer.json["detail"]) == (403, "policy_denied", "not to bob")
        assert (entry["outcome"], entry["reason"], entry["receivers"]) == ("denied", "not to bob", ["bob"])
        assert (entry["rules"], entry["tightened"]) == (rules.label, True)


@pytest.mark.requirement("OCIP-7-ACTION")
@with_server
async def test_they_are_asked_with_the_action_and_both_org_units(
    server: LiveServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    asked = (
        HEAD
        + """
deny contains sprintf("%s from %s to %s", [input.action, input.sourceOrgUnit, input.targetOrgUnit]) if input.round == 1
"""
    )
    async with under(server, tmp_path_factory.mktemp("rules"), asked):
        within = await say(server)
        await put_policy(server.rig, cross_org=CrossOrg.ALLOW)
        await place(server.rig, "bob", user_id="bob.h", org_unit="marketing")
        across = await say(server)

    assert within.json["detail"] == "agent_exchange from engineering to engineering"
    assert across.json["detail"] == "agent_exchange_cross_org from engineering to marketing"
    assert (across.json["action"], across.json["targetOrgUnit"]) == ("agent_exchange_cross_org", "marketing")


@with_server
async def test_what_they_hold_a_person_releases_once(
    server: LiveServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with under(server, tmp_path_factory.mktemp("rules"), HOLD):
        held = await say(server)
        assert (held.status, held.json["reason"]) == (202, "a person looks")

        admin = await server.client(kind=KeyKind.ADMIN)
        made = await admin.post("/keys", {"kind": "human", "user_id": "alice.h"})
        person = server.with_key(made.json["key"])
        shown = (await person.get(f"/approvals/{held.json['approval']}")).json
        decision = {"decision": "approve", "digest": shown["digest"]}
        decided = await person.post(f"/approvals/{shown['id']}/decision", decision)

        assert (decided.status, decided.json["status"]) == (200, "approved")
        found = await entries(server.rig, outcome="delivered")
        assert {one["side"] for one in found} == {"alice", "bob"}


@with_server
async def test_a_no_in_a_running_exchange_ends_it_and_takes_no_round(
    server: LiveServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with under(server, tmp_path_factory.mktemp("rules"), SECOND):
        first = await say(server, conversation_id="conv-1")
        second = await say(server, conversation_id="conv-1")
        third = await say(server, conversation_id="conv-1")

        exchange_id = first.json["metadata"]["ocip_ext"]["exchange_id"]
        exchange = await server.rig.store.get(Exchange, "default", exchange_id)
        assert exchange is not None
        assert [first.status, second.status, third.status] == [201, 403, 409]
        assert (exchange.outcome.value, exchange.current_round) == ("denied", 1)


@with_server
async def test_without_an_answer_nothing_is_sent_no_round_is_used_and_it_is_on_record(
    server: LiveServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with under(server, tmp_path_factory.mktemp("rules"), FAILS):
        answer = await say(server)

        (entry,) = await entries(server.rig)
        assert (answer.status, answer.code) == (503, "policy_unavailable")
        assert (entry["outcome"], entry["code"], entry["round"]) == ("denied", "policy_unavailable", 0)
        assert await server.rig.store.every(Exchange, "default") == ()


@with_server
async def test_what_they_said_is_not_released_by_another_policy(
    server: LiveServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with under(server, tmp_path_factory.mktemp("rules"), DENY):
        await say(server)
        admin = await server.client(kind=KeyKind.ADMIN)

        found = (await admin.post("/policies/replay", {"documents": {}})).json

        assert (found["messages"], found["changes"]) == (1, [])
