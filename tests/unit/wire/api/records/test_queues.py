"""Jobs as the API answers with them."""

from __future__ import annotations

import msgspec

from parley.wire.api.records.queues import ClaimedJob

AT = "2026-03-13T14:30:00Z"
MESSAGE = {
    "id": "msg_1",
    "channel_id": "chan_1",
    "sender": "alice",
    "message_type": "request",
    "payload": {"text": "how?"},
    "created_at": AT,
}


def test_a_claimed_job_has_its_message_and_does_not_show_its_lease() -> None:
    document = {
        "id": "msg_1",
        "queue": "any:coder",
        "state": "claimed",
        "item_id": "msg_1",
        "position": 1,
        "attempts": 1,
        "lost_readers": 0,
        "queued_at": AT,
        "changed_at": AT,
        "lease": "s3cret",
        "lease_seconds": 30,
        "event": "channel_message",
        "data": MESSAGE,
    }
    job = msgspec.convert(document, ClaimedJob)

    assert job.message.payload == {"text": "how?"}
    assert "s3cret" not in repr(job)
