"""An incoming message as the receiving side sees it: its tenant, its exchange, its round and its limits."""

from __future__ import annotations

from typing import Any

import pytest

from parley.app.mailbox.kernel import drive
from parley.domain.exchange.exchange import Exchange
from parley.domain.mailbox.listing import Claimed
from parley.domain.message.message import Kind, Priority
from tests.unit.app.mailbox.rules.receiving_side import FILE, ask, dead, forged, received
from tests.unit.app.rig import Rig, drained


def test_an_urgent_message_may_be_taken_before_an_earlier_round(rig: Rig) -> None:
    rig.govern()
    first = ask(rig, subject="first")
    ask(rig, subject="second", conversation_id=first.message.conversation_id, priority=Priority.P0, wishes=None)

    assert received(rig) == ["second", "first"]

    (exchange,) = drive(rig.stores["codex"].records(Exchange))
    assert [turn.round for turn in exchange.transcript] == [1, 2]
    assert exchange.current_round == 2


@pytest.mark.parametrize(
    "edit", [('expires_at: "2026-03-14', 'expires_at: "2027-03-14'), ("max_rounds: 3", "max_rounds: 9")]
)
def test_a_limit_above_the_maximum_is_lowered_to_it(rig: Rig, edit: tuple[str, str]) -> None:
    rig.govern()
    forged(rig, edit)

    assert len(received(rig)) == 1

    (exchange,) = drive(rig.stores["codex"].records(Exchange))
    assert (exchange.max_rounds, exchange.expires_at[:19]) == (3, "2026-03-14T14:30:00")


def test_the_tenant_is_looked_at_before_whether_an_envelope_can_be_read(rig: Rig) -> None:
    rig.govern()
    forged(rig, ('tenant_id: "acme"', 'tenant_id: "globex"'), ('version: "1.0"', 'version: "9.0"'))

    assert received(rig) == []
    assert dead(rig) == ["cross_enterprise_blocked"]


def test_a_round_that_was_there_before_is_refused(rig: Rig) -> None:
    rig.govern()
    first = ask(rig)
    text = (rig.path("codex") / first.file).read_text()
    received(rig)

    (rig.path("codex") / FILE).write_text(text.replace("How far is it?", "Once more?"))

    assert received(rig) == []
    assert dead(rig) == ["round_mismatch"]


def test_an_exchange_id_of_another_conversation_is_refused(rig: Rig) -> None:
    rig.govern()
    ask(rig)
    received(rig)
    (exchange,) = drive(rig.stores["codex"].records(Exchange))

    forged(rig, (r'exchange_id: "[^"]*"', f'exchange_id: "{exchange.id}"'))

    assert received(rig) == []
    assert dead(rig) == ["envelope_invalid"]


@pytest.mark.requirement("GOV-CROSSING")
@pytest.mark.parametrize("first_reader", ["claude", "codex"])
def test_of_two_messages_that_cross_one_has_the_round_and_the_other_is_told_and_can_be_sent_again(
    rig: Rig, first_reader: str
) -> None:
    rig.govern()
    asked = ask(rig)
    received(rig)
    talk: dict[str, Any] = {"conversation_id": asked.message.conversation_id, "wishes": None}
    ask(rig, subject="more from claude", **talk)
    lost = rig.send(Kind.QUESTION, sender="codex", to=("claude",), subject="meanwhile from codex", **talk)

    taken: dict[str, list[Claimed]] = {}
    for reader in (first_reader, "claude" if first_reader == "codex" else "codex"):
        taken[reader] = list(drained(rig.kernel(reader)))

    # The initiator's message has the round on both sides; the other one is not handed over, and its sender knows.
    assert [one.message.subject for one in taken["codex"]] == ["more from claude"]
    assert taken["claude"] == []
    (doubt,) = taken["codex"][0].doubts
    assert (doubt.code, lost.message.id in doubt.detail, "send it again" in doubt.detail) == ("crossed", True, True)
    denied = [one for one in rig.audits("codex") if one["outcome"] == "denied"]
    assert [(one["message_id"], one["code"], one["role"]) for one in denied] == [
        (lost.message.id, "round_mismatch", "sender")
    ]
    assert dead(rig, "claude") == ["round_mismatch"]

    again = rig.send(Kind.QUESTION, sender="codex", to=("claude",), subject="once more from codex", **talk)

    assert [one.message.subject for one in drained(rig.kernel("claude"))] == ["once more from codex"]
    claims = again.message.extras["ocip"]
    assert isinstance(claims, dict)
    assert str(claims["exchange_round"]) == "3"
    exchanges = [drive(rig.stores[agent].records(Exchange))[0] for agent in ("claude", "codex")]
    assert exchanges[0].transcript == exchanges[1].transcript
    assert [turn.sender for turn in exchanges[0].transcript] == ["claude", "claude", "codex"]


@pytest.mark.parametrize(
    ("edit", "detail"),
    [
        (("  reply_policy:", "  urgent: true\n  reply_policy:"), "ocip.urgent: is not known"),
        ((r"ocip_ext:\n(?:  .*\n)+", ""), "ocip_ext: is missing"),
    ],
)
def test_a_field_too_many_and_a_missing_object_are_named_for_what_they_are(
    rig: Rig, edit: tuple[str, str], detail: str
) -> None:
    rig.govern()
    forged(rig, edit)

    assert received(rig) == []
    (buried,) = drive(rig.kernel("codex").inbox.dead_letters())
    assert (buried.code, detail in buried.problem, "wrong type" in buried.problem) == ("envelope_invalid", True, False)
