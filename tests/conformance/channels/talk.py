"""What the tests of RFC-0021 say over and over: send, list, wait for a moment, and the fields of the text."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from parley.domain.directory.intent import Task, TaskStatus
from parley.domain.times import stamp
from tests.rigs.team import CHANNEL, INTENT, Answer, Client, LiveServer, with_query

Document = dict[str, Any]

CHANNELS = f"/intents/{INTENT}/channels"
MESSAGES = f"/channels/{CHANNEL}/messages"
CHANNEL_FIELDS = {
    "id",
    "intent_id",
    "task_id",
    "name",
    "created_by",
    "members",
    "member_policy",
    "options",
    "status",
    "created_at",
    "closed_at",
    "message_count",
    "last_message_at",
}
OPTION_FIELDS = {"audit", "ttl_seconds", "max_messages"}
MESSAGE_FIELDS = {
    "id",
    "channel_id",
    "sender",
    "to",
    "message_type",
    "correlation_id",
    "payload",
    "metadata",
    "status",
    "created_at",
    "expires_at",
    "read_at",
}


def messages_of(channel: str) -> str:
    return f"/channels/{channel}/messages"


async def created(client: Client, name: str, path: str = CHANNELS, **fields: object) -> Document:
    """A channel made over HTTP."""
    answer = await client.post(path, {"name": name, **fields})
    assert answer.status == 201, answer
    return document(answer)


async def send(client: Client, text: str = "hello", path: str = MESSAGES, **fields: object) -> Document:
    """Post `{"text": text}`; the message as it was answered."""
    answer = await client.post(path, {"payload": {"text": text}, **fields})
    assert answer.status == 201, answer
    return document(answer)


async def request(client: Client, to: str, text: str = "well?", path: str = MESSAGES, **fields: object) -> Document:
    return await send(client, text, path, message_type="request", to=to, **fields)


async def reply(client: Client, asked: Document, text: str = "yes", **fields: object) -> Document:
    return await send(client, text, f"{messages_of(asked['channel_id'])}/{asked['id']}/reply", **fields)


async def read(client: Client, said: Document) -> Answer:
    """Acknowledge a message."""
    return await client.patch(f"{messages_of(said['channel_id'])}/{said['id']}", {"status": "read"})


async def shown(client: Client, said: Document) -> Document:
    """A message as this client sees it by its id."""
    answer = await client.get(f"{messages_of(said['channel_id'])}/{said['id']}")
    assert answer.status == 200, answer
    return document(answer)


async def channel(client: Client, channel_id: str = CHANNEL) -> Document:
    answer = await client.get(f"/channels/{channel_id}")
    assert answer.status == 200, answer
    return document(answer)


async def listed(client: Client, path: str = MESSAGES, **query: object) -> list[Document]:
    """The messages that this client sees. The limit is named because a plain list is held for an asker."""
    answer = await client.get(with_query(path, {"limit": 1000, **query}))
    assert answer.status == 200, answer
    found = answer.json
    assert isinstance(found, list)
    return found


async def heard(client: Client, path: str = MESSAGES, **query: object) -> list[str]:
    """The texts of these messages."""
    return [one["payload"]["text"] for one in await listed(client, path, **query)]


def document(answer: Answer) -> Document:
    found = answer.json
    assert isinstance(found, dict)
    return found


def later(server: LiveServer, **span: float) -> str:
    """The stamp of a moment to come."""
    return stamp(server.rig.clock.at + timedelta(**span))


async def a_task(server: LiveServer, task_id: str = "task_1", intent_id: str = INTENT) -> Task:
    at = server.rig.at()
    task = Task(
        id=task_id,
        tenant_id="default",
        intent_id=intent_id,
        title=task_id,
        status=TaskStatus.RUNNING,
        created_by="alice",
        created_at=at,
        updated_at=at,
    )
    return await server.rig.put(task)
