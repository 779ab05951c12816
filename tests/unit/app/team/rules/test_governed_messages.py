"""Governed messages that open an exchange like one before: what is written is what would have been decided."""

from __future__ import annotations

import json
from typing import Any

import pytest

from parley.app.team.rules import governed_messages, governed_terms
from parley.app.team.state.openings import MessageTemplates
from parley.domain.channel.post import Post
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.exchange.exchange import Exchange
from parley.domain.store.changes import AuditQuery
from parley.domain.store.transaction import Transaction
from tests.rigs.remembered import (
    CLOSE,
    Change,
    Message,
    Step,
    compare,
    govern,
    looser,
    moved,
    partly,
    say,
    stopped,
    tighter,
)
from tests.rigs.team import Rig, with_rig

ASK_BOB = Message("alice", "bob", {"exchange_type": "information_query"})


OPENINGS: list[Step] = [ASK_BOB] * 4


@pytest.mark.parametrize("change", [tighter, partly(stopped, "bob"), CLOSE, partly(moved, "bob", "legal")])
def test_the_mutant_that_opens_an_exchange_on_a_stale_ground_is_caught(
    monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    steps: list[Step] = [*OPENINGS, ASK_BOB._replace(meanwhile=change)]
    compare(steps, governed=True)
    monkeypatch.setattr(Transaction, "_holds", lambda *_: True)

    with pytest.raises(AssertionError):
        compare(steps, governed=True)


@pytest.mark.parametrize("text", ["We promise it.", "password: hunter22", "We \u200bpr0mise it", "4111 1111 1111 1111"])
def test_the_mutant_that_does_not_inspect_what_opens_an_exchange_is_caught(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    steps: list[Step] = [*OPENINGS, ASK_BOB._replace(text=text)]
    compare(steps, governed=True)
    monkeypatch.setattr(governed_messages, "scan", lambda *_: ((), ()))

    with pytest.raises(AssertionError):
        compare(steps, governed=True)


def test_the_mutant_that_opens_an_exchange_like_one_with_other_metadata_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[Step] = [*OPENINGS, ASK_BOB._replace(metadata={**ASK_BOB.metadata, "classification": "public"})]
    compare(steps, governed=True)
    monkeypatch.setattr(MessageTemplates, "find", lambda self, _: next(iter(self._kept.values()), None))

    with pytest.raises(AssertionError):
        compare(steps, governed=True)


@pytest.mark.parametrize(
    "metadata",
    [
        {"exchange_type": "information_query", "note": 'a "quoted" \\ 100% <differs> \u00e9'},
        {"exchange_type": "commitment_request"},
        {"classification": "public", "max_rounds": 1},
        {"exchange_type": "information_query", "data": [{"source": "crm", "classification": "public"}]},
        {},
    ],
)
def test_whatever_the_metadata_the_next_exchange_is_opened_like_the_first(metadata: dict[str, Any]) -> None:
    said: list[Step] = [Message("alice", "bob", metadata, text) for text in ("One", "Two \u00e9", "3 \\ %s", "4")]

    compare([looser, *said, *said], governed=True)


# ---------------------------------------------------------------- without being decided


@pytest.mark.both_stores
@with_rig
async def test_the_next_message_like_two_before_opens_its_exchange_without_being_decided(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await govern(rig)
    await say(rig, ASK_BOB)
    await say(rig, ASK_BOB)
    await say(rig, ASK_BOB)
    monkeypatch.setattr(governed_terms, "govern", None)

    post = await say(rig, ASK_BOB._replace(text="And now?"))

    assert isinstance(post, Post)
    exchange = await rig.store.get(Exchange, DEFAULT_TENANT, post.exchange_id)
    assert exchange is not None
    assert (exchange.version, exchange.current_round, exchange.transcript[0].summary) == (1, 1, "And now?")
    assert [entry.exchange_id for entry in (await rig.store.audits(DEFAULT_TENANT, AuditQuery()))[-2:]] == [
        exchange.id,
        exchange.id,
    ]


@pytest.mark.both_stores
@with_rig
async def test_an_exchange_that_was_opened_like_another_goes_on_like_every_other(rig: Rig) -> None:
    await govern(rig)
    await say(rig, ASK_BOB)
    post = [await say(rig, ASK_BOB) for _ in range(3)][-1]
    assert isinstance(post, Post)
    conversation = json.loads(post.metadata)["ocip"]["conversation_id"]

    answer = await say(rig, Message("bob", "alice", {**ASK_BOB.metadata, "conversation_id": conversation}))

    assert isinstance(answer, Post)
    assert answer.exchange_id == post.exchange_id
