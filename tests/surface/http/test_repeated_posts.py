"""A POST that was carried out by a server which died before it stored its answer: sent again, it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from parley.domain.directory.callers import KeyKind
from parley.domain.store.changes import Committed, TeamChanges
from parley.surfaces.entrance.idempotency import Idempotency
from tests.rigs.team import INTENT, LiveServer, soon, with_server

pytestmark = pytest.mark.both_stores

KEY = {"Idempotency-Key": "k1"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"/intents/{INTENT}/state", {"state": {"report": "done"}}),
        (f"/intents/{INTENT}/status", {"status": "completed"}),
        (f"/intents/{INTENT}/agents", {"agent_id": "bob"}),
        ("/agents/register", {"agent_id": "carol", "role_id": "critic"}),
        ("/agents/bob/bookmarks/main/open", {"start": "now", "process": "7@vm"}),
        ("/intents", {"title": "A new one"}),
    ],
)
@with_server
async def test_an_answer_that_was_lost_is_given_again(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    async def store_nothing(*_: object) -> None: ...

    monkeypatch.setattr(Idempotency, "_store", store_nothing)
    admin = await server.client("", KeyKind.ADMIN)
    headers = {**KEY, "If-Match": '"1"'}

    first = await admin.post(path, body, headers)
    again = await admin.post(path, body, headers)

    assert first.status in (200, 201)
    assert (again.status, again.json) == (first.status, first.json)


@with_server
async def test_who_was_taken_over_before_the_answer_came_is_not_told_that_it_holds_the_bookmark(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def store_nothing(*_: object) -> None: ...

    monkeypatch.setattr(Idempotency, "_store", store_nothing)
    bob = await server.client("bob")
    await bob.post("/agents/bob/bookmarks/main/open", {"process": "7@vm"}, KEY)
    await bob.post("/agents/bob/bookmarks/main/open", {"process": "8@vm"})

    again = await bob.post("/agents/bob/bookmarks/main/open", {"process": "7@vm"}, KEY)

    assert (again.status, again.code) == (409, "bookmark_taken")
    assert again.json["detail"].startswith("bob: taken over by pid 8 on host vm")


async def _channel(server: LiveServer) -> str:
    """A channel that keeps one message."""
    alice = await server.client("alice")
    made = await alice.post(f"/intents/{INTENT}/channels", {"name": "short", "options": {"max_messages": 1}})
    return str(made.json["id"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/channels/{channel}/messages", {"payload": {"n": 1}, "metadata": {"why": "to see"}}),
        ("/channels/{channel}/messages", {"payload": {"n": 1}, "to": "bob"}),
        # Nobody holds the role: it is pending until somebody does.
        ("/channels/{channel}/messages", {"payload": {"n": 1}, "to": "role:critic"}),
        ("/channels/{channel}/messages", {"payload": {"n": 1}, "to": "bob", "message_type": "request"}),
        ("/channels/{channel}/batch", {"messages": [{"payload": {"n": 1}}, {"payload": {"n": 2}, "to": "bob"}]}),
        (f"/intents/{INTENT}/channels/short/messages", {"payload": {"n": 1}}),
        (f"/intents/{INTENT}/channels/new/messages", {"payload": {"n": 1}}),
        ("/channels/{channel}/messages/{request}/reply", {"payload": {"n": 1}}),
        ("/channels/{channel}/messages/{request}/forward", {"to": "carol"}),
    ],
)
@with_server
async def test_a_message_is_committed_with_its_key_and_its_answer(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    channel = await _channel(server)
    alice = await server.client("alice")
    await (await server.client("", KeyKind.ADMIN)).post("/agents/register", {"agent_id": "carol"})
    # What is decided about a message like one before it is remembered: that way stores the answer, too.
    for _ in range(2):
        await alice.post(f"/channels/{channel}/messages", body)
    request = await alice.post(f"/channels/{channel}/messages", {"to": "alice", "message_type": "request"})
    path = path.format(channel=channel, request=request.json["id"])
    commits: list[TeamChanges] = []
    commit = server.rig.team.store.commit

    async def noted(changes: TeamChanges, /) -> Committed:
        commits.append(changes)
        return await commit(changes)

    submit = server.rig.team.store.submit

    def submitted(changes: TeamChanges, done: Callable[[Committed | Exception], None], /) -> None:
        commits.append(changes)
        submit(changes, done)

    monkeypatch.setattr(server.rig.team.store, "commit", noted)
    monkeypatch.setattr(server.rig.team.store, "submit", submitted)

    first = await alice.post(path, body, KEY)
    # One commit, and whatever happens after it, the answer is there: here the message itself is evicted.
    keyed = [changes for changes in commits if changes.saved is not None]
    assert (first.status, len(keyed), bool(keyed[0].posts)) == (201, 1, True)
    for name in ("short", "new"):
        await alice.post(f"/intents/{INTENT}/channels/{name}/messages", {})
    await server.restart()
    again = await server.with_key(await server.rig.key("alice")).post(path, body, KEY)

    assert (again.status, again.body) == (201, first.body)
    assert again.headers["idempotent-replayed"] == "true"


@with_server
async def test_an_ask_is_one_commit_for_the_request_and_one_for_the_answer(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = await _channel(server)
    alice, bob = await server.client("alice"), await server.client("bob")
    commits: list[TeamChanges] = []
    commit = server.rig.team.store.commit

    async def noted(changes: TeamChanges, /) -> Committed:
        # Only what is durable can be answered: a request that is still being written is not found.
        try:
            return await commit(changes)
        finally:
            commits.append(changes)

    late: list[TeamChanges] = []
    submit = server.rig.team.store.submit

    def noted_late(changes: TeamChanges, done: Callable[[Committed | Exception], None], /) -> None:
        late.append(changes)
        submit(changes, done)

    monkeypatch.setattr(server.rig.team.store, "commit", noted)
    monkeypatch.setattr(server.rig.team.store, "submit", noted_late)
    path, body = f"/channels/{channel}/ask", {"to": "bob", "payload": {"n": 1}, "wait_for_responders": True}

    asked = asyncio.create_task(alice.post(path, body, KEY))
    await soon(lambda: len(commits) == 1)
    request = commits[0].posts[0].id
    replied = await bob.post(f"/channels/{channel}/messages/{request}/reply", {"payload": {"n": 2}}, KEY)
    first = await asked

    assert (first.status, first.json["payload"], replied.status) == (200, {"n": 2}, 201)
    assert [(len(changes.posts), changes.saved is not None) for changes in commits] == [(1, True), (1, True)]
    again = await alice.post(path, body, KEY)
    assert (again.status, again.body) == (200, first.body)
    # What the asker got is stored a little later, with other answers; the third commit was the repeated one, refused.
    await soon(lambda: len(late) == 1)
    assert (len(commits), late[0].posts, late[0].saved is not None) == (3, (), True)
