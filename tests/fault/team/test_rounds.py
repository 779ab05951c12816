"""However many want to say the next thing, and however often the server is killed: the limits of an exchange hold."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.fault.team.account import ROUND_LIMIT, Account, check
from tests.fault.team.talks import Talks, Wanted, killed_meanwhile
from tests.rigs.chosen_store import is_postgres
from tests.rigs.process import ADMIN_KEY, ROOT, ServerProcess, running

pytestmark = [
    pytest.mark.both_stores,
    pytest.mark.fault,
    pytest.mark.slow,
    # The sockets are torn at any moment; what they leave behind is not what is tested.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_PAIRS = 10
MAX_ROUNDS = 3


def conversations(count: int, senders: int) -> list[Wanted]:
    """In each conversation, both parties want to speak at once, together so many times; all conversations mixed."""
    wanted = []
    for number in range(count):
        pair = (f"a{number % _PAIRS}", f"b{number % _PAIRS}")
        for sender in range(senders):
            one, other = pair if sender % 2 == 0 else pair[::-1]
            wanted.append(Wanted(f"{number}/{sender}", one, other, f"conv-{number}"))
    return wanted


def talked(data: Path, count: int, senders: int, kills: int, *, mutant: str = "", seed: int = 1) -> Account:
    """What is left when everybody has said what it wanted, or was told why not."""
    server = ServerProcess(data, mutant=mutant)
    server.start()

    async def play() -> Account:
        talks = Talks(server.port)
        await talks.open()
        at_once = min(4, count) * senders
        await killed_meanwhile(server, kills, talks.say_all(conversations(count, senders), at_once), seed)
        return await talks.tell()

    try:
        return asyncio.run(play())
    finally:
        if server.process is not None:
            server.kill()


def verified(data: Path) -> subprocess.CompletedProcess[str]:
    """What `parley audit verify` says to the files, or to a server over the database."""
    command = [sys.executable, "-m", "parley.cli.main", "audit", "verify"]
    if not is_postgres():
        return subprocess.run([*command, "--data", str(data)], capture_output=True, text=True, cwd=ROOT, check=False)
    with running(data) as server:
        command += ["--url", server.url, "--key", ADMIN_KEY]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def test_never_more_than_the_rounds_are_delivered_and_one_escalation_each(tmp_path: Path, full: bool) -> None:
    count, senders = (200, 32) if full else (10, 16)

    account = talked(tmp_path / "data", count, senders, kills=0)

    rounds = Counter(one.conversation for one in account.delivered)
    limits = Counter(one.conversation for one in account.asked if one.cause == ROUND_LIMIT)
    print(f"{len(account.tries)} tries, {len(account.delivered)} delivered, {len(account.asked)} escalations")
    assert check(account) == []
    assert set(rounds.values()) == {MAX_ROUNDS}
    assert set(limits.values()) == {1}
    assert len(rounds) == len(limits) == count


def test_the_limits_hold_over_kills_and_what_was_delivered_is_what_is_on_record(tmp_path: Path, full: bool) -> None:
    count, senders, kills = (200, 32, 20) if full else (10, 16, 3)

    account = talked(tmp_path / "data", count, senders, kills)

    rounds = Counter(one.conversation for one in account.delivered)
    limits = Counter(one.conversation for one in account.asked if one.cause == ROUND_LIMIT)
    print(f"{len(account.tries)} tries, {len(account.delivered)} delivered, {len(account.noted)} entries")
    assert check(account) == []
    assert set(rounds.values()) == {MAX_ROUNDS}
    assert set(limits.values()) == {1}
    assert len(rounds) == len(limits) == count
    checked = verified(tmp_path / "data")
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("mutant", "rules"),
    [
        ("assign_rounds_outside_the_commit", {"I17"}),
        ("forget_the_exchange", {"I17"}),
        ("deliver_before_judging", {"I4", "I17", "I20"}),
        ("skip_the_receivers_entry", {"I20"}),
    ],
)
def test_a_server_that_breaks_the_rules_is_found_out(tmp_path: Path, mutant: str, rules: set[str]) -> None:
    account = talked(tmp_path / "data", 4, 8, kills=0, mutant=mutant)

    assert {line.split(":")[0] for line in check(account)} & rules


# ---------------------------------------------------------------- the other limits

_BUDGET = 25
_HOPS = 4
_AGENTS = 5


def budgeted(data: Path, tries: int, kills: int) -> Account:
    """What is left when a pair has tried to say so much."""
    server = ServerProcess(data)
    server.start()

    async def play() -> Account:
        talks = Talks(server.port)
        await talks.open(f"agent-to-agent:\n  enabled: true\n  pair_budget: {_BUDGET}\n")
        # Each in a conversation of its own, to and fro: fresh names are no way around.
        wanted = [Wanted(f"{n}", *(("ann", "bob") if n % 2 else ("bob", "ann")), "") for n in range(tries)]
        await killed_meanwhile(server, kills, talks.say_all(wanted, 32))
        return await talks.tell()

    try:
        return asyncio.run(play())
    finally:
        if server.process is not None:
            server.kill()


def test_a_pair_never_says_one_more_than_its_budget_of_an_hour(tmp_path: Path, full: bool) -> None:
    tries, kills = (640, 5) if full else (96, 2)

    account = budgeted(tmp_path / "data", tries, kills)
    if len({one.at[:13] for one in account.delivered}) > 1:
        # An hour has begun meanwhile, and a new budget with it. The next one is far away.
        assert check(account) == []
        account = budgeted(tmp_path / "again", tries, kills)

    asked = [one for one in account.asked if one.cause == "pair_budget"]
    assert check(account) == []
    assert len(account.delivered) == _BUDGET
    assert len(asked) == 1
    assert {one.code for one in account.tries} == {"", "pair_budget"}


def ring(conversation: str, turns: int, again: int) -> list[Wanted]:
    """Everyone passes on to the next what it has heard, each time in several copies at once."""
    return [
        Wanted(f"{conversation}/{turn}/{copy}", f"c{turn % _AGENTS}", f"c{(turn + 1) % _AGENTS}", conversation)
        for turn in range(turns)
        for copy in range(again)
    ]


def test_a_circle_of_agents_ends_at_the_hop_limit_with_one_escalation(tmp_path: Path, full: bool) -> None:
    count, kills = (40, 5) if full else (4, 1)
    server = ServerProcess(tmp_path / "data")
    server.start()
    policy = f"agent-to-agent:\n  enabled: true\n  max_rounds: 1000\n  pair_budget: 100000\n  hop_limit: {_HOPS}\n"

    async def play() -> Account:
        talks = Talks(server.port)
        await talks.open(policy)
        rings = [ring(f"ring-{number}", 4 * _AGENTS, 4) for number in range(count)]
        wanted = [one for some in zip(*rings, strict=True) for one in some]
        await killed_meanwhile(server, kills, talks.say_all(wanted, 32))
        return await talks.tell()

    try:
        account = asyncio.run(play())
    finally:
        server.kill()

    assert check(account) == []
    assert hops_too_many(account) == []
    assert max(one.hops for one in account.delivered) == _HOPS
    assert Counter(one.conversation for one in account.asked) == {f"ring-{number}": 1 for number in range(count)}


def hops_too_many(account: Account) -> list[str]:
    """Messages further away from where it all began than they say, or than they may be, counted anew."""
    wrong = []
    hops: dict[tuple[str, ...], int] = {}
    last: dict[tuple[str, ...], str] = {}
    for one in sorted(account.delivered):
        pair = (one.conversation, *sorted((one.sender, one.to)))
        heard = [
            hops[other] + 1
            for other in hops
            if other != pair and other[0] == one.conversation and one.sender in other[1:] and last[other] != one.sender
        ]
        hops[pair] = max([1, *heard, hops.get(pair, 1)])
        last[pair] = one.sender
        if one.hops != hops[pair] or one.hops > _HOPS:
            wrong.append(f"{one.label} says {one.hops} and is {hops[pair]}")
    return wrong
