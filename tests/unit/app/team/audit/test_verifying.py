"""The server says how far its log is intact, piece by piece, and finds what was changed in the store."""

from __future__ import annotations

import pytest

from parley.app.team.audit import checkpoints, verifying
from parley.app.team.audit.verifying import CHECK_AGAIN_AFTER
from parley.domain.audit.entry import AuditEntry
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.store.changes import AuditQuery, TeamChanges
from tests.rigs.team import Rig, with_rig
from tests.samples.audit import a_draft


async def write(rig: Rig, count: int) -> None:
    size = await rig.store.audit_size(DEFAULT_TENANT)
    drafts = tuple([a_draft(number, ("alice", "bob")[number % 2]) for number in range(size + 1, size + count + 1)])
    await rig.store.commit(TeamChanges(DEFAULT_TENANT, audits=drafts))


@with_rig
async def test_the_state_grows_with_the_log_and_each_call_checks_some_more(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await verifying.state(rig.team, DEFAULT_TENANT))[:3] == (0, 0, "")
    monkeypatch.setattr(verifying, "_PIECE", 3)
    monkeypatch.setattr(verifying, "_PIECES_MAX", 2)
    await write(rig, 8)
    await checkpoints.make(rig.team, DEFAULT_TENANT)
    await write(rig, 1)

    states = [await verifying.state(rig.team, DEFAULT_TENANT) for _ in range(3)]

    assert [(state.size, state.signed_size, state.verified_to) for state in states] == [(9, 8, 6), (9, 8, 9), (9, 8, 9)]
    assert [state.broken_at for state in states] == [0, 0, 0]
    assert all((states[0].key_id, states[0].signed_at))


@with_rig
async def test_an_entry_that_is_changed_later_is_found_when_the_log_is_checked_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(rig, 5)
    assert (await verifying.state(rig.team, DEFAULT_TENANT)).verified_to == 5
    stored = rig.store.audits

    async def changed(tenant: str, query: AuditQuery) -> tuple[AuditEntry, ...]:
        entries = await stored(tenant, query)
        return tuple([entry._replace(document=b"{}") if entry.number == 4 else entry for entry in entries])

    monkeypatch.setattr(rig.store, "audits", changed)
    assert (await verifying.state(rig.team, DEFAULT_TENANT)).broken_at == 0
    rig.clock.pass_by(seconds=CHECK_AGAIN_AFTER.total_seconds() + 1)

    state = await verifying.state(rig.team, DEFAULT_TENANT)

    assert (state.broken_at, state.verified_to, state.why) == (4, 3, "hash does not match content")
