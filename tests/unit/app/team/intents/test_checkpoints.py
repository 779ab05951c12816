from __future__ import annotations

import asyncio

import pytest

from parley.app.team.intents import checkpoints, events
from parley.app.team.work import sweep
from parley.domain.channel.checkpoint import encode_digest, merkle_root, raw_digest
from parley.domain.channel.event import Event
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import NotFound
from tests.rigs.team import INTENT, Rig, with_rig


async def written(rig: Rig, count: int, intent_id: str = INTENT, tenant: str = DEFAULT_TENANT) -> list[Event]:
    caller = rig.caller("alice", tenant=tenant)
    return [await events.append(rig.team, caller, intent_id, "comment", b"{}") for _ in range(count)]


async def spans(rig: Rig, intent_id: str = INTENT) -> list[tuple[int, int]]:
    found = await checkpoints.list_page(rig.team, rig.caller("alice"), intent_id)
    return [(one.first_sequence, one.last_sequence) for one in found]


@with_rig
async def test_a_checkpoint_is_over_the_hashes_of_what_is_new(rig: Rig) -> None:
    await rig.intent()
    old = await written(rig, 3)
    admin = rig.caller(kind=KeyKind.ADMIN)
    first, _ = await checkpoints.make(rig.team, admin, INTENT)
    new = await written(rig, 2)

    second, made = await checkpoints.make(rig.team, admin, INTENT)

    assert made
    assert first.merkle_root == encode_digest(merkle_root([raw_digest(one.event_hash) for one in old]))
    assert second.merkle_root == encode_digest(merkle_root([raw_digest(one.event_hash) for one in new]))
    assert [one.entry.action for one in await rig.store.entries(DEFAULT_TENANT, 0, 10)] == ["checkpoint_made"] * 2


@with_rig
async def test_without_news_there_is_no_new_one(rig: Rig) -> None:
    await rig.intent()
    admin = rig.caller(kind=KeyKind.ADMIN)
    with pytest.raises(NotFound):
        await checkpoints.make(rig.team, admin, INTENT)
    await written(rig, 1)
    first, _ = await checkpoints.make(rig.team, admin, INTENT)

    assert await checkpoints.make(rig.team, admin, INTENT) == (first, False)


@pytest.mark.both_stores
@with_rig
async def test_two_that_are_made_at_once_are_one(rig: Rig) -> None:
    await rig.intent()
    await written(rig, 2)

    made = await asyncio.gather(*(checkpoints.make(rig.team, rig.caller("x"), INTENT) for _ in range(4)))

    assert len({one.id for one, _ in made}) == 1
    assert [new for _, new in made].count(True) == 1
    assert await spans(rig) == [(1, 2)]


@with_rig
async def test_logs_get_their_checkpoints_after_a_while(rig: Rig) -> None:
    await rig.intent()
    await rig.intent("intent_2")
    await written(rig, 2)
    await written(rig, 1, "intent_2")

    first = await checkpoints.make_due(rig.team)
    await written(rig, 1)
    too_early = await checkpoints.make_due(rig.team)
    rig.clock.pass_by(seconds=checkpoints.DUE_AFTER.total_seconds())
    due = await checkpoints.make_due(rig.team)
    without_news = await checkpoints.make_due(rig.team)

    assert (first, too_early, due, without_news) == (2, 0, 1, 0)
    assert await spans(rig) == [(1, 2), (3, 3)]
    assert await spans(rig, "intent_2") == [(1, 1)]


@with_rig
async def test_a_busy_log_does_not_wait(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "DUE_EVENTS", 3)
    await rig.intent()
    await written(rig, 1)
    await checkpoints.make_due(rig.team)

    await written(rig, 2)
    few = await checkpoints.make_due(rig.team)
    await written(rig, 1)
    many = await checkpoints.make_due(rig.team)

    assert (few, many) == (0, 1)
    assert await spans(rig) == [(1, 1), (2, 4)]


@with_rig
async def test_a_long_log_gets_several(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "MOST_EVENTS", 2)
    monkeypatch.setattr(checkpoints, "_PAGE", 1)
    await rig.intent()
    await written(rig, 5)

    assert await checkpoints.make_due(rig.team) == 3
    assert await spans(rig) == [(1, 2), (3, 4), (5, 5)]


@with_rig
async def test_every_tenant_has_its_own(rig: Rig) -> None:
    await rig.tenant("other")
    await rig.intent()
    await rig.intent("intent_other", tenant="other")
    await written(rig, 1)
    await written(rig, 1, "intent_other", "other")

    assert await checkpoints.make_due(rig.team) == 2
    (ours,) = await checkpoints.list_page(rig.team, rig.caller("alice"))
    (theirs,) = await checkpoints.list_page(rig.team, rig.caller("alice", tenant="other"))
    assert (ours.intent_id, theirs.intent_id) == (INTENT, "intent_other")
    with pytest.raises(NotFound):
        await checkpoints.get(rig.team, rig.caller("alice"), theirs.id)


@with_rig
async def test_the_sweep_makes_what_is_due(rig: Rig) -> None:
    await rig.intent()
    await written(rig, 2)

    await sweep.sweep(rig.team)

    assert await spans(rig) == [(1, 2)]
