import msgspec
import pytest

from parley.domain.channel.checkpoint import Checkpoint
from parley.wire.api.events import EventIn, chain_check_of, checkpoint_of, trace_of
from parley.wire.proofs.event_log import Chain

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


def test_a_checkpoint_counts_its_events_and_says_null_where_nothing_is() -> None:
    made = Checkpoint(
        id="c", tenant_id="t", intent_id="i", merkle_root="r", first_sequence=2, last_sequence=4, created_at="x"
    )

    checkpoint = checkpoint_of(made)

    assert (checkpoint.event_count, checkpoint.signed_by, checkpoint.anchor) == (3, None, None)


def test_a_chain_that_holds_has_no_breaks() -> None:
    check = chain_check_of("i", Chain())

    assert (check.intent_id, check.valid, check.event_count, check.breaks) == ("i", True, 0, [])
