"""The table of stores: which address names which, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from parley import settings, store_wiring
from parley.domain.errors.errors import BadConfig, Invalid
from parley.store_wiring import STORES, find_store


@pytest.mark.parametrize("place", ["postgresql://ann@db/parley", "postgres://db/parley"])
def test_a_database_is_known_by_the_scheme_of_its_address(place: str) -> None:
    assert find_store(place).is_database


@pytest.mark.parametrize("place", ["parley.db", "/var/lib/parley", "./data", "postgresql", "postgresql:db"])
def test_all_else_is_a_path(place: str) -> None:
    assert not find_store(place).is_database


@pytest.mark.parametrize("place", ["mysql://db/parley", "://db", "POSTGRESQL+x://db"])
def test_an_address_of_no_store_is_refused_with_those_that_there_are(place: str) -> None:
    with pytest.raises(Invalid) as refusal:
        find_store(place)

    assert all(kind.example in refusal.value.hint for kind in STORES)


def test_a_scheme_names_one_store_and_a_path_names_one() -> None:
    schemes = [scheme for kind in STORES for scheme in kind.schemes]

    assert len(schemes) == len(set(schemes))
    assert [kind.is_database for kind in STORES].count(False) == 1


def test_a_store_without_its_driver_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_wiring, "find_spec", lambda name: None)

    with pytest.raises(BadConfig) as refusal:
        find_store("postgresql://db/parley")

    assert "agent-parley[postgres]" in refusal.value.hint


def test_a_server_names_the_setting_with_the_wrong_address(tmp_path: Path) -> None:
    loaded = settings.load(environ={"HOME": str(tmp_path), "PARLEY_STORE": "mysql://db/parley"})

    with pytest.raises(BadConfig, match=r"\$PARLEY_STORE: mysql://"):
        asyncio.run(store_wiring.open_for_server(loaded, str(tmp_path / "parley.db"), durable=False))
