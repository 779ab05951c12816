"""A person decides about a mailbox's messages: only a person, only what it saw, and only once."""

from __future__ import annotations

from typing import Any

import pytest

from parley.app.mailbox.kernel import drive
from parley.app.mailbox.rules import approvals, exchanges
from parley.app.mailbox.rules.approvals import MailboxDecision
from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.errors.errors import Invalid, NotFound, ParleyError
from parley.domain.errors.rules import (
    ApprovalDecided,
    ApprovalStale,
    HumanRequired,
    MessageHeld,
    NotApprover,
    NotReleasable,
    SelfApproval,
)
from parley.domain.exchange.approval import Approval, ApprovalStatus, Decision
from parley.domain.exchange.exchange import Exchange, Outcome
from parley.domain.message.message import Kind
from tests.unit.app.rig import ANN, BEN, GOVERNANCE, Rig, claimed, drained

ASKS = Wishes(purpose=Purpose.INFORMATION_QUERY)


def hold(rig: Rig, body: str = "I promise it for Friday.", **changes: object) -> Approval:
    """A message of claude's that waits."""
    given: dict[str, Any] = {"body": body, "wishes": ASKS, **changes}
    with pytest.raises(MessageHeld) as held:
        rig.send(Kind.QUESTION, **given)
    return drive(approvals.get(rig.kernel("claude"), str(held.value.facts["approval"])))


def incoming(rig: Rig) -> Approval:
    """A commitment from claude that nobody approved, held for codex's person."""
    sent = rig.send(Kind.QUESTION, body="How far is it?", wishes=ASKS)
    path = rig.path("codex") / sent.file
    path.write_text(path.read_text().replace("How far is it?", "I promise it for Friday."))
    assert list(drained(rig.kernel("codex"))) == []
    (approval,) = drive(approvals.list_all(rig.kernel("codex")))
    return approval


def decide(
    rig: Rig, agent: str, approval: Approval, decision: Decision, key: str, answer: str = "", digest: str = ""
) -> Approval:
    deciding = MailboxDecision(decision, key, digest or approval.digest, "because", answer)
    return drive(approvals.decide(rig.kernel(agent), approval.id, deciding))


# ---------------------------------------------------------------- mine


def test_what_a_person_approves_goes_out_once_as_agent_assisted(rig: Rig) -> None:
    rig.govern()
    approval = hold(rig)

    done = decide(rig, "claude", approval, Decision.APPROVE, ANN)

    message = claimed(rig.kernel("codex")).message
    envelope = message.extras["ocip"]
    assert (done.status, done.decided_by, done.note, done.message_id) == (
        ApprovalStatus.APPROVED,
        "ann",
        "because",
        message.id,
    )
    assert isinstance(envelope, dict)
    assert (message.body, envelope["message_type"]) == ("I promise it for Friday.", "agent-assisted")
    said: Any = message.extras["ocip_ext"]
    assert said["approval"].pop("signature").startswith("ed25519:")
    assert said["approval"] == {"id": approval.id, "by": "ann"}
    with pytest.raises(ApprovalDecided):
        decide(rig, "claude", approval, Decision.APPROVE, ANN)


def test_the_decision_and_the_message_are_on_record_in_this_order(rig: Rig) -> None:
    rig.govern()
    approval = hold(rig)

    decide(rig, "claude", approval, Decision.APPROVE, ANN)

    held, decided, delivered = rig.audits("claude")
    assert (held["outcome"], held["approval"]) == ("held", approval.id)
    assert (decided["action"], decided["decision"], decided["actor"]) == ("approval_decided", "approved", "ann")
    assert (delivered["outcome"], delivered["approved_by"], delivered["round"]) == ("delivered", "ann", 1)


def test_what_a_person_rejects_is_never_sent_and_its_exchange_is_denied(rig: Rig) -> None:
    rig.govern()
    approval = hold(rig)

    assert decide(rig, "claude", approval, Decision.REJECT, ANN).status is ApprovalStatus.REJECTED

    (exchange,) = drive(exchanges.list_all(rig.kernel("claude")))
    assert exchange.outcome is Outcome.DENIED
    assert rig.files("codex") == []


