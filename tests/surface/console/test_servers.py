"""The page of the servers: what needs an operator first, and ten minutes as lines; who may open it."""

from __future__ import annotations

import re
from collections.abc import Callable

from parley.domain.directory.callers import KeyKind
from parley.domain.store.node import Node, NodeSample, StoreReport
from tests.rigs.team import LiveServer, with_server
from tests.rigs.visitor import signed_in, text_of


def reports(server: LiveServer, report_of: Callable[[Node], StoreReport]) -> None:
    """Let the store say this of itself and its servers."""

    async def report(here: Node) -> StoreReport:
        return report_of(here)

    server.rig.team.nodes.report = report  # type: ignore[method-assign]


@with_server
async def test_an_operator_sees_the_store_the_servers_and_their_last_minutes(server: LiveServer) -> None:
    visitor = await signed_in(server)
    reports(server, lambda here: StoreReport("sqlite", "3.40", 1, 9_900_000, nodes=(here._replace(leads=("sweep",)),)))
    await (await server.client("alice")).get("/channels/none")
    server.rig.clock.pass_by(seconds=30)

    page = await visitor.open("/console/servers")

    words = text_of(page)
    assert "Servers no problems" in words.replace("  ", " ")
    assert "Store SQLite 3.40 Size 9.4 MiB" in words
    assert "sweep" in words
    assert "1 not_found" in words
    # What is drawn is also said.
    drawn = r'role="img" aria-label="Requests in 10 s of [^"]* in the last ten minutes: now [0-9]+, at most [1-9]'
    assert re.search(drawn, page.body.decode())
    assert 'data-every="2"' in page.body.decode()


@with_server
async def test_what_needs_an_operator_stands_first_with_what_to_do(server: LiveServer) -> None:
    visitor = await signed_in(server)
    silent = Node("b:8420", "0.7.0", "http://b:8420", seen=12.3, history=(NodeSample(0, lag=7),))
    reports(
        server, lambda here: StoreReport("postgresql", "16", standbys="s1", row_security=True, nodes=(here, silent))
    )

    page = await visitor.open("/console/servers")

    words = text_of(page)
    assert "2 problems" in words
    assert words.index("b:8420 was last heard of 12 s ago") < words.index("Look at its log") < words.index("Store")
    assert "synchronous_standby_names is s1, and none follows" in words
    assert "b:8420 silent" in words.replace("  ", " ")


@with_server
async def test_the_servers_are_no_page_of_people_and_other_tenants(server: LiveServer) -> None:
    operator = await signed_in(server)
    for visitor in (await signed_in(server, tenant="acme"), await signed_in(server, KeyKind.HUMAN)):
        page = await visitor.open("/console/servers")
        assert (page.status, 'href="/console/servers"' in page.body.decode()) == (403, False)
    assert 'href="/console/servers"' in (await operator.open("/console/approvals")).body.decode()
