"""Jobs of a role and the agents that claim them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from parley.app.team.channels import posting, reading, requests
from parley.app.team.queues import claims
from parley.app.team.queues.claims import ClaimedItem, ClaimWish
from parley.domain.channel.job import Job
from parley.domain.channel.post import Post, PostDraft
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.errors.errors import NotFound
from parley.domain.message.message import Pattern
from tests.rigs.team import CHANNEL, Rig

WORKERS = ("bob", "carol")


async def stage(rig: Rig, *workers: str) -> None:
    await rig.intent(agents=(*WORKERS, "dora", "sam"))
    await rig.channel()
    await rig.role("coder", *(workers or WORKERS))


async def enqueue(rig: Rig, text: str = "work", pattern: Pattern = Pattern.NOTIFY, **draft: Any) -> Post:  # noqa: ANN401  # fields of a draft
    return await rig.say("alice", text, to="any:coder", pattern=pattern, **draft)


async def claim(rig: Rig, agent: str = "bob", **wish: float | str | dict[str, str]) -> list[ClaimedItem]:
    return await claims.claim(rig.team, rig.caller(agent), agent, ClaimWish(**wish))  # type: ignore[arg-type]


async def claim_one(rig: Rig, agent: str = "bob", **wish: float) -> Job:
    (item,) = await claim(rig, agent, **wish)
    return item.job


async def stored(rig: Rig, post: Post) -> Job | None:
    return await rig.store.get(Job, DEFAULT_TENANT, post.id)


async def reply(rig: Rig, agent: str, request: Post, lease: str = "") -> Post:
    draft = PostDraft(Pattern.RESPONSE, b'{"answer":42}', lease=lease)
    answer = await posting.reply(rig.team, rig.caller(agent), CHANNEL, request.id, draft)
    assert isinstance(answer, Post)
    return answer


async def waiting_claim(rig: Rig, agent: str, place: int = 1) -> asyncio.Future[list[ClaimedItem]]:
    """A claim that waits, at this place in the line."""
    await rig.key(agent)
    waits = asyncio.ensure_future(claim(rig, agent, wait=20))
    for _ in range(10_000):
        queues = rig.team.queues.get(DEFAULT_TENANT)
        if queues is not None and len(queues) >= place:
            break
        await asyncio.sleep(0)
    return waits


def texts(items: list[ClaimedItem]) -> list[str]:
    return [item.item.post.payload.decode()[10:-2] for item in items if item.item.post is not None]


async def seen_by(rig: Rig, post: Post) -> set[str]:
    """Who gets the message, and where its request stands."""
    seen = set()
    for agent in ("alice", *WORKERS, "dora"):
        with suppress(NotFound):
            await reading.get(rig.team, rig.caller(agent), CHANNEL, post.id)
            assert (await requests.get(rig.team, rig.caller(agent), CHANNEL, post.id)).request.id == post.id
            seen.add(agent)
    return seen
