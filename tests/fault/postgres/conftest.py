"""A PostgreSQL that keeps what it acknowledges, for the tests that do not harm it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.postgres.cluster import Cluster, a_cluster

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def durable_cluster() -> Iterator[Cluster]:
    with a_cluster(fsync="on") as cluster:
        yield cluster


@pytest.fixture
def dsn(durable_cluster: Cluster) -> str:
    """An empty database in it."""
    return durable_cluster.create_database(f"fault_{next(_numbers)}")
