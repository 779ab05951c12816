"""The chain that makes the ledger tamper-evident."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given

from parley.domain.mailbox.delivery import Delivery, DeliveryKey, Lease, Status
from parley.domain.mailbox.ledger import GENESIS, Entry, ExpectDelivery, MailboxChanges, canonical, chain, expect
from tests.samples.messages import PROPERTY, texts

ENTRY = Entry("sent", "2026-03-13T14:30:00Z", "claude", "m1", "d" * 64, {"to": "codex", "file": "ü.yaml"})


def test_an_entry_has_one_spelling() -> None:
    spelled = (
        '{"action":"sent","agent":"claude","at":"2026-03-13T14:30:00Z","digest":"' + "d" * 64 + '",'
        '"facts":{"file":"ü.yaml","to":"codex"},"message_id":"m1","position":7}'
    )

    assert canonical(7, ENTRY) == spelled.encode()
    assert canonical(7, ENTRY._replace(facts={"file": "ü.yaml", "to": "codex"})) == spelled.encode()


def test_a_link_covers_the_link_before_it_and_the_entry() -> None:
    assert chain(GENESIS, 1, ENTRY) == hashlib.sha256(b"\x00" + b"\x00" * 32 + canonical(1, ENTRY)).digest()


@pytest.mark.parametrize("change", [{name: "x"} for name in ("action", "at", "agent", "message_id", "digest")])
def test_a_change_of_any_field_breaks_the_chain(change: dict[str, Any]) -> None:
    assert chain(GENESIS, 1, ENTRY._replace(**change)) != chain(GENESIS, 1, ENTRY)


def test_facts_position_and_past_are_part_of_the_link() -> None:
    link = chain(GENESIS, 1, ENTRY)

    assert chain(GENESIS, 1, ENTRY._replace(facts={})) != link
    assert chain(GENESIS, 2, ENTRY) != link
    assert chain(link, 1, ENTRY) != link


@PROPERTY
@given(texts, texts)
def test_text_cannot_slide_from_one_field_into_the_next(one: str, other: str) -> None:
    split = ENTRY._replace(agent=one, message_id=other)
    joined = ENTRY._replace(agent=one + other, message_id="")

    assert (canonical(1, split) == canonical(1, joined)) == (other == "")


def test_an_expectation_names_the_state_and_the_token_that_were_loaded() -> None:
    delivery = Delivery(DeliveryKey("m1", "d", "codex"), "a.yaml", Status.CLAIMED, lease=Lease("t1", "", "boot", None))

    assert expect(delivery) == ExpectDelivery(delivery.key, Status.CLAIMED, "t1")
    assert expect(delivery._replace(lease=None)) == ExpectDelivery(delivery.key, Status.CLAIMED, None)


def test_a_commit_is_durable_and_empty_unless_it_says_otherwise() -> None:
    assert MailboxChanges() == MailboxChanges((), (), (), (), "", "", (), (), True)
