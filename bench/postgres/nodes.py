"""A PostgreSQL that writes to disk at every commit, and nodes of Parley that share it: real processes, one machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.channels.posts import TEXT
from bench.channels.processes import AGENT, KEY, Server, request
from bench.measure import Sample
from bench.workspace import Bench
from tests.postgres.cluster import Cluster

# Enough that the smaller tables stay in memory, as on a machine of its own. Commits are durable: fsync is on.
_SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "30min", "max_connections": "300"}
_PATH = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
_MOST = 1_000_000
MACHINE = f"{os.cpu_count()} cores carry everything here: PostgreSQL, every node, and the load."

Result = dict[str, Any]


class Database(Cluster):
    """A cluster, and the CPU time of its processes."""

    @property
    def cpu(self) -> float:
        """What its processes have used so far, in seconds, those that have ended included."""
        return sum(_ticks(pid) for pid in self._family) / os.sysconf("SC_CLK_TCK")

    @property
    def _family(self) -> list[int]:
        parent = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return [parent, *map(int, children)]

    @property
    def wal(self) -> int:
        """How many bytes its log has grown to."""
        return int(self.ask("SELECT pg_current_wal_lsn() - '0/0'")[0][0])


class Node(Server):
    """A node, and requests for it by keys of several tenants."""

    def ask_for(self, method: str, path: str, key: str, body: object = None) -> Any:  # noqa: ANN401  # whatever JSON
        """One request by the way with a key of one's own."""
        content = json.dumps(body).encode() if body is not None else None
        headers = {"X-API-Key": key, "X-Agent-ID": AGENT, "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/v1{path}", content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read()[:400]!r}") from None


@contextmanager
def database(bench: Bench, name: str) -> Iterator[Database]:
    """A running PostgreSQL on the disk of the repository, gone afterwards."""
    os.chmod(bench.folder, 0o711)  # the server's account goes through it
    cluster = Database(Path(bench.folder) / f"postgres-{name}", _SETTINGS)
    try:
        cluster.make()
        cluster.start()
        yield cluster
    finally:
        cluster.end()


def node(home: str, dsn: str = "", **limits: int) -> Node:
    """`parley up`, on a PostgreSQL if one is named; returns when it says that it is ready."""
    command = [sys.executable, "-m", "parley.cli.main", "up", "--json", "--port", "0", "--data", home]
    environment = _PATH | {"HOME": home, "PARLEY_ADMIN_KEY": KEY, "PARLEY_NEW_INTENTS": "open"}
    environment |= {f"PARLEY_{limit.upper()}": str(value) for limit, value in limits.items()}
    command += ["--store", dsn] if dsn else []
    os.makedirs(home, mode=0o700)
    with open(f"{home}/log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise RuntimeError(f"parley up did not start: {Path(home, 'log').read_text()[-1000:]}")
    return Node(process, int(json.loads(line)["url"].rpartition(":")[2]))


def nodes(stack: ExitStack, home: str, dsn: str, count: int, **limits: int) -> list[Node]:
    """So many nodes on one database, which end with the stack."""
    return [stack.enter_context(node(f"{home}/node-{number}", dsn, **limits)) for number in range(count)]


def message(text: str = TEXT) -> dict[str, object]:
    return {"sender": AGENT, "message_type": "notify", "payload": {"text": text}}


def post(channel: str, key: str = KEY) -> str:
    return with_key(request("POST", f"/api/v1/channels/{channel}/messages", message()), key)


def with_key(text: str, key: str) -> str:
    return text.replace(f"X-API-Key: {KEY}", f"X-API-Key: {key}")


def channels(server: Node, count: int) -> list[str]:
    """So many channels of one intent, in one tenant."""
    intent = server.call("POST", "/intents", {"title": "bench", "created_by": AGENT})["id"]
    return [_channel(server, KEY, intent, number) for number in range(count)]


def tenants(server: Node, count: int) -> list[tuple[str, str]]:
    """So many tenants with one channel each: the channel, and the key that posts there."""
    names = []
    for number in range(count):
        server.call("POST", "/tenants", {"id": f"tenant-{number}", "name": "bench"})
        key = server.call("POST", "/keys", {"kind": "admin", "tenant_id": f"tenant-{number}"})["key"]
        intent = server.ask_for("POST", "/intents", key, {"title": "bench", "created_by": AGENT})["id"]
        names.append((_channel(server, key, intent, number), key))
    return names


def _channel(server: Node, key: str, intent: str, number: int) -> str:
    """A channel that keeps all that is said here: a bare table lets go of nothing, either."""
    body = {"name": f"channel-{number}", "options": {"max_messages": _MOST}}
    return str(server.ask_for("POST", f"/intents/{intent}/channels", key, body)["id"])


def in_turns(turns: int, sides: dict[str, Callable[[], Result]]) -> dict[str, list[Result]]:
    """Each side once without counting, then all of them in turns; who begins changes from turn to turn."""
    results: dict[str, list[Result]] = {name: [] for name in sides}
    for turn in range(turns + 1):
        for name in sides if turn % 2 else reversed(sides):
            result = sides[name]()
            if turn:
                results[name].append(result)
    return results


def of(results: list[Result], field: str) -> Sample:
    return Sample(tuple(float(result[field]) for result in results))


def shown(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in [heads, *rows]]
    return "\n".join(["", lines[0], "-" * len(lines[0]), *lines[1:], ""])


def _ticks(pid: int) -> int:
    """User and system time of a process and of its children that have ended, in clock ticks; 0 when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it may end between the two calls
        return 0
    return sum(map(int, stat.rpartition(")")[2].split()[11:15]))