def test_a_person_may_speak_instead(rig: Rig) -> None:
    rig.govern()
    approval = hold(rig)

    done = decide(rig, "claude", approval, Decision.ANSWER, ANN, "I will look at it, and promise nothing.")

    message = claimed(rig.kernel("codex")).message
    assert done.status is ApprovalStatus.ANSWERED
    assert message.extras["ocip"]["message_type"] == "human"  # type: ignore[call-overload,index]
    assert "disclosure" not in message.extras
    assert message.body == "I will look at it, and promise nothing."


def test_an_answer_needs_words(rig: Rig) -> None:
    rig.govern()
    approval = hold(rig)

    with pytest.raises(Invalid, match="answer"):
        decide(rig, "claude", approval, Decision.ANSWER, ANN)


@pytest.mark.parametrize(("key", "error"), [("pk_nobody", HumanRequired), ("", HumanRequired), (BEN, NotApprover)])
def test_only_the_agents_own_person_decides(rig: Rig, key: str, error: type[ParleyError]) -> None:
    rig.govern()
    approval = hold(rig)

    with pytest.raises(error):
        decide(rig, "claude", approval, Decision.APPROVE, key)

    assert rig.files("codex") == []


def test_whom_the_policy_names_decides_too_and_four_eyes_keep_the_own_person_out(rig: Rig) -> None:
    rig.govern(enterprise__default="self_approval: false; approvers: [ben]")
    approval = hold(rig)

    with pytest.raises(SelfApproval):
        decide(rig, "claude", approval, Decision.APPROVE, ANN)

    assert decide(rig, "claude", approval, Decision.APPROVE, BEN).decided_by == "ben"
    assert claimed(rig.kernel("codex")).message.body == "I promise it for Friday."


def test_what_was_not_seen_is_not_released(rig: Rig) -> None:
    rig.govern()
    approval = hold(rig)

    with pytest.raises(ApprovalStale):
        decide(rig, "claude", approval, Decision.APPROVE, ANN, digest="0" * 64)


def test_after_a_change_of_policy_it_must_be_looked_at_again(rig: Rig) -> None:
    rig.govern()
    approval = hold(rig)
    rig.govern(enterprise__default="hop_limit: 4")

    with pytest.raises(ApprovalStale) as stale:
        decide(rig, "claude", approval, Decision.APPROVE, ANN)
    again = decide(rig, "claude", approval, Decision.APPROVE, ANN, digest=str(stale.value.facts["digest"]))

    assert again.status is ApprovalStatus.APPROVED


def test_what_is_too_secret_by_now_is_denied_and_nobody_has_to_decide_it_any_more(rig: Rig) -> None:
    rig.govern()
    approval = hold(rig)
    rig.govern(GOVERNANCE.replace("max_classification: confidential", "max_classification: public"))

    with pytest.raises(ParleyError) as refused:
        decide(rig, "claude", approval, Decision.APPROVE, ANN)

    assert refused.value.code == "classification_exceeded"
    assert drive(approvals.get(rig.kernel("claude"), approval.id)).status is ApprovalStatus.CLOSED
    assert rig.files("codex") == []


def test_nobody_deciding_is_a_no(rig: Rig) -> None:
    rig.govern()
    approval = hold(rig)
    rig.clock.pass_by(hours=25)

    (after,) = drive(approvals.list_all(rig.kernel("claude")))

    assert (after.status, after.decided_by) == (ApprovalStatus.EXPIRED, "system")
    with pytest.raises(ApprovalDecided):
        decide(rig, "claude", approval, Decision.APPROVE, ANN)


def at_limit(rig: Rig) -> Approval:
    sent = rig.send(Kind.QUESTION, body="How far is it?", wishes=ASKS._replace(max_rounds=1))
    return hold(rig, "And now?", wishes=None, conversation_id=sent.message.conversation_id)


def test_a_limit_is_never_extended(rig: Rig) -> None:
    rig.govern()
    approval = at_limit(rig)

    with pytest.raises(NotReleasable):
        decide(rig, "claude", approval, Decision.APPROVE, ANN)


