"""An installation to be copied: a server that people talk to, or a store in which things have happened."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.adapters.sqlite.team.store import SqliteTeamStore
from parley.domain.channel.post import Receipt
from parley.domain.exchange.notice import APPROVAL_TOLD
from parley.domain.store.changes import TeamChanges
from parley.domain.store.kinds import KINDS
from parley.sdk.blocking.connection import Connection
from tests.contract.team_store import AT, a_channel, a_post, an_entry, an_event, an_intent
from tests.samples.tables import ACME, GLOBEX, live
from tests.surface.stage import Ran, Stage

HELD = 9
PATIENCE = 60
# What a copy exits with that is not finished.
BEHIND = 1


@dataclass
class Node:
    """A running server."""

    url: str
    key: str
    process: subprocess.Popen[str]

    def connection(self, agent: str = "", key: str = "") -> Connection:
        return Connection(self.url, key=key or self.key, agent=agent)


@contextmanager
def serving(data: Path, *options: str, key: str = "") -> Iterator[Node]:
    words = [sys.executable, "-m", "parley.cli.main", "up", "--json", "--port", "0", "--data", str(data), *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")}
    environment["PARLEY_WEBHOOK_TARGETS"] = "any"
    process = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, f"the server ended with {process.wait(PATIENCE)}"
        said = json.loads(line)
        yield Node(said["url"], said["admin_key"] or key, process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
        process.stdout.close()


class Talk:
    """Everything that a server keeps, done once; and how it looks from outside."""

    def __init__(self, stage: Stage, node: Node) -> None:
        self.stage = stage
        self.meet(node)
        self.intent = self.said("intent", "create", "To move", "--access", "open")["id"]
        # As many as a test may come to say: what is more than this is let go of.
        self.channel = self.said("channel", "create", self.intent, "talk", "--max-messages", "100000")["id"]
        self.audited = self.said("channel", "create", self.intent, "audited", "--audit")["id"]
        self.said("agent", "register", "alice", "--user", "ann")
        self.said("agent", "register", "bob", "--user", "ben")
        self.alice = self.said("key", "create", "--agent", "alice")["key"]
        self.ann = self.said("key", "create", "--kind", "human", "--user", "ann")["key"]
        self.messages = [self.post(self.channel, f"text=hello {n}") for n in range(5)]
        for n in range(3):
            self.post(self.audited, f"n:={n}")
        with node.connection("bob") as bob:
            path = ("channels", self.channel, "messages", self.messages[1])
            self.read = bob.send("PATCH", *path, body={"status": "read"}).document
        self.body = {"payload": {"text": "once"}, "message_type": "notify"}
        self.once = self.repeated(node)
        self.post(self.channel, "text=a secret", sender="chatty")
        self.said("audit", "erase", "--sender", "chatty", "--yes")
        words = ("--type", "request", "--to", "bob", "--purpose", "information_query", "--key", self.alice)
        self.approval = self.ran("post", self.channel, "--field", "text=I commit to it.", *words, code=HELD)["approval"]
        self.waiting = self.ran("post", self.channel, "--field", "text=I promise.", *words, code=HELD)["approval"]
        self.approve(self.approval)
        self.said("tenant", "create", "globex")

    def meet(self, node: Node) -> None:
        """From now on talk to this server."""
        self.stage.patch.setenv("PARLEY_URL", node.url)
        self.stage.patch.setenv("PARLEY_KEY", node.key)

    def ran(self, *words: str, code: int = 0) -> Any:  # noqa: ANN401  # whatever the command says
        ran = self.stage.run(*words, "--json")
        assert (ran.code, ran.err) == (code, ""), ran
        return ran.json

    def said(self, *words: str) -> Any:  # noqa: ANN401
        return self.ran(*words)

    def post(self, channel: str, field: str, sender: str = "claude") -> str:
        made: str = self.said("post", channel, "--agent", sender, "--field", field)["id"]
        return made

    def approve(self, approval: str) -> None:
        shown = self.said("approvals", "show", approval, "--key", self.ann)
        self.said("approvals", "approve", approval, "--digest", shown["digest"], "--key", self.ann)

    def repeated(self, node: Node) -> dict[str, Any]:
        """The same request with the same idempotency key, as a client that heard no answer sends it."""
        with node.connection("claude") as claude:
            path = ("channels", self.channel, "messages")
            answer = claude.send("POST", *path, body=self.body, headers={"idempotency-key": "key-1"})
            return dict(answer.document)

    def seen(self) -> dict[str, Any]:
        """What lists show."""
        return {
            "messages": self.said("messages", self.channel),
            "since": self.said("messages", self.channel, "--since", self.messages[2]),
            "audited": self.said("messages", self.audited),
            "intents": self.said("intent", "list"),
            "agents": [one["agent_id"] for one in self.said("agent", "list", "--server")],
            # A server tells people in its own time what waits for them.
            "audit": [one for one in self.said("audit", "list", "--all") if one["document"]["action"] != APPROVAL_TOLD],
            "approvals": self.said("approvals", "list", "--key", self.ann),
            "exchanges": self.said("exchange", "list"),
            "keys": [one["id"] for one in self.said("key", "list")],
        }


def take_along(data: Path, new: Path) -> None:
    """As the command says at its end."""
    new.mkdir(mode=0o700)
    for name in ("audit.key", "audit.pub"):
        shutil.copy2(data / name, new / name)
    for name in ("checkpoints", "policies"):
        if (data / name).exists():
            shutil.copytree(data / name, new / name)


def copying(*words: str | Path) -> list[str]:
    return ["store", "copy", *map(str, words)]


def written(ran: Ran) -> dict[str, tuple[int, int, int]]:
    """What a copy has written, by table."""
    found = {one["table"]: (one["new"], one["changed"], one["gone"]) for one in ran.json["tables"]}
    return {table: counts for table, counts in found.items() if any(counts)}


def in_store(path: Path, count: int = 0) -> Path:
    """A data directory in which a little of everything has happened, and this many messages more."""
    path.mkdir(mode=0o700)

    async def fill() -> None:
        store = SqliteTeamStore(str(path / "parley.db"), KINDS, durable=False)
        await live(store, ACME)
        await live(store, GLOBEX)
        await store.commit(TeamChanges(ACME, puts=(an_intent(tenant=ACME), a_channel(tenant=ACME, most=10**6))))
        for begin in range(0, count, 500):
            numbers = range(begin, min(count, begin + 500))
            await store.commit(
                TeamChanges(
                    ACME,
                    posts=tuple([a_post(f"msg_{n:026d}", payload=b'{"text":"message %d"}' % n) for n in numbers]),
                    receipts=tuple([Receipt(f"msg_{n:026d}", "bob", AT) for n in numbers[::5]]),
                    events=tuple([an_event(f"evt_{n}", "intent_1") for n in numbers[::10]]),
                    entries=tuple([an_entry() for _ in numbers[::10]]),
                )
            )
        await store.close()

    asyncio.run(fill())
    return path


def changed(data: Path, *statements: str) -> None:
    """Change the file behind everybody's back, past its triggers."""
    with closing(sqlite3.connect(data / "parley.db", isolation_level=None)) as db:
        for (trigger,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {trigger}")
        for statement in statements:
            assert db.execute(statement).rowcount > 0, statement
