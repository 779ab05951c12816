"""However many people decide at once, and however often the server is killed: what was held goes out once, or never."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.fault.team.account import Account, check
from tests.fault.team.talks import Talks, Wanted, killed_meanwhile
from tests.fault.team.test_rounds import verified
from tests.rigs.process import ServerProcess

pytestmark = [
    pytest.mark.both_stores,
    pytest.mark.fault,
    pytest.mark.slow,
    # The sockets are torn at any moment; what they leave behind is not what is tested.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_PEOPLE = tuple(f"person{number}@example.com" for number in range(16))
_POLICY = f"agent-to-agent:\n  enabled: true\n  pair_budget: 100000\n  approvers: [{', '.join(_PEOPLE)}]\n"


def decided(data: Path, count: int, kills: int, *, rejecting: int = 0, mutant: str = "") -> Account:
    """What is left of so many held messages when sixteen people have decided about all of them at once."""
    server = ServerProcess(data, mutant=mutant)
    server.start()

    async def decide(talks: Talks, held: list[dict[str, Any]]) -> None:
        wanting = [(user, "approve") for user in _PEOPLE[rejecting:]] + [
            (user, "reject") for user in _PEOPLE[:rejecting]
        ]
        await asyncio.gather(*(talks.decide_all(held, user, how, order) for order, (user, how) in enumerate(wanting)))

    async def play() -> Account:
        talks = Talks(server.port)
        await talks.open(_POLICY, _PEOPLE)
        promises = [
            Wanted(f"promise {n}", f"a{n % 4}", f"b{n % 4}", f"conv-{n}", "We commit to Friday.") for n in range(count)
        ]
        await talks.say_all(promises, 16)
        held = (await talks.client().get("/approvals", status="pending", limit=1000)).json
        assert len(held) == count
        await killed_meanwhile(server, kills, decide(talks, held))
        return await talks.tell()

    try:
        return asyncio.run(play())
    finally:
        if server.process is not None:
            server.kill()


def test_what_is_approved_by_many_at_once_goes_out_once(tmp_path: Path, full: bool) -> None:
    count, kills = (200, 20) if full else (12, 2)

    account = decided(tmp_path / "data", count, kills)

    print(f"{len(account.asked)} held, {len(account.delivered)} delivered")
    assert check(account) == []
    assert Counter(one.status for one in account.asked) == {"approved": count}
    assert len({one.approval for one in account.delivered}) == len(account.delivered) == count
    assert sorted(account.told) == sorted((one.id, one.status, one.message) for one in account.asked)
    checked = verified(tmp_path / "data")
    assert checked.returncode == 0, checked.stderr


def test_what_some_approve_and_some_reject_is_decided_one_way(tmp_path: Path, full: bool) -> None:
    count, kills = (200, 20) if full else (12, 1)

    account = decided(tmp_path / "data", count, kills, rejecting=8)

    statuses = Counter(one.status for one in account.asked)
    assert check(account) == []
    assert statuses["approved"] + statuses["rejected"] == count
    assert len(account.delivered) == statuses["approved"]
    assert sorted(account.told) == sorted((one.id, one.status, one.message) for one in account.asked)


def test_a_server_that_lets_one_approve_what_another_did_is_found_out(tmp_path: Path) -> None:
    account = decided(tmp_path / "data", 6, 0, mutant="approve_again")

    assert "I19" in {line.split(":")[0] for line in check(account)}
