"""A server with a fixed clock, counted ids and an operator's key, for a story.

This and `fixed_process` are the only modules here that import from `parley` directly. What they import may move;
nothing else in this folder has to follow.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from parley.app.team.directory.keys import first_start
from tests.rigs.fake_outbound import FakeOutbound
from tests.rigs.team import LiveServer, live_server, open_rig

OPERATOR_KEY = "pk_golden_operator"
# Ids of a server that opens recorded data begin here, so that none is taken already.
LATER_IDS = 100_000


@asynccontextmanager
async def a_server(folder: Path, *, first_id: int = 1, dsn: str = "") -> AsyncIterator[LiveServer]:
    """A server on the store of a folder, or of a database. Webhooks go nowhere; people may decide by links."""
    async with open_rig(folder, first_id=first_id, dsn=dsn) as rig, live_server(rig) as server:
        rig.team.outbound = FakeOutbound()
        rig.team.approval_links = True
        await first_start(rig.team, OPERATOR_KEY)
        yield server
