"""What the tests of governed exchange say over and over: place agents, speak under the rules, decide, look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parley.domain.directory.callers import NO_TENANT, Key, KeyKind, key_digest
from tests.rigs.team import CHANNEL, Answer, Client, LiveServer

Document = dict[str, Any]

MESSAGES = f"/channels/{CHANNEL}/messages"
EXAMPLES = Path(__file__).resolve().parent / "examples"
ENVELOPE_FIELDS = [
    "version",
    "message_type",
    "source_agent",
    "classification",
    "conversation_id",
    "exchange_round",
    "max_rounds",
    "capabilities",
    "reply_policy",
    "requires_commitment",
    "expires_at",
]


def example(name: str) -> Document:
    """An example of the specification, as it is printed there."""
    found = json.loads((EXAMPLES / f"{name}.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


async def admin_of(server: LiveServer, tenant: str = "default") -> Client:
    return await server.client("", KeyKind.ADMIN, tenant)


async def place(server: LiveServer, agent: str, tenant: str = "default", **said: Any) -> Client:  # noqa: ANN401
    """An agent whom an admin has placed, and its client. Without a word it belongs to engineering, and acts for sam."""
    admin = await admin_of(server, tenant)
    told = {"agent_id": agent, "org_unit": "engineering", "user_id": "sam", **said}
    answer = await admin.post("/agents/register", told)
    assert answer.status == 200, answer
    return await server.client(agent, tenant=tenant)


async def pair(server: LiveServer, **said: Any) -> tuple[Client, Client]:  # noqa: ANN401
    """alice, who acts for ann, and bob, who acts for ben; both in engineering, unless something else is said."""
    alice = await place(server, "alice", user_id="ann", **said)
    return alice, await place(server, "bob", user_id="ben", **said)


async def person(server: LiveServer, user: str, tenant: str = "default") -> Client:
    """A human with a key of its own."""
    rig, key = server.rig, f"key_{tenant}_human_{user}"
    if key not in rig.secrets:
        rig.secrets[key] = f"secret of {key}"
        await rig.put(
            Key(
                id=key,
                tenant_id=NO_TENANT,
                owner=tenant,
                key_kind=KeyKind.HUMAN,
                digest=key_digest(rig.secrets[key]),
                user_id=user,
                created_at=rig.at(),
            )
        )
    return server.with_key(rig.secrets[key])


async def put_policy(
    server: LiveServer, text: str, document: str = "enterprise/default", tenant: str = "default"
) -> str:
    """Put a policy into force, line by line as given; its label."""
    body = {"text": "agent-to-agent:\n" + "".join(f"  {line.strip()}\n" for line in text.splitlines() if line.strip())}
    answer = await (await admin_of(server, tenant)).request("PUT", f"/policies/{document}", body)
    assert answer.status == 200, answer
    return str(answer.json["label"])


async def tell(
    client: Client,
    to: str,
    text: str | None = "hello",
    path: str = MESSAGES,
    *,
    payload: object = None,
    kind: str = "request",
    **metadata: object,
) -> Answer:
    """Say something under the rules: an information query unless `exchange_type` or an envelope says otherwise."""
    said = (
        metadata if {"exchange_type", "ocip"} & metadata.keys() else {"exchange_type": "information_query", **metadata}
    )
    body = payload if payload is not None else {"text": text}
    return await client.post(path, {"to": to, "message_type": kind, "payload": body, "metadata": said})


async def said(client: Client, to: str, text: str = "hello", **more: Any) -> Document:  # noqa: ANN401
    """The same, delivered."""
    answer = await tell(client, to, text, **more)
    assert answer.status == 201, answer
    return document(answer)


async def held(client: Client, to: str, text: str = "I commit to it.", **more: Any) -> Document:  # noqa: ANN401
    """The same, held."""
    answer = await tell(client, to, text, **more)
    assert answer.status == 202, answer
    return document(answer)


async def reply(client: Client, asked: Document, text: str = "fine", **metadata: object) -> Answer:
    body = {"payload": {"text": text}, "metadata": metadata}
    return await client.post(f"/channels/{asked['channel_id']}/messages/{asked['id']}/reply", body)


def refused(answer: Answer) -> tuple[int, str]:
    assert answer.status >= 400, answer
    return answer.status, answer.code


def envelope_of(message: Document) -> Document:
    found = message["metadata"]["ocip"]
    assert isinstance(found, dict)
    return found


def ext_of(message: Document) -> Document:
    found = message["metadata"]["ocip_ext"]
    assert isinstance(found, dict)
    return found


async def exchange_of(client: Client, message: Document) -> Document:
    """The exchange that a message, or what was answered to a held one, belongs to."""
    exchange_id = message.get("exchange_id") or ext_of(message)["exchange_id"]
    return await shown(client, f"/exchanges/{exchange_id}")


async def shown(client: Client, path: str, **query: Any) -> Document:  # noqa: ANN401
    answer = await client.get(path, **query)
    assert answer.status == 200, answer
    return document(answer)


async def decide(client: Client, waiting: Document, decision: str, **more: object) -> Answer:
    """What a person decides about what waits: an approval, or the answer to a held message."""
    approval = waiting.get("approval") or waiting["id"]
    body = {"decision": decision, "digest": waiting["digest"], **more}
    return await client.post(f"/approvals/{approval}/decision", body)


def by_parties(messages: list[Document]) -> list[Document]:
    """What agents and people said of it; the server's own words are not part of their exchange."""
    return [one for one in messages if one["sender"] != "system"]


async def inbox(client: Client, path: str = MESSAGES) -> list[Document]:
    """Everything in the channel that this client may see."""
    answer = await client.get(path, limit=1000)
    assert answer.status == 200, answer
    found = answer.json
    assert isinstance(found, list)
    return found


async def audit_of(client: Client, **query: Any) -> list[Document]:  # noqa: ANN401
    """The documents of the audit entries that a client sees."""
    found = await shown(client, "/audit", limit=1000, **query)
    return [one["document"] for one in found["entries"]]


def document(answer: Answer) -> Document:
    found = answer.json
    assert isinstance(found, dict)
    return found
