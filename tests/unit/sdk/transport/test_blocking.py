"""What is particular to blocking sockets: threads, forks, and a pool that many use."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from parley.sdk.transport import blocking
from parley.sdk.transport.blocking import BlockingHttp
from parley.sdk.transport.port import Broken, ClosingIterator, Request
from tests.rigs.webhook_receiver import certified
from tests.unit.sdk.peer import PATIENCE, STREAM_HEAD, Host, Talk, a_host, answer, answering, chunk, echoing, streamed
from tests.unit.sdk.transport.carriers import get, place_of


@contextmanager
def transport_to(host: Host) -> Iterator[BlockingHttp]:
    made = BlockingHttp(place_of(host))
    try:
        yield made
    finally:
        made.close()


def a_silent_stream(talk: Talk) -> None:
    talk.read()
    talk.say(streamed("a"))
    talk.read()


def opened(transport: BlockingHttp) -> ClosingIterator:
    pieces = transport.send(get(streams=True)).pieces
    assert pieces is not None
    assert next(pieces) == b"a"
    return pieces


def close_while_a_thread_waits(pieces: ClosingIterator) -> list[Broken]:
    """What the thread that waits for the next piece is told."""
    told: list[Broken] = []
    waits = threading.Event()

    def wait() -> None:
        waits.set()
        try:
            next(pieces)
        except Broken as error:
            told.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert waits.wait(PATIENCE)
    pieces.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    return told


def test_a_stream_may_be_closed_while_another_thread_waits_for_it() -> None:
    with a_host(a_silent_stream) as host, transport_to(host) as transport:
        for _ in range(20):
            (error,) = close_while_a_thread_waits(opened(transport))

            assert error.reason == "it was closed here"


def test_an_encrypted_stream_may_be_closed_while_another_thread_waits_for_it(tmp_path: object) -> None:
    serves, trusts = certified(tmp_path, "localhost")  # type: ignore[arg-type]
    with a_host(a_silent_stream, tls=serves) as host:
        transport = BlockingHttp(place_of(host, "localhost", secure=True), tls=trusts)
        for _ in range(10):
            (error,) = close_while_a_thread_waits(opened(transport))

            assert error.reason == "it was closed here"
        transport.close()


def test_a_closed_stream_leaves_no_socket_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with a_host(a_silent_stream) as host, transport_to(host) as transport:
        pieces = [opened(transport) for _ in range(5)]
        for one in pieces:
            close_while_a_thread_waits(one)

    assert len(os.listdir("/proc/self/fd")) <= before


def test_only_so_many_connections_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "_IDLE_CONNECTIONS", 3)
    all_there = threading.Barrier(8)
    ended = threading.Semaphore(0)

    def script(talk: Talk) -> None:
        talk.read()
        all_there.wait(PATIENCE)
        talk.say(answer(1))
        echoing(talk)
        ended.release()

    with a_host(script) as host, transport_to(host) as transport:
        threads = [threading.Thread(target=transport.send, args=(get(),)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        for _ in range(5):
            assert ended.acquire(timeout=PATIENCE)
        assert not ended.acquire(blocking=False)
        transport.close()
        for _ in range(3):
            assert ended.acquire(timeout=PATIENCE)


def test_a_connection_that_has_waited_too_long_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(blocking, "monotonic", lambda: now[0])
    with a_host(echoing) as host, transport_to(host) as transport:
        for moment in (0.0, 59.0, 118.0, 178.0):
            now[0] = moment
            transport.send(get())

        assert host.connections == 2


def test_a_connection_in_use_while_the_transport_is_closed_is_not_kept() -> None:
    asked, closed, ended = threading.Event(), threading.Event(), threading.Event()

    def script(talk: Talk) -> None:
        talk.read()
        asked.set()
        closed.wait(PATIENCE)
        talk.say(answer(1))
        if talk.read() is None:
            ended.set()

    with a_host(script) as host, transport_to(host) as transport:
        thread = threading.Thread(target=transport.send, args=(get(),))
        thread.start()
        assert asked.wait(PATIENCE)
        transport.close()
        closed.set()
        thread.join(PATIENCE)

        assert ended.wait(PATIENCE)


def test_a_forked_process_does_not_speak_on_its_parents_connection() -> None:
    with a_host(echoing) as host, transport_to(host) as transport:
        transport.send(get("/before"))
        child = os.fork()
        if child == 0:  # pragma: no cover  # another process
            try:
                os._exit(0 if transport.send(get("/child")).body == b'"/child"' else 1)
            finally:
                os._exit(2)
        _, status = os.waitpid(child, 0)

        assert os.waitstatus_to_exitcode(status) == 0
        assert transport.send(get("/after")).body == b'"/after"'
        assert host.connections == 2


def test_a_head_that_came_late_does_not_shorten_the_time_for_the_body() -> None:
    def script(talk: Talk) -> None:
        talk.read()
        talk.say(STREAM_HEAD[:20])
        talk.say(STREAM_HEAD[20:] + chunk("a"))
        talk.read()

    with a_host(script) as host, transport_to(host) as transport:
        for _ in range(20):
            pieces = opened(transport)
            assert pieces._line._socket.gettimeout() == PATIENCE  # type: ignore[attr-defined]
            pieces.close()


def test_a_server_that_closes_while_it_is_sent_to_breaks_the_request() -> None:
    with a_host(lambda talk: talk.close()) as host, transport_to(host) as transport:
        with pytest.raises(Broken) as error:
            transport.send(Request("POST", "/x", {}, b"x" * 8_000_000))

        assert (error.value.arrived, error.value.timed_out) == (True, False)


def test_no_connection_is_kept_after_an_interrupt() -> None:
    def script(talk: Talk) -> None:
        talk.read()
        # To the thread that waits: any other would leave it waiting.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        talk.read()

    # What is started in the background begins with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with a_host(script, answering(answer(1))) as host, transport_to(host) as transport:
            with pytest.raises(KeyboardInterrupt):
                transport.send(get())

            assert transport.send(get()).body == b"1"
    finally:
        signal.signal(signal.SIGINT, before)


def test_connections_of_a_transport_that_nobody_closed_end_without_a_warning() -> None:
    with a_host(answering(answer(1))) as host:
        transport = BlockingHttp(place_of(host))
        transport.send(get())

        del transport
        gc.collect()  # a warning would be an error here
