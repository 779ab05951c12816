"""Entries are counted by hour and day, of what the caller may see, and never more than a bounded number of them."""

from __future__ import annotations

import pytest

from parley.app.team.audit import counting
from parley.domain.audit.entry import TENANT_SIDE, AuditDraft
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.store.changes import TeamChanges
from tests.rigs.team import Rig, with_rig
from tests.samples.audit import a_draft

pytestmark = pytest.mark.both_stores
DAY = "2026-03-13"
PERIOD = {"side": "", "since": f"{DAY}T00:00:00.000000+00:00", "until": "2026-03-14T00:00:00.000000+00:00"}


def message(number: int, hour: int, side: str, outcome: str, role: str) -> AuditDraft:
    at = f"{DAY}T{hour:02}:30:00.000000+00:00"
    return a_draft(number, side, outcome=outcome, role=role)._replace(at=at)


@with_rig
async def test_each_hour_has_its_messages_by_outcome(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    drafts = (
        message(1, 9, "alice", "delivered", "sender"),
        message(2, 9, "bob", "delivered", "receiver"),
        message(3, 9, "bob", "held", "sender"),
        message(4, 11, "alice", "denied", "sender"),
        message(5, 11, TENANT_SIDE, "denied", ""),
    )
    await rig.store.commit(TeamChanges(DEFAULT_TENANT, audits=drafts))
    admin, bob = rig.caller(kind=KeyKind.ADMIN), rig.caller("bob")

    by_hour = await counting.count_by(rig.team, admin, "hour", **PERIOD)

    assert by_hour.spans == [(f"{DAY}T09", 3, 1, 1, 1, 0), (f"{DAY}T11", 2, 0, 0, 0, 1)]
    assert (await counting.count_by(rig.team, bob, "day", **PERIOD)).spans == [(DAY, 2, 0, 1, 1, 0)]
    assert (await counting.count_by(rig.team, bob, "day", **{**PERIOD, "side": "alice"})).spans == []
    late = {**PERIOD, "since": f"{DAY}T10:00:00.000000+00:00"}
    assert [span.at for span in (await counting.count_by(rig.team, admin, "hour", **late)).spans] == [f"{DAY}T11"]

    monkeypatch.setattr(counting, "_ENTRIES_MAX", 2)
    bounded = await counting.count_by(rig.team, admin, "hour", **PERIOD)
    assert (bounded.since, [span.entries for span in bounded.spans]) == (drafts[3].at, [2])
