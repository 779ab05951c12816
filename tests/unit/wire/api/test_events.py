import msgspec
import pytest

from parley.domain.channel.checkpoint import Checkpoint
from parley.wire.api.events import CheckpointOut, EventIn, checkpoint, trace_of

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(
    ("header", "trace"),
    [
        (f"00-{TRACE}-b7ad6b7169203331-01", TRACE),
        (f"01-{TRACE}-b7ad6b7169203331-01-more", TRACE),
        ("", ""),
        (TRACE, ""),
        (f"00-{TRACE.upper()}-b7ad6b7169203331-01", ""),
        (f"00-{TRACE}-b7ad6b7169203331-01\n", ""),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", ""),
        (f"ff-{TRACE}-b7ad6b7169203331-01", ""),
    ],
)
def test_a_traceparent_gives_its_trace(header: str, trace: str) -> None:
    assert trace_of(header) == trace


@pytest.mark.parametrize(
    "more",
    [
        {"event_type": "a b"},
        {"event_type": ""},
        {"trace_id": TRACE.upper()},
        {"trace_id": TRACE + "0"},
        {"id": "evt_1"},
        {"sequence": 1},
    ],
)
def test_what_is_no_event_is_refused(more: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"event_type": "comment", **more}, EventIn)


def test_a_checkpoint_has_every_field_that_the_sdk_reads() -> None:
    made = Checkpoint(
        id="c", tenant_id="t", intent_id="i", merkle_root="r", first_sequence=2, last_sequence=4, created_at="x"
    )

    document = checkpoint(made)

    assert msgspec.to_builtins(msgspec.convert(document, CheckpointOut)) == document
    assert (document["event_count"], document["signed_by"], document["anchor"]) == (3, None, None)
