"""A draft that waits comes back as it was."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given

from parley.domain.content.classification import Classification, DataItem
from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.exchange.held import draft_of, incoming, message_fields, outgoing, text_of
from parley.domain.message.compose import compose
from parley.domain.message.message import Draft, Kind, Message
from tests.samples.messages import NOW, PROPERTY, a_draft, a_message, messages

WISHES = Wishes(
    purpose=Purpose.COMMITMENT_REQUEST,
    classification=Classification.INTERNAL,
    max_rounds=2,
    expires_at="2026-03-13T16:30:00.000000+00:00",
    data=(DataItem("crm", ("a.b", "c"), Classification.RESTRICTED, "numbers"),),
)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("wishes", [None, WISHES])
def test_every_draft_comes_back(kind: Kind, wishes: Wishes | None) -> None:
    draft = a_draft(
        kind,
        wishes=wishes,
        expires_at=NOW + timedelta(hours=2),
        tag="release",
        related_pr="42",
        conversation_id="conv-1",
        in_reply_to="msg-1",
        context_keys="- a.py\n",
        extras={"model": "m-1"},
    )

    held = outgoing(draft, compose(draft, "msg-2", NOW, None))

    assert draft_of(held, "claude") == draft


@PROPERTY
@given(messages())
def test_whatever_is_said_is_shown_and_comes_back(message: Message) -> None:
    draft = Draft(
        message.sender, message.to, message.kind, message.subject, message.body, context_keys=message.context_keys
    )

    held = outgoing(draft, message)

    assert json.loads(held.payload) == message_fields(message)
    assert draft_of(held, message.sender) == draft


def test_everything_that_a_reader_reads_is_looked_at() -> None:
    message = a_message(
        Kind.REVIEW_REQUEST,
        subject="one",
        context_keys="two",
        tag="three",
        extras={"model": "four", "ocip": {"classification": "nobody wrote this"}, "disclosure": "nor this"},
    )

    text = text_of(message)

    assert all(word in text for word in ("one", "two", "three", "four", "feat/rate-limit"))
    assert "nobody" not in text
    assert "nor this" not in text


def test_an_incoming_message_says_which_file_it_is() -> None:
    held = incoming(a_message(), "codex", "d" * 64)

    assert (held.to, json.loads(held.metadata)["digest"]) == ("codex", "d" * 64)
