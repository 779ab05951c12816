"""Databases for copies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres.cluster import drop, new_database


@pytest.fixture
def dsn() -> Iterator[str]:
    """An empty database."""
    made = new_database()
    yield made
    drop(made)
