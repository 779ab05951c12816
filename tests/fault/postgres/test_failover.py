"""A primary that dies, and a synchronous standby in its place: what was acknowledged is there, once."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from pathlib import Path

import pytest

from tests.fault.conftest import FULL
from tests.fault.postgres.crowd import NodeClient, NodesCrowd, short, told
from tests.fault.postgres.meddling import again_and_again
from tests.fault.postgres.nodes import Node, running, several, surprises
from tests.fault.team.history import check
from tests.postgres.cluster import Cluster, a_cluster

pytestmark = [
    pytest.mark.fault,
    pytest.mark.slow,
    # The sockets of this crowd are torn at any moment; what they leave behind is not what is tested.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

at_full_length = pytest.mark.skipif(not FULL, reason="takes a while: at full length only")
NODES, WRITERS, READERS, STREAMS = 2, 12, 4, 4
# As soon as anybody waits for the standby: whose wait lasts has the lock that the others need.
_CANCEL = "PERFORM pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


class Pair:
    """A primary and its synchronous standby, which change places; their two addresses stay."""

    def __init__(self, primary: Cluster) -> None:
        self.primary = primary
        primary.create_database("fault")
        self.standby = primary.standby()

    @property
    def dsn(self) -> str:
        doors = ",".join(f"127.0.0.1:{one.port}" for one in (self.primary, self.standby))
        return f"postgresql://parley@{doors}/fault?target_session_attrs=read-write"

    def fail_over(self) -> None:
        """The primary dies, and the standby takes its place."""
        self.primary.sigkill()
        self.standby.promote()

    def renew(self) -> None:
        """A new standby of the new primary, where the dead one was."""
        dead, self.primary = self.primary, self.standby
        self.standby = self.primary.standby()
        self.standby.stop()
        self.standby.port = dead.port
        self.standby.start()
        self.follows()

    def follows(self) -> None:
        """Return when the standby has everything and commits wait for it."""
        query = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'"
        while not self.primary.ask(query):
            pass


async def failing(pair: Pair, crowd: NodesCrowd, times: int) -> None:
    """So many failovers, each in the midst of things."""
    chance, loop = random.Random(times), asyncio.get_running_loop()
    for round_ in range(times):
        if round_:
            await loop.run_in_executor(None, pair.renew)
        await crowd.goes_on(30)
        await asyncio.sleep(chance.uniform(0.0, 0.3))
        await loop.run_in_executor(None, pair.fail_over)
        await crowd.goes_on(30)


def failed_over(folder: Path, times: int) -> NodesCrowd:
    """What a crowd does and sees meanwhile."""
    with a_cluster(fsync="on") as cluster:
        pair = Pair(cluster)
        with several(folder, pair.dsn, NODES) as nodes:
            crowd = NodesCrowd([node.door for node in nodes], times)

            async def play() -> None:
                await crowd.open_channel()
                await crowd.play(WRITERS, READERS, STREAMS, failing(pair, crowd, times))

            asyncio.run(play())
            crowd.surprises = surprises(nodes)
    return crowd


def test_nothing_acknowledged_is_lost_or_doubled_in_a_failover(tmp_path: Path, full: bool) -> None:
    crowd = failed_over(tmp_path, 5 if full else 1)

    print(told(crowd))
    assert check(crowd.history) + short(crowd.history) == []
    assert crowd.refusals + crowd.surprises == []


def without_the_standby(folder: Path, mutant: str = "") -> NodesCrowd:
    """What a crowd does and sees when the standby was away for a while before the primary dies."""
    with a_cluster(fsync="on") as cluster:
        pair = Pair(cluster)
        with several(folder, pair.dsn, 1, mutant) as nodes:
            crowd = NodesCrowd([node.door for node in nodes], 1)
            crowd.patience = 1.0 if mutant else crowd.patience

            async def cut_off() -> None:
                loop = asyncio.get_running_loop()
                await crowd.goes_on(20)
                await loop.run_in_executor(None, pair.standby.stop, "immediate")
                before = crowd.statuses[503] + crowd.statuses[201]
                # Answers come, of whichever kind.
                await crowd.until(lambda: crowd.statuses[503] + crowd.statuses[201] > before + 20)
                await loop.run_in_executor(None, pair.primary.sigkill)
                await loop.run_in_executor(None, pair.standby.start)
                await loop.run_in_executor(None, pair.standby.promote)
                await crowd.goes_on(20)

            async def play() -> None:
                await crowd.open_channel()
                await crowd.play(WRITERS, 2, 2, cut_off())

            asyncio.run(play())
            crowd.surprises = surprises(nodes)
    return crowd


@at_full_length
def test_nothing_is_acknowledged_that_the_standby_does_not_have(tmp_path: Path) -> None:
    crowd = without_the_standby(tmp_path)

    print(told(crowd))
    assert check(crowd.history) + short(crowd.history) == []
    assert crowd.statuses[503] > 0


@at_full_length
def test_a_node_that_does_not_wait_for_the_standby_is_found_out(tmp_path: Path) -> None:
    crowd = without_the_standby(tmp_path, "wait_for_no_standby")

    found = check(crowd.history)
    print(told(crowd), f"; {len(found)} rules broken")
    assert {line.split(":")[0] for line in found} & {"I1", "I3"}


async def answered(pair: Pair, node: Node) -> tuple[int, list[int]]:
    """How a message is answered whose wait for the standby is cancelled; and how its repetitions are."""
    loop = asyncio.get_running_loop()
    client = NodeClient(node.door, agent="ann", patience=10.0)
    crowd = NodesCrowd([node.door], 1)
    await crowd.open_channel()
    await loop.run_in_executor(None, pair.standby.stop)

    body = {"to": "*", "message_type": "notify", "payload": {"n": 1}}
    say = partial(client.post, f"/channels/{crowd.channel_id}/messages", body, {"Idempotency-Key": "once"})
    async with again_and_again(pair.primary, _CANCEL):
        first = (await say()).status
    await loop.run_in_executor(None, pair.standby.start)
    await loop.run_in_executor(None, pair.follows)
    again: list[int] = []
    async with asyncio.timeout(60):
        while not again or again[-1] != 201:
            again.append((await say()).status)
            await asyncio.sleep(0.05)
    again.append((await say()).status)
    listed = await client.get(f"/channels/{crowd.channel_id}/messages")
    assert [one["payload"]["n"] for one in listed.json] == [1]
    await client.close()
    return first, again


def test_a_commit_whose_wait_for_the_standby_was_cancelled_is_in_doubt(tmp_path: Path) -> None:
    with a_cluster(fsync="on") as cluster:
        pair = Pair(cluster)
        nodes = [Node(tmp_path, pair.dsn, "good"), Node(tmp_path, pair.dsn, "bad", mutant="believe_a_cancelled_wait")]
        with running(nodes):
            first, again = asyncio.run(answered(pair, nodes[0]))
            believed, _ = asyncio.run(answered(pair, nodes[1]))

    assert first == 503
    assert again[-2:] == [201, 201]
    # A node that does not listen to the warning would have been found out.
    assert believed == 201
