"""Servers on real sockets that say what a test tells them to say, right or wrong."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO

# A test that waits longer than this waits for ever.
PATIENCE = 30.0
DROP = b""  # the connection breaks instead of an answer


@dataclass
class Got:
    """A request as the server read it."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> object:
        return json.loads(self.body)

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]


def read_request(reader: BinaryIO) -> Got | None:
    """The next request; None when the client has closed."""
    line = reader.readline()
    if not line:
        return None
    headers = {}
    while (header := reader.readline().strip()) != b"":
        name, _, value = header.decode().partition(": ")
        headers[name.lower()] = value
    body = reader.read(int(headers.get("content-length", "0")))
    return Got(line.decode().strip(), headers, body)


# ---------------------------------------------------------------- answers


def answer(document: object, status: str = "200 OK", *more: str) -> bytes:
    content = json.dumps(document).encode()
    head = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(content)}", *more, "", ""]
    return "\r\n".join(head).encode() + content


def refused(status: str, code: str, *more: str, **facts: object) -> bytes:
    return answer({"code": code, "detail": f"it is {code}", "errors": [], **facts}, status, *more)


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAM_END = b"0\r\n\r\n"


def chunk(content: str) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content.encode()), content.encode())


def streamed(*events: str, ends: bool = False) -> bytes:
    """A stream that breaks off after these events, or ends as it should."""
    return STREAM_HEAD + b"".join(map(chunk, events)) + (STREAM_END if ends else b"")


def event(number: int, name: str = "channel_message") -> str:
    return f'id: {number}\nevent: {name}\ndata: {{"n":{number}}}\n\n'


# ---------------------------------------------------------------- a server with a list of answers


@dataclass
class Peer:
    """A server that says what it was told to say, one answer a request, and remembers what it was asked."""

    answers: list[bytes]
    got: list[Got] = field(default_factory=list)
    connections: int = 0
    url: str = ""

    def serve(self, listening: socket.socket) -> None:
        while self.answers:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            self.connections += 1
            with connection, connection.makefile("rb") as reader:
                self._talk(connection, reader)

    def _talk(self, connection: socket.socket, reader: BinaryIO) -> None:
        while self.answers and (got := read_request(reader)):
            self.got.append(got)
            said = self.answers.pop(0)
            connection.sendall(said)
            if said == DROP or b"Connection: close" in said or b"event-stream" in said:
                return


@contextmanager
def a_peer(*answers: bytes) -> Iterator[Peer]:
    peer = Peer(list(answers))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        peer.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=peer.serve, args=(listening,), daemon=True)
        thread.start()
        yield peer
        peer.answers.clear()
        with socket.socket() as knock:
            knock.connect_ex(listening.getsockname())
        thread.join(10)


def nobodys_port() -> int:
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


# ---------------------------------------------------------------- a server that is told what to do on a connection


class Talk:
    """One connection, from the server's side."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._reader = connection.makefile("rb")

    def read(self) -> Got | None:
        """The next request; None when the client has closed."""
        try:
            return read_request(self._reader)
        except OSError:
            return None

    def read_over(self, size: int = -1) -> bytes:
        """So many bytes, or all that still comes."""
        try:
            return self._reader.read(size)
        except OSError:
            return b""

    def say(self, content: bytes) -> bool:
        """Whether it could be sent."""
        try:
            self._connection.sendall(content)
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._reader.close()
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


Script = Callable[[Talk], None]


class Host:
    """A server where the n-th connection follows the n-th script, and all later ones the last."""

    def __init__(self, scripts: tuple[Script, ...], tls: ssl.SSLContext | None, host: str, port: int = 0) -> None:
        self._scripts = scripts
        self._tls = tls
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, port), family=family, backlog=256)
        self._talks: list[Talk] = []
        self._threads: list[threading.Thread] = []
        self.host = host
        self.port = int(self._listening.getsockname()[1])
        self.connections = 0

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
                connection = self._tls.wrap_socket(connection, server_side=True) if self._tls else connection
            except (ssl.SSLError, ConnectionError):  # who did not want to go on, politely or not
                continue
            except OSError:
                return
            connection.settimeout(PATIENCE)
            script = self._scripts[min(self.connections, len(self._scripts) - 1)]
            self.connections += 1
            talk = Talk(connection)
            self._talks.append(talk)
            self._start(lambda talk=talk, script=script: (script(talk), talk.close()))  # type: ignore[misc]

    def _start(self, run: Callable[[], object]) -> None:
        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def begin(self) -> None:
        self._start(self.serve)

    def end(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for talk in list(self._talks):
            with suppress(OSError):
                talk._connection.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(PATIENCE)


@contextmanager
def a_host(
    *scripts: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0
) -> Iterator[Host]:
    made = Host(scripts, tls, host, port)
    made.begin()
    try:
        yield made
    finally:
        made.end()


def answering(*answers: bytes) -> Script:
    """Answers requests one after the other, and closes when there is nothing left to say."""

    def script(talk: Talk) -> None:
        for one in answers:
            if talk.read() is None:
                return
            talk.say(one)

    return script


def echoing(talk: Talk) -> None:
    """Answers every request with its target."""
    while (got := talk.read()) is not None:
        talk.say(answer(got.target))
