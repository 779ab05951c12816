"""Two logs laid beside each other: every message that only one of them has is found."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.wire.proofs.reconcile import Log, deliveries_in, log_of, reconcile
from tests.samples.messages import PROPERTY


def entry(side: str, sender: str, receivers: list[str], number: int = 1, **changes: Any) -> tuple[int, bytes]:  # noqa: ANN401
    facts = {
        "side": side,
        "role": "sender" if side == sender else "receiver",
        "sender": sender,
        "receivers": receivers,
        "exchange_id": "ex_1",
        "round": 1,
        "content_digest": "d1",
        "classification": "internal",
        "message_id": "msg_1",
        "outcome": "delivered",
        **changes,
    }
    return number, msgspec.json.encode(facts)


def log(name: str, *entries: tuple[int, bytes], sides: list[str] | None = None) -> Log:
    return log_of(name, entries, [name] if sides is None else sides)


def test_a_message_that_both_sides_know_is_paired() -> None:
    alice, bob = log("alice", entry("alice", "alice", ["bob"])), log("bob", entry("bob", "alice", ["bob"]))

    assert reconcile(alice, bob) == (1, [])
    assert reconcile(bob, alice) == (1, [])


def test_what_one_log_lacks_is_named_with_the_entry_of_the_other() -> None:
    alice, bob = log("alice", entry("alice", "alice", ["bob"], 7)), log("bob")

    (missing,) = reconcile(alice, bob)[1]
    (other_way,) = reconcile(bob, alice)[1]

    assert (missing.kind, missing.first, missing.second, missing.why) == ("missing", 7, 0, "bob lacks it")
    assert (other_way.first, other_way.second, other_way.why) == (0, 7, "bob lacks it")


def test_what_was_received_but_never_sent_is_named_too() -> None:
    alice, bob = log("alice"), log("bob", entry("bob", "alice", ["bob"], 3))

    (missing,) = reconcile(alice, bob)[1]

    assert (missing.first, missing.second, missing.why) == (0, 3, "alice lacks it")


@pytest.mark.parametrize(
    ("field", "value"), [("content_digest", "d2"), ("round", 2), ("classification", "public"), ("exchange_id", "ex_2")]
)
def test_where_they_tell_different_things_of_one_message_it_is_said(field: str, value: Any) -> None:  # noqa: ANN401
    alice = log("alice", entry("alice", "alice", ["bob"]))
    bob = log("bob", entry("bob", "alice", ["bob"], 5, **{field: value}))

    same, (difference,) = reconcile(alice, bob)

    assert (same, difference.kind, difference.first, difference.second) == (0, "different", 1, 5)
    assert str(value) in difference.why


def test_a_message_to_several_is_looked_for_on_each_side_that_is_there() -> None:
    alice = log("alice", entry("alice", "alice", ["bob", "carol", "dave"]))
    others = log(
        "others", entry("bob", "alice", ["bob"], 1), entry("carol", "alice", ["carol"], 2), sides=["bob", "carol"]
    )

    assert reconcile(alice, others) == (2, [])
    assert len(reconcile(alice, others._replace(claims=others.claims[:1]))[1]) == 1


def test_what_an_agent_has_with_others_is_no_concern_of_this_pair() -> None:
    alice = log("alice", entry("alice", "alice", ["carol"]), entry("alice", "carol", ["alice"], 2))

    assert reconcile(alice, log("bob")) == (0, [])


def test_one_log_of_all_sides_is_compared_with_itself() -> None:
    both = log_of("all", [entry("alice", "alice", ["bob"]), entry("bob", "alice", ["bob"], 2)], None)
    half = log_of("all", [entry("alice", "alice", ["bob"])], ["alice", "bob"])

    assert reconcile(both, both) == (1, [])
    assert len(reconcile(half, half)[1]) == 1


def test_a_message_that_arrived_twice_is_found() -> None:
    alice = log("alice", entry("alice", "alice", ["bob"]))
    bob = log("bob", entry("bob", "alice", ["bob"], 1), entry("bob", "alice", ["bob"], 2))

    same, (extra,) = reconcile(alice, bob)

    assert (same, extra.why) == (1, "alice lacks it")


@pytest.mark.parametrize(
    "document", [b"", b"{}", b"[]", b'{"side":"alice","outcome":"held","role":"sender"}', b'{"side":"a","outcome":1}']
)
def test_entries_about_something_else_tell_nothing(document: bytes) -> None:
    assert deliveries_in(1, document) == ()


@PROPERTY
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=30))
def test_every_one_sided_entry_is_found_and_nothing_else(fates: list[tuple[bool, bool, bool]]) -> None:
    """For each message: from alice or from bob, kept by the sender, kept by the receiver."""
    kept: dict[str, list[tuple[int, bytes]]] = {"alice": [], "bob": []}
    for number, (from_alice, sent, got) in enumerate(fates, 1):
        sender, receiver = ("alice", "bob") if from_alice else ("bob", "alice")
        facts = {"message_id": f"msg_{number}", "content_digest": f"d{number}", "round": number}
        if sent:
            kept[sender].append(entry(sender, sender, [receiver], number, **facts))
        if got:
            kept[receiver].append(entry(receiver, sender, [receiver], number, **facts))

    same, found = reconcile(log("alice", *kept["alice"]), log("bob", *kept["bob"]))

    assert same == sum(sent and got for _, sent, got in fates)
    assert sorted(one.round for one in found) == [n for n, (_, sent, got) in enumerate(fates, 1) if sent != got]
