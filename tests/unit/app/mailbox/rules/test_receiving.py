"""Receiving under the rules: my side judges, too; what it hands over, holds or refuses is on my own record."""

from __future__ import annotations

import pytest

from parley.app.mailbox import claims, read, sending
from parley.app.mailbox.kernel import drive
from parley.domain.content.envelope import Wishes
from parley.domain.errors.errors import ParleyError, Stale
from parley.domain.errors.rules import MessageHeld
from parley.domain.exchange.approval import Approval
from parley.domain.exchange.exchange import Exchange, Outcome
from parley.domain.exchange.incoming import InboxReceipt, InboxVerdict
from parley.domain.message.message import Kind
from tests.samples.messages import a_draft, a_file
from tests.unit.app.mailbox.rules.receiving_side import ASKS, FILE, ask, dead, forged, received
from tests.unit.app.rig import GOVERNANCE, HALF_AN_HOUR, Rig, claimed

# ---------------------------------------------------------------- admitted


def test_what_is_claimed_is_counted_and_recorded_on_my_side_in_the_same_commit(rig: Rig) -> None:
    rig.govern()
    sent = ask(rig)

    claimed(rig.kernel("codex"))

    (mine,), (theirs,) = rig.audits("codex"), rig.audits("claude")
    (exchange,) = drive(rig.stores["codex"].records(Exchange))
    assert (mine["side"], mine["direction"], mine["outcome"]) == ("codex", "incoming", "delivered")
    for name in ("exchange_id", "conversation_id", "round", "classification", "content_digest", "message_id"):
        assert mine[name] == theirs[name], name
    assert (exchange.initiator, exchange.responder, exchange.current_round) == ("claude", "codex", 1)
    assert mine["message_id"] == sent.message.id


def test_a_message_is_judged_once_also_when_it_is_answered_before_it_is_claimed(rig: Rig) -> None:
    rig.govern()
    asked = ask(rig)
    draft = a_draft(Kind.NOTIFICATION, sender="codex", to=(), subject="", body="All of it.")

    answered = drive(sending.reply(rig.kernel("codex"), asked.message.id, draft, kind_given=False))
    received(rig)

    assert answered.message.extras["ocip"]["exchange_round"] == "2"  # type: ignore[call-overload,index]
    assert [(one["direction"], one["round"]) for one in rig.audits("codex")] == [("incoming", 1), ("outgoing", 2)]


def test_a_message_that_is_finished_without_being_claimed_is_on_record(rig: Rig) -> None:
    rig.govern()
    asked = ask(rig)

    drive(claims.done(rig.kernel("codex"), asked.message.id))

    assert rig.outcomes("codex") == ["delivered"]


def test_a_message_to_several_is_on_record_with_each(rig: Rig) -> None:
    rig.govern(enterprise__default="cross_org: true")
    rig.send(Kind.NOTIFICATION, to=("codex", "gemini"), body="Done.", wishes=Wishes(meant=True))

    assert received(rig, "codex") == received(rig, "gemini") == ["Implement rate limiting"]

    assert rig.outcomes("codex") == rig.outcomes("gemini") == ["delivered", "resolved"]
    assert rig.audits("gemini")[0]["receivers"] == ["gemini"]


def test_a_note_to_myself_is_on_record_on_both_of_my_sides(rig: Rig) -> None:
    rig.govern()
    ask(rig, to=("claude",))

    assert received(rig, "claude") == ["Implement rate limiting"]

    assert [one["direction"] for one in rig.audits("claude")] == ["outgoing", "incoming"]


