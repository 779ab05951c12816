"""No entry, no send: while the audit log cannot be written nothing governed goes out; afterwards everything goes on."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fault.conftest import missing
from tests.fault.team.account import Account, check
from tests.fault.team.talks import Talks, Wanted
from tests.fault.team.test_rounds import verified
from tests.rigs.process import ServerProcess
from tests.rigs.team import Answer

pytestmark = [pytest.mark.fault, pytest.mark.slow]

_HOSTILE = "CREATE TRIGGER hostile BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'not today'); END"
# A disk of its own for the server, with a weight on it that can be taken off: more than the rest, for what is in the
# log is written to the file, too, as soon as there is room.
_PREPARE = """
set -e
mount -t tmpfs -o size=12m,mode=0700 none "$0"
head -c 7500000 /dev/zero > "$0/ballast"
exec "$@"
"""


def meddle(data: Path, statement: str) -> None:
    """What somebody with access to the file can do beside the server."""
    db = sqlite3.connect(data / "parley.db", isolation_level=None, timeout=10)
    try:
        db.execute(statement)
    finally:
        db.close()


async def say(talks: Talks, wanted: Wanted) -> Answer:
    client = talks.client()
    headers = {"X-Agent-ID": wanted.done.sender, "Idempotency-Key": wanted.done.label}
    answer = await client.post(f"/channels/{talks.channel_id}/messages", wanted.body, headers)
    if answer.status == 201:
        wanted.done.answers.append((201, answer.json["id"]))
    talks.account.tries.append(wanted.done)
    await client.close()
    return answer


def a_try(label: str, text: str = "What is new?") -> Wanted:
    return Wanted(label, "ann", "bob", f"conv of {label}".replace(" ", "-"), text)


def test_while_an_entry_cannot_be_written_nothing_is_sent_held_or_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    server = ServerProcess(data)
    server.start()

    async def play() -> tuple[list[int], list[int], list[int], Account]:
        talks = Talks(server.port)
        await talks.open()
        kinds = ("said", "promised", "denied")
        texts = ("What is new?", "We commit to Friday.", "4111 1111 1111 1111")
        before = [(await say(talks, a_try(f"{kind} 1", text))).status for kind, text in zip(kinds, texts, strict=True)]
        meddle(data, _HOSTILE)
        tries = [a_try(f"{kind} 2", text) for kind, text in zip(kinds, texts, strict=True)]
        during = [(await say(talks, one)).status for one in tries]
        assert (await talks.client().get("/healthz")).status == 200
        meddle(data, "DROP TRIGGER hostile")
        # Under the same keys: what failed used none of them up.
        after = [(await say(talks, one)).status for one in tries]
        return before, during, after, await talks.tell()

    try:
        before, during, after, account = asyncio.run(play())
    finally:
        server.kill()

    assert before == [201, 202, 403]
    assert {503, 507}.issuperset(during)
    assert after == before
    assert check(account) == []
    assert [one.label for one in account.delivered] == ["said 1", "said 2"]
    assert verified(data).returncode == 0


def test_a_server_that_records_afterwards_is_found_out(tmp_path: Path) -> None:
    data = tmp_path / "data"
    server = ServerProcess(data, mutant="record_afterwards")
    server.start()

    async def play() -> Account:
        talks = Talks(server.port)
        await talks.open()
        meddle(data, _HOSTILE)
        await say(talks, a_try("said"))
        return await talks.tell()

    try:
        account = asyncio.run(play())
    finally:
        server.kill()

    assert "I20" in {line.split(":")[0] for line in check(account)}


def test_the_others_go_on_when_the_entries_of_one_cannot_be_written(tmp_path: Path) -> None:
    data = tmp_path / "data"
    server = ServerProcess(data)
    server.start()

    async def play() -> tuple[set[int], set[int], Account]:
        talks = Talks(server.port)
        await talks.open()
        meddle(data, _HOSTILE.replace("BEGIN", "WHEN NEW.side = 'bad' BEGIN", 1))
        good = [Wanted(f"good {n}", "ann", "bob", f"good-{n}") for n in range(40)]
        bad = [Wanted(f"bad {n}", "ann", "bad", f"bad-{n}") for n in range(40)]
        mixed = [one for pair in zip(good, bad, strict=True) for one in pair]
        answers = await asyncio.gather(*(say(talks, one) for one in mixed))
        account = await talks.tell()
        return {one.status for one in answers[::2]}, {one.status for one in answers[1::2]}, account

    try:
        good, bad, account = asyncio.run(play())
    finally:
        server.kill()

    assert good == {201}
    assert {503, 507}.issuperset(bad)
    assert check(account) == []
    assert len(account.delivered) == 40


def test_on_a_full_disk_nothing_is_sent_without_its_entries(tmp_path: Path, root: None) -> None:
    if shutil.which("unshare") is None:
        missing("unshare is not installed")
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    before = ("unshare", "--mount", "--propagation", "private", "sh", "-c", _PREPARE, str(data))
    server = ServerProcess(data, before=before)
    server.start()
    assert server.process is not None
    inside = Path(f"/proc/{server.process.pid}/root") / data.relative_to("/")

    async def fill(talks: Talks, make: Callable[[int], Wanted]) -> int:
        for number in range(5_000):
            status = (await say(talks, make(number))).status
            if status != 201:
                return status
        return 201

    async def play() -> tuple[set[int], int, Account]:
        talks = Talks(server.port)
        await talks.open("agent-to-agent:\n  enabled: true\n  pair_budget: 100000\n")
        full = {await fill(talks, lambda n, size=size: a_try(f"{size} {n}", "x" * size)) for size in (60_000, 600, 1)}  # type: ignore[misc]
        (inside / "ballast").unlink()
        after = (await say(talks, a_try("after"))).status
        return full, after, await talks.tell()

    try:
        full, after, account = asyncio.run(play())
    finally:
        server.kill()

    assert full == {507}
    assert after == 201
    assert check(account) == []
    assert {one.label for one in account.delivered} == {one.label for one in account.tries if one.answers}
