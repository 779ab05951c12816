"""A connection to a server: JSON over HTTP, refusals as Parley's errors, streams that survive a break.

`Connection` blocks, `AsyncConnection` awaits; both run the same flows (`sdk.flow`). What a client knows of channels,
intents and approvals is built on them in `sdk.client`.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

from parley.domain.errors.errors import ParleyError
from parley.sdk.protocol import asking
from parley.sdk.protocol.flow import Answer, Flow, Speaker, run, run_async
from parley.sdk.protocol.following import Following
from parley.sdk.transport.port import Broken

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
    from types import TracebackType

    from parley.sdk.protocol.event_stream import StreamEvent
    from parley.sdk.transport.port import AsyncTransport, Transport

T = TypeVar("T")

_STREAM_SECONDS = 45.0


class Connection:
    """Talks to one server as one caller. Threads may share it; it may be left open for as long as one likes.

    How requests are sent again is said in `sdk.flow.Speaker`. `hints` says what to do about a refusal, by its code.
    """

    def __init__(  # noqa: PLR0913  # one parameter a choice
        self,
        url: str,
        *,
        key: str = "",
        agent: str = "",
        timeout: float = 30.0,
        patience: float = 10.0,
        hints: Mapping[str, str] | None = None,
        new_key: Callable[[], str] | None = None,
        pause: Callable[[float], None] = time.sleep,
        transport: Transport | None = None,
    ) -> None:
        self.speaker = _speaker(url, key, agent, timeout, patience, hints, new_key)
        self.url, self.agent = self.speaker.url, agent
        self._pause = pause
        self._transport = transport or _blocking(self.speaker)

    def run(self, flow: Flow[T]) -> T:
        """Carry a flow out."""
        return run(flow, self._transport, self._pause)

    def get(self, *path: str, query: Mapping[str, object] | None = None, timeout: float = 0.0) -> Any:  # noqa: ANN401
        """The document at a path, whose parts are given one by one."""
        return self.send("GET", *path, query=query, timeout=timeout).document

    def post(
        self,
        *path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        timeout: float = 0.0,
    ) -> Any:  # noqa: ANN401
        """Post a document, once even if it has to be sent twice; the answer."""
        return self.send("POST", *path, body=body, query=query, timeout=timeout).document

    def send(
        self,
        method: str,
        *path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 0.0,
    ) -> Answer:
        """Send a request and read its answer; a refusal is raised as the error it is."""
        return self.run(self.speaker.send(method, *path, body=body, query=query, headers=headers, timeout=timeout))

    def ask(
        self,
        channel_id: str,
        to: str,
        payload: Mapping[str, Any],
        *,
        timeout: float = 30.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Ask in a channel and wait for the first answer, which comes back. `AskTimeout` when there is none in time.

        A question that waits for a person comes back as it is held: `status` is "held", `approval` its id.
        """
        question = asking.Question(channel_id, to, payload, timeout, metadata=metadata)
        return self.run(asking.ask(self.speaker, question))

    def follow(self, *path: str, after: str = "", broken: Callable[[str], None] | None = None) -> Iterator[StreamEvent]:
        """The events of a stream, for ever. After a break it goes on behind the last event that was dealt with.

        `broken` is told each time why it had to begin again. Raises what the server refuses, and `Unavailable` when
        there is no server to begin with.
        """
        following = Following(self.speaker, path, after, broken)
        while True:
            error: ParleyError | Broken | None = None
            try:
                response = self._transport.send(following.request())
                following.opened(response)
                if response.pieces is not None:
                    with closing(response.pieces) as pieces:
                        for content in pieces:
                            yield from following.events(content)
            except (Broken, ParleyError) as broke:
                error = broke
            self._pause(following.broke(error))

    def lines(self, *path: str, query: Mapping[str, object] | None = None) -> Iterator[bytes]:
        """An answer line by line, byte for byte as the server sends it, however long it is."""
        speaker = self.speaker
        request = speaker.request("GET", *path, query=query, timeout=_STREAM_SECONDS, streams=True)
        try:
            response = self._transport.send(request)
            if response.pieces is None:
                speaker.answer(response)
                return
            rest = b""
            with closing(response.pieces) as pieces:
                for content in pieces:
                    *lines, rest = (rest + content).split(b"\n")
                    yield from (line + b"\n" for line in lines)
            if rest:
                yield rest
        except Broken as broken:
            raise speaker.with_hint(speaker.lost(broken, arrived=broken.arrived)) from None
        except ParleyError as error:
            raise speaker.with_hint(error) from None

    def close(self) -> None:
        """Let go of the connections; the next request opens another."""
        self._transport.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncConnection:
    """`Connection` for the tasks of one event loop."""

    def __init__(  # noqa: PLR0913  # one parameter a choice
        self,
        url: str,
        *,
        key: str = "",
        agent: str = "",
        timeout: float = 30.0,
        patience: float = 10.0,
        hints: Mapping[str, str] | None = None,
        new_key: Callable[[], str] | None = None,
        pause: Callable[[float], Awaitable[object]] | None = None,
        transport: AsyncTransport | None = None,
    ) -> None:
        import asyncio

        self.speaker = _speaker(url, key, agent, timeout, patience, hints, new_key)
        self.url, self.agent = self.speaker.url, agent
        self._pause = pause or asyncio.sleep
        self._transport = transport or _asynchronous(self.speaker)

    async def run(self, flow: Flow[T]) -> T:
        """Carry a flow out."""
        return await run_async(flow, self._transport, self._pause)

    async def follow(
        self, *path: str, after: str = "", broken: Callable[[str], None] | None = None, begun: bool = False
    ) -> AsyncGenerator[StreamEvent]:
        """The events of a stream, for ever; see `Connection.follow`. With `begun` the server is waited for at once."""
        from contextlib import aclosing

        following = Following(self.speaker, path, after, broken, begun=begun)
        while True:
            error: ParleyError | Broken | None = None
            try:
                response = await self._transport.send(following.request())
                following.opened(response)
                if response.pieces is not None:
                    async with aclosing(response.pieces) as pieces:
                        async for content in pieces:
                            for event in following.events(content):
                                yield event
            except (Broken, ParleyError) as broke:
                error = broke
            await self._pause(following.broke(error))

    async def lines(self, *path: str, query: Mapping[str, object] | None = None) -> AsyncIterator[bytes]:
        """An answer line by line, byte for byte as the server sends it, however long it is."""
        from contextlib import aclosing

        speaker = self.speaker
        request = speaker.request("GET", *path, query=query, timeout=_STREAM_SECONDS, streams=True)
        try:
            response = await self._transport.send(request)
            if response.pieces is None:
                speaker.answer(response)
                return
            rest = b""
            async with aclosing(response.pieces) as pieces:
                async for content in pieces:
                    *lines, rest = (rest + content).split(b"\n")
                    for line in lines:
                        yield line + b"\n"
            if rest:
                yield rest
        except Broken as broken:
            raise speaker.with_hint(speaker.lost(broken, arrived=broken.arrived)) from None
        except ParleyError as error:
            raise speaker.with_hint(error) from None

    async def close(self) -> None:
        """Let go of the connections; the next request opens another."""
        await self._transport.close()


def _speaker(
    url: str,
    key: str,
    agent: str,
    timeout: float,
    patience: float,
    hints: Mapping[str, str] | None,
    new_key: Callable[[], str] | None,
) -> Speaker:
    from parley.wiring import SystemIds, monotonic

    return Speaker(
        url,
        key=key,
        agent=agent,
        timeout=timeout,
        patience=patience,
        hints=hints,
        new_key=new_key or SystemIds().token,
        monotonic=monotonic,
    )


def _blocking(speaker: Speaker) -> Transport:
    from parley.sdk.transport.blocking import BlockingHttp

    return BlockingHttp(speaker.place)


def _asynchronous(speaker: Speaker) -> AsyncTransport:
    from parley.sdk.transport.asynchronous import AsyncHttp

    return AsyncHttp(speaker.place)