def test_a_message_without_an_envelope_is_none_of_the_rules_where_nothing_concerns_it(rig: Rig) -> None:
    rig.govern()
    (rig.path("codex") / FILE).write_bytes(a_file())

    assert len(received(rig)) == 1
    assert rig.audits("codex") == []


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("edits", "code"),
    [
        ([('version: "1.0"', 'version: "2.0"')], "envelope_invalid"),
        ([('version: "1.0"', "version: 1.0")], "envelope_invalid"),
        ([("exchange_round: 1", 'exchange_round: "1"')], "envelope_invalid"),
        ([("exchange_round: 1", "exchange_round: 01")], "envelope_invalid"),
        ([("can_commit: false", "can_commit: no")], "envelope_invalid"),
        ([("requires_commitment: false", "requires_commitment: 0")], "envelope_invalid"),
        ([('  reply_policy: "agent-ok"\n', "")], "envelope_invalid"),
        ([('  reply_policy: "agent-ok"\n', '  reply_policy: "agent-ok"\n  urgent: true\n')], "envelope_invalid"),
        ([(r"(?s)ocip:\n.*ocip_ext:", "ocip: nothing\nocip_ext:")], "envelope_invalid"),
        ([('classification: "internal"', 'classification: "secret"')], "envelope_invalid"),
        ([('expires_at: "2026-03-14T14:30:00.000Z"', 'expires_at: "tomorrow"')], "envelope_invalid"),
        ([("hops: 1", "hops: many")], "envelope_invalid"),
        ([('tenant_id: "acme"', 'tenant_id: "globex"')], "cross_enterprise_blocked"),
        ([('instance_id: "claude"', 'instance_id: "gemini"')], "identity_mismatch"),
        ([('user_id: "ann"', 'user_id: "ben"')], "identity_mismatch"),
        ([('org_unit: "engineering"', 'org_unit: "sales"')], "identity_mismatch"),
        ([("can_commit: false", "can_commit: true")], "commit_forbidden"),
        ([('"agent-generated"', '"human"')], "message_type_forbidden"),
        ([('"agent-generated"', '"agent-assisted"')], "message_type_forbidden"),
        ([('"confidential"\\]', '"confidential", "restricted"]')], "classification_exceeded"),
        ([('classification: "internal"', 'classification: "confidential"')], "classification_exceeded"),
        ([('expires_at: "2026-03-14', 'expires_at: "2026-03-12')], "exchange_expired"),
        ([("exchange_round: 1", "exchange_round: 4")], "round_mismatch"),
        ([("hops: 1", "hops: 9")], "loop_detected"),
    ],
)
def test_a_file_that_does_not_hold_true_goes_to_the_dead_letters_with_its_code(
    rig: Rig, edits: list[tuple[str, str]], code: str
) -> None:
    rig.govern()
    forged(rig, *edits)

    assert received(rig) == []

    assert dead(rig) == [code]
    assert rig.outcomes("codex") == [f"denied {code}"]
    assert rig.audits("codex")[0]["role"] == "receiver"


def test_a_claim_of_approval_by_nobody_known_is_refused(rig: Rig) -> None:
    rig.govern()
    approval = '  policy_version: "x"\n  approval:\n    id: "appr_1"\n    by: "mallory"\n'
    forged(rig, ('"agent-generated"', '"human"'), (r'  policy_version: "[^"]*"\n', approval))

    assert received(rig) == []
    assert dead(rig) == ["message_type_forbidden"]


def test_an_approval_that_an_agent_made_up_in_its_own_persons_name_is_refused(rig: Rig) -> None:
    rig.govern()
    approval = '  policy_version: "x"\n  approval:\n    id: "appr_1"\n    by: "ann"\n'
    forged(rig, ('"agent-generated"', '"human"'), (r'  policy_version: "[^"]*"\n', approval))

    assert received(rig) == []
    assert dead(rig) == ["approval_unproven"]
    assert rig.outcomes("codex") == ["denied approval_unproven"]


def test_a_message_of_another_org_unit_without_an_envelope_is_refused_by_my_policy(rig: Rig) -> None:
    rig.govern()
    (rig.path("codex") / FILE).write_bytes(a_file(from_="gemini"))

    assert received(rig) == []
    assert dead(rig) == ["policy_denied"]


def test_what_expired_before_it_was_read_is_refused(rig: Rig) -> None:
    rig.govern()
    ask(rig)
    rig.clock.pass_by(hours=24, seconds=1)

    assert received(rig) == []
    assert dead(rig) == ["exchange_expired"]


