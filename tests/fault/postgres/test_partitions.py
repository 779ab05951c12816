"""A node that the database cannot be reached from: it says so, the others go on, and it comes back by itself."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.fault.conftest import missing
from tests.fault.postgres.crowd import NodeClient, NodesCrowd, short, told
from tests.fault.postgres.namespaces import Namespace, namespaces
from tests.fault.postgres.nodes import Node, running, surprises
from tests.fault.team.crowd import BROKEN
from tests.fault.team.history import check
from tests.postgres.cluster import Cluster, a_cluster

pytestmark = [
    pytest.mark.fault,
    pytest.mark.slow,
    # The sockets of this crowd are torn at any moment; what they leave behind is not what is tested.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NODES, WRITERS, READERS, STREAMS = 3, 9, 3, 3
# Which way nothing gets through.
CUTS = ({"there": True, "back": True}, {"there": True, "back": False}, {"there": False, "back": True})


@pytest.fixture
def networks() -> Iterator[list[Namespace]]:
    """One for each node. Whoever is not root has none to give."""
    if os.geteuid() != 0:
        missing("only root can make network namespaces")
    try:
        with namespaces(NODES) as found:
            yield found
    except OSError as error:
        missing(f"a network namespace cannot be made here: {error}")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One that nodes on other machines may use."""
    with a_cluster(fsync="on", listen_addresses="*") as cluster:
        with (cluster.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all parley 198.19.0.0/16 trust\n")
        cluster.reload()
        yield cluster


def on_machines(folder: Path, cluster: Cluster, networks: Sequence[Namespace]) -> list[Node]:
    cluster.create_database("fault")
    return [
        Node(
            folder,
            f"postgresql://parley@{network.database}:{cluster.port}/fault",
            f"n{number}",
            *("--host", network.node, "--behind-proxy", "--allow-root"),
            host=network.node,
            before=network.before,
        )
        for number, network in enumerate(networks)
    ]


async def says_so(node: Node) -> float:
    """Ask a node until it says that it has no database; how long the answer took that said so."""
    while True:
        client = NodeClient(node.door, patience=10.0)
        began = time.monotonic()
        try:
            answer = await client.get("/agents")
            if answer.status == 503:
                assert int(answer.headers["retry-after"]) >= 1
                return time.monotonic() - began
        except BROKEN:
            pass
        finally:
            await client.close()
        await asyncio.sleep(0.05)


async def cutting(
    crowd: NodesCrowd, nodes: Sequence[Node], networks: Sequence[Namespace], times: int, took: list[float]
) -> None:
    """Cut nodes off in turn, each in another way; while one is cut off, the others have to go on."""
    loop = asyncio.get_running_loop()
    for turn, how in zip(range(times), itertools.cycle(CUTS), strict=False):
        node, network = nodes[turn % NODES], networks[turn % NODES]
        await crowd.goes_on(10)
        await loop.run_in_executor(None, partial(network.cut, **how))
        try:
            async with asyncio.timeout(60):
                took.append(await says_so(node))
            await crowd.goes_on(10, apart_from=node.door)
        finally:
            await loop.run_in_executor(None, network.heal)
        healed = time.monotonic()
        await crowd.until(lambda: any(one.door == node.door and one.began > healed for one in crowd.acknowledged))  # noqa: B023


def test_a_cut_off_node_says_so_and_comes_back_and_nothing_is_lost_or_doubled(
    tmp_path: Path, cluster: Cluster, networks: list[Namespace], full: bool
) -> None:
    took: list[float] = []
    with running(on_machines(tmp_path, cluster, networks)) as nodes:
        crowd = NodesCrowd([node.door for node in nodes], 1)

        async def play() -> None:
            await crowd.open_channel()
            await crowd.play(WRITERS, READERS, STREAMS, cutting(crowd, nodes, networks, 12 if full else 3, took))

        asyncio.run(play())
        crowd.surprises = surprises(nodes)

    print(told(crowd), f"; 503 after {', '.join(f'{one:.1f}' for one in took)} s")
    assert check(crowd.history) + short(crowd.history) == []
    assert crowd.refusals + crowd.surprises == []
