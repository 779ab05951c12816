"""Checkpoints are made in time, cost only what is new, never fork, and are kept outside."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from parley.app.team.audit import checkpoints
from parley.app.team.state.outside import AuditState
from parley.domain.audit.checkpoint import AuditCheckpoint
from parley.domain.audit.entry import NO_HASH
from parley.domain.audit.merkle import is_included, tree_root
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.errors.errors import Conflict, Unavailable
from parley.domain.store.changes import AuditQuery, TeamChanges
from tests.rigs.node import two_nodes
from tests.rigs.team import Rig, in_loop, soon, with_rig
from tests.samples.audit import a_draft, verify

pytestmark = pytest.mark.both_stores


class Outside:
    """A archive in memory, which can be taken away."""

    def __init__(self) -> None:
        self.kept: dict[str, list[AuditCheckpoint]] = {}
        self.broken = False

    async def covered(self, tenant: str) -> int:
        return max((one.size for one in self.kept.get(tenant, ())), default=0)

    async def append(self, checkpoints: Sequence[AuditCheckpoint]) -> None:
        if self.broken:
            raise Unavailable("the disk was taken out")
        await asyncio.sleep(0)  # others go on while a disk writes
        for one in checkpoints:
            self.kept.setdefault(one.tenant_id, []).append(one)


async def write(rig: Rig, count: int, tenant: str = DEFAULT_TENANT) -> None:
    size = await rig.store.audit_size(tenant)
    drafts = tuple(
        a_draft(n, ("alice", "bob")[n % 2])._replace(id=f"aud_{tenant}_{n}") for n in range(size + 1, size + count + 1)
    )
    await rig.store.commit(TeamChanges(tenant, audits=drafts))


async def sizes(rig: Rig, tenant: str = DEFAULT_TENANT) -> list[int]:
    return [one.size for one in await checkpoints.list_page(rig.team, tenant, 0, 1000)]


async def hashes(rig: Rig, size: int, tenant: str = DEFAULT_TENANT) -> list[bytes]:
    found = await rig.store.audits(tenant, AuditQuery(through=size, limit=100_000, bare=True))
    return [bytes.fromhex(one.entry_hash) for one in found]


def later(rig: Rig) -> None:
    rig.clock.pass_by(seconds=checkpoints.DUE_AFTER.total_seconds())


@with_rig
async def test_a_checkpoint_signs_the_root_over_all_entries_and_names_the_one_before(rig: Rig) -> None:
    await write(rig, 3)
    await checkpoints.make(rig.team, DEFAULT_TENANT)
    await write(rig, 4)
    await checkpoints.make(rig.team, DEFAULT_TENANT)

    first, second = await checkpoints.list_page(rig.team, DEFAULT_TENANT, 0, 10)

    assert (first.size, second.size) == (3, 7)
    for one in (first, second):
        assert one.root == tree_root(await hashes(rig, one.size)).hex()
        assert verify(bytes.fromhex(one.public_key), bytes.fromhex(one.signature), one.statement)
    assert (first.previous, second.previous) == (NO_HASH, first.hash)


@with_rig
async def test_without_news_there_is_no_new_one(rig: Rig) -> None:
    assert await checkpoints.make(rig.team, DEFAULT_TENANT) is None
    await write(rig, 2)
    made = await checkpoints.make(rig.team, DEFAULT_TENANT)

    again = await checkpoints.make(rig.team, DEFAULT_TENANT)

    assert made is not None
    assert again is not None
    assert (again.hash, await sizes(rig)) == (made.hash, [2])


@with_rig
async def test_what_is_new_waits_a_few_seconds_unless_it_is_a_lot(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "DUE_ENTRIES", 10)
    await write(rig, 1)
    at_once = await checkpoints.make_due(rig.team)
    await write(rig, 9)
    too_early = await checkpoints.make_due(rig.team)
    later(rig)
    due = await checkpoints.make_due(rig.team)
    await write(rig, 10)
    many = await checkpoints.make_due(rig.team)
    without_news = await checkpoints.make_due(rig.team)

    assert (at_once, too_early, due, many, without_news) == (1, 0, 1, 1, 0)
    assert await sizes(rig) == [1, 10, 20]


@with_rig
async def test_where_nothing_was_written_nobody_looks_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.tenant("acme")
    await write(rig, 1)
    await checkpoints.make_due(rig.team)
    await checkpoints.make_due(rig.team)  # its own commit was something new

    async def looked(tenant: str) -> int:
        raise AssertionError(tenant)

    monkeypatch.setattr(rig.store, "audit_size", looked)

    assert await checkpoints.make_due(rig.team) == 0


@with_rig
async def test_each_tenant_has_checkpoints_of_its_own(rig: Rig) -> None:
    await rig.tenant("acme")
    await write(rig, 2)
    await write(rig, 3, "acme")

    assert await checkpoints.make_due(rig.team) == 2
    assert (await sizes(rig), await sizes(rig, "acme")) == ([2], [3])


@with_rig
async def test_two_that_are_made_at_once_are_one(rig: Rig) -> None:
    await write(rig, 5)

    made = await asyncio.gather(*(checkpoints.make(rig.team, DEFAULT_TENANT) for _ in range(4)))

    assert len({one.hash for one in made if one}) == 1
    assert await sizes(rig) == [5]


@with_rig
async def test_after_a_restart_the_tree_goes_on_where_it_was(rig: Rig) -> None:
    await write(rig, 5)
    await checkpoints.make(rig.team, DEFAULT_TENANT)
    await rig.reopen()
    await write(rig, 6)

    made = await checkpoints.make(rig.team, DEFAULT_TENANT)

    assert made is not None
    assert made.root == tree_root(await hashes(rig, 11)).hex()


@with_rig
async def test_every_checkpoint_is_kept_outside_once_and_in_order(rig: Rig) -> None:
    outside = rig.team.audit.archive = Outside()
    for _ in range(3):
        await write(rig, 2)
        await checkpoints.make(rig.team, DEFAULT_TENANT)

    assert [one.size for one in outside.kept[DEFAULT_TENANT]] == [2, 4, 6]
    assert [one.hash for one in outside.kept[DEFAULT_TENANT]] == [
        one.hash for one in await checkpoints.list_page(rig.team, DEFAULT_TENANT, 0, 9)
    ]


@with_rig
async def test_what_requests_and_the_background_make_at_once_is_kept_outside_once(rig: Rig) -> None:
    outside = rig.team.audit.archive = Outside()

    async def write_and_make() -> None:
        await write(rig, 1)
        await checkpoints.make(rig.team, DEFAULT_TENANT)

    for _ in range(5):
        await write(rig, 1)
        later(rig)
        await asyncio.gather(
            checkpoints.make(rig.team, DEFAULT_TENANT), write_and_make(), checkpoints.make_due(rig.team)
        )
        await checkpoints.make_due(rig.team)

    assert [one.size for one in outside.kept[DEFAULT_TENANT]] == await sizes(rig)


@with_rig
async def test_what_could_not_be_kept_outside_is_kept_there_later(rig: Rig) -> None:
    outside = rig.team.audit.archive = Outside()
    outside.broken = True
    await write(rig, 2)
    await checkpoints.make_due(rig.team)
    await write(rig, 2)
    await checkpoints.make(rig.team, DEFAULT_TENANT)
    assert outside.kept == {}

    outside.broken = False
    await checkpoints.make_due(rig.team)

    assert [one.size for one in outside.kept[DEFAULT_TENANT]] == [2, 4]


@with_rig
async def test_a_new_archive_gets_everything_that_there_is(rig: Rig) -> None:
    for _ in range(3):
        await write(rig, 1)
        await checkpoints.make(rig.team, DEFAULT_TENANT)
    await rig.reopen()

    outside = rig.team.audit.archive = Outside()
    await checkpoints.make_due(rig.team)

    assert [one.size for one in outside.kept[DEFAULT_TENANT]] == [1, 2, 3]


@with_rig
async def test_a_log_that_was_set_back_is_said(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    outside = rig.team.audit.archive = Outside()
    await write(rig, 2)
    made = await checkpoints.make(rig.team, DEFAULT_TENANT)
    assert made is not None
    outside.kept[DEFAULT_TENANT] = [replace(made, size=9)]
    rig.team.audit.exported.clear()
    await write(rig, 1)

    await checkpoints.make(rig.team, DEFAULT_TENANT)

    assert "shorter than the checkpoints" in caplog.text


@with_rig
async def test_without_a_key_nothing_is_signed(rig: Rig) -> None:
    rig.team.audit.signer = None
    await write(rig, 2)

    assert await checkpoints.make_due(rig.team) == 0
    (entry,) = await rig.store.audits(DEFAULT_TENANT, AuditQuery(limit=1))
    with pytest.raises(Conflict):
        await checkpoints.prove(rig.team, DEFAULT_TENANT, entry)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 21, 32])
@with_rig
async def test_every_entry_is_proved_by_the_blocks_of_the_tree(
    rig: Rig, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_BLOCK", 8)
    await write(rig, count)

    for entry in await rig.store.audits(DEFAULT_TENANT, AuditQuery(limit=100)):
        proof = await checkpoints.prove(rig.team, DEFAULT_TENANT, entry)
        root = bytes.fromhex(proof.checkpoint.root)
        assert proof.checkpoint.size == count
        assert is_included(bytes.fromhex(entry.entry_hash), entry.number - 1, count, proof.path, root)


@with_rig
async def test_a_log_that_lost_entries_is_not_signed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await write(rig, 3)

    async def more(tenant: str) -> int:
        del tenant
        return 5

    monkeypatch.setattr(rig.store, "audit_size", more)

    with pytest.raises(Unavailable, match="does not hold"):
        await checkpoints.make(rig.team, DEFAULT_TENANT)


# ---------------------------------------------------------------- servers that share a store


@in_loop
async def test_what_another_server_wrote_gets_its_checkpoint(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        await write(a, 3)
        assert await checkpoints.make_due(b.team) == 1

        await write(a, checkpoints.DUE_ENTRIES)
        b.team.audit.mark_active(DEFAULT_TENANT)
        assert await checkpoints.make_due(b.team) == 1

        assert await sizes(b) == [3, 3 + checkpoints.DUE_ENTRIES]


@in_loop
async def test_a_server_that_heard_nothing_finds_what_others_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(checkpoints, "ALL_SECONDS", 0.01)
    monkeypatch.setattr(AuditState, "mark_active", lambda *_: None)
    async with two_nodes(tmp_path) as (a, b):
        await a.tenant("acme")
        keeping = asyncio.ensure_future(checkpoints.keep_forever(b.team))
        await soon(lambda: b.team.audit.active is not None)

        await write(a, 3, "acme")

        async def found() -> bool:
            return await sizes(a, "acme") == [3]

        await soon(found)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
