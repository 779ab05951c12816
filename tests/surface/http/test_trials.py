"""Trying the rules over HTTP: real traffic on a real server, under documents that are not in force."""

from __future__ import annotations

from typing import Any

import pytest

from parley.domain.directory.callers import KeyKind
from tests.rigs.team import CHANNEL, Answer, Client, LiveServer, with_server

STRICT = "agent-to-agent:\n  max_classification: public\n"
LOOSE = "agent-to-agent:\n  cross_org: true\n  commitments: report\n"
WITHHOLD = "agent-to-agent:\n  on_over_classified: withhold\n"
DEFAULT = "enterprise/default"


class Stage:
    """Agents of two org units who may all write to one channel, with their people."""

    def __init__(self, server: LiveServer, admin: Client) -> None:
        self.server = server
        self.admin = admin

    async def register(self, agent: str, **attributes: Any) -> None:  # noqa: ANN401
        said = {"agent_id": agent, "org_unit": "engineering", "user_id": f"{agent}.h", **attributes}
        answer = await self.admin.post("/agents/register", said)
        assert answer.status == 200, answer

    async def say(self, to: str, payload: dict[str, Any], **metadata: Any) -> Answer:  # noqa: ANN401
        alice = await self.server.client("alice")
        body: dict[str, Any] = {"message_type": "request" if to else "broadcast", "payload": payload}
        body["metadata"] = {"exchange_type": "information_query", **metadata}
        if to:
            body["to"] = to
        return await alice.post(f"/channels/{CHANNEL}/messages", body)

    async def approve(self, approval: str) -> None:
        made = await self.admin.post("/keys", {"kind": "human", "user_id": "alice.h"})
        person = self.server.with_key(made.json["key"])
        shown = (await person.get(f"/approvals/{approval}")).json
        decided = await person.post(
            f"/approvals/{approval}/decision", {"decision": "approve", "digest": shown["digest"]}
        )
        assert decided.status == 200, decided

    async def traffic(self) -> None:
        """Delivered, held and approved, held, denied, to everyone."""
        for agent in ("alice", "bob"):
            await self.register(agent)
        await self.register("mia", org_unit="sales")
        assert (await self.say("bob", {"text": "hello"})).status == 201
        held = await self.say("bob", {"text": "We promise it."})
        assert held.status == 202
        await self.approve(held.json["approval"])
        assert (await self.say("bob", {"text": "We guarantee it."})).status == 202
        assert (await self.say("mia", {"text": "hello"})).status == 403
        assert (await self.say("", {"text": "to all"})).status == 201

    async def replay(self, documents: dict[str, str | None], **more: Any) -> dict[str, Any]:  # noqa: ANN401
        answer = await self.admin.post("/policies/replay", {"documents": documents, **more})
        assert answer.status == 200, answer
        found: dict[str, Any] = answer.json
        return found


async def staged(server: LiveServer) -> Stage:
    return Stage(server, await server.client(kind=KeyKind.ADMIN))


def told(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["receiver"], one["was"], one["now"]) for one in found["changes"]]


@with_server
async def test_what_was_sent_fares_the_same_under_what_is_in_force(server: LiveServer) -> None:
    stage = await staged(server)
    await stage.traffic()

    found = await stage.replay({})

    assert (found["messages"], found["with_content"], found["changes"], found["next"]) == (6, 5, [], None)
    assert (found["denied"], found["held"], found["released"]) == (0, 0, 0)


@with_server
async def test_a_stricter_document_denies_what_was_delivered_and_held(server: LiveServer) -> None:
    stage = await staged(server)
    await stage.traffic()

    found = await stage.replay({"org/engineering": STRICT})

    assert (found["denied"], found["held"], found["released"]) == (5, 0, 0)
    assert [one[1] for one in told(found)] == ["allow", "hold", "allow", "hold", "allow"]
    assert found["changes"][0]["reason"] == "the message is internal; the policy allows at most public"
    assert (await stage.replay({"org/sales": STRICT}))["changes"] == []


@with_server
async def test_a_looser_document_releases_what_was_held_and_denied(server: LiveServer) -> None:
    stage = await staged(server)
    await stage.traffic()

    found = await stage.replay({DEFAULT: LOOSE})

    assert (found["denied"], found["held"], found["released"]) == (0, 0, 4)
    # Held twice, denied once, and once left out of what went to everyone.
    assert told(found) == [
        ("bob", "hold", "allow"),
        ("bob", "hold", "allow"),
        ("mia", "deny", "allow"),
        ("mia", "deny", "allow"),
    ]


