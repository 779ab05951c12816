"""Claims when files are moved, replaced, repeated or planted behind our back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from parley.app.mailbox import claims, find
from parley.app.mailbox.kernel import drive
from parley.domain.errors.errors import Forbidden, Invalid
from tests.samples.messages import a_file
from tests.unit.app.rig import HALF_AN_HOUR, Rig, claimed


def test_a_claimed_file_that_went_away_and_came_back_is_handed_out_again(rig: Rig) -> None:
    sent = rig.send()
    path = rig.path("codex") / sent.file
    kernel = rig.kernel("codex")
    claimed(kernel)
    away = path.rename(path.with_suffix(".away"))
    assert drive(claims.claim_next(kernel, HALF_AN_HOUR)) is None

    away.rename(path)

    assert claimed(kernel).message.id == sent.message.id


def test_a_file_that_cannot_be_buried_does_not_stop_the_queue(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = rig.send()
    (rig.path("codex") / "evil.yaml").mkdir()
    kernel = rig.kernel("codex")

    async def refused(*_: str) -> None:
        raise Forbidden

    monkeypatch.setattr(kernel.inbox, "bury", refused)

    assert claimed(kernel).message.id == sent.message.id


def test_a_bad_file_with_a_very_long_name_is_put_aside(rig: Rig) -> None:
    sent = rig.send()
    name = "a" * 250 + ".yaml"
    (rig.path("codex") / name).write_bytes(b"")
    kernel = rig.kernel("codex")

    assert claimed(kernel).message.id == sent.message.id
    assert [len(file) for file in rig.files("codex", "dead_letter")] == [230]


def test_two_files_with_the_same_content_are_one_claim(rig: Rig) -> None:
    path = rig.path("codex") / rig.send().file
    path.with_name("b.yaml").write_bytes(path.read_bytes())
    first, second = rig.kernel("codex"), rig.kernel("codex")

    assert drive(claims.claim_next(first, None)) is not None
    assert drive(claims.claim_next(second, None)) is None
    assert drive(claims.claim_next(first, None)) is None


def test_a_new_message_under_the_name_of_a_claimed_one_is_offered_and_survives_its_done(rig: Rig) -> None:
    path = rig.path("codex") / rig.send().file
    kernel = rig.kernel("codex")
    first = claimed(kernel)
    path.unlink()
    path.write_bytes(a_file(id="another"))

    second = claimed(kernel)
    finished = drive(claims.done(kernel, first.message.id))

    assert (second.message.id, finished.content_changed) == ("another", True)
    assert path.exists()
    assert rig.files("codex", "dead_letter") == []


def test_a_repeat_is_known_by_its_numbered_name_in_the_archive_too(rig: Rig) -> None:
    path = rig.path("codex") / "a.yaml"
    kernel = rig.kernel("codex")
    for message_id in ("one", "two"):
        path.write_bytes(a_file(id=message_id))
        drive(claims.done(kernel, claimed(kernel).message.id))

    path.write_bytes(a_file(id="two"))

    assert drive(claims.claim_next(kernel, HALF_AN_HOUR)) is None
    assert rig.files("codex", "inbox/archive") == ["a.yaml", "a_2.yaml"]


def test_the_claimed_one_of_two_messages_with_one_id_is_the_one_that_is_answered(rig: Rig) -> None:
    for name, subject in (("a.yaml", "one"), ("b.yaml", "two")):
        (rig.path("codex") / name).write_bytes(a_file(id="same", subject=subject))
    kernel = rig.kernel("codex")
    found = claimed(kernel)

    assert drive(find.find(kernel, "same")).message.subject == found.message.subject


def test_a_lease_longer_than_time_goes_is_refused(rig: Rig) -> None:
    rig.send()

    with pytest.raises(Invalid, match="longer than time goes"):
        drive(claims.claim_next(rig.kernel("codex"), timedelta(days=9_999_999)))
