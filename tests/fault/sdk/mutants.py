"""Agents that are broken on purpose, each in one way that a test must notice; see `tests.fault.sdk.worker`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from parley.domain.errors.errors import Unavailable
from parley.domain.errors.team import RateLimited
from parley.sdk.agent.handler_calls import HandlerCalls
from parley.sdk.agent.runtime import Runtime
from parley.sdk.agent.server.progress import Mark, Progress
from parley.sdk.agent.server.workplace import ServerWorkplace
from parley.sdk.agent.workplace import Arrival
from parley.sdk.protocol.event_stream import StreamEvent
from parley.sdk.protocol.following import Following
from parley.wire.api.records.channels import ChannelMessage


def _put(owner: object, name: str, part: object) -> None:
    """Replace a part that must be there: a mutant of what no longer exists would prove nothing."""
    assert hasattr(owner, name)
    setattr(owner, name, part)


def on_record_when_taken() -> None:
    """What is being dealt with counts as dealt with."""

    def mark(self: Progress) -> Mark:
        self.unsaved = False
        return Mark(self._position)

    _put(Progress, "mark", mark)


def done_before_dealt_with() -> None:
    """Put on record first, then call the handlers."""
    deal = Runtime._handle_arrival

    async def early(self: Runtime, arrival: Arrival) -> None:
        await self.workplace.finish(arrival)
        await deal(self, arrival)

    _put(Runtime, "_handle_arrival", early)


def never_on_record() -> None:
    """The bookmark stays where it was."""

    async def nothing(self: ServerWorkplace, *, close: bool = False) -> None:
        del self, close

    _put(ServerWorkplace, "_save", nothing)


def answer_under_any_key() -> None:
    """An answer that has to be sent again is another one."""

    async def answer(
        self: ServerWorkplace, message: ChannelMessage, payload: Mapping[str, Any], metadata: object = None
    ) -> None:
        del metadata
        await self.client.reply_to(message.channel_id, message.id, self._plan.name, payload)

    _put(ServerWorkplace, "answer", answer)


def forget_the_cursor() -> None:
    """A stream that comes back begins where it began at first, and what was taken is taken again."""

    def events(self: Following, content: bytes) -> Iterator[StreamEvent]:
        for event in self._parser.feed(content):
            if event.name:
                yield event

    _put(Following, "events", events)
    _put(Progress, "is_open", lambda self, position: True)


def go_on_now() -> None:
    """A stream that comes back begins with what is new."""
    request = Following.request

    def anew(self: Following) -> Any:  # noqa: ANN401  # a request
        self.after = "" if self._begun else self.after
        return request(self)

    _put(Following, "request", anew)


def give_up_at_once() -> None:
    """An answer that cannot be sent now is dropped."""

    async def once(self: HandlerCalls, action: Callable[[], Any]) -> None:
        del self
        try:
            await action()
        except (Unavailable, RateLimited):
            return

    _put(HandlerCalls, "retry_answer", once)


MUTANTS: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        on_record_when_taken,
        done_before_dealt_with,
        never_on_record,
        answer_under_any_key,
        forget_the_cursor,
        go_on_now,
        give_up_at_once,
    )
}
