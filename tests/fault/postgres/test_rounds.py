"""Two nodes at which everybody wants to say the next thing: the limits of an exchange hold as at one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import pytest

from tests.fault.postgres.crowd import NodeClient
from tests.fault.postgres.nodes import Door, several
from tests.fault.team.account import ROUND_LIMIT, Account, check
from tests.fault.team.talks import Talks, Wanted
from tests.rigs.process import ADMIN_KEY
from tests.rigs.team import Client

pytestmark = [
    pytest.mark.fault,
    pytest.mark.slow,
]

NODES = 2
MAX_ROUNDS = 3


class NodesTalks(Talks):
    """Each connection is to the next node."""

    def __init__(self, doors: Sequence[Door]) -> None:
        super().__init__(doors[0].port)
        self._next = cycle(doors)

    def client(self, key: str = ADMIN_KEY) -> Client:
        self._clients.append(NodeClient(next(self._next), key, patience=20.0))
        return self._clients[-1]


def conversations(count: int, senders: int, start: int = 0) -> list[Wanted]:
    """In each conversation, both parties want to speak at once, together so many times."""
    wanted = []
    for number in range(start, start + count):
        pair = (f"a{number}", f"b{number}")
        for sender in range(senders):
            one, other = pair if sender % 2 == 0 else pair[::-1]
            wanted.append(Wanted(f"{number}/{sender}", one, other, f"conv-{number}"))
    return wanted


def talked(folder: Path, dsn: str, count: int, senders: int, *, mutant: str = "", start: int = 0) -> Account:
    """What is left when everybody has said what it wanted at some node, or was told why not."""
    with several(folder, dsn, NODES, mutant) as nodes:

        async def play() -> Account:
            talks = NodesTalks([node.door for node in nodes])
            await talks.open()
            await talks.say_all(conversations(count, senders, start), 2 * senders)
            return await talks.tell()

        return asyncio.run(play())


def test_never_more_than_the_rounds_are_delivered_on_two_nodes(tmp_path: Path, dsn: str, full: bool) -> None:
    count, senders = (100, 16) if full else (8, 8)

    account = talked(tmp_path, dsn, count, senders)

    rounds = Counter(one.conversation for one in account.delivered)
    limits = Counter(one.conversation for one in account.asked if one.cause == ROUND_LIMIT)
    print(f"{len(account.tries)} tries, {len(account.delivered)} delivered, {len(account.asked)} escalations")
    assert check(account) == []
    assert set(rounds.values()) == {MAX_ROUNDS}
    assert set(limits.values()) == {1}
    assert len(rounds) == len(limits) == count


def test_of_two_who_take_the_last_round_at_two_nodes_one_has_it(tmp_path: Path, dsn: str, full: bool) -> None:
    times = 100 if full else 12
    with several(tmp_path, dsn, NODES) as nodes:

        async def play() -> Account:
            talks = NodesTalks([node.door for node in nodes])
            await talks.open()
            for number in range(times):
                wanted = [
                    Wanted(f"{number}/{sender}", f"a{number}", f"b{number}", f"conv-{number}")
                    for sender in range(MAX_ROUNDS + 1)
                ]
                await talks.say_all(wanted[:-2], 1)
                # Two connections, one to each node, at once.
                await talks.say_all(wanted[-2:], NODES)
            return await talks.tell()

        account = asyncio.run(play())

    statuses = {tuple(sorted(one.answers[-1][0] for one in account.tries[-2:]))}
    for number in range(times):
        last = [one for one in account.tries if one.conversation == f"conv-{number}"][-2:]
        statuses.add(tuple(sorted(one.answers[-1][0] for one in last)))
    assert statuses == {(201, 202)}
    assert check(account) == []


@pytest.mark.parametrize(
    ("mutant", "rules"),
    [
        ("forget_the_exchange", {"I17"}),
        ("assign_rounds_outside_the_commit", {"I17"}),
        ("load_before_the_lock", {"I17"}),
        ("decide_once", {"I17", "I20"}),
        ("journal_without_records", {"I17"}),
    ],
)
def test_nodes_that_count_each_for_itself_are_found_out(tmp_path: Path, dsn: str, mutant: str, rules: set[str]) -> None:
    found: set[str] = set()

    for attempt in range(3):  # two have to meet at the right moment; mostly some do the first time
        account = talked(tmp_path / f"{attempt}", dsn, 12, 8, mutant=mutant, start=100 * attempt)
        found |= {line.split(":")[0] for line in check(account)}
        if found & rules:
            break

    assert found & rules
