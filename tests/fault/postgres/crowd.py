"""A crowd at several nodes at once: whoever gets no answer at one goes to the next, with the same key or cursor."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from tests.fault.postgres.nodes import Door
from tests.fault.team.crowd import BROKEN, Crowd
from tests.fault.team.history import EVERYONE, History, Send, Sight, Stream, sight, visible
from tests.rigs.process import ADMIN_KEY
from tests.rigs.team import Answer, Client, Connection

# Longer than a node lets anybody wait for the database. Who has no answer by then asks elsewhere.
PATIENCE = 4.0
# Who was in vain too impatient for a machine that does other things, too, waits twice as long the next time, and again.
_MOST_PATIENCE = 30.0
_RECOVERY = 60.0
# Who speaks goes on at another node after so many messages, whether it has to or not.
_STAY = 10
_PAGE = 1_000


class NodeClient(Client):
    """A client of one node that does not wait for ever: a node that stands still hangs up on nobody."""

    def __init__(self, door: Door, key: str = ADMIN_KEY, agent: str = "", patience: float = PATIENCE) -> None:
        super().__init__(door.port, key, agent)
        self.door = door
        self.patience = patience

    async def request(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Answer:
        try:
            async with asyncio.timeout(self.patience):
                return await super().request(method, path, body, headers)
        except BaseException:
            # What still comes on this connection is the answer to an earlier question.
            self._connection = None
            raise

    def move(self, door: Door) -> None:
        """Ask there from now on."""
        if door != self.door:
            self.door, self._connection = door, None

    async def connect(self) -> Connection:
        connection = Connection(*await asyncio.open_connection(self.door.host, self.door.port, limit=2**24))
        self._opened.append(connection)
        return connection


class Acknowledged(NamedTuple):
    """A message that a node has said is kept: asked for and answered at these moments."""

    door: Door
    began: float
    ended: float


class NodesCrowd(Crowd):
    """Everybody in one channel, at several nodes.

    With `senders_at`, those who speak are at these; at the others everybody only follows.
    """

    def __init__(
        self, doors: Sequence[Door], seed: int, *, senders_at: Sequence[Door] = (), hurry: float = PATIENCE
    ) -> None:
        super().__init__(doors[0].port, seed)
        self._hurry = hurry
        self._slower: dict[str, float] = {}
        self.doors = doors
        self.senders_at = senders_at or doors
        self.acknowledged: list[Acknowledged] = []
        # Answers that nobody here should ever get, and how often which status came.
        self.refusals: list[str] = []
        self.statuses: Counter[int] = Counter()
        # What the nodes did not know what to do with.
        self.surprises: list[str] = []
        # When each stream got each message.
        self.received: list[tuple[Sight, float]] = []
        # How long a stream may take to get to the end, when all is said.
        self.patience = _RECOVERY
        self._turns: Counter[str] = Counter()

    def client(self, agent: str) -> Client:
        """At another node each time. Whoever is alone at the beginning and at the end has time."""
        hurries = agent.startswith(("sender", "reader"))
        patience = self._slower.get(agent, self._hurry) if hurries else _RECOVERY
        self._clients.append(NodeClient(self._door(agent), agent=agent, patience=patience))
        return self._clients[-1]

    def _door(self, agent: str) -> Door:
        doors = self.doors if agent.startswith("reader") else self.senders_at
        turn = zlib.crc32(agent.encode()) + self._turns[agent]
        self._turns[agent] += 1
        return doors[turn % len(doors)]

    async def until(self, holds: Callable[[], bool], seconds: float = _RECOVERY) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110  # what it waits for, other processes do
                await asyncio.sleep(0.01)

    async def goes_on(self, count: int = 1, apart_from: Door | None = None, seconds: float = _RECOVERY) -> None:
        """Wait until so many were asked for and answered from now on."""
        began, start = time.monotonic(), len(self.acknowledged)

        def enough() -> bool:
            new = [one for one in self.acknowledged[start:] if one.began > began and one.door != apart_from]
            return len(new) >= count

        await self.until(enough, seconds)

    async def _say(self, client: Client, send: Send) -> bool:
        assert isinstance(client, NodeClient)
        padding = "x" * (send.number * 37 % 400)
        body = {"to": send.to, "message_type": "notify", "payload": {"n": send.number, "padding": padding}}
        key = {"Idempotency-Key": f"{send.sender}-{send.number}"}
        began = time.monotonic()
        try:
            answer = await client.post(f"/channels/{self.channel_id}/messages", body, key)
        except TimeoutError:
            self._slower[send.sender] = min(2 * client.patience, _MOST_PATIENCE)
            raise
        self._slower.pop(send.sender, None)
        client.patience = self._hurry
        self.statuses[answer.status] += 1
        if answer.status == 201:
            send.answers.append(sight(answer.json))
            send.answer, send.ended = send.answers[-1], time.monotonic()
            self.acknowledged.append(Acknowledged(client.door, began, send.ended))
            if send.number % _STAY == 0:
                client.move(self._door(send.sender))
            return True
        if answer.status >= 500 or answer.status == 409:
            # In doubt: it may have happened, or may still happen where it was asked for before.
            raise ConnectionError(answer.body)
        self.refusals.append(answer.body.decode())
        return True

    async def _read(self, reader: str) -> None:
        if self.senders_at is self.doors:
            await super()._read(reader)

    async def _follow(self, stream: Stream) -> None:
        """One stream that goes on at another node whenever it breaks."""
        last = "0"
        while True:
            try:
                client = self.client(stream.reader)
                async with client.events(f"/agents/{stream.reader}/subscribe", last) as events:
                    while events.status == 200:
                        sent = await events.next(60)
                        last = sent.id
                        if sent.event.lower() == "channel_message":
                            stream.positions.append(int(sent.id))
                            stream.seen.append(sight(sent.json))
                            self.received.append((stream.seen[-1], time.monotonic()))
            except BROKEN:
                pass
            await asyncio.sleep(0.05)

    async def _everything(self) -> tuple[Sight, ...]:
        found: list[Sight] = []
        deadline = time.monotonic() + _RECOVERY
        client = self.client("")
        while True:
            after = found[-1].seq if found else 0
            try:
                answer = await client.get(f"/channels/{self.channel_id}/messages?since={after}&limit={_PAGE}")
                assert answer.status == 200 or time.monotonic() < deadline, answer.body
            except BROKEN:
                assert time.monotonic() < deadline
                client = await self._renewed(client, "")
                continue
            if answer.status == 200:
                page = [sight(one) for one in answer.json]
                found += page
                if not page:
                    return tuple(found)

    async def _until_caught_up(self, streams: list[Stream]) -> None:
        with suppress(TimeoutError):  # whoever looks at the history finds out
            await self.until(lambda: not short(self.history), self.patience)

    def lags(self) -> list[float]:
        """Of every message at every stream: how long after it was acknowledged it came there, in order."""
        known = {(one.sender, one.number): one.ended for one in self.history.sends if one.answer is not None}
        found = [
            max(0.0, at - known[seen.sender, seen.number])
            for seen, at in self.received
            if (seen.sender, seen.number) in known
        ]
        return sorted(found)


def short(history: History) -> list[str]:
    """I26: who follows gets to the end of what it may see."""
    wrong = []
    for stream in history.streams:
        last = [one for one in visible(history.final, stream.reader) if one.sender != stream.reader][-1:]
        if stream.seen[-1:] != last:
            wrong.append(f"I26: the stream of {stream.reader} ended at {stream.seen[-1:]}, not at {last}")
    return wrong


def told(crowd: NodesCrowd) -> str:
    """What happened, in one line."""
    history = crowd.history
    acknowledged = sum(one.answer is not None for one in history.sends)
    seen = sum(len(one.seen) for one in history.streams)
    answers = ", ".join(f"{count} x {status}" for status, count in sorted(crowd.statuses.items()))
    doubled = Counter((one.sender, one.number) for one in history.final)
    return (
        f"{len(history.sends)} sends, {acknowledged} acknowledged, {len(history.final)} kept,"
        f" {sum(count - 1 for count in doubled.values())} doubled, {len(history.listings)} pages,"
        f" {seen} events on {len(history.streams)} streams; answers: {answers}"
    )


def percentiles(lags: Sequence[float]) -> Mapping[str, float]:
    """In milliseconds."""
    if not lags:
        return {}
    at = {"p50": len(lags) // 2, "p99": len(lags) * 99 // 100, "max": len(lags) - 1}
    return {name: round(lags[place] * 1000, 1) for name, place in at.items()}


__all__ = ["EVERYONE", "NodeClient", "NodesCrowd", "percentiles", "short", "told"]
