import json
from typing import Any

import pytest

from parley.domain.channel.event import Event, EventDraft
from parley.wire.proofs.event_log import Chain, appended, canonical, event_hash, served

VECTOR = {
    "actor": "a",
    "created_at": "2026-02-13T10:00:00Z",
    "event_type": "intent_created",
    "id": "evt_1",
    "intent_id": "intent_1",
    "payload": {"title": "t"},
    "previous_event_hash": None,
    "sequence": 1,
}
HASH = "sha256:m4rnlU2FNaRADt0HzpjpnkKs9izmSyf2XZXnjkLAp4I"


def draft(number: int, event_type: str = "comment") -> EventDraft:
    payload = json.dumps({"n": number, "event_type": event_type}).encode()
    return EventDraft(f"evt_{number}", "intent_1", event_type, "alice", payload, "2026-02-13T10:00:00Z")


def log(count: int) -> list[Event]:
    events: list[Event] = []
    for number in range(1, count + 1):
        previous = events[-1].event_hash if events else ""
        events.append(appended(draft(number), number + 100, number, previous))
    return events


def retold(event: Event, changes: dict[str, Any]) -> Event:
    """The event with another document, and the hash that was there."""
    return event._replace(document=json.dumps({**json.loads(event.document), **changes}).encode())


def checked(events: list[Event], *, trusting: bool = False) -> Chain:
    chain = Chain(trusting=trusting)
    chain.take_all(events)
    return chain


def test_the_hash_is_the_one_that_everybody_gets() -> None:
    assert event_hash(VECTOR) == HASH
    assert event_hash({**VECTOR, "event_hash": "whatever"}) == HASH


def test_an_event_takes_its_place_with_its_hash() -> None:
    made = EventDraft("evt_1", "intent_1", "intent_created", "a", b'{"title":"t"}', "2026-02-13T10:00:00Z")

    event = appended(made, 7, 1, "")

    assert json.loads(event.document) == {**VECTOR, "event_hash": HASH}
    assert (event.position, event.sequence, event.event_hash) == (7, 1, HASH)


def test_trace_parent_and_proof_are_part_of_the_event_where_they_are_given() -> None:
    plain = json.loads(appended(draft(1), 1, 1, "").document)
    more = draft(1)._replace(trace_id="t", parent_event_id="p", proof=b'{"type":"x"}')

    traced = json.loads(appended(more, 1, 1, "").document)

    assert not {"trace_id", "parent_event_id", "proof"} & plain.keys()
    assert (traced["trace_id"], traced["parent_event_id"], traced["proof"]) == ("t", "p", {"type": "x"})
    assert traced["event_hash"] != plain["event_hash"]


def test_an_integer_that_no_double_holds_is_spelled_as_the_nearest() -> None:
    assert canonical({"a": [2**60], "b": 2**53 - 1}) == b'{"a":[1152921504606847000],"b":9007199254740991}'


def test_a_whole_log_holds() -> None:
    chain = checked(log(3))

    assert chain.valid
    assert (chain.first, chain.last, chain.count, chain.breaks) == (1, 3, 3, [])


def test_an_empty_log_holds() -> None:
    assert checked([]).valid


@pytest.mark.parametrize(
    "changes",
    [{"payload": {"n": 0}}, {"actor": "mallory"}, {"created_at": "2027-01-01T00:00:00Z"}, {"id": "evt_9"}],
)
def test_an_event_that_was_retold_is_found(changes: dict[str, Any]) -> None:
    events = log(3)
    events[1] = retold(events[1], changes)

    assert {one.sequence for one in checked(events).breaks} == {2}


def test_an_event_that_was_retold_with_a_hash_of_its_own_breaks_the_next_link() -> None:
    events = log(3)
    forged = appended(draft(2, "decision_recorded"), 102, 2, events[0].event_hash)

    assert [one.sequence for one in checked([events[0], forged, events[2]]).breaks] == [3]


def test_an_event_that_is_missing_is_found() -> None:
    events = log(4)

    assert {one.sequence for one in checked([*events[:1], *events[2:]]).breaks} == {3}
    assert {one.sequence for one in checked(events[1:]).breaks} == {2}


def test_events_that_changed_places_are_found() -> None:
    one, two, three = log(3)

    assert not checked([one, three, two]).valid


def test_a_part_of_a_log_holds_for_who_trusts_what_came_before() -> None:
    events = log(4)

    assert checked(events[1:], trusting=True).valid
    assert not checked([events[1], events[3]], trusting=True).valid


def test_only_the_name_of_a_channel_message_is_spelled_for_the_sdk() -> None:
    said = appended(draft(1, "channel_message"), 1, 1, "")
    comment = appended(draft(2), 1, 1, "")

    assert served(said) == said.document
    assert json.loads(served(said, sdk_names=True)) == {**json.loads(said.document), "event_type": "channel.message"}
    assert served(comment, sdk_names=True) == comment.document
