"""An Outbound that goes nowhere: it keeps what it was given, and answers as told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from parley.domain.channel.subscription import Answered, Push
from parley.domain.errors.team import TargetForbidden

FORBIDDEN = "https://forbidden.example/"


def text_of(push: Push) -> str:
    """What `Rig.say` said; the type of an event."""
    if push.item.post is not None:
        return str(json.loads(push.item.post.payload)["text"])
    assert push.item.event is not None
    return push.item.event.event_type


@dataclass
class FakeOutbound:
    """`answer` decides by the push; an address in `held` does not answer until it is let go."""

    answer: Callable[[Push], Answered] = field(default=lambda _: Answered(200))
    pushes: list[Push] = field(default_factory=list)
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    # What happens while a push is under way.
    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def check(self, url: str, tenant: str) -> None:
        if url == FORBIDDEN:
            raise TargetForbidden

    async def push(self, push: Push) -> Answered:
        self.pushes.append(push)
        if push.url in self.held:
            await self.held[push.url].wait()
        if self.meanwhile is not None:
            await self.meanwhile()
        return self.answer(push)

    def avoid(self, port: int, names: Iterable[str] = ()) -> None:
        raise NotImplementedError

    def texts(self, url: str = "") -> list[str]:
        return [text_of(one) for one in self.pushes if not url or one.url == url]
