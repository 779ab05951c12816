"""The names of a tenant are read once, and follow what is committed."""

from __future__ import annotations

import pytest

from parley.app.team.state import known_names
from parley.app.team.state.known_names import NameCache
from parley.domain.directory.callers import DEFAULT_TENANT, AgentStatus
from parley.domain.store.changes import Committed
from tests.rigs.team import Rig, with_rig


async def names(rig: Rig) -> list[set[str]]:
    return [set(kind) for kind in await rig.team.names.get(DEFAULT_TENANT)]


@with_rig
async def test_names_are_those_of_present_agents_and_held_roles(rig: Rig) -> None:
    await rig.agent("bob")
    await rig.agent("gone", status=AgentStatus.DEREGISTERED)
    await rig.role("reviewer", "bob")
    await rig.role("nobody")

    assert await names(rig) == [{"bob"}, {"reviewer"}]


@with_rig
async def test_every_commit_after_the_first_look_counts(rig: Rig) -> None:
    assert await names(rig) == [set(), set()]

    await rig.agent("bob")
    await rig.role("reviewer", "bob")
    assert await names(rig) == [{"bob"}, {"reviewer"}]

    await rig.agent("bob", status=AgentStatus.DEREGISTERED)
    await rig.role("reviewer")
    assert await names(rig) == [set(), set()]


@with_rig
async def test_what_was_committed_while_the_names_were_read_is_not_missed(rig: Rig) -> None:
    cache = NameCache(rig.store)
    rig.store.watch(cache.publish)
    load = cache._load

    async def slow(tenant: str) -> known_names.KnownNames:
        loaded = await load(tenant)
        await rig.agent("carol")
        return loaded

    cache._load = slow  # type: ignore[method-assign]
    await cache.get(DEFAULT_TENANT)
    cache._load = load  # type: ignore[method-assign]

    assert (await cache.get(DEFAULT_TENANT)).agents == {"carol"}


@with_rig
async def test_names_are_read_again_after_commits_were_missed_and_are_few_in_memory(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_names, "_TENANTS_MAX", 2)
    cache = NameCache(rig.store)
    first = await cache.get(DEFAULT_TENANT)
    assert await cache.get(DEFAULT_TENANT) is first

    cache.publish(DEFAULT_TENANT, Committed(1, missed=True))
    again = await cache.get(DEFAULT_TENANT)
    assert again is not first

    await cache.get("t2")
    await cache.get("t3")
    assert await cache.get(DEFAULT_TENANT) is not again
