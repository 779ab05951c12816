"""The real SDK's asynchronous client, unmodified, against our server."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from openintent import AsyncOpenIntentClient
from openintent.exceptions import ConflictError, NotFoundError
from openintent.models import AccessPolicy, EventType, IntentStatus

from tests.rigs.process import ADMIN_KEY, ServerProcess

_names = itertools.count(1)


def client(server: ServerProcess, agent: str) -> AsyncOpenIntentClient:
    return AsyncOpenIntentClient(server.url, ADMIN_KEY, agent)


async def a_channel(asker: AsyncOpenIntentClient) -> str:
    intent = await asker.create_intent(f"interop {next(_names)}", "d")
    return str((await asker.create_channel(intent.id, f"channel-{next(_names)}"))["id"])


def test_channels_and_messages_go_round(server: ServerProcess) -> None:
    async def story() -> None:
        async with client(server, "alice") as alice, client(server, "bob") as bob:
            channel = await a_channel(alice)

            request = await alice.send_message(channel, "alice", "bob", "request", {"q": 1})
            listed = await bob.list_messages(channel, to="bob")
            read = await bob.mark_read(channel, request["id"])
            answer = await bob.reply_to(channel, request["id"], "bob", {"a": 2})
            after = await alice.list_messages(channel, since=request["id"])
            await alice.close_channel(channel)

            assert [one["id"] for one in listed] == [request["id"]]
            assert read["status"] == "read"
            assert [one["id"] for one in after] == [answer["id"]]
            with pytest.raises(NotFoundError):
                await alice.get_channel(channel)

    asyncio.run(story())


def test_ask_gets_its_answer_without_polling_for_half_a_second(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        naps.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", noted)

    async def answer(bob: AsyncOpenIntentClient, channel: str, count: int) -> None:
        since, left = None, count
        while left:
            for message in await bob.list_messages(channel, since=since, to="bob"):
                since = message["id"]
                if message["message_type"] == "request":
                    await bob.reply_to(channel, message["id"], "bob", {"n": message["payload"]["n"]})
                    left -= 1
            await asyncio.sleep(0.002)

    async def story() -> None:
        async with client(server, "alice") as alice, client(server, "bob") as bob:
            channel = await a_channel(alice)
            answering = asyncio.create_task(answer(bob, channel, 9))
            napped = 0
            for number in range(9):
                before = naps.count(0.5)
                got = await alice.ask(channel, "alice", "bob", {"n": number}, timeout=30)
                assert got["payload"] == {"n": number}
                napped += naps.count(0.5) > before
            await answering
            assert napped < 5

    asyncio.run(story())


def test_intents_events_and_access_work_as_with_the_synchronous_client(server: ServerProcess) -> None:
    async def story() -> None:
        async with client(server, "alice") as alice, client(server, "mallory") as mallory:
            intent = await alice.create_intent("a goal", description="d")
            patched = await alice.update_state(intent.id, intent.version, {"b": 2})
            with pytest.raises(ConflictError) as stale:
                await alice.update_state(intent.id, intent.version, {"b": 3})
            active = await alice.set_status(intent.id, patched.version, IntentStatus.ACTIVE)
            await alice.log_event(intent.id, EventType.COMMENT, {"text": "hello"})
            events = await alice.get_events(intent.id)
            await alice.set_acl(intent.id, AccessPolicy.CLOSED, [])

            assert stale.value.current_version == patched.version
            assert active.status is IntentStatus.ACTIVE
            assert EventType.COMMENT in {one.event_type for one in events}
            with pytest.raises(NotFoundError):
                await mallory.get_intent(intent.id)

    asyncio.run(story())


def test_agents_register_and_subscriptions_are_made(server: ServerProcess) -> None:
    async def story() -> None:
        async with client(server, "gina") as gina:
            record = await gina.register_agent("gina", ["x"])
            beat = await gina.agent_heartbeat("gina")
            made = await gina.subscribe("https://93.184.216.34/hook", event_types=["channel_message"])
            listed = await gina.get_subscriptions()
            await gina.unsubscribe(made.id)

            assert record.agent_id == "gina"
            assert beat["status"] == "ok"
            assert made.id in [one.id for one in listed]

    asyncio.run(story())
