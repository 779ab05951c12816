"""A mailbox message is judged as its receiver would get it: every field, its ids, and the name of its file."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Any

import pytest

from parley.app.mailbox import sending
from parley.app.mailbox.kernel import drive
from parley.domain.content.classification import Classification, DataItem
from parley.domain.content.envelope import Ext, Purpose
from parley.domain.errors.errors import ParleyError
from parley.domain.errors.rules import ClassificationExceeded, MessageHeld
from parley.domain.exchange.held import judged_text
from parley.domain.message.message import Kind, Message
from tests.samples.messages import a_draft
from tests.unit.app.mailbox.rules.receiving_side import ASKS, FILE, dead, forged, received
from tests.unit.app.rig import Rig

KEY = "AK" + "IAIOSFODNN7EXAMPLE"
PROMISE = "we-promise-ten-seats"
ITEM = DataItem("crm", ("name",), Classification.PUBLIC, "who")

OUTGOING: dict[str, Any] = {
    "subject": lambda text: {"subject": text},
    "body": lambda text: {"body": text},
    "tag": lambda text: {"tag": text},
    "related_packet": lambda text: {"related_packet": text},
    "context_keys": lambda text: {"context_keys": f"- {text}"},
    "conversation_id": lambda text: {"conversation_id": text},
    "in_reply_to": lambda text: {"in_reply_to": text},
    "extras": lambda text: {"extras": {"autonomy_hint": text}},
    "data, source": lambda text: {"wishes": ASKS._replace(data=(ITEM._replace(source=text),))},
    "data, fields": lambda text: {"wishes": ASKS._replace(data=(ITEM._replace(fields=(text,)),))},
    "data, description": lambda text: {"wishes": ASKS._replace(data=(ITEM._replace(description=text),))},
}
# Where a text may stand in a file that another program wrote, and what it replaces.
INCOMING = {
    "subject": (r"(?m)^subject: .*$", "subject: {}"),
    "body": (r"How far is it\?", "{}"),
    "id": (r"(?m)^id: .*$", "id: {}"),
    "recipient": (r"(?m)^to: .*$", "to: [codex, {}]"),
    "channel": (r"(?m)^subject:", "channel: {}\nsubject:"),
    "related_pr": (r"(?m)^subject:", "related_pr: {}\nsubject:"),
    "related_packet": (r"(?m)^subject:", "related_packet: {}\nsubject:"),
    "context_keys": (r"(?m)^subject:", "context_keys: {}\nsubject:"),
    "parent": (r"(?m)^subject:", "parent_message_id: {}\nsubject:"),
    "another field": (r"(?m)^subject:", "mood: {{a: [{}]}}\nsubject:"),
    "another field, its key": (r"(?m)^subject:", "{}: x\nsubject:"),
    "conversation": (r"conv-20260313-claude-001", "{}"),
    "exchange": (r"exchange_id: .*", "exchange_id: {}"),
    "policy": (r"policy_version: .*", "policy_version: {}"),
    "outcome": (r"(?m)^(  hops: .*)$", "\\1\n  outcome: {}"),
    "shared data": (r"(?m)^(  hops: .*)$", "\\1\n  shared: [{{source: {}, fields: [], classification: public}}]"),
    "withheld data": (r"(?m)^(  hops: .*)$", "\\1\n  withheld: [{{source: x, fields: [{}], classification: public}}]"),
    "label": (r"(?m)^disclosure: .*$", "disclosure: {}"),
    "label beside the envelope": (r"(?m)^    label: .*$", "    label: {}"),
}


@pytest.mark.parametrize("position", OUTGOING)
@pytest.mark.parametrize(("text", "error"), [(KEY, ClassificationExceeded), (PROMISE, MessageHeld)])
def test_nothing_that_a_sender_writes_leaves_unseen(
    rig: Rig, position: str, text: str, error: type[ParleyError]
) -> None:
    rig.govern()
    draft = {"body": "How far is it?", "wishes": ASKS, **OUTGOING[position](text)}

    with pytest.raises(error):
        rig.send(Kind.QUESTION, **draft)

    assert received(rig) == []


@pytest.mark.parametrize(("text", "error"), [(KEY, ClassificationExceeded), (PROMISE, MessageHeld)])
def test_the_part_of_a_file_name_that_a_sender_chooses_is_looked_at(
    rig: Rig, text: str, error: type[ParleyError]
) -> None:
    rig.govern()
    draft = a_draft(Kind.QUESTION, body="How far is it?", wishes=ASKS)

    with pytest.raises(error):
        drive(sending.send(rig.kernel("claude"), draft, suffix=text))


@pytest.mark.parametrize("position", INCOMING)
@pytest.mark.parametrize("text", [KEY, PROMISE])
def test_nothing_in_a_file_that_another_program_wrote_is_handed_over_unseen(rig: Rig, position: str, text: str) -> None:
    rig.govern()
    pattern, planted = INCOMING[position]
    forged(rig, (pattern, planted.format(text)))

    assert received(rig) == []
    assert dead(rig) or rig.outcomes("codex")[-1] == "held"


@pytest.mark.parametrize("text", [KEY, PROMISE])
def test_the_name_of_a_file_that_another_program_wrote_is_looked_at(rig: Rig, text: str) -> None:
    rig.govern()
    forged(rig)
    (rig.path("codex") / FILE).rename(rig.path("codex") / FILE.replace("_9", f"_{text}"))

    assert received(rig) == []


@pytest.mark.parametrize("names", [("commit-bot", "meeting"), ("book.agent", "promise_1")])
def test_agents_whose_names_are_words_of_the_list_can_talk(rig: Rig, names: tuple[str, str]) -> None:
    rig.govern(enterprise__default="cross_org: true")
    one, other = names
    for name in names:
        rig.path(name).mkdir(parents=True)

    sent = rig.send(Kind.QUESTION, sender=one, to=(other,), body="How far is it?", wishes=ASKS)
    assert received(rig, other) == ["Implement rate limiting"]
    answer = a_draft(Kind.NOTIFICATION, sender=other, to=(), subject="", body="All of it.")
    drive(sending.reply(rig.kernel(other), sent.message.id, answer, kind_given=False))

    assert received(rig, one) == ["Re: Implement rate limiting"]


def test_every_text_of_a_message_is_looked_at_whatever_field_it_is_in(rig: Rig) -> None:
    message = rig.send(Kind.QUESTION, body="How far is it?").message
    ext = Ext("exch_1", Purpose.INFORMATION_QUERY, 1, "1-a")
    fields = [name for name, value in message._asdict().items() if not isinstance(value, Enum | datetime)]
    # The conversation is judged with the envelope.
    texts = [name for name in fields if name not in ("expires_at", "conversation_id")]

    for name in texts:
        value: object = {"mood": PROMISE} if name == "extras" else (PROMISE,) if name == "to" else PROMISE
        assert PROMISE in judged_text(message._replace(**{name: value}), "", ()), name  # type: ignore[arg-type]
    for name in ("exchange_id", "policy", "approval_id", "approved_by", "signature", "outcome"):
        assert PROMISE in judged_text(message, "", (), ext._replace(**{name: PROMISE})), name  # type: ignore[arg-type]
    assert set(texts) | {"expires_at", "conversation_id", "kind", "priority", "created_at"} == set(Message._fields)
