"""Several servers on one database, each a process of its own; and plain HTTP to speak to any one of them."""

from __future__ import annotations

import http.client
import itertools
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from tests.postgres.cluster import Cluster
from tests.rigs.process import ADMIN_KEY, ServerProcess

Document = dict[str, Any]
# What takes longer than this never comes.
PATIENCE = 55.0
_numbers = itertools.count(1)


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401  # whatever it is
        return json.loads(self.body)


@dataclass
class Voice:
    """Somebody who speaks to one server."""

    port: int
    agent: str = ""
    key: str = ADMIN_KEY
    seconds: float = PATIENCE

    def headers(self, **more: str) -> dict[str, str]:
        named = {"X-Agent-ID": self.agent} if self.agent else {}
        return {"X-API-Key": self.key, "Content-Type": "application/json", **named, **more}

    def request(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.seconds)
        try:
            return spoken(connection, method, path, body, self.headers(**headers))
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def post(self, path: str, body: object, **headers: str) -> Answer:
        return self.request("POST", path, body, **headers)

    def done(self, method: str, path: str, body: object = None, **headers: str) -> Any:  # noqa: ANN401
        """What came of it, which must have worked."""
        answer = self.request(method, path, body, **headers)
        assert answer.status < 300, answer
        return answer.json

    def say(self, channel: str, text: str, to: str | None = None, **headers: str) -> Document:
        body = {"payload": {"text": text}, "to": to}
        said: Document = self.done("POST", f"/channels/{channel}/messages", body, **headers)
        return said

    def texts(self, channel: str) -> list[str]:
        return [one["payload"]["text"] for one in self.done("GET", f"/channels/{channel}/messages")]

    def place(self, *members: str) -> tuple[str, str]:
        """A new intent with a channel: the ids of both."""
        number = next(_numbers)
        intent = self.done("POST", "/intents", {"title": f"Work {number}", "access": "open"})["id"]
        policy = {"members": list(members), "member_policy": "explicit"} if members else {}
        return intent, self.done("POST", f"/intents/{intent}/channels", {"name": f"talk-{number}", **policy})["id"]

    def new_key(self, **draft: str) -> Document:
        made: Document = self.done("POST", "/keys", draft)
        return made


def spoken(
    connection: http.client.HTTPConnection, method: str, path: str, body: object, headers: dict[str, str]
) -> Answer:
    """One request on a connection that stays."""
    whole = path if path.startswith(("/healthz", "/readyz", "/metrics")) else f"/api/v1{path}"
    connection.request(method, whole, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    return Answer(answer.status, answer.headers, answer.read())


class Event(NamedTuple):
    id: int
    name: str
    data: Document

    @property
    def text(self) -> str:
        return str(self.data["payload"]["text"])


class Stream:
    """Server-sent events as they come. A stream that breaks off raises; one that ends has no next event."""

    def __init__(self, voice: Voice, path: str, after: int | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", voice.port, timeout=PATIENCE)
        resumed = {} if after is None else {"Last-Event-ID": str(after)}
        self._connection.request("GET", f"/api/v1{path}", headers=voice.headers(**resumed))
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        # The id of the last thing that was seen: where to go on.
        self.last = after or 0
        if self.status == 200:
            block = self._block()
            assert block is not None
            self.last = int(block["id"])

    def next(self) -> Event | None:
        began = time.monotonic()
        while (block := self._block()) is not None:
            assert time.monotonic() < began + PATIENCE, "nothing comes"
            if "event" in block:
                self.last = int(block.get("id", self.last))
                return Event(self.last, block["event"], json.loads(block["data"]))
        return None

    def texts(self, number: int) -> list[str]:
        """What the next messages say."""
        return [event.text for event in itertools.islice(iter(self.next, None), number)]

    def until_its_end(self) -> list[Event]:
        return list(iter(self.next, None))

    def _block(self) -> dict[str, str] | None:
        found: dict[str, str] = {}
        while line := self._answer.readline():
            text = line.decode().rstrip("\n")
            if not text:
                return found
            name, _, value = text.partition(": ")
            if name:
                found[name] = value
        return None

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


@dataclass
class Group:
    """The servers of one database."""

    cluster: Cluster
    dsn: str
    nodes: list[ServerProcess] = field(default_factory=list)
    # The admin's of the tenant that we speak in.
    key: str = ADMIN_KEY

    def voice(self, node: int, agent: str = "", key: str = "") -> Voice:
        return Voice(self.nodes[node].port, agent, key or self.key)

    def in_new_tenant(self) -> Group:
        """The same servers, seen from a tenant of one's own."""
        operator, tenant = self.voice(0), f"tenant-{next(_numbers)}"
        operator.done("POST", "/tenants", {"id": tenant})
        return replace(self, key=operator.new_key(kind="admin", tenant_id=tenant)["key"])

    def leading(self, work: str) -> str:
        """The name of the server that does a work; nobody's when its time is over."""
        query = "SELECT holder FROM lease WHERE work = $1 AND until > clock_timestamp()"
        found = self.cluster.ask(query, work, database=self.dsn.rpartition("/")[2])
        return str(found[0][0]).partition(" ")[0] if found else ""


@contextmanager
def a_group(
    cluster: Cluster, folder: Path, number: int, *options: str, environment: dict[str, str] | None = None
) -> Iterator[Group]:
    """So many servers on a new database, called a, b, c."""
    dsn = cluster.create_database(f"group_{next(_numbers)}")
    group = Group(cluster, dsn)
    with ExitStack() as stack:
        for name in "abcdefgh"[:number]:
            node = ServerProcess(folder / name, "--node", name, *options, environment=environment, store=dsn)
            stack.callback(_gone, node)
            group.nodes.append(node)
        with ThreadPoolExecutor(number) as starting:
            list(starting.map(ServerProcess.start, group.nodes))
        yield group


def _gone(node: ServerProcess) -> None:
    if node.process is not None:
        node.kill()


def until(holds: Callable[[], bool], what: str) -> float:
    """Wait for it; how many seconds that took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() < began + PATIENCE, f"never: {what}"
        time.sleep(0.02)
    return time.monotonic() - began
