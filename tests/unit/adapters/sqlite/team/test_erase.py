"""What the contract does not show: the bytes in the file are overwritten."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from parley.adapters.sqlite.team import erase as team_erase
from parley.adapters.sqlite.team import file as team_file
from parley.adapters.sqlite.team.erase import count_unerased, erase_posts, find_erasable
from parley.domain.channel.post import Post
from parley.domain.directory.callers import KeyKind
from parley.domain.store.changes import ErasableMessage, ErasureQuery
from parley.wire import rows as team_rows
from tests.conformance.ocip.governed import pair, person
from tests.contract.team_store import a_post
from tests.rigs.team import CHANNEL, LiveServer, with_server

SECRET = b'{"text":"a secret that is long enough to be found in a file"}'


@pytest.fixture(name="db")
def a_file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = str(tmp_path / "team.db")
    with closing(team_file.connect(path, writes=True, durable=False)) as db:
        team_file.migrate(db, path)
        yield db


def said(db: sqlite3.Connection, *posts: Post, tenant: int = 1) -> None:
    for number, post in enumerate(posts, 1):
        row = team_rows.post_to_row(post._replace(position=number, seq=number), tenant, tenant)
        db.execute(f"INSERT INTO post VALUES ({', '.join('?' * len(row))})", row)


def test_the_bytes_are_overwritten(db: sqlite3.Connection, tmp_path: Path) -> None:
    db.execute("PRAGMA journal_mode=DELETE")
    said(db, a_post(payload=SECRET))
    assert SECRET in (tmp_path / "team.db").read_bytes()

    erase_posts(db, 1, (ErasableMessage("msg_1"),))

    assert count_unerased(db, 1, (ErasableMessage("msg_1"),)) == 0
    assert SECRET not in (tmp_path / "team.db").read_bytes()


@pytest.mark.requirement("GOV-ERASE-ANSWERS")
@with_server
async def test_no_word_is_left_in_the_files_of_a_server_after_an_erasure(server: LiveServer) -> None:
    """Of messages, stored answers, held messages, decided ones and transcripts; others' words stay."""
    alice, _ = await pair(server)
    ann, admin = await person(server, "ann"), await server.client(kind=KeyKind.ADMIN)
    folder = server.rig.path.parent

    def left() -> dict[str, int]:
        return {file.name: file.read_bytes().count(b"xyzzy") for file in folder.iterdir() if file.is_file()}

    for n in range(60):
        secret = n % 3 == 0
        text = f"{'I promise xyzzy' if secret else 'hello'} {n} " + "padding " * (7 * n)
        metadata = {"exchange_type": "information_query", "conversation_id": f"c{n % 6 if secret else n}{secret}"}
        body = {"to": "bob", "payload": {"text": text}, "metadata": metadata}
        answer = await alice.post(f"/channels/{CHANNEL}/messages", body, {"Idempotency-Key": f"k{n}"})
        assert answer.status == (202 if secret else 201), answer
        if secret and n % 2:
            decision = {"decision": "approve", "digest": answer.json["digest"]}
            decided = await ann.post(f"/approvals/{answer.json['approval']}/decision", decision)
            # The third and later ones are above the limit of rounds.
            assert decided.status in (200, 409), decided
    assert sum(left().values()) > 20

    for name in ("c0True", "c3True"):
        assert (await admin.post("/audit/erasures", {"conversation_id": name})).status == 201

    assert sum(left().values()) == 0
    await server.stop()
    await server.rig.store.close()
    assert sum(left().values()) == 0
    assert b"hello 1 padding" in server.rig.path.read_bytes()


def test_only_messages_of_the_tenant_that_still_say_something_are_counted(db: sqlite3.Connection) -> None:
    said(db, a_post("msg_1"), a_post("msg_2"), a_post("msg_3"))
    said(db, a_post("msg_other"), tenant=2)
    erase_posts(db, 1, (ErasableMessage("msg_1"), ErasableMessage("msg_other")))

    assert count_unerased(db, 1, tuple(map(ErasableMessage, ("msg_1", "msg_2", "msg_3", "msg_9", "msg_other")))) == 2
    assert count_unerased(db, 2, (ErasableMessage("msg_other"),)) == 1
    assert count_unerased(db, 1, ()) == 0


def test_only_so_many_messages_are_looked_through_at_once(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_erase, "_WINDOW", 3)
    said(db, *[a_post(f"msg_{n}", sender="bob" if n == 5 else "alice") for n in range(1, 8)])

    looks = [find_erasable(db, 1, ErasureQuery(sender="bob"), after) for after in (0, 3, 6, 7)]

    assert looks == [((), 3), ((ErasableMessage("msg_5"),), 6), ((), 7), ((), 0)]
