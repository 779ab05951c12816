"""What a server is put together from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from parley import settings, wiring
from parley.app.team.work import sweep
from parley.domain.channel.channel import Channel, Options
from parley.domain.directory.access import Access
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.store.changes import TeamChanges
from parley.domain.times import stamp
from tests.contract.team_store import a_channel, a_post, an_entry
from tests.rigs.team import in_loop


@in_loop
async def test_a_server_that_starts_long_after_its_newest_record_ends_nothing_at_once(tmp_path: Path) -> None:
    data, configuration = str(tmp_path / "data"), settings.load({})
    long_ago = stamp(datetime.now(UTC) - timedelta(days=40))
    channel = a_channel(tenant=DEFAULT_TENANT, created_at=long_ago, options=Options(ttl_seconds=60), expires=long_ago)
    async with wiring.open_team(configuration, data) as first:
        access = Access(id="intent_1", tenant_id=DEFAULT_TENANT, created_by="alice")
        message = a_post(created_at=long_ago, expires_at=long_ago)
        entry = an_entry()._replace(at=long_ago)
        await first.team.store.commit(
            TeamChanges(DEFAULT_TENANT, puts=(channel, access), posts=(message,), entries=(entry,))
        )

    async with wiring.open_team(configuration, data) as second:
        due = await sweep.sweep(second.team)
        still_there = await second.team.store.get(Channel, DEFAULT_TENANT, "chan_1")

        assert second.team.clock.now().stepped
    assert due == 0
    assert still_there is not None
    assert still_there.is_open
