"""What proves how far a message has come at a recipient, and in which order."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from parley.domain.channel.bookmark import Bookmark
from parley.domain.channel.job import Job, buried, claimed, extended, failed, released
from parley.domain.channel.post import ERASED, Post, PostState
from parley.domain.channel.receipts import DeliveryFacts, receipt_of
from parley.domain.channel.request import Forwarding
from parley.domain.message.message import Pattern
from parley.domain.receipts import ReceiptState
from parley.domain.times import from_stamp, stamp
from tests.samples.messages import NOW


def at(seconds: float) -> str:
    return stamp(NOW + timedelta(seconds=seconds))


def when(seconds: float) -> datetime:
    return from_stamp(at(seconds))


REQUEST = Post(
    "m1",
    "chan",
    "alice",
    "bob",
    Pattern.REQUEST,
    "",
    b"{}",
    b"{}",
    at(0),
    at(100),
    PostState.DELIVERED,
    ("bob",),
    "i",
    7,
)
ANSWER = REQUEST._replace(id="m2", sender="bob", to="alice", in_reply_to="m1", created_at=at(20), expires_at="")
JOB = Job(id="m1@bob", tenant_id="t", queue="bob", item_id="m1", channel_id="chan", queued_at=at(0), changed_at=at(0))
CLAIMED = claimed(JOB, "bob", "lease", 30, when(5))
MARK = Bookmark(
    id="bob/default", tenant_id="t", agent="bob", label="default", position=9, begin=3, holder="h", saved_at=at(10)
)
BOB = DeliveryFacts("bob")


def state_of(facts: DeliveryFacts, now: float = 12, post: Post = REQUEST, withdrawn_at: str = "") -> str:
    return receipt_of(post, facts, at(now), withdrawn_at).state


@pytest.mark.parametrize(
    ("facts", "now", "state"),
    [
        (BOB, 12, "queued"),
        (BOB, 101, "expired"),
        (BOB._replace(job=CLAIMED), 12, "queued"),
        (BOB._replace(job=extended(CLAIMED, 30, when(6))), 12, "acknowledged"),
        (BOB._replace(job=extended(CLAIMED, 30, when(6))), 40, "queued"),
        (BOB._replace(job=released(extended(CLAIMED, 30, when(6)), when(7))), 12, "queued"),
        (BOB._replace(job=released(CLAIMED, when(7))), 12, "queued"),
        (BOB._replace(job=failed(CLAIMED, "no", 0, when(7))), 12, "queued"),
        (BOB._replace(job=buried(CLAIMED, "no", when(7))), 12, "dead"),
        (BOB._replace(read_at=at(3)), 12, "acknowledged"),
        (BOB._replace(read_at=at(3)), 101, "acknowledged"),
        (BOB._replace(done_at=at(3)), 12, "acted"),
        (BOB._replace(answers=(ANSWER._replace(partial=True),)), 25, "acknowledged"),
        (BOB._replace(answers=(ANSWER,), read_at=at(30)), 40, "acted"),
        (BOB._replace(answers=(ANSWER,), job=buried(CLAIMED, "no", when(30))), 40, "acted"),
        (BOB._replace(forwarding=Forwarding(by="bob", to="carol", request_id="m3", at=at(4))), 12, "acted"),
        (BOB._replace(bookmarks=(MARK,)), 12, "acknowledged"),
        (BOB._replace(bookmarks=(replace(MARK, begin=7),)), 12, "queued"),
        (BOB._replace(bookmarks=(replace(MARK, begin=-1),)), 12, "queued"),
        (BOB._replace(bookmarks=(replace(MARK, open=(7,)),)), 12, "queued"),
        (BOB._replace(bookmarks=(replace(MARK, position=6),)), 12, "queued"),
        (BOB._replace(bookmarks=(replace(MARK, saved_at=at(100)),)), 101, "expired"),
    ],
)
def test_a_state_rests_on_what_the_recipient_did(facts: DeliveryFacts, now: float, state: str) -> None:
    assert state_of(facts, now) == state


def test_a_bookmark_proves_nothing_of_a_message_whose_content_is_gone() -> None:
    assert state_of(BOB._replace(bookmarks=(MARK,)), post=REQUEST._replace(metadata=ERASED)) == "queued"


def test_a_message_that_was_given_back_had_come_that_far() -> None:
    """Also when another reader has it by then that has not shown its lease."""
    job = failed(CLAIMED, "no", 0, when(7))
    again = claimed(job, "bob", "other", 30, when(8))

    for facts in (BOB._replace(job=job), BOB._replace(job=again)):
        receipt = receipt_of(REQUEST, facts, at(12))
        assert (receipt.state, receipt.has_reached(ReceiptState.ACKNOWLEDGED)) == ("queued", True)
    assert not receipt_of(REQUEST, BOB._replace(job=CLAIMED), at(12)).has_reached(ReceiptState.ACKNOWLEDGED)


def test_what_is_withdrawn_is_expected_no_more() -> None:
    receipt = receipt_of(REQUEST, BOB, at(12), at(11))

    assert (receipt.state, receipt.note) == ("expired", "withdrawn")
    assert state_of(BOB._replace(answers=(ANSWER,)), 40, withdrawn_at=at(39)) == "acted"


def test_a_dead_letter_says_nothing_of_what_its_reader_wrote() -> None:
    receipt = receipt_of(REQUEST, BOB._replace(job=buried(CLAIMED, "password", when(7))), at(12))

    assert receipt.steps[-1].evidence == "its reader could not finish it, at attempt 1"
    assert receipt.state is ReceiptState.DEAD
