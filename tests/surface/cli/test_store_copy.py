"""`parley store copy`: a living installation moves to PostgreSQL and back, and nobody who talks there notices."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from parley.adapters.sqlite.team_store import SqliteTeamStore
from parley.domain.kinds import KINDS
from parley.domain.notice import APPROVAL_TOLD
from parley.domain.post import Receipt
from parley.domain.team_changes import TeamChanges
from parley.sdk.connection import Connection
from tests.contract.team_store import AT, a_channel, a_post, an_entry, an_event, an_intent
from tests.postgres_cluster import drop, new_database
from tests.shelf_samples import ACME, GLOBEX, live
from tests.surface.stage import Ran, Stage, parley_script

HELD = 9
PATIENCE = 60
BEHIND = 1


@pytest.fixture
def dsn() -> Iterator[str]:
    """An empty database."""
    made = new_database()
    yield made
    drop(made)


# ---------------------------------------------------------------- servers


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
        self.intent = self.said("intent", "create", "To move")["id"]
        self.channel = self.said("channel", "create", self.intent, "talk")["id"]
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


def copying(*words: str | Path) -> list[str]:
    return ["store", "copy", *map(str, words)]


def take_along(data: Path, new: Path) -> None:
    """As the command says at its end."""
    new.mkdir(mode=0o700)
    for name in ("audit.key", "audit.pub"):
        shutil.copy2(data / name, new / name)
    for name in ("checkpoints", "policies"):
        if (data / name).exists():
            shutil.copytree(data / name, new / name)


def written(ran: Ran) -> dict[str, tuple[int, int, int]]:
    """What a copy has written, by table."""
    found = {one["table"]: (one["new"], one["changed"], one["gone"]) for one in ran.json["tables"]}
    return {table: counts for table, counts in found.items() if any(counts)}


@pytest.mark.slow
def test_an_installation_moves_to_postgresql_and_back_and_everything_goes_on(
    stage: Stage, dsn: str, tmp_path: Path
) -> None:
    data, new, back = tmp_path / "data", tmp_path / "new", tmp_path / "back"
    with serving(data) as node:
        talk = Talk(stage, node)
        before = talk.seen()
    copied = stage.run(*copying(data, dsn, "--json"))
    assert (copied.code, copied.err) == (0, "")
    assert (copied.json["finished"], copied.json["behind"]) == (True, 0)
    assert copied.json["take_along"][:2] == ["audit.key", "audit.pub"]
    take_along(data, new)

    with serving(new, "--store", dsn, key=node.key) as moved:
        talk.meet(moved)
        assert talk.seen() == before
        assert talk.repeated(moved) == talk.once
        assert stage.run("audit", "verify").code == 0
        talk.approve(talk.waiting)
        added = talk.post(talk.channel, "text=here")
        later = talk.said("messages", talk.channel, "--since", before["messages"][-1]["id"])
        assert added in [one["id"] for one in later]
        assert talk.said("messages", talk.channel) == before["messages"] + later
        assert talk.said("channel", "create", talk.intent, "one-more")["id"]
        talk.said("tenant", "create", "initech")
        assert stage.run("audit", "verify").code == 0
        after = talk.seen()

    refused = stage.run(*copying(data, dsn))
    assert (refused.code, refused.error) == (4, "conflict")
    assert "was in use since it was copied" in refused.err
    assert stage.run(*copying(data, dsn, "--verify-only")).code == 1

    returned = stage.run(*copying(dsn, back, "--json"))
    assert (returned.code, returned.err) == (0, "")
    same = stage.run(*copying(dsn, back, "--verify-only", "--json"))
    assert (same.code, same.json["same"], same.json["differences"]) == (0, True, [])
    for name in ("audit.key", "audit.pub"):
        shutil.copy2(new / name, back / name)
    with serving(back, key=node.key) as home:
        talk.meet(home)
        assert talk.seen() == after
        assert talk.repeated(home) == talk.once
        assert stage.run("audit", "verify").code == 0
        talk.post(talk.channel, "text=home again")


@pytest.mark.slow
def test_while_servers_go_on_writing_a_copy_brings_what_there_is_and_a_last_one_the_rest(
    stage: Stage, dsn: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with serving(data) as node:
        talk = Talk(stage, node)
        stop = threading.Event()
        sent: list[str] = []

        def write() -> None:
            with node.connection("claude") as claude:
                while not stop.is_set():
                    body = {"payload": {"n": len(sent)}, "message_type": "notify"}
                    sent.append(claude.post("channels", talk.channel, "messages", body=body)["id"])

        writers = [threading.Thread(target=write) for _ in range(3)]
        for one in writers:
            one.start()
        try:
            first = stage.run(*copying(data, dsn, "--json"))
            second = stage.run(*copying(data, dsn))
        finally:
            stop.set()
            for one in writers:
                one.join()
        refused = stage.script("up", "--port", "0", "--data", str(tmp_path / "early"), "--store", dsn)
        everything = {one["id"] for one in talk.said("messages", talk.channel, "--limit", "1000")}

    assert (first.code, first.json["finished"], first.json["moved_on"]) == (BEHIND, False, True)
    assert first.json["behind"] > 0
    assert second.code == BEHIND
    assert "messages and events came meanwhile. Stop the servers of FROM, and run the same command" in second.out
    assert (refused.code, "has not ended" in refused.err) == (4, True)
    last = stage.run(*copying(data, dsn, "--json"))
    assert (last.code, last.json["finished"], last.json["moved_on"]) == (0, True, False)
    assert 0 < written(last)["post"][0] < last.json["tables"][3]["rows"]
    assert stage.run(*copying(data, dsn, "--verify-only")).code == 0
    assert set(sent) <= everything


# ---------------------------------------------------------------- without a server


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


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["to", "from"])
def test_a_copy_that_is_killed_again_and_again_ends_up_whole(
    stage: Stage, dsn: str, tmp_path: Path, direction: str
) -> None:
    data = in_store(tmp_path / "data", 4_000)
    chance = random.Random(f"{direction} 11")
    source, target = str(data), dsn
    if direction == "from":
        assert stage.run(*copying(data, dsn)).code == 0
        source, target = dsn, str(tmp_path / "back")
    kills = 0
    for turn in range(8):  # a little later each time, at first before it could begin
        process = subprocess.Popen(
            [parley_script(), *copying(source, target, "--json")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            process.communicate(timeout=0.2 + 0.25 * turn + chance.uniform(0, 0.25))
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
            process.communicate(timeout=PATIENCE)
        if process.returncode == 0:
            break

    last = until_free(stage, source, target)

    assert kills > 0
    assert (last.code, last.json["finished"]) == (0, True)
    again = stage.run(*copying(source, target, "--json"))
    assert (again.code, written(again)) == (0, {})
    assert stage.run(*copying(data, target, "--verify-only")).code == 0


def until_free(stage: Stage, source: str, target: str) -> Ran:
    """Copy as soon as the database has noticed that the one before is dead."""
    end = time.monotonic() + PATIENCE
    while True:
        ran = stage.run(*copying(source, target, "--json"))
        if ran.code != 4 or "another copy" not in ran.err or time.monotonic() > end:
            return ran


def test_ctrl_c_leaves_a_copy_that_goes_on(stage: Stage, dsn: str, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data", 3_000)

    tries = 0
    while True:
        back = tmp_path / f"back{tries}"
        ended, out, err = interrupted(copying(data, back), back / "parley.db.copying")
        tries += 1
        if ended == 130 or tries == 10:  # otherwise it was through before it heard of it
            break

    assert (ended, out) == (130, "")
    assert err == "Interrupted. The same command goes on where it stopped.\n"
    assert stage.run(*copying(data, back)).code == 0


def interrupted(command: list[str], begun: Path) -> tuple[int, str, str]:
    """What has become of a copy that was interrupted as soon as it had begun."""
    process = subprocess.Popen([parley_script(), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + PATIENCE
    while not begun.exists() and process.poll() is None and time.monotonic() < end:
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def test_another_store_is_never_written_over(stage: Stage, dsn: str, tmp_path: Path) -> None:
    data, other = in_store(tmp_path / "data"), in_store(tmp_path / "other")
    changed(other, "UPDATE entry SET link = zeroblob(32) WHERE tenant = 1 AND position = 1")
    assert stage.run(*copying(data, dsn)).code == 0

    for target in (dsn, str(data)):
        refused = stage.run(*copying(other, target))
        assert (refused.code, refused.error) == (4, "conflict")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE audit SET document = replace(document, 'alice', 'mallo')", "audit log of"),
        ("UPDATE entry SET document = replace(document, 'alice', 'mallory') WHERE position = 2", "ledger of"),
        ("UPDATE event SET hash = 'none' WHERE sequence = 2", "intent_acme_1"),
        ("UPDATE tenant SET entry_position = 1 WHERE number = 1", "its tenant says 1"),
    ],
    ids=["audit", "ledger", "event", "order"],
)
def test_a_source_that_was_tampered_with_is_found_and_the_copy_is_not_finished(
    stage: Stage, tmp_path: Path, statement: str, said: str
) -> None:
    data = in_store(tmp_path / "data")
    assert stage.run(*copying(data, tmp_path / "sound")).code == 0
    changed(data, statement)

    ran = stage.run(*copying(data, tmp_path / "back"))

    assert (ran.code, ran.error) == (2, "invalid")
    assert said in ran.err
    assert not (tmp_path / "back" / "parley.db").exists()


def test_a_server_holds_its_data_directory_against_a_copy(stage: Stage, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data")
    with serving(tmp_path / "busy"):
        ran = stage.run(*copying(data, tmp_path / "busy"))

    assert (ran.code, ran.error) == (4, "conflict")
    assert "a server is running" in ran.err


def test_what_is_no_store_is_said_in_one_line(stage: Stage, dsn: str, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data")
    (tmp_path / "empty").mkdir()
    for words, code, error in (
        ((tmp_path / "none", dsn), 3, "not_found"),
        ((tmp_path / "empty", dsn), 3, "not_found"),
        ((data, data), 2, "invalid"),
        ((data, data / "parley.db"), 2, "invalid"),
        ((data, "mysql://db1/parley"), 2, "invalid"),
        ((data, "postgresql://parley@127.0.0.1:1/none"), 7, "unavailable"),
        ((dsn, tmp_path / "back"), 3, "not_found"),
    ):
        ran = stage.run(*copying(*words))
        assert (ran.code, ran.error) == (code, error), ran


def test_a_password_is_never_shown(stage: Stage, dsn: str, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data")
    secret = dsn.replace("parley@", "parley:hush@")

    text = stage.run(*copying(data, secret))
    told = stage.run(*copying(data, secret, "--json"))

    assert (text.code, told.code) == (0, 0)
    assert "hush" not in text.out + text.err + told.out + told.err
    assert f"parley up --store {dsn} --data DIR" in text.out


def test_files_and_databases_are_copied_among_each_other(stage: Stage, dsn: str, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data")
    second = new_database()
    try:
        places = [str(data), dsn, second, str(tmp_path / "one.db"), str(tmp_path / "two"), str(tmp_path / "three.db")]
        for source, target in pairwise(places):
            ran = stage.run(*copying(source, target, "--json"))
            assert (ran.code, ran.err) == (0, ""), (source, target)
        assert stage.run(*copying(places[0], places[-1], "--verify-only")).code == 0
    finally:
        drop(second)


def test_what_differs_is_shown_and_nothing_is_written(stage: Stage, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data")
    assert stage.run(*copying(data, tmp_path / "back")).code == 0
    changed(tmp_path / "back", "UPDATE post SET payload = x'00' WHERE id = 'ask_acme_1'", "DELETE FROM saved")
    before = (tmp_path / "back" / "parley.db").read_bytes()

    ran = stage.run(*copying(data, tmp_path / "back", "--verify-only"))
    told = stage.run(*copying(data, tmp_path / "back", "--verify-only", "--json"))

    assert (ran.code, told.code) == (1, 1)
    assert [line.split()[:4] for line in ran.out.splitlines()] == [
        ["TABLE", "MISSING", "OTHER", "SURPLUS"],
        ["post", "0", "1", "0"],
        ["saved", "2", "0", "0"],
    ]
    assert [one["table"] for one in told.json["differences"]] == ["post", "saved"]
    assert (tmp_path / "back" / "parley.db").read_bytes() == before


def test_on_a_terminal_both_parts_show_how_far_they_are(stage: Stage, tmp_path: Path) -> None:
    data = in_store(tmp_path / "data")

    code, shown = stage.on_terminal(*copying(data, tmp_path / "back"))

    assert code == 0
    assert f"\rCopying: 100 % [{'#' * 30}]" in shown
    assert f"\rChecking: 100 % [{'#' * 30}]" in shown


def test_a_trial_copy_is_finished_though_a_server_goes_on(stage: Stage, tmp_path: Path) -> None:
    with serving(tmp_path / "data"):
        ran = stage.run(*copying(tmp_path / "data", tmp_path / "trial", "--though-behind"))

    assert ran.code == 0
    assert (tmp_path / "trial" / "parley.db").exists()


@pytest.mark.slow
def test_a_hundred_thousand_messages(
    stage: Stage, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = in_store(tmp_path / "data", 100_000)
    rates = []
    for source, target in ((data, dsn), (data, dsn), (dsn, tmp_path / "back")):
        ran = stage.run(*copying(source, target, "--json"))
        assert (ran.code, ran.err) == (0, "")
        rates.append(ran.json["rows"] / ran.json["seconds"])

    with capsys.disabled():
        said = ", ".join(f"{rate:,.0f}" for rate in rates)
        sys.stdout.write(f"\nstore copy, rows a second, verified: to PostgreSQL, again, and back: {said}\n")
    assert stage.run(*copying(data, tmp_path / "back", "--verify-only")).code == 0
