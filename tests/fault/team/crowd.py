"""A crowd at a server that is killed again and again: senders, readers and streams, each doing its thing and keeping
note.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from tests.fault.team.history import EVERYONE, History, Listing, Send, Stream, sight
from tests.rigs.process import ADMIN_KEY
from tests.rigs.team import Client

# How a connection ends when its server is killed.
BROKEN = (ConnectionError, asyncio.IncompleteReadError, EOFError, OSError)
# Longer than it takes a server to be there again on a machine that does other things too.
PATIENCE = 60.0
# A stream that is not at the end by then never gets there.
_CATCH_UP = 20.0
_PAGE = 200

T = TypeVar("T")


async def patiently(attempt: Callable[[], Awaitable[T]], *, pause: float = 0.02) -> T:
    """Try until the server is there again."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return await attempt()
        except BROKEN:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(pause)


class Crowd:
    """Everybody in one channel of one server."""

    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.history = History()
        self.intent_id = ""
        self.channel_id = ""
        self.stopping = False
        self.readers: list[str] = []
        self._chance = random.Random(seed)
        self._clients: list[Client] = []

    def client(self, agent: str) -> Client:
        self._clients.append(Client(self.port, ADMIN_KEY, agent))
        return self._clients[-1]

    async def leave(self) -> None:
        """Close every connection that is still open."""
        while self._clients:
            await self._clients.pop().close()

    async def open_channel(self, *listeners: str) -> None:
        """An intent and a channel that keeps everything; what is said to everyone reaches these agents."""
        founder = self.client("founder")
        intent = (await founder.post("/intents", {"title": "a crowd", "access": "open"})).json
        self.intent_id = intent["id"]
        await self._let_in(founder, listeners)
        made = await founder.post(
            f"/intents/{intent['id']}/channels", {"name": "hall", "options": {"max_messages": 10**6}}
        )
        assert made.status == 201, made.body
        self.channel_id = made.json["id"]
        await founder.close()

    async def _let_in(self, founder: Client, agents: Iterable[str]) -> None:
        """Assign agents to the intent: what is said to everyone reaches them from the start."""
        for agent in agents:
            assigned = await founder.post(f"/intents/{self.intent_id}/agents", {"agent_id": agent})
            assert assigned.status == 200, assigned.body

    async def play(self, senders: int, readers: int, streams: int, disturb: Awaitable[None]) -> History:
        """Let them all act while `disturb` goes on; then read the whole channel."""
        self.readers = [f"reader-{number}" for number in range(readers)]
        founder = self.client("founder")
        await self._let_in(founder, self.readers)
        await founder.close()
        talking = [asyncio.create_task(self._send(f"sender-{number:02d}")) for number in range(senders)]
        reading = [asyncio.create_task(self._read(reader)) for reader in self.readers]
        followers = [Stream(self.readers[number % readers]) for number in range(streams)]
        self.history.streams = followers
        following = [asyncio.create_task(self._follow(stream)) for stream in followers]
        await disturb
        self.stopping = True
        await asyncio.gather(*talking, *reading)
        self.history.final = await self._everything()
        await self._until_caught_up(followers)
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        await self.leave()
        return self.history

    async def _send(self, sender: str) -> None:
        """Half of the senders repeat what broke, under the same key, until they know; the others go on."""
        client, number = self.client(sender), 0
        repeats = int(sender[-2:]) % 2 == 0
        while not self.stopping:
            number += 1
            to = self._chance.choice(self.readers) if number % 5 == 0 else EVERYONE
            send = Send(sender, number, to, time.monotonic())
            self.history.sends.append(send)
            done = False
            while not done:
                try:
                    done = await self._say(client, send)
                except BROKEN:
                    client = await self._renewed(client, sender)
                    done = not repeats
        await client.close()

    async def _say(self, client: Client, send: Send) -> bool:
        padding = "x" * (send.number * 37 % 400)
        body = {"to": send.to, "message_type": "notify", "payload": {"n": send.number, "padding": padding}}
        key = {"Idempotency-Key": f"{send.sender}-{send.number}"}
        answer = await client.post(f"/channels/{self.channel_id}/messages", body, key)
        if answer.status == 201:
            send.answers.append(sight(answer.json))
            send.answer, send.ended = send.answers[-1], time.monotonic()
            return True
        if answer.status < 500:
            send.refused = True
            return True
        await asyncio.sleep(0.01)
        return False

    async def _renewed(self, client: Client, agent: str) -> Client:
        await client.close()
        await asyncio.sleep(0.02)
        return self.client(agent)

    async def _read(self, reader: str) -> None:
        """Page through the channel, again and again; now and then wait for something new."""
        client, cursor = self.client(reader), 0
        while not self.stopping:
            began = time.monotonic()
            wait = "&wait=0.2" if self._chance.random() < 0.3 else ""
            path = f"/channels/{self.channel_id}/messages?since={cursor}&limit={_PAGE}{wait}"
            try:
                answer = await client.request("GET", path)
            except BROKEN:
                client = await self._renewed(client, reader)
                continue
            if answer.status == 200:
                found = tuple(sight(one) for one in answer.json)
                self.history.listings.append(Listing(reader, began, cursor, found, len(found) < _PAGE))
                cursor = found[-1].seq if found else cursor
                if self._chance.random() < 0.02:
                    cursor = 0
            await asyncio.sleep(0.005)
        await client.close()

    async def _follow(self, stream: Stream) -> None:
        """One stream that comes back with its last event whenever it breaks."""
        client, last = self.client(stream.reader), "0"
        while True:
            try:
                async with client.events(f"/agents/{stream.reader}/subscribe", last) as events:
                    while events.status == 200:
                        sent = await events.next(60)
                        last = sent.id
                        if sent.event.lower() == "channel_message":
                            stream.positions.append(int(sent.id))
                            stream.seen.append(sight(sent.json))
            except BROKEN:
                await asyncio.sleep(0.02)

    async def _everything(self) -> tuple[Any, ...]:
        client = self.client("")
        found: list[Any] = []
        while True:
            after = found[-1].seq if found else 0
            path = f"/channels/{self.channel_id}/messages?since={after}&limit=1000"
            page = [sight(one) for one in (await patiently(partial(client.request, "GET", path))).json]
            found += page
            if not page:
                await client.close()
                return tuple(found)

    async def _until_caught_up(self, streams: list[Stream]) -> None:
        from tests.fault.team.history import visible

        deadline = time.monotonic() + _CATCH_UP
        last = {reader: [one.seq for one in visible(self.history.final, reader)][-1:] for reader in self.readers}
        while any([one.seq for one in stream.seen[-1:]] != last[stream.reader] for stream in streams):
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(0.05)
