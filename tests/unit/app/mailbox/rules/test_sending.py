"""Sending under the rules: stamped and counted, held, or denied; whatever it is, it is on record."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from parley.app.mailbox import sending
from parley.app.mailbox.kernel import drive
from parley.domain.content.classification import Classification, DataItem
from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.errors.errors import ParleyError
from parley.domain.errors.rules import (
    ClassificationExceeded,
    CrossEnterpriseBlocked,
    EnvelopeInvalid,
    ExchangeExpired,
    MaxRoundsFixed,
    MessageHeld,
    NoReplyNeeded,
    PairBudget,
    PolicyDenied,
    PolicyInvalid,
    PolicyUnavailable,
    ReceiverRefuses,
    Suspended,
)
from parley.domain.exchange.approval import Approval
from parley.domain.exchange.exchange import Exchange, Outcome
from parley.domain.mailbox.listing import Sent
from parley.domain.message.message import Kind
from parley.wire.oacp.envelope import OacpEnvelopes
from tests.samples.messages import a_draft, fields_of
from tests.unit.app.rig import GOVERNANCE, Rig, claimed

ASKS = Wishes(purpose=Purpose.INFORMATION_QUERY)


def ask(rig: Rig, body: Any = "How far is it?", **changes: object) -> Sent:  # noqa: ANN401  # whatever a body may be
    """claude asks codex something, under the rules."""
    wishes = changes.pop("wishes", ASKS)
    return rig.send(Kind.QUESTION, **{"body": body, "wishes": wishes, **changes})


def refused(rig: Rig, error: type[ParleyError], **changes: object) -> ParleyError:
    with pytest.raises(error) as caught:
        ask(rig, **changes)
    return caught.value


def answer(rig: Rig, sender: str, body: str = "All of it works.") -> Sent:
    """`sender` claims what is next and answers it."""
    kernel = rig.kernel(sender)
    asked = claimed(kernel).message
    return drive(
        sending.reply(
            kernel, asked.id, a_draft(Kind.NOTIFICATION, sender=sender, to=(), subject="", body=body), kind_given=False
        )
    )


def exchanges(rig: Rig, agent: str) -> tuple[Exchange, ...]:
    return drive(rig.stores[agent].records(Exchange))


# ---------------------------------------------------------------- passing


def test_a_message_that_asks_for_rules_carries_the_whole_envelope(rig: Rig) -> None:
    rig.govern()

    sent = ask(rig)

    carried = OacpEnvelopes().read((rig.path("codex") / sent.file).read_bytes())
    assert carried.envelope.source_agent == ("claude", "ann", "engineering", "acme")
    assert (carried.envelope.exchange_round, carried.envelope.max_rounds) == (1, 3)
    assert carried.envelope.conversation_id == sent.message.conversation_id
    assert carried.envelope.expires_at == "2026-03-14T14:30:00.000Z"
    assert carried.ext is not None
    assert carried.ext.purpose is Purpose.INFORMATION_QUERY
    assert sent.message.extras["disclosure"]


def test_a_message_that_asks_for_nothing_is_as_it_always_was(rig: Rig) -> None:
    rig.govern()

    sent = rig.send()

    assert sent.message.extras == {}
    assert rig.audits("claude") == []


def test_without_a_governance_file_only_what_asks_for_rules_is_under_them(rig: Rig) -> None:
    plain = rig.send(to=("gemini",))
    governed = ask(rig, to=("gemini",))

    assert "ocip" not in plain.message.extras
    assert OacpEnvelopes().read((rig.path("gemini") / governed.file).read_bytes()).envelope.source_agent == (
        "claude",
        "unassigned",
        "default",
        "demo",
    )


def test_the_message_its_round_and_its_entry_are_one_commit(rig: Rig) -> None:
    rig.govern()

    sent = ask(rig)

    (exchange,) = exchanges(rig, "claude")
    (entry,) = rig.audits("claude")
    assert (exchange.current_round, exchange.outcome) == (1, Outcome.IN_PROGRESS)
    assert entry["outcome"] == "delivered"
    assert (entry["exchange_id"], entry["round"], entry["message_id"]) == (exchange.id, 1, sent.message.id)
    assert (entry["side"], entry["direction"], entry["tenant"]) == ("claude", "outgoing", "acme")


def test_an_answer_takes_the_next_round_of_the_same_exchange(rig: Rig) -> None:
    rig.govern()
    ask(rig)

    answer(rig, "codex")

    (exchange,) = exchanges(rig, "codex")
    assert [(turn.round, turn.sender) for turn in exchange.transcript] == [(1, "claude"), (2, "codex")]


def test_what_goes_on_in_a_running_exchange_is_under_its_rules_without_asking(rig: Rig) -> None:
    rig.govern()
    sent = ask(rig)

    again = rig.send(Kind.QUESTION, body="And now?", conversation_id=sent.message.conversation_id)

    assert again.message.extras["ocip"]["exchange_round"] == "2"  # type: ignore[call-overload,index]


def test_a_notification_is_resolved_on_delivery_and_an_answer_to_it_is_refused(rig: Rig) -> None:
    rig.govern()
    rig.send(Kind.NOTIFICATION, body="It is done.", wishes=Wishes(classification=Classification.PUBLIC))

    with pytest.raises(NoReplyNeeded):
        answer(rig, "codex", "Thanks.")

    (exchange,) = exchanges(rig, "claude")
    assert exchange.outcome is Outcome.RESOLVED


def test_a_notification_may_go_to_several_and_those_whom_the_rules_exclude_do_not_get_it(rig: Rig) -> None:
    rig.govern()

    sent = rig.send(Kind.NOTIFICATION, to=("codex", "gemini"), body="It is done.", wishes=Wishes(meant=True))

    assert sent.message.to == ("codex",)
    assert [str(one) for one in sent.warnings] == ["to: gemini does not get it: policy_denied"]
    assert rig.files("gemini") == []
    assert rig.audits("claude")[0]["excluded"] == [{"agent": "gemini", "reason": "policy_denied"}]


def test_an_exchange_has_two_parties(rig: Rig) -> None:
    rig.govern()

    refusal = refused(rig, EnvelopeInvalid, to=("codex", "gemini"))

    assert refusal.problems[0].field == "to"
    assert rig.files("codex") == rig.files("claude", "outbox") == []


# ---------------------------------------------------------------- denied


def test_what_is_more_secret_than_the_sender_may_share_is_denied_and_recorded(rig: Rig) -> None:
    rig.govern()

    refused(rig, ClassificationExceeded, wishes=Wishes(classification=Classification.RESTRICTED))

    assert rig.files("codex") == rig.files("claude", "outbox") == []
    assert rig.outcomes("claude") == ["denied classification_exceeded", "denied"]


def test_what_is_more_secret_than_the_receiver_may_know_is_denied(rig: Rig) -> None:
    rig.govern()

    refusal = refused(rig, ClassificationExceeded, wishes=Wishes(classification=Classification.CONFIDENTIAL))

    assert "codex may know at most internal" in refusal.message


@pytest.mark.parametrize("wishes", [None, ASKS])
def test_between_org_units_nothing_goes_by_the_policy_that_comes_along(rig: Rig, wishes: Wishes | None) -> None:
    rig.govern()

    refused(rig, PolicyDenied, to=("gemini",), wishes=wishes)

    assert rig.files("gemini") == []
    assert rig.outcomes("claude") == ["denied policy_denied", "denied"]


def test_a_policy_file_may_open_the_way_between_org_units(rig: Rig) -> None:
    rig.govern(enterprise__default="cross_org: true")

    assert ask(rig, to=("gemini",)).message.to == ("gemini",)


def test_a_policy_of_an_org_unit_narrows(rig: Rig) -> None:
    rig.govern(org__engineering="max_rounds: 1")

    sent = ask(rig)

    assert sent.message.extras["ocip"]["max_rounds"] == "1"  # type: ignore[call-overload,index]


def test_a_broken_policy_refuses_the_command_with_file_and_line(rig: Rig) -> None:
    rig.govern(enterprise__default="enabled: true; max_rounds: many")

    with pytest.raises(PolicyInvalid, match=r"policies/enterprise/default\.yaml:3: max_rounds"):
        rig.send()

    assert rig.files("codex") == rig.files("claude", "outbox") == rig.actions("claude") == []


def test_without_anybody_to_ask_nothing_that_asks_for_rules_is_sent(rig: Rig) -> None:
    kernel = rig.kernel("claude")
    kernel._open_rules = None

    with pytest.raises(PolicyUnavailable):
        drive(sending.send(kernel, a_draft(wishes=ASKS)))

    assert rig.files("codex") == []


def test_a_receiver_that_takes_no_queries_gets_none(rig: Rig) -> None:
    rig.govern(GOVERNANCE.replace("user_id: ben\n", "user_id: ben\n    can_receive_queries: false\n"))

    refused(rig, ReceiverRefuses)


@pytest.mark.parametrize("stopped", ["agent codex", "pair codex,claude", "org_unit engineering", "tenant"])
def test_what_is_suspended_is_stopped_at_the_next_message(rig: Rig, stopped: str) -> None:
    rig.govern()
    rig.send()
    rig.govern(GOVERNANCE + f"suspended:\n  - {stopped}\n")

    with pytest.raises(Suspended):
        rig.send()

    assert rig.outcomes("claude") == ["denied suspended"]


@pytest.mark.parametrize("name", ["codex@globex", "nobody@globex"])
def test_another_tenant_cannot_be_reached_whoever_is_there(rig: Rig, name: str) -> None:
    rig.govern()

    refusal = refused(rig, CrossEnterpriseBlocked, to=(name,), wishes=None)

    assert refusal.message == "nothing crosses from one tenant to another"
    assert rig.outcomes("claude") == ["denied cross_enterprise_blocked"]


def test_the_own_tenant_may_be_named(rig: Rig) -> None:
    rig.govern()

    assert rig.send(to=("codex@acme",)).message.to == ("codex",)


def test_a_round_limit_cannot_be_changed_later(rig: Rig) -> None:
    rig.govern()
    sent = ask(rig, wishes=ASKS._replace(max_rounds=2))

    refused(rig, MaxRoundsFixed, wishes=Wishes(max_rounds=3), conversation_id=sent.message.conversation_id)


def test_an_exchange_that_expired_takes_no_more(rig: Rig) -> None:
    rig.govern()
    sent = ask(rig)
    rig.clock.pass_by(hours=25)

    refused(rig, ExchangeExpired, conversation_id=sent.message.conversation_id, wishes=None)


def test_the_messages_own_expiry_is_that_of_the_exchange_it_begins(rig: Rig) -> None:
    rig.govern()

    sent = ask(rig, expires_at=rig.clock.at + timedelta(hours=2))

    assert sent.message.extras["ocip"]["expires_at"] == "2026-03-13T16:30:00.000Z"  # type: ignore[call-overload,index]


def test_two_agents_have_a_budget_for_an_hour(rig: Rig) -> None:
    rig.govern(enterprise__default="pair_budget: 2")
    ask(rig)
    ask(rig)

    refused(rig, PairBudget)
    rig.clock.pass_by(hours=1)

    assert ask(rig).message.subject
    assert rig.outcomes("claude") == ["delivered", "delivered", "denied pair_budget", "delivered"]


# ---------------------------------------------------------------- data


OVER = ASKS._replace(data=(DataItem("review", ("diff_summary",), Classification.CONFIDENTIAL),))


def test_data_above_the_ceiling_blocks_the_message(rig: Rig) -> None:
    rig.govern()

    with pytest.raises(ClassificationExceeded):
        rig.send(Kind.REVIEW_REQUEST, wishes=OVER)


def test_data_above_the_ceiling_is_taken_out_where_the_policy_says_so(rig: Rig) -> None:
    rig.govern(enterprise__default="on_over_classified: redact")

    sent = rig.send(Kind.REVIEW_REQUEST, body=fields_of(Kind.REVIEW_REQUEST, diff_summary="I promise it"), wishes=OVER)

    (entry,) = rig.audits("claude")
    assert isinstance(sent.message.body, dict)
    assert sent.message.body["diff_summary"] == "[redacted]"
    assert entry["dataWithheld"] == [
        {"reason": "confidential is above internal", "description": "review: diff_summary"}
    ]


def test_what_is_left_is_looked_at_together_with_the_subject(rig: Rig) -> None:
    rig.govern(enterprise__default="on_over_classified: withhold")

    with pytest.raises(MessageHeld) as held:
        rig.send(Kind.REVIEW_REQUEST, subject="I promise this is good", wishes=OVER)

    assert held.value.facts["detectedKeywords"] == ["promise"]


# ---------------------------------------------------------------- held


def test_a_commitment_is_held_and_nothing_is_carried(rig: Rig) -> None:
    rig.govern()

    held = refused(rig, MessageHeld, body="I promise to be done on Friday.")

    (approval,) = drive(rig.stores["claude"].records(Approval))
    assert held.facts["approval"] == approval.id
    assert (approval.agent, approval.user, approval.to, approval.detected_keywords) == (
        "claude",
        "ann",
        "codex",
        ("promise",),
    )
    assert rig.files("codex") == rig.files("claude", "outbox") == []
    assert rig.outcomes("claude") == ["held"]


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": "I guarantee it"},
        {"context_keys": "- we agree\n"},
        {"body": "We ag\u200bree."},
    ],
)
def test_a_commitment_is_found_wherever_it_stands(rig: Rig, changes: dict[str, object]) -> None:
    rig.govern()

    refused(rig, MessageHeld, **changes)


def test_the_message_after_the_last_round_is_held_once_with_the_whole_story(rig: Rig) -> None:
    rig.govern()
    sent = ask(rig)
    for _ in range(2):
        ask(rig, wishes=None, conversation_id=sent.message.conversation_id)

    first = refused(rig, MessageHeld, wishes=None, conversation_id=sent.message.conversation_id)
    second = refused(rig, MessageHeld, wishes=None, conversation_id=sent.message.conversation_id, body="Please?")

    told = first.facts["escalation"]
    assert isinstance(told, dict)
    assert list(told) == ["exchangeId", "conversationId", "currentRound", "maxRounds", "conversationSummary", "reason"]
    assert (told["currentRound"], told["maxRounds"]) == (4, 3)
    assert told["conversationSummary"].count("\n") == 3
    assert second.facts["approval"] == first.facts["approval"]
    assert len(drive(rig.stores["claude"].records(Approval))) == 1
    assert len(rig.files("codex")) == 3


def test_a_conversation_that_is_only_held_is_not_given_to_another_message(rig: Rig) -> None:
    rig.govern()
    held = refused(rig, MessageHeld, body="I promise.")

    sent = ask(rig)

    assert sent.message.conversation_id != held.facts["conversation_id"]


def test_more_than_a_person_can_look_at_is_refused(rig: Rig) -> None:
    rig.govern(enterprise__default="open_approvals: 1")
    refused(rig, MessageHeld, body="I promise.")

    with pytest.raises(ParleyError) as full:
        ask(rig, "I promise again.")

    assert full.value.code == "approval_queue_full"
