"""The store without a server: so many commits always under way, one message each. What durability alone allows.

`python -m bench.channels.inserts FOLDER` takes jobs as lines of JSON, like the load.
"""

from __future__ import annotations

import asyncio
import sys
import time

import msgspec
import uvloop

from bench.channels.load import Job, Result, summary
from bench.channels.posts import TEXT
from parley.adapters.process import SystemIds
from parley.adapters.sqlite.team.store import SqliteTeamStore
from parley.domain.channel.channel import Channel
from parley.domain.channel.post import Post, PostState
from parley.domain.directory.access import Access
from parley.domain.message.message import Pattern
from parley.domain.record import Expect
from parley.domain.store.changes import TeamChanges

_AT = "2026-03-13T08:00:00.000000+00:00"
_PAYLOAD = msgspec.json.encode({"text": TEXT})
_EXPECTS = (Expect(Channel.kind, "chan_1", 1), Expect(Access.kind, "intent_1", 1))


async def main(folder: str) -> None:
    store = SqliteTeamStore(f"{folder}/inserts.db", {Channel.kind: Channel, Access.kind: Access})
    ids = SystemIds()
    access = Access(id="intent_1", tenant_id="default", created_by="a")
    channel = Channel(
        id="chan_1", tenant_id="default", intent_id="intent_1", label="bench", created_by="a", created_at=_AT
    )
    await store.commit(TeamChanges("default", puts=(access, channel)))

    async def keep_committing(begin: float, end: float, times: list[float]) -> None:
        sent = time.perf_counter()
        while sent < end:
            await store.commit(TeamChanges("default", (_post(f"msg_{ids.ulid()}"),), _EXPECTS))
            now = time.perf_counter()
            if sent >= begin and now <= end:
                times.append(now - sent)
            sent = now

    async def commits(job: Job) -> Result:
        begin, times = time.perf_counter() + job["warm"], list[float]()
        end = begin + job["seconds"]
        await asyncio.gather(*[keep_committing(begin, end, times) for _ in range(job["connections"])])
        return summary(times) | {"rate": len(times) / job["seconds"]}

    while line := await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
        print(msgspec.json.encode(await commits(msgspec.json.decode(line))).decode(), flush=True)
    await store.close()


def _post(message_id: str) -> Post:
    return Post(
        id=message_id,
        channel_id="chan_1",
        sender="a",
        to="",
        pattern=Pattern.NOTIFY,
        in_reply_to="",
        payload=_PAYLOAD,
        metadata=b"{}",
        created_at=_AT,
        expires_at="",
        state=PostState.DELIVERED,
        recipients=None,
        intent_id="intent_1",
    )


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