@with_server
async def test_withheld_data_is_blocked_by_a_document_that_blocks(server: LiveServer) -> None:
    stage = await staged(server)
    await stage.register("alice")
    await stage.register("bob")
    assert (await stage.admin.request("PUT", f"/policies/{DEFAULT}", {"text": WITHHOLD})).status == 200
    items = [{"source": "crm", "fields": ["secret"], "classification": "restricted", "description": "figures"}]
    sent = await stage.say("bob", {"text": "hello", "secret": "x"}, data=items)
    assert (sent.status, sent.json["payload"]) == (201, {"text": "hello"})

    assert (await stage.replay({DEFAULT: WITHHOLD}))["changes"] == []
    assert told(await stage.replay({DEFAULT: "agent-to-agent:\n  enabled: true\n"})) == [("bob", "allow", "deny")]


@with_server
async def test_a_replay_changes_nothing_and_goes_on_where_it_ended(server: LiveServer) -> None:
    stage = await staged(server)
    await stage.traffic()
    before = (await stage.admin.get("/policies")).json["label"]
    whole = await stage.replay({DEFAULT: LOOSE})

    first = await stage.replay({DEFAULT: LOOSE}, limit=4)
    rest = await stage.replay({DEFAULT: LOOSE}, after=first["next"])

    assert (first["messages"], rest["messages"], rest["next"]) == (4, 2, None)
    assert first["changes"] + rest["changes"] == whole["changes"]
    assert (await stage.admin.get("/policies")).json["label"] == before


@with_server
async def test_without_the_enterprises_document_everything_is_denied(server: LiveServer) -> None:
    stage = await staged(server)
    await stage.traffic()

    found = await stage.replay({DEFAULT: None})

    assert {one["now"] for one in found["changes"]} == {"deny"}
    assert found["changes"][0]["reason"] == "no enterprise policy: nothing is allowed"


@with_server
async def test_a_tenant_replays_only_its_own_traffic(server: LiveServer) -> None:
    stage = await staged(server)
    await stage.traffic()
    await server.rig.tenant("acme")
    other = Stage(server, await server.client(kind=KeyKind.ADMIN, tenant="acme"))

    assert (await other.replay({DEFAULT: STRICT}))["messages"] == 0
    explained = (await other.admin.post("/policies/explain", {"sender": "alice", "to": "mia"})).json
    assert explained["steps"][0]["found"] == "not registered, so of default"


@with_server
async def test_a_message_is_explained_as_it_would_be_treated(server: LiveServer) -> None:
    stage = await staged(server)
    await stage.register("alice")
    await stage.register("mia", org_unit="sales")
    asked = {"sender": "alice", "to": "mia", "text": "We promise it."}

    denied = (await stage.admin.post("/policies/explain", asked)).json
    sent = await stage.say("mia", {"text": "We promise it."})

    assert (denied["verdict"], denied["governed"], denied["code"]) == ("deny", True, sent.json["code"])
    assert denied["reason"] == sent.json["detail"]
    found = {one["check"]: one for one in denied["steps"]}
    assert found["cross_org"] == {
        "check": "cross_org",
        "value": "deny",
        "source": "built in",
        "found": "engineering to sales",
    }


@pytest.mark.parametrize("kind", [KeyKind.AGENT, KeyKind.SERVICE, KeyKind.HUMAN])
@with_server
async def test_only_an_admin_tries_the_rules(server: LiveServer, kind: KeyKind) -> None:
    client = await server.client("alice" if kind is KeyKind.AGENT else "", kind)

    assert (await client.post("/policies/replay", {"documents": {}})).code == "scope_required"
    assert (await client.post("/policies/explain", {"sender": "alice", "to": "bob"})).code == "scope_required"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"documents": {"orgs/sales": STRICT}},
        {"documents": {"org": STRICT}},
        {"documents": {}, "since": "yesterday"},
        {"documents": {}, "limit": 0},
        {"documents": {}, "after": -1},
    ],
)
@with_server
async def test_a_bad_replay_is_refused(server: LiveServer, body: dict[str, Any]) -> None:
    answer = await (await staged(server)).admin.post("/policies/replay", body)

    assert answer.status == 422, answer


@pytest.mark.parametrize("text", ["", "agent-to-agent:\n  max_round: 1\n"])
@with_server
async def test_a_document_that_cannot_be_read_is_named(server: LiveServer, text: str) -> None:
    answer = await (await staged(server)).admin.post("/policies/replay", {"documents": {"org/sales": text}})

    assert (answer.status, answer.code) == (422, "policy_invalid")
    assert answer.json["flaws"][0]["file"] == "org/sales.yaml"
