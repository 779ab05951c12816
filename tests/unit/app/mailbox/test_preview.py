"""What would be sent, found out without writing anything."""

from __future__ import annotations

import pytest

from parley.app.mailbox import preview, sending
from parley.app.mailbox.kernel import drive
from parley.app.mailbox.preview import Unwritten
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.errors.rules import ClassificationExceeded, CrossEnterpriseBlocked, MessageHeld
from parley.domain.exchange.approval import Approval
from parley.domain.exchange.exchange import Exchange
from parley.domain.mailbox.ledger import MailboxChanges
from parley.domain.message.message import Draft, Kind
from tests.samples.governed import an_exchange
from tests.samples.messages import a_draft
from tests.unit.app.rig import Rig

ASKS = Wishes(purpose=Purpose.INFORMATION_QUERY)


def a_question(**changes: object) -> Draft:
    return a_draft(Kind.QUESTION, **{"body": "How far is it?", "wishes": ASKS, **changes})


def test_what_is_under_rules_is_shown_with_its_envelope(rig: Rig) -> None:
    rig.govern()

    would = drive(preview.preview(rig.kernel("claude"), a_question()))
    sent = rig.send(Kind.QUESTION, body="How far is it?", wishes=ASKS)

    assert would.extras["ocip"] == sent.message.extras["ocip"]
    assert would.conversation_id == sent.message.conversation_id
    assert len(rig.audits("claude")) == 1


def test_what_is_under_no_rules_is_shown_as_it_is(rig: Rig) -> None:
    would = drive(preview.preview(rig.kernel("claude"), a_question(wishes=None)))

    sent = drive(sending.send(rig.kernel("claude"), a_question(wishes=None))).message
    assert (would.extras, would.conversation_id) == ({}, sent.conversation_id)


def test_what_would_not_go_out_is_said_and_leaves_no_trace(rig: Rig) -> None:
    rig.govern()
    kernel = rig.kernel("claude")

    with pytest.raises(MessageHeld) as held:
        drive(preview.preview(kernel, a_question(body="I promise it.")))
    with pytest.raises(ClassificationExceeded):
        drive(preview.preview(kernel, a_question(wishes=Wishes(classification=Classification.RESTRICTED))))
    with pytest.raises(CrossEnterpriseBlocked):
        drive(preview.preview(kernel, a_question(to=("codex@globex",))))

    assert held.value.facts["deciders"] == ["ann"]
    assert (drive(kernel.store.records(Approval)), drive(kernel.store.records(Exchange))) == ((), ())
    assert rig.audits("claude") == []


def test_a_ledger_that_nothing_is_written_to_remembers_it_over_what_is_kept(rig: Rig) -> None:
    kernel = rig.kernel("claude")
    drive(kernel.store.commit(MailboxChanges(puts=(an_exchange(id="exch_1"),), tenant="acme")))
    unwritten = Unwritten(kernel)
    kept = drive(unwritten.record(Exchange, "exch_1"))
    assert kept is not None

    new = an_exchange(id="exch_2", initiator="carol")
    drive(unwritten.commit(MailboxChanges(puts=(new,), tenant="acme")))

    assert drive(unwritten.records(Exchange)) == (kept, new)
    assert drive(unwritten.records(Exchange, new.parent, after="exch_1")) == (new,)
    assert drive(unwritten.record(Exchange, "exch_2")) == new
    assert drive(unwritten.has_records("exchange", new.parent))
    assert not drive(unwritten.has_records("exchange", "conv-none"))
    assert drive(kernel.store.record(Exchange, "exch_2")) is None
