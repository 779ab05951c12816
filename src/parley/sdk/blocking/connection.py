# Written by tools/gen_client.py from sdk/client/connection.py. Change that, then run: make docs
"""A connection to a server: JSON over HTTP, refusals as Parley's errors, streams that survive a break.

It carries out flows (`sdk.protocol.flow`). What a client knows of channels, intents and approvals is built on it.
"""

from __future__ import annotations

import sys
from contextlib import closing
from math import inf
from typing import TYPE_CHECKING, Any, Self, TypeVar

from parley.domain.errors.errors import ParleyError
from parley.sdk.protocol.asking import OpenQuestion
from parley.sdk.protocol.flow import Answer, ApiSession, Flow, Pause, check_encrypted
from parley.sdk.protocol.following import Following
from parley.sdk.transport.port import Broken

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from types import TracebackType

    from parley.sdk.protocol.asking import Question, QuestionObserver
    from parley.sdk.protocol.event_stream import StreamEvent
    from parley.sdk.transport.port import Transport

T = TypeVar("T")

_STREAM_SECONDS = 45.0


class Connection:
    """Talks to one server as one caller. Threads may share it; it may stay open for ever.

    `sdk.protocol.flow.ApiSession` describes when requests are sent again. `hints` says what to do about a refusal, by
    its code. `question_observer` hears of every question.
    """

    question_observer: QuestionObserver | None = None

    def __init__(  # noqa: PLR0913  # one parameter a choice
        self,
        url: str,
        *,
        key: str = "",
        agent: str = "",
        plain_http: bool = False,
        timeout: float = 30.0,
        patience: float = 10.0,
        connect_patience: float = inf,
        hints: Mapping[str, str] | None = None,
        new_key: Callable[[], str] | None = None,
        pause: Callable[[float], object] | None = None,
        transport: Transport | None = None,
    ) -> None:
        import time

        from parley.wiring import SystemIds, monotonic

        self.session = ApiSession(
            url,
            key=key,
            agent=agent,
            timeout=timeout,
            patience=patience,
            connect_patience=connect_patience,
            hints=hints,
            new_key=new_key or SystemIds().token,
            monotonic=monotonic,
        )
        if transport is None:
            for place in self.session.places:
                check_encrypted(place, key, plain_http=plain_http)
        self.url, self.agent = self.session.url, agent
        self._pause = pause or time.sleep
        self.transport = transport or self._open_transport()

    def _open_transport(self) -> Transport:
        from parley.sdk.transport.blocking import BlockingHttp

        places = self.session.places
        if len(places) == 1:
            return BlockingHttp(places[0])
        from parley.sdk.blocking.failover import Failover

        return Failover(places, BlockingHttp)

    def run(self, flow: Flow[T]) -> T:
        """Carry a flow out."""
        try:
            step = next(flow)
            while True:
                if isinstance(step, Pause):
                    self._pause(step.seconds)
                    step = next(flow)
                    continue
                try:
                    response = self.transport.send(step)
                except Broken as broken:
                    step = flow.throw(broken)
                else:
                    step = flow.send(response)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            flow.close()

    def send(
        self,
        method: str,
        *path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 0.0,
        parsed: bool = True,
    ) -> Answer:
        """Send a request and read its answer; a refusal is raised as the error it is. See `ApiSession.send`."""
        return self.run(
            self.session.send(method, *path, body=body, query=query, headers=headers, timeout=timeout, parsed=parsed)
        )

    def get(self, *path: str, query: Mapping[str, object] | None = None, timeout: float = 0.0) -> Any:  # noqa: ANN401
        """The document at a path, whose parts are given one by one."""
        answer = self.send("GET", *path, query=query, timeout=timeout)
        return answer.document

    def post(
        self,
        *path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        timeout: float = 0.0,
    ) -> Any:  # noqa: ANN401
        """Post a document, once even if it has to be sent twice; the answer."""
        answer = self.send("POST", *path, body=body, query=query, timeout=timeout)
        return answer.document

    def ask(self, question: Question) -> Any:  # noqa: ANN401
        """Ask and wait for the first answer, which comes back. `AskTimeout` when there is none in time.

        A question that waits for a person comes back as it is held: `status` is "held", `approval` its id.
        """
        opened = self._opened(question)
        with opened.observed():
            return self._run_question(opened, opened.first_answer())

    def ask_all(self, question: Question) -> Any:  # noqa: ANN401
        """Ask and collect every answer that comes in time. A question that waits for a person comes back alone."""
        opened = self._opened(question)
        with opened.observed():
            return self._run_question(opened, opened.all_answers())

    def ask_stream(self, question: Question) -> Generator[Any]:
        """Ask, and follow the answers as they come, partial ones and the answer; `AskTimeout` when they do not end.

        Stopping before the end withdraws the request. A question that waits for a person comes back as it is held.
        """
        opened = self._opened(question)
        with opened.observed():
            try:
                request = self.run(opened.begin())
                if not opened.is_open:
                    yield request
                while opened.is_open:
                    yield from self.run(opened.next_answers())
            finally:
                if opened.is_open:
                    self.run(opened.withdraw())

    def _opened(self, question: Question) -> OpenQuestion:
        from parley.wiring import wall_time

        return OpenQuestion(self.session, question, wall_time(), self.question_observer)

    def _run_question(self, opened: OpenQuestion, flow: Flow[T]) -> T:
        """Carry out a question. When the caller is cancelled or interrupted, its request is withdrawn."""
        result: T | None = None
        try:
            result = self.run(flow)
            return result
        finally:
            # Cancelled, or interrupted by the keyboard: those are no `Exception`.
            if result is None and not isinstance(sys.exception(), (Exception, GeneratorExit)):
                self.run(opened.withdraw())

    def follow(
        self,
        *path: str,
        after: str = "",
        broken: Callable[[str], None] | None = None,
        begun: bool = False,
        back: Callable[[], None] | None = None,
        query: Mapping[str, object] | None = None,
    ) -> Generator[StreamEvent]:
        """The events of a stream, for ever. After a break it goes on behind the last event that was dealt with.

        `broken` is called with the reason each time it breaks, `back` when it is open again. Raises what the server
        refuses, and `Unavailable` when no server is there within `patience`, unless `begun` says that there was one.
        """
        following = Following(self.session, path, after, broken, begun=begun, back=back, query=query)
        while True:
            error: ParleyError | Broken | None = None
            try:
                response = self.transport.send(following.request())
                following.opened(response)
                if response.pieces is not None:
                    with closing(response.pieces) as pieces:
                        for content in pieces:
                            yield from following.events(content)
            except (Broken, ParleyError) as broke:
                error = broke
            self._pause(following.disconnected(error))

    def lines(self, *path: str, query: Mapping[str, object] | None = None) -> Generator[bytes]:
        """An answer line by line, byte for byte as the server sends it, however long it is."""
        session = self.session
        request = session.request("GET", *path, query=query, timeout=_STREAM_SECONDS, streams=True)
        try:
            response = self.run(session.send_with_retries(request))
            if response.pieces is None:
                session.answer(response)
                return
            rest = b""
            with closing(response.pieces) as pieces:
                for content in pieces:
                    *lines, rest = (rest + content).split(b"\n")
                    for line in lines:
                        yield line + b"\n"
            if rest:
                yield rest
        except Broken as broken:
            raise session.with_hint(session.connection_error(broken, arrived=broken.arrived)) from None
        except ParleyError as error:
            raise session.with_hint(error) from None

    def close(self) -> None:
        """Let go of the connections; the next request opens another."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
