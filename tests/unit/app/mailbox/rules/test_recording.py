"""What a mailbox writes about a message: who, what, under which policy; never what was said."""

from __future__ import annotations

import hashlib
import json

from parley.app.mailbox.kernel import drive
from parley.app.mailbox.rules import recording
from parley.domain.agents.party import Party
from parley.domain.audit.entry import NO_HASH
from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.errors.rules import PolicyDenied
from parley.domain.mailbox.ledger import Changes
from parley.domain.message.message import Kind
from tests.samples import a_message
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
    kernel = rig.kernel("claude")
    for number in range(3):
        entry = recording.entry(kernel, {"number": number}, "")
        drive(kernel.store.commit(Changes(audits=(entry,), tenant="acme")))

    previous = NO_HASH
    for one in drive(kernel.store.audits(0, 10)):
        assert json.loads(one.document)["prev_hash"] == previous
        previous = one.entry_hash
        assert hashlib.sha256(b"\x00" + one.document).hexdigest() == previous


def test_a_refusal_is_recorded_with_its_code_and_uses_no_round(rig: Rig) -> None:
    draft = recording.refused(
        rig.kernel("codex"), a_message(), Party("claude"), PolicyDenied("no"), "d" * 64, recording.RECEIVED, "1-abc"
    )

    assert (draft.side, draft.actor) == ("codex", "codex")
    assert (draft.facts["outcome"], draft.facts["code"], draft.facts["round"]) == ("denied", "policy_denied", 0)


def test_what_goes_to_several_is_for_everyone(rig: Rig) -> None:
    assert recording.addressee(a_message(to=("codex",))) == "codex"
    assert recording.addressee(a_message(to=("codex", "gemini"))) == "*"
