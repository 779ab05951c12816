"""An incoming message as the receiving side sees it: its tenant, its exchange, its round and its limits."""

from __future__ import annotations

import pytest

from parley.app.mailbox.kernel import drive
from parley.domain.exchange.exchange import Exchange
from parley.domain.message.message import Priority
from tests.unit.app.mailbox.rules.receiving_side import FILE, ask, dead, forged, received
from tests.unit.app.rig import Rig


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