def test_a_suspended_senders_message_stays_where_it_is(rig: Rig) -> None:
    rig.govern()
    ask(rig)
    rig.govern(GOVERNANCE + "suspended: [agent claude]\n")

    assert received(rig) == []
    rig.govern()

    assert received(rig) == ["Implement rate limiting"]


def test_a_file_in_my_name_that_i_never_sent_is_refused(rig: Rig) -> None:
    rig.govern()
    sent = ask(rig)
    text = (rig.path("codex") / sent.file).read_text()

    (rig.path("claude") / FILE).write_text(text.replace('to: "codex"', 'to: "claude"'))

    assert received(rig, "claude") == []
    assert dead(rig, "claude") == ["identity_mismatch"]


# ---------------------------------------------------------------- held


def test_a_commitment_that_nobody_approved_is_held_for_my_person(rig: Rig) -> None:
    rig.govern()
    forged(rig, ("How far is it\\?", "I promise it for Friday."))

    assert received(rig) == []

    (approval,) = drive(rig.stores["codex"].records(Approval))
    (receipt,) = drive(rig.stores["codex"].records(InboxReceipt))
    (exchange,) = drive(rig.stores["codex"].records(Exchange))
    assert (approval.agent, approval.user, approval.to) == ("claude", "ben", "codex")
    assert (receipt.status, receipt.file) == (InboxVerdict.HELD, FILE)
    assert (exchange.current_round, exchange.outcome) == (0, Outcome.ESCALATED)
    assert rig.outcomes("codex") == ["held"]
    assert [(one.file, one.status) for one in drive(read.inbox(rig.kernel("codex")))] == [(FILE, "held")]


def test_what_is_held_can_be_neither_answered_nor_finished(rig: Rig) -> None:
    rig.govern()
    forged(rig, ("How far is it\\?", "I promise it for Friday."))
    received(rig)
    (item,) = drive(read.inbox(rig.kernel("codex")))
    draft = a_draft(Kind.NOTIFICATION, sender="codex", to=(), subject="", body="Fine.")

    with pytest.raises(MessageHeld):
        drive(sending.reply(rig.kernel("codex"), item.id, draft, kind_given=False))
    with pytest.raises(MessageHeld):
        drive(claims.done(rig.kernel("codex"), item.id))


def test_an_answer_of_another_tool_counts_as_a_round_and_is_held_when_it_is_one_too_many(rig: Rig) -> None:
    rig.govern()
    asked = ask(rig, wishes=ASKS._replace(max_rounds=1))
    conversation = asked.message.conversation_id
    path = rig.path("claude") / FILE
    path.write_bytes(a_file(from_="codex", to="claude", type_="notification", conversation_id=conversation))

    assert received(rig, "claude") == []

    (approval,) = drive(rig.stores["claude"].records(Approval))
    assert approval.escalation is not None
    assert approval.escalation["currentRound"] == 2


# ---------------------------------------------------------------- rivals


def test_an_exchange_that_went_on_meanwhile_is_judged_again(rig: Rig) -> None:
    rig.govern()
    ask(rig)
    kernel = rig.kernel("codex")
    store, commit = rig.stores["codex"], rig.stores["codex"].commit
    refusals = iter([Stale("somebody was faster")])

    async def rival(changes: object) -> int:
        for refusal in refusals:
            raise refusal
        return await commit(changes)  # type: ignore[arg-type]

    store.commit = rival  # type: ignore[method-assign]

    assert claimed(kernel).message.body == "How far is it?"
    assert rig.outcomes("codex") == ["delivered"]


def test_an_audit_chain_that_cannot_be_written_hands_nothing_over(rig: Rig) -> None:
    rig.govern()
    ask(rig)

    async def full(_: object) -> int:
        raise ParleyError("the disk is full")

    kernel = rig.kernel("codex")
    kernel.store.commit = full  # type: ignore[assignment,method-assign]

    with pytest.raises(ParleyError):
        drive(claims.claim_next(kernel, HALF_AN_HOUR))

    assert rig.files("codex") != []
