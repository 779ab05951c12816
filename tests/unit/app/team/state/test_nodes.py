"""What a server knows of the others: which works it does for them, and how all of them are."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.app.team.state.nodes import NodeState
from parley.domain.store.node import Node
from tests.rigs.node import two_nodes
from tests.rigs.team import in_loop

pytestmark = pytest.mark.both_stores


@in_loop
async def test_a_server_that_is_alone_does_everything() -> None:
    nodes = NodeState(name="only", version="1.0")

    assert await nodes.leads("sweep")
    assert nodes.node(5.0, 2) == Node("only", "1.0", uptime=5.0, streams=2, leads=("sweep",))
    await nodes.leave()  # there is nobody to leave


@in_loop
async def test_one_of_two_does_a_work_until_it_leaves(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        first = [await a.team.nodes.leads("sweep"), await b.team.nodes.leads("sweep")]
        led = (a.team.nodes.leading, b.team.nodes.leading)

        await a.team.nodes.leave()
        then = [await b.team.nodes.leads("sweep"), await a.team.nodes.leads("sweep")]

        assert (first, then) == ([True, False], [True, False])
        assert led == (a.team.nodes.leading, b.team.nodes.leading) == (set(), {"sweep"})


@in_loop
async def test_each_tells_how_it_is_and_hears_how_the_others_are(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        assert await a.team.nodes.leads("webhooks")
        assert a.team.nodes.nodes is not None
        await a.team.nodes.nodes.heartbeat(a.team.nodes.node(7.0, 3))
        report = await b.team.nodes.report(b.team.nodes.node(1.0, 0))

        assert report.kind == "postgresql"
        assert [(one.name, one.url, one.streams, one.leads) for one in report.nodes] == [
            ("a", "http://a", 3, ("webhooks",)),
            ("b", "http://b", 0, ()),
        ]
