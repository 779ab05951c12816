"""Many agents in many conversations at a server that is killed again and again: all want to say the next thing."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Any

from tests.fault.team.account import Account, Asked, Noted, Try, delivered_of, digest_of
from tests.fault.team.crowd import BROKEN, PATIENCE, patiently
from tests.rigs.process import ADMIN_KEY, ServerProcess
from tests.rigs.team import Answer, Client

QUERY = "information_query"


class Wanted:
    """Something that an agent wants to say. The label makes it the only one of its kind, and so does its key."""

    def __init__(self, label: str, sender: str, to: str, conversation: str, text: str = "What is new?") -> None:
        self.done = Try(label, conversation, sender)
        self.payload = {"label": label, "text": text}
        metadata: dict[str, Any] = {"exchange_type": QUERY}
        if conversation:
            metadata["conversation_id"] = conversation
        self.body = {"to": to, "message_type": "notify", "payload": self.payload, "metadata": metadata}


class Talks:
    """A server's channel, and as many connections as there are senders at once."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.channel_id = ""
        self.account = Account()
        # The keys of people, by whom they belong to.
        self.people: dict[str, str] = {}
        self._clients: list[Client] = []

    async def open(self, policy: str = "", people: Iterable[str] = (), agents: dict[str, str] | None = None) -> None:
        """A channel that keeps everything, a policy, and agents that act for people."""
        admin = self.client()
        intent = (await admin.post("/intents", {"title": "talks", "access": "open"}, _as("founder"))).json
        made = await admin.post(
            f"/intents/{intent['id']}/channels", {"name": "hall", "options": {"max_messages": 10**6}}, _as("founder")
        )
        assert made.status == 201, made.body
        self.channel_id = made.json["id"]
        if policy:
            answer = await admin.request("PUT", "/policies/enterprise/default", {"text": policy})
            assert answer.status == 200, answer.body
        for agent, user in (agents or {}).items():
            answer = await admin.post("/agents/register", {"agent_id": agent, "user_id": user})
            assert answer.status == 200, answer.body
        for user in people:
            key = await admin.post("/keys", {"kind": "human", "user_id": user})
            assert key.status == 201, key.body
            self.people[user] = key.json["key"]
        await admin.close()

    def client(self, key: str = ADMIN_KEY) -> Client:
        self._clients.append(Client(self.port, key))
        return self._clients[-1]

    async def leave(self) -> None:
        while self._clients:
            await self._clients.pop().close()

    async def say_all(self, wanted: list[Wanted], at_once: int) -> None:
        """Say all of it, so many at once, in their order; what broke is said again until somebody has answered."""
        waiting = list(reversed(wanted))

        async def sender() -> None:
            client = self.client()
            while waiting:
                client = await self._said(client, waiting.pop())
            await client.close()

        await asyncio.gather(*(sender() for _ in range(at_once)))

    async def _said(self, client: Client, wanted: Wanted) -> Client:
        self.account.tries.append(wanted.done)
        path = f"/channels/{self.channel_id}/messages"
        headers = {**_as(wanted.done.sender), "Idempotency-Key": f"say {wanted.done.label}"}
        deadline = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < deadline, f"nobody answers {wanted.done.label}: {wanted.done.answers[-3:]}"
            try:
                answer = await client.post(path, wanted.body, headers)
            except BROKEN:
                client = await self._renewed(client)
                continue
            wanted.done.answers.append((answer.status, _named(answer)))
            if answer.status < 500 and not _try_again(answer):
                wanted.done.code = "" if answer.status < 300 else answer.code
                return client
            wanted.done.answers.pop()
            await asyncio.sleep(0.01)

    async def _renewed(self, client: Client) -> Client:
        key = client.headers["X-API-Key"]
        await client.close()
        self._clients.remove(client)
        await asyncio.sleep(0.02)
        return self.client(key)

    async def decide_all(self, approvals: list[dict[str, Any]], user: str, decision: str, order: int) -> None:
        """A person decides about everything, again when the connection breaks; `order` changes from whom on."""
        client = self.client(self.people[user])
        for one in approvals[order % len(approvals) // 4 :] + approvals[: order % len(approvals) // 4]:
            body = {"decision": decision, "digest": one["digest"], "note": user}
            client = await self._decided(client, one["id"], body)
        await client.close()

    async def _decided(self, client: Client, approval: str, body: object) -> Client:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                answer = await client.post(f"/approvals/{approval}/decision", body)
            except BROKEN:
                client = await self._renewed(client)
                continue
            if answer.status < 500 and not _try_again(answer):
                assert answer.status in (200, 409), answer.body
                return client
            await asyncio.sleep(0.01)
        raise AssertionError(f"nobody decides {approval}")

    async def tell(self) -> Account:
        """The whole account, as an admin sees it."""
        admin, account = self.client(), self.account
        for message in await self._pages(admin, f"/channels/{self.channel_id}/messages?limit=1000&since=", "seq", 0):
            if "ocip" in (message["metadata"] or {}):
                account.delivered.append(delivered_of(message, digest_of(message["payload"])))
            elif message["sender"] == "system":
                said = message["payload"]
                account.told.append((said["approval_id"], said["status"], said["message_id"] or ""))
            else:
                account.bare.append(message["payload"]["label"])
        for entry in await self._entries(admin):
            account.noted.append(
                Noted(entry["number"], entry["side"], entry["seq"], entry["entry_hash"], entry["document"])
            )
        for one in await self._pages(admin, "/approvals?limit=1000&after=", "id", ""):
            label = (one["payload"] or {}).get("label", "")
            named = (one["exchange_id"] or "", one["conversation_id"] or "", one["status"], one["message_id"] or "")
            account.asked.append(Asked(one["id"], one["cause"], *named, label, one["decided_by"] or ""))
        for one in await self._pages(admin, "/exchanges?limit=1000&after=", "exchangeId", ""):
            account.exchanges[one["exchangeId"]] = (one["maxRounds"], one["currentRound"])
        await self.leave()
        return account

    async def _pages(self, client: Client, path: str, key: str, start: object) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        place = start
        while True:
            answer = await patiently(partial(client.request, "GET", f"{path}{place}"))
            assert answer.status == 200, answer.body
            if not answer.json:
                return found
            found += answer.json
            place = found[-1][key]

    async def _entries(self, client: Client) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            after = found[-1]["number"] if found else 0
            page = (await patiently(partial(client.request, "GET", f"/audit?limit=1000&after={after}"))).json
            if not page["entries"]:
                return found
            found += page["entries"]


async def killed_meanwhile(server: ServerProcess, times: int, work: Awaitable[None], seed: int = 1) -> None:
    """Do something while the server is killed so many times, each time a while after it was ready."""
    loop, chance = asyncio.get_running_loop(), random.Random(seed)

    async def kill() -> None:
        for _ in range(times):
            await asyncio.sleep(chance.uniform(0.05, 0.4))
            await loop.run_in_executor(None, server.kill)
            await loop.run_in_executor(None, server.start)

    await asyncio.gather(kill(), work)


def _as(agent: str) -> dict[str, str]:
    return {"X-Agent-ID": agent}


def _named(answer: Answer) -> str:
    """The message or approval that an answer is about."""
    document = answer.json
    return str(document.get("id") or document.get("approval") or document.get("code"))


def _try_again(answer: Answer) -> bool:
    """Whether too many wanted the same at this moment."""
    return answer.status == 409 and answer.code == "conflict"
