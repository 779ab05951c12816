"""Admissions: a message is judged once, and the verdict is on record."""

from __future__ import annotations

from parley.app.mailbox import claims
from parley.app.mailbox.kernel import drive
from tests.unit.app.mailbox.rules.receiving_side import ask, dead, forged, received
from tests.unit.app.rig import HALF_AN_HOUR, Rig, claimed


def test_a_message_that_comes_back_is_handed_over_again_and_counted_once(rig: Rig) -> None:
    rig.govern()
    ask(rig)
    claimed(rig.kernel("codex"))
    rig.clock.pass_by(hours=1)

    again = claimed(rig.kernel("codex"))

    assert again.tries == 2
    assert rig.outcomes("codex") == ["delivered"]


def test_what_is_refused_once_is_recorded_once_also_when_it_could_not_be_moved(rig: Rig) -> None:
    rig.govern()
    forged(rig, ('tenant_id: "acme"', 'tenant_id: "globex"'))
    kernel = rig.kernel("codex")

    async def stays(*_: object) -> None:
        return

    kernel.inbox.bury = stays  # type: ignore[assignment,method-assign]
    assert drive(claims.claim_next(kernel, HALF_AN_HOUR)) is None

    assert received(rig) == []
    assert rig.outcomes("codex") == ["denied cross_enterprise_blocked"]
    assert dead(rig) == ["cross_enterprise_blocked"]


def test_what_is_held_is_passed_over_and_recorded_once(rig: Rig) -> None:
    rig.govern()
    forged(rig, ("How far is it\\?", "I promise it for Friday."))
    rig.send(subject="another")

    assert received(rig) == ["another"]
    assert received(rig) == []

    assert rig.outcomes("codex") == ["held"]


def test_what_nobody_decided_about_in_time_is_refused(rig: Rig) -> None:
    rig.govern()
    forged(rig, ("How far is it\\?", "I promise it for Friday."))
    received(rig)
    rig.clock.pass_by(hours=24, seconds=1)

    assert received(rig) == []

    assert dead(rig) == ["expired"]
    assert [one["action"] for one in rig.audits("codex")] == [
        "agent_exchange",
        "approval_decided",
        "agent_exchange_ended",
    ]
