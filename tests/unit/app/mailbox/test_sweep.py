"""What crashes left behind is put right by the next command."""

from __future__ import annotations

from parley.app.mailbox import claims, sweep
from parley.app.mailbox.kernel import drive
from parley.domain.mailbox.delivery import Status
from tests.unit.app.rig import HALF_AN_HOUR, Rig, claimed


def states(rig: Rig) -> list[tuple[Status, str]]:
    found = drive(rig.stores["codex"].deliveries(*Status))
    return [(one.status, one.reason) for one in found]


def test_a_claim_whose_file_another_tool_removed_is_closed(rig: Rig) -> None:
    sent = rig.send()
    claimed(rig.kernel("codex"))
    (rig.path("codex") / sent.file).unlink()

    drive(sweep.sweep(rig.kernel("codex")))

    assert states(rig) == [(Status.DONE, "gone")]


def test_a_claim_whose_file_is_archived_already_is_closed_as_archived(rig: Rig) -> None:
    sent = rig.send()
    claimed(rig.kernel("codex"))
    (rig.path("codex") / sent.file).rename(rig.path("codex", "inbox/archive") / sent.file)

    drive(sweep.sweep(rig.kernel("codex")))

    assert states(rig) == [(Status.DONE, "archived")]
    assert rig.actions("codex") == ["claimed", "done"]


def test_a_live_claim_is_left_alone(rig: Rig) -> None:
    rig.send()
    claimed(rig.kernel("codex"))

    drive(sweep.sweep(rig.kernel("codex")))

    assert states(rig) == [(Status.CLAIMED, "")]


def test_what_was_archived_and_then_delivered_again_is_not_processed_twice(rig: Rig) -> None:
    sent = rig.send()
    content = (rig.path("codex") / sent.file).read_bytes()
    claimed(rig.kernel("codex"))
    (rig.path("codex", "inbox/archive") / sent.file).write_bytes(content)
    rig.clock.pass_by(minutes=30)

    assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None
    assert (rig.files("codex"), states(rig)) == ([], [(Status.DONE, "archived")])


def test_a_lease_that_still_runs_is_not_closed_by_a_second_copy_in_the_archive(rig: Rig) -> None:
    sent = rig.send()
    content = (rig.path("codex") / sent.file).read_bytes()
    claimed(rig.kernel("codex"))
    (rig.path("codex", "inbox/archive") / sent.file).write_bytes(content)

    drive(sweep.sweep(rig.kernel("codex")))

    assert states(rig) == [(Status.CLAIMED, "")]
