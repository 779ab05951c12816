"""Two servers' kernels over one real PostgreSQL: what the one writes, the other has to find out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from parley.adapters.postgres.nodes import PostgresNodes
from parley.adapters.postgres.store import PostgresTeamStore
from parley.app.team.state.nodes import NodeState
from tests.postgres.cluster import drop
from tests.postgres.store import fresh_database
from tests.rigs.team import Rig, open_rig

# Far from those of the first one.
_OTHER_IDS = 1_000_000


@asynccontextmanager
async def two_nodes(folder: Path) -> AsyncIterator[tuple[Rig, Rig]]:
    """The kernels of the nodes a and b."""
    dsn = fresh_database()
    try:
        async with open_rig(folder / "a", dsn=dsn) as a, open_rig(folder / "b", dsn=dsn, first_id=_OTHER_IDS) as b:
            for rig, name in ((a, "a"), (b, "b")):
                assert isinstance(rig.store, PostgresTeamStore)
                rig.team.nodes = NodeState(PostgresNodes(rig.store, f"{name} 1"), name, f"http://{name}", "1.0")
            yield a, b
    finally:
        drop(dsn)