def test_a_limit_is_resolved_by_a_persons_answer(rig: Rig) -> None:
    rig.govern()
    approval = at_limit(rig)

    decide(rig, "claude", approval, Decision.ANSWER, ANN, "Let us talk.")

    (exchange,) = drive(exchanges.list_all(rig.kernel("claude")))
    assert exchange.outcome is Outcome.RESOLVED
    assert [one.message.body for one in drained(rig.kernel("codex"))] == ["How far is it?", "Let us talk."]


def test_an_approval_is_found_by_the_end_of_its_id(rig: Rig) -> None:
    rig.govern()
    approval = hold(rig)

    assert drive(approvals.get(rig.kernel("claude"), approval.id[-6:])).id == approval.id
    with pytest.raises(NotFound):
        drive(approvals.get(rig.kernel("claude"), "appr_nothing"))


def test_listing_tells_what_waits_from_what_is_over(rig: Rig) -> None:
    rig.govern()
    over, waits = hold(rig), hold(rig, "I promise it for Monday.")
    decide(rig, "claude", over, Decision.REJECT, ANN)

    kernel = rig.kernel("claude")

    assert [one.id for one in drive(approvals.list_all(kernel, ApprovalStatus.PENDING))] == [waits.id]
    assert {one.id for one in drive(approvals.list_all(kernel))} == {over.id, waits.id}


# ---------------------------------------------------------------- another's


def test_what_my_person_approves_is_handed_to_my_agent(rig: Rig) -> None:
    rig.govern()
    approval = incoming(rig)

    decide(rig, "codex", approval, Decision.APPROVE, BEN)

    assert [one.message.body for one in drained(rig.kernel("codex"))] == ["I promise it for Friday."]
    (exchange,) = drive(rig.stores["codex"].records(Exchange))
    assert (exchange.current_round, exchange.outcome) == (1, Outcome.IN_PROGRESS)
    assert [one.get("outcome") or one["action"] for one in rig.audits("codex")] == [
        "held",
        "approval_decided",
        "delivered",
    ]


def test_the_senders_person_has_no_say_in_my_mailbox(rig: Rig) -> None:
    rig.govern()
    approval = incoming(rig)

    with pytest.raises(NotApprover):
        decide(rig, "codex", approval, Decision.APPROVE, ANN)


def test_what_my_person_rejects_goes_to_the_dead_letters(rig: Rig) -> None:
    rig.govern()
    approval = incoming(rig)

    decide(rig, "codex", approval, Decision.REJECT, BEN)

    assert list(drained(rig.kernel("codex"))) == []
    assert len(rig.files("codex", "dead_letter")) == 1
    (exchange,) = drive(rig.stores["codex"].records(Exchange))
    assert exchange.outcome is Outcome.DENIED


def test_what_my_person_answers_itself_my_agent_never_gets(rig: Rig) -> None:
    rig.govern()
    approval = incoming(rig)

    done = decide(rig, "codex", approval, Decision.ANSWER, BEN, "Not before Monday.")

    assert done.status is ApprovalStatus.ANSWERED
    assert list(drained(rig.kernel("codex"))) == []
    assert len(rig.files("codex", "inbox/archive")) == 1
    (reply,) = drained(rig.kernel("claude"))
    assert reply.message.body == "Not before Monday."
    assert reply.message.extras["ocip"]["exchange_round"] == "2"  # type: ignore[call-overload,index]


def test_an_answer_that_was_interrupted_is_given_with_the_next_try(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.govern()
    approval = incoming(rig)
    with monkeypatch.context() as patch:
        patch.setattr("parley.app.mailbox.rules.approvals._answer", _dies)
        with pytest.raises(KeyboardInterrupt):
            decide(rig, "codex", approval, Decision.ANSWER, BEN, "Not before Monday.")

    decide(rig, "codex", approval, Decision.ANSWER, BEN, "Not before Monday.")

    assert [one.message.body for one in drained(rig.kernel("claude"))] == ["Not before Monday."]


async def _dies(*_: object) -> None:
    raise KeyboardInterrupt
