"""The PostgreSQL store of a server keeps the contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parley.adapters.postgres.store import PostgresTeamStore
from tests.contract.team_suite import TeamSuite
from tests.postgres.cluster import drop
from tests.postgres.store import a_store, fresh_database


class TestPostgresTeamStore(TeamSuite):
    @pytest.fixture(autouse=True)
    def database(self) -> Iterator[None]:
        self.dsn = fresh_database()
        yield
        drop(self.dsn)

    def make_store(self) -> PostgresTeamStore:
        return a_store(self.dsn)
