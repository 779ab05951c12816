"""A server that is killed while many speak, read and follow loses nothing, doubles nothing and keeps the order."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fault.team.crowd import BROKEN, PATIENCE, Crowd, patiently
from tests.fault.team.history import History, Stream, check, sight
from tests.rigs.process import ServerProcess
from tests.rigs.team import Client

pytestmark = [
    pytest.mark.fault,
    pytest.mark.slow,
    # The sockets of this crowd are torn at any moment; what they leave behind is not what is tested.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SENDERS, READERS, STREAMS = 16, 8, 4


# So many kills come when everybody is busy again, whatever else the machine does; the next one comes when it likes.
_BUSY_KILLS = 3


async def killing(server: ServerProcess, crowd: Crowd, times: int, chance: random.Random) -> None:
    """Kill the server so many times, each time a while after it was ready, and start it again."""
    loop = asyncio.get_running_loop()
    for turn in range(times):
        if turn % (_BUSY_KILLS + 1) < _BUSY_KILLS:
            await busy(crowd)
        await asyncio.sleep(chance.uniform(0.05, 0.4))
        await loop.run_in_executor(None, server.kill)
        await loop.run_in_executor(None, server.start)
    await busy(crowd)


async def busy(crowd: Crowd) -> None:
    """Until more is acknowledged, and seen on every stream, than now; or nothing comes, as with a broken server."""
    acknowledged, seen = happened(crowd)
    with suppress(TimeoutError):
        await said(crowd, acknowledged + SENDERS, seen + 1, 5.0)


def happened(crowd: Crowd) -> tuple[int, int]:
    """How much is acknowledged, and how much was seen on the stream that saw the least."""
    history = crowd.history
    return sum(one.answer is not None for one in history.sends), min(len(stream.seen) for stream in history.streams)


def _more(now: tuple[int, int], than: tuple[int, int]) -> bool:
    return now[0] > than[0] and now[1] > than[1]


async def said(crowd: Crowd, acknowledged: int, seen: int, seconds: float = PATIENCE) -> None:
    """Wait until more than so much is."""
    async with asyncio.timeout(seconds):
        while not _more(happened(crowd), (acknowledged, seen)):  # noqa: ASYNC110  # other processes do it
            await asyncio.sleep(0.02)


def storm(data: Path, kills: int, *, mutant: str = "", seed: int = 1, acknowledged: int = 0, seen: int = 0) -> History:
    """What a crowd does and sees while its server is killed; on a slow machine it goes on until that much happened."""
    server = ServerProcess(data, mutant=mutant)
    server.start()

    async def play() -> History:
        crowd = Crowd(server.port, seed)
        await crowd.open_channel()

        async def disturb() -> None:
            await killing(server, crowd, kills, random.Random(seed))
            if acknowledged:
                await said(crowd, acknowledged, seen)

        return await crowd.play(SENDERS, READERS, STREAMS, disturb())

    try:
        return asyncio.run(play())
    finally:
        if server.process is not None:
            server.kill()


def test_nothing_acknowledged_is_lost_doubled_or_reordered_over_kills(tmp_path: Path, full: bool) -> None:
    history = storm(tmp_path / "data", 200 if full else 20, acknowledged=500, seen=50)

    acknowledged = sum(one.answer is not None for one in history.sends)
    print(f"{acknowledged} acknowledged, {len(history.final)} kept, {len(history.listings)} pages")
    assert check(history) == []
    assert acknowledged > 500
    assert all(len(stream.seen) > 50 for stream in history.streams)


@pytest.mark.parametrize(
    ("mutant", "rules"),
    [
        ("acknowledge_before_commit", {"I3"}),
        ("forget_idempotency", {"I4"}),
        ("resume_too_far", {"I7"}),
        ("show_everything_to_everyone", {"I6"}),
    ],
)
def test_a_broken_server_is_found_out(tmp_path: Path, mutant: str, rules: set[str]) -> None:
    found: set[str] = set()

    for seed in range(1, 4):  # a kill has to come at the right moment; mostly the first do
        history = storm(tmp_path / f"data-{seed}", 6, mutant=mutant, seed=seed)
        found |= {line.split(":")[0] for line in check(history)}
        if found & rules:
            break

    assert found & rules


async def follow(client: Client, stream: Stream, wanted: int) -> None:
    last = "0"
    while len(stream.seen) < wanted:
        try:
            async with client.events("/agents/listener/subscribe", last) as events:
                while events.status == 200 and len(stream.seen) < wanted:
                    sent = await events.next(60)
                    last = sent.id
                    if sent.event.lower() == "channel_message":
                        stream.positions.append(int(sent.id))
                        stream.seen.append(sight(sent.json))
        except BROKEN:
            await asyncio.sleep(0.05)


def test_every_one_of_many_streams_gets_everything_over_kills(tmp_path: Path, full: bool) -> None:
    streams, kills, each = (1_000, 5, 20) if full else (100, 2, 10)
    environment = {"PARLEY_STREAMS_PER_KEY": "5000", "PARLEY_STREAMS": "5000"}
    server = ServerProcess(tmp_path / "data", environment=environment)
    server.start()

    async def play() -> list[Stream]:
        crowd = Crowd(server.port, 1)
        await crowd.open_channel("listener")
        wanted = each * (kills + 1)
        followed = [Stream("listener") for _ in range(streams)]
        clients = [crowd.client("listener") for _ in range(streams)]
        tasks = [
            asyncio.create_task(follow(client, stream, wanted))
            for client, stream in zip(clients, followed, strict=True)
        ]
        loop = asyncio.get_running_loop()
        number = 0
        for kill in range(kills + 1):
            for _ in range(each):
                number += 1
                body = {"to": "*", "message_type": "notify", "payload": {"n": number}}
                key = {"Idempotency-Key": f"n-{number}"}

                async def say(body: object = body, key: dict[str, str] = key) -> None:
                    speaker = crowd.client("speaker")
                    try:
                        answer = await speaker.post(f"/channels/{crowd.channel_id}/messages", body, key)
                    finally:
                        await speaker.close()
                    assert answer.status == 201

                await patiently(say)
            if kill < kills:
                await loop.run_in_executor(None, server.kill)
                await loop.run_in_executor(None, server.start)
        async with asyncio.timeout(120):
            await asyncio.gather(*tasks)
        await crowd.leave()
        return followed

    try:
        followed = asyncio.run(play())
    finally:
        if server.process is not None:
            server.kill()

    everything = list(range(1, each * (kills + 1) + 1))
    wrong = [stream for stream in followed if [one.number for one in stream.seen] != everything]
    assert wrong == []
