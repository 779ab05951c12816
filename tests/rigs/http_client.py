"""A client of HTTP/1.1 for tests: it sends what it is told to, and reads answers and server-sent events as they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import quote


class Answer(NamedTuple):
    """What the server answered; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The stable code of a refusal."""
        return str(self.json["code"])


class Sent(NamedTuple):
    """One server-sent event."""

    id: str
    event: str
    data: str

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class Connection:
    """One connection of HTTP/1.1, kept alive."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        # Of a piece whose length was read, and nothing else yet.
        self._size: int | None = None

    async def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str]]:
        fields = {"Host": "127.0.0.1", "Content-Length": str(len(body)), **headers}
        if method in ("GET", "DELETE") and not body:
            del fields["Content-Length"]
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.writer.write(head.encode("latin-1") + b"\r\n" + body)
        await self.writer.drain()
        return await self.head()

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = (line.partition(":") for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value.strip() for name, _, value in fields}

    async def chunk(self) -> bytes:
        """The next piece of a chunked answer; empty at its end. Who gives up in the middle may go on later."""
        if self._size is None:
            self._size = int((await self.reader.readuntil(b"\r\n")).partition(b";")[0], 16)
        piece = await self.reader.readexactly(self._size + 2)
        self._size = None
        return piece[:-2]

    async def body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            pieces = []
            while piece := await self.chunk():
                pieces.append(piece)
            return b"".join(pieces)
        return await self.reader.readexactly(int(headers.get("content-length", "0")))

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return


class Events:
    """A stream of server-sent events, read one at a time; comments are kept apart."""

    def __init__(self, connection: Connection, status: int, headers: dict[str, str]) -> None:
        self.connection = connection
        self.status = status
        self.headers = headers
        self.comments: list[str] = []
        self.ended = False
        self._text = b""

    async def next(self, seconds: float = 20.0) -> Sent:
        """The next event; `TimeoutError` when none comes, `EOFError` at the end of the stream."""
        async with asyncio.timeout(seconds):
            while True:
                block, found, rest = self._text.partition(b"\n\n")
                if not found:
                    await self._more()
                    continue
                self._text = rest
                sent = self._parsed(block.decode())
                if sent is not None:
                    return sent

    async def silence(self, seconds: float = 0.2) -> bool:
        """Whether nothing comes for so long."""
        try:
            await self.next(seconds)
        except TimeoutError:
            return True
        return False

    async def _more(self) -> None:
        piece = b"" if self.ended else await self.connection.chunk()
        if not piece:
            self.ended = True
            raise EOFError
        self._text += piece

    def _parsed(self, block: str) -> Sent | None:
        fields: dict[str, list[str]] = {}
        for line in block.splitlines():
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
        self.comments += fields.pop("", [])
        if "data" not in fields:
            return None
        return Sent(fields.get("id", [""])[-1], fields.get("event", ["message"])[-1], "\n".join(fields["data"]))


class Client:
    """A caller with its key, on one connection that is opened when it is first used."""

    def __init__(self, port: int, key: str = "", agent: str = "") -> None:
        self.port = port
        self.headers = {"X-API-Key": key} if key else {}
        if agent:
            self.headers["X-Agent-ID"] = agent
        self._connection: Connection | None = None
        self._opened: list[Connection] = []

    async def request(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """`body` is bytes as they are, or anything that becomes JSON. Paths are below /api/v1 unless they are whole."""
        if self._connection is None or self._connection.reader.at_eof():
            self._connection = await self.connect()
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {**self.headers, **({"Content-Type": "application/json"} if content else {}), **(headers or {})}
        status, fields = await self._connection.ask(method, whole(path), given, content)
        answer = Answer(status, fields, b"" if method == "HEAD" else await self._connection.body(fields))
        if fields.get("connection") == "close":
            self._connection = None
        return answer

    async def get(self, path: str, /, *, headers: dict[str, str] | None = None, **query: Any) -> Answer:
        return await self.request("GET", with_query(path, query), headers=headers)

    async def post(self, path: str, body: object = None, headers: dict[str, str] | None = None) -> Answer:
        return await self.request("POST", path, {} if body is None else body, headers)

    async def patch(self, path: str, body: object, headers: dict[str, str] | None = None) -> Answer:
        return await self.request("PATCH", path, body, headers)

    async def delete(self, path: str) -> Answer:
        return await self.request("DELETE", path)

    @asynccontextmanager
    async def events(self, path: str, last_event_id: str = "") -> AsyncIterator[Events]:
        """Follow a stream on a connection of its own."""
        connection = await self.connect()
        try:
            fields = {**self.headers, "Accept": "text/event-stream"}
            if last_event_id:
                fields["Last-Event-ID"] = last_event_id
            status, headers = await connection.ask("GET", whole(path), fields, b"")
            events = Events(connection, status, headers)
            # The hello: from here on nothing is missed. A server that is lost before it can say it ends the stream.
            if status == 200 and not await connection.chunk():
                raise EOFError
            yield events
        finally:
            await connection.close()

    async def connect(self) -> Connection:
        connection = Connection(*await asyncio.open_connection("127.0.0.1", self.port, limit=2**24))
        self._opened.append(connection)
        return connection

    async def close(self) -> None:
        for connection in self._opened:
            await connection.close()


_WHOLE = (
    "/console",
    "/mcp",
    "/api/",
    "/v1/",
    "/.well-known/",
    "/healthz",
    "/readyz",
    "/openapi",
    "/metrics",
    "/docs",
    "/schemas",
)


def whole(path: str) -> str:
    return path if path == "/" or path.startswith(_WHOLE) else f"/api/v1{path}"


def with_query(path: str, query: Mapping[str, object]) -> str:
    spelled = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items())
    return f"{path}?{spelled}" if spelled else path
