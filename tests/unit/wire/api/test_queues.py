"""Jobs as JSON."""

from __future__ import annotations

import msgspec
import pytest

from parley.domain.channel.job import Job, JobState
from parley.wire.api.queues import ClaimIn, ClaimPatch, claimed_of

AT = "2026-03-13T14:30:00.000000+00:00"


def test_a_claimed_job_comes_with_its_message_as_it_is_on_the_stream() -> None:
    job = Job(
        id="msg_1",
        tenant_id="t",
        queue="any:coder",
        item_id="msg_1",
        position=7,
        queued_at=AT,
        changed_at=AT,
        state=JobState.CLAIMED,
        attempts=1,
        holder="bob",
        lease="secret",
        lease_seconds=30.0,
        until=AT,
    )
    document = msgspec.json.decode(msgspec.json.encode(claimed_of(job, "channel_message", b'{"id":"msg_1"}')))

    assert document["data"] == {"id": "msg_1"}
    assert (document["event"], document["lease"], document["until"], document["error"]) == (
        "channel_message",
        "secret",
        AT,
        None,
    )
    assert "eligible" not in document


def test_a_claim_needs_nothing_and_its_end_a_lease() -> None:
    assert msgspec.convert({}, ClaimIn) == ClaimIn(max=1, wait=0.0, lease_seconds=30.0)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"status": "done"}, ClaimPatch)
