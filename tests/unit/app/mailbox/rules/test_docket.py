"""The docket of a mailbox: what waits is told exactly and bounded, and what is recorded says nothing of the content."""

from __future__ import annotations

import hashlib
import json

import pytest

from parley.app.mailbox.kernel import drive
from parley.app.mailbox.rules.docket import MailboxDocket, addressee
from parley.app.rules.docket import RulesDecision
from parley.domain.audit.entry import NO_HASH, AuditDraft
from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.errors.rules import MessageHeld, Overspent
from parley.domain.message.message import Kind, Message
from parley.domain.store.changes import Spend
from tests.samples.messages import a_message
from tests.unit.app.rig import Rig

FACTS = {
    *("exchange_id", "conversation_id", "round", "role", "direction", "classification", "policy", "dataShared"),
    *("dataWithheld", "content_digest", "outcome", "actor", "message_id", "sender", "receivers", "action", "at"),
}


def test_an_entry_has_everything_an_auditor_asks_for_and_nothing_of_the_content(rig: Rig) -> None:
    rig.govern()

    rig.send(Kind.QUESTION, body="A very particular sentence.", wishes=Wishes(purpose=Purpose.INFORMATION_QUERY))

    (entry,) = rig.audits("claude")
    assert entry.keys() >= FACTS
    assert entry["action"] == "agent_exchange"
    assert "particular" not in json.dumps(entry)


def test_entries_are_one_chain(rig: Rig) -> None:
    rig.govern()
    kernel = rig.kernel("claude")
    docket = MailboxDocket(kernel)
    for number in range(3):
        entry = AuditDraft(docket.new_id("aud"), "claude", docket.at, "agent_exchange", "claude", {"number": number})
        drive(kernel.store.commit(drive(docket.changes(RulesDecision[Message]((entry,))))))

    previous = NO_HASH
    for one in drive(kernel.store.audits(0, 10)):
        assert json.loads(one.document)["prev_hash"] == previous
        previous = one.entry_hash
        assert hashlib.sha256(b"\x00" + one.document).hexdigest() == previous


def test_what_goes_to_several_is_for_everyone() -> None:
    assert addressee(a_message(to=("codex",))) == "codex"
    assert addressee(a_message(to=("codex", "gemini"))) == "*"


def hold(rig: Rig) -> MessageHeld:
    with pytest.raises(MessageHeld) as held:
        rig.send(Kind.QUESTION, body="I promise.", wishes=Wishes(purpose=Purpose.INFORMATION_QUERY))
    return held.value


def test_a_sender_is_told_what_waits_why_and_for_whom(rig: Rig) -> None:
    rig.govern()

    facts = hold(rig).facts

    assert facts["reason"] == "Commitment keywords detected: promise. Human approval required."
    assert (facts["cause"], facts["user"], facts["detectedKeywords"]) == ("commitment", "ann", ["promise"])
    assert {"approval", "digest", "exchange_id", "conversation_id", "expires_at"} <= facts.keys()


def test_as_many_wait_as_the_policy_allows(rig: Rig) -> None:
    rig.govern()
    hold(rig)
    docket = MailboxDocket(rig.kernel("claude"))

    drive(docket.check_budgets((Spend("approvals/claude", 2),)))
    with pytest.raises(Overspent):
        drive(docket.check_budgets((Spend("approvals/claude", 1),)))
