"""Claiming, keeping, giving back and finishing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta

import pytest

from parley.app.mailbox import claims, find
from parley.app.mailbox.kernel import drive
from parley.domain.errors.errors import Ambiguous, Conflict, LeaseLost, UnknownMessage
from parley.domain.mailbox.delivery import Status
from parley.domain.message.message import Kind, Priority
from tests.samples.messages import a_file
from tests.unit.app.rig import HALF_AN_HOUR, Ids, Rig, claimed, drained

PLANTED = "20260313T1430Z_claude_task_request.yaml"


def reason(rig: Rig, file: str) -> dict[str, str]:
    written: dict[str, str] = json.loads((rig.path("codex", "dead_letter") / f"{file}.reason.json").read_text())
    return written


def test_an_empty_inbox_hands_out_nothing(rig: Rig) -> None:
    assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None


def test_messages_are_handed_out_in_processing_order(rig: Rig) -> None:
    later = rig.send(Kind.QUESTION).message.id
    work = rig.send(Kind.TASK_REQUEST).message.id
    urgent = rig.send(Kind.NOTIFICATION, priority=Priority.P0).message.id

    assert [found.message.id for found in drained(rig.kernel("codex"))] == [urgent, work, later]


def test_a_claimed_message_is_not_handed_out_twice(rig: Rig) -> None:
    rig.send()

    claimed(rig.kernel("codex"))

    assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None
    assert len(rig.files("codex")) == 1


def test_two_readers_get_two_messages(rig: Rig) -> None:
    sent = {rig.send().message.id for _ in range(2)}

    assert {claimed(rig.kernel("codex")).message.id for _ in range(2)} == sent


def test_a_claim_says_how_long_and_which_try_it_is(rig: Rig) -> None:
    sent = rig.send()

    found = claimed(rig.kernel("codex"), timedelta(minutes=10))

    assert (found.message, found.file, found.tries) == (sent.message, sent.file, 1)
    assert found.lease.until == "2026-03-13T14:40:00Z"


def test_a_lease_that_ran_out_gives_the_message_to_the_next_reader(rig: Rig) -> None:
    rig.send()
    first = claimed(rig.kernel("codex"))
    rig.clock.pass_by(minutes=29, seconds=59)
    assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None
    rig.clock.pass_by(seconds=1)

    second = claimed(rig.kernel("codex"))

    assert (second.message.id, second.tries) == (first.message.id, 2)
    assert second.lease.token != first.lease.token


@pytest.mark.parametrize("jump", [timedelta(days=-400), timedelta(days=400)])
def test_setting_the_wall_clock_moves_no_lease(rig: Rig, jump: timedelta) -> None:
    rig.send()
    claimed(rig.kernel("codex"))
    rig.clock.at += jump

    assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None

    rig.clock.pass_by(minutes=30)
    assert claimed(rig.kernel("codex")).tries == 2


def test_after_a_reboot_every_claim_is_over(rig: Rig) -> None:
    rig.send()
    claimed(rig.kernel("codex"))
    rig.clock.boot, rig.clock.uptime = "boot-2", 3.0

    assert claimed(rig.kernel("codex")).tries == 2


def test_a_claim_without_a_length_lasts_as_long_as_its_process(rig: Rig) -> None:
    rig.send()
    reader = rig.kernel("codex")
    claimed(reader, None)
    rig.clock.pass_by(days=3)

    assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None
    reader.close()
    assert claimed(rig.kernel("codex")).tries == 2


def test_a_message_that_kills_its_readers_goes_to_the_dead_letters_after_five_tries(rig: Rig) -> None:
    poison = rig.send(priority=Priority.P0)
    good = rig.send()
    tries = []
    for _ in range(5):
        tries.append(claimed(rig.kernel("codex")).tries)
        rig.clock.pass_by(minutes=30)

    found = claimed(rig.kernel("codex"))

    assert (tries, found.message.id) == ([1, 2, 3, 4, 5], good.message.id)
    assert rig.files("codex", "dead_letter") == [poison.file]
    assert reason(rig, poison.file)["code"] == "too_many_tries"
    assert "dead" in rig.actions("codex")


def test_five_tries_still_held_by_a_live_lease_are_left_alone(rig: Rig) -> None:
    rig.send()
    for _ in range(4):
        claimed(rig.kernel("codex"))
        rig.clock.pass_by(minutes=30)
    claimed(rig.kernel("codex"))

    assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None
    assert len(rig.files("codex")) == 1


def test_a_message_given_back_has_not_failed(rig: Rig) -> None:
    rig.send()
    kernel = rig.kernel("codex")
    for _ in range(8):
        found = claimed(kernel)
        assert found.tries == 1
        drive(claims.release(kernel, found.message.id))

    assert rig.files("codex", "dead_letter") == []


def test_a_message_moved_back_from_the_dead_letters_gets_five_tries_again(rig: Rig) -> None:
    rig.send()
    for _ in range(5):
        claimed(rig.kernel("codex"))
        rig.clock.pass_by(minutes=30)
    assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None
    dead = rig.path("codex", "dead_letter") / PLANTED
    dead.rename(rig.path("codex") / PLANTED)

    assert claimed(rig.kernel("codex")).tries == 1


def test_an_extended_lease_is_counted_from_now_and_keeps_its_token(rig: Rig) -> None:
    rig.send()
    kernel = rig.kernel("codex")
    found = claimed(kernel)
    rig.clock.pass_by(minutes=20)

    message_id, lease = drive(claims.extend(kernel, found.message.id, HALF_AN_HOUR, found.lease.token))

    assert (message_id, lease.token, lease.until) == (found.message.id, found.lease.token, "2026-03-13T15:20:00Z")
    rig.clock.pass_by(minutes=29)
    assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None


def test_extending_turns_a_claim_of_the_process_into_a_lease(rig: Rig) -> None:
    rig.send()
    kernel = rig.kernel("codex")
    found = claimed(kernel, None)

    drive(claims.extend(kernel, found.message.id, HALF_AN_HOUR))
    kernel.close()

    assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None
    rig.clock.pass_by(minutes=30)
    assert claimed(rig.kernel("codex")).tries == 2


def test_giving_back_a_claim_of_the_process_frees_its_lock(rig: Rig) -> None:
    rig.send()
    kernel = rig.kernel("codex")
    drive(claims.release(kernel, claimed(kernel, None).message.id))

    assert claimed(rig.kernel("codex")).tries == 1


@pytest.mark.parametrize("verb", ["extend", "release", "done"])
def test_whoever_lost_the_lease_is_told_so_and_changes_nothing(rig: Rig, verb: str) -> None:
    rig.send()
    slow = claimed(rig.kernel("codex"))
    rig.clock.pass_by(minutes=30)
    fast = claimed(rig.kernel("codex"))
    kernel, token, message_id = rig.kernel("codex"), slow.lease.token, slow.message.id
    act: dict[str, Callable[[], object]] = {
        "extend": lambda: drive(claims.extend(kernel, message_id, HALF_AN_HOUR, token)),
        "release": lambda: drive(claims.release(kernel, message_id, token)),
        "done": lambda: drive(claims.done(kernel, message_id, token=token)),
    }

    with pytest.raises(LeaseLost):
        act[verb]()

    assert len(rig.files("codex")) == 1
    assert drive(claims.done(kernel, fast.message.id, token=fast.lease.token)).how == "archived"


@pytest.mark.parametrize("verb", ["extend", "release"])
def test_only_a_claimed_message_can_be_held_longer_or_given_back(rig: Rig, verb: str) -> None:
    sent = rig.send()
    kernel = rig.kernel("codex")

    with pytest.raises(Conflict, match="is not claimed"):
        drive(
            claims.extend(kernel, sent.message.id, HALF_AN_HOUR)
            if verb == "extend"
            else claims.release(kernel, sent.message.id)
        )


def test_finishing_moves_the_file_to_the_archive_unchanged(rig: Rig) -> None:
    sent = rig.send()
    content = (rig.path("codex") / sent.file).read_bytes()
    kernel = rig.kernel("codex")

    finished = drive(claims.done(kernel, claimed(kernel).message.id))

    assert (finished.how, finished.file, rig.files("codex")) == ("archived", sent.file, [])
    assert (rig.path("codex", "inbox/archive") / sent.file).read_bytes() == content


def test_finishing_with_delete_keeps_no_file(rig: Rig) -> None:
    rig.send()
    kernel = rig.kernel("codex")

    finished = drive(claims.done(kernel, claimed(kernel).message.id, delete=True))

    assert (finished.how, rig.files("codex"), rig.files("codex", "inbox/archive")) == ("deleted", [], [])


def test_finishing_twice_is_no_error_and_says_what_was_done(rig: Rig) -> None:
    rig.send()
    kernel = rig.kernel("codex")
    found = claimed(kernel)

    ways = [drive(claims.done(kernel, found.message.id)).how for _ in range(3)]

    assert ways == ["archived"] * 3
    assert rig.actions("codex") == ["claimed", "done"]


def test_a_message_that_nobody_claimed_can_be_finished_too(rig: Rig) -> None:
    sent = rig.send()

    finished = drive(claims.done(rig.kernel("codex"), sent.message.id))

    assert (finished.how, rig.files("codex", "inbox/archive")) == ("archived", [sent.file])
    assert drive(find.find(rig.kernel("codex"), sent.message.id)).place == "archive"


def test_a_message_of_the_outbox_cannot_be_finished(rig: Rig) -> None:
    sent = rig.send()

    with pytest.raises(UnknownMessage, match="not in the inbox of claude"):
        drive(claims.done(rig.kernel("claude"), sent.message.id))


def test_a_file_that_another_tool_deleted_under_the_claim_is_finished_as_gone(rig: Rig) -> None:
    sent = rig.send()
    kernel = rig.kernel("codex")
    found = claimed(kernel)
    (rig.path("codex") / sent.file).unlink()

    assert drive(claims.done(kernel, found.message.id)).how == "deleted"


def test_a_repeated_delivery_of_a_finished_message_is_put_away_and_not_handed_out(rig: Rig) -> None:
    sent = rig.send()
    content = (rig.path("codex") / sent.file).read_bytes()
    kernel = rig.kernel("codex")
    drive(claims.done(kernel, claimed(kernel).message.id))
    (rig.path("codex") / "again.yaml").write_bytes(content)

    assert drive(claims.claim_next(kernel, HALF_AN_HOUR)) is None
    assert (rig.files("codex"), rig.actions("codex")[-1]) == ([], "repeated")
    assert len(rig.files("codex", "inbox/archive")) >= 1


def test_a_repeated_delivery_of_a_deleted_message_is_put_away_too(rig: Rig) -> None:
    sent = rig.send()
    path = rig.path("codex") / sent.file
    content = path.read_bytes()
    kernel = rig.kernel("codex")
    drive(claims.done(kernel, claimed(kernel).message.id, delete=True))
    path.write_bytes(content)

    assert drive(claims.claim_next(kernel, HALF_AN_HOUR)) is None
    assert rig.files("codex") == []


def test_a_file_moved_back_from_the_archive_is_handed_out_again(rig: Rig) -> None:
    sent = rig.send()
    kernel = rig.kernel("codex")
    drive(claims.done(kernel, claimed(kernel).message.id))
    (rig.path("codex", "inbox/archive") / sent.file).rename(rig.path("codex") / sent.file)

    again = claimed(rig.kernel("codex"))

    assert (again.message.id, again.tries) == (sent.message.id, 1)
    assert drive(claims.done(kernel, again.message.id)).how == "archived"


def test_an_expired_message_is_skipped_and_stays(rig: Rig) -> None:
    expired = rig.send(Kind.TASK_REQUEST, priority=Priority.P0, expires_at=rig.clock.at + timedelta(minutes=1))
    rig.clock.pass_by(minutes=2)
    good = rig.send(Kind.QUESTION)

    found = list(drained(rig.kernel("codex")))

    assert [one.message.id for one in found] == [good.message.id]
    assert rig.files("codex") == [expired.file]


def test_a_bad_file_goes_to_the_dead_letters_with_its_reason_and_the_reader_goes_on(rig: Rig) -> None:
    (rig.path("codex") / "bad.yaml").write_bytes(a_file("type", id="bad"))
    good = rig.send()

    # What is no message sorts last, so the good one comes first and the bad one with the next question.
    assert claimed(rig.kernel("codex")).message.id == good.message.id
    assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None

    assert rig.files("codex", "dead_letter") == ["bad.yaml"]
    assert (rig.path("codex", "dead_letter") / "bad.yaml").read_bytes() == a_file("type", id="bad")
    assert reason(rig, "bad.yaml") == {
        "file": "bad.yaml",
        "code": "invalid",
        "detail": "type: is missing",
        "at": "2026-03-13T14:30:00Z",
    }


def test_two_bad_files_of_one_name_are_both_kept(rig: Rig) -> None:
    for content in (b"\xff", b"\xfe"):
        (rig.path("codex") / "bad.yaml").write_bytes(content)
        assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None

    dead = rig.path("codex", "dead_letter")
    assert sorted(path.read_bytes() for path in dead.glob("*.yaml")) == [b"\xfe", b"\xff"]
    assert len(list(dead.glob("*.reason.json"))) == 2


def test_a_file_that_changed_under_the_claim_is_put_aside_and_what_was_processed_is_archived(rig: Rig) -> None:
    sent = rig.send()
    path = rig.path("codex") / sent.file
    processed = path.read_bytes()
    kernel = rig.kernel("codex")
    found = claimed(kernel)
    path.write_bytes(a_file(id=f'"{sent.message.id}"', subject='"Something else"'))

    finished = drive(claims.done(kernel, found.message.id))

    assert finished.content_changed
    assert (rig.path("codex", "inbox/archive") / sent.file).read_bytes() == processed
    assert reason(rig, sent.file)["code"] == "content_changed"
    assert rig.files("codex") == []


def test_a_file_that_became_unreadable_under_the_claim_is_put_aside(rig: Rig) -> None:
    sent = rig.send()
    path = rig.path("codex") / sent.file
    kernel = rig.kernel("codex")
    found = claimed(kernel)
    path.unlink()
    os.mkfifo(path)

    finished = drive(claims.done(kernel, found.message.id))

    assert (finished.how, finished.content_changed) == ("archived", True)
    assert reason(rig, sent.file)["code"] == "not_regular"
    assert rig.files("codex", "inbox/archive") == [sent.file]
    assert drive(find.find(kernel, found.message.id)).message == sent.message


def test_a_file_whose_second_name_is_in_the_archive_is_finished_not_refused(rig: Rig) -> None:
    sent = rig.send()
    kernel = rig.kernel("codex")
    found = claimed(kernel)
    # A reader died after giving the file its name in the archive, before dropping the one in the inbox.
    os.link(rig.path("codex") / sent.file, rig.path("codex", "inbox/archive") / sent.file)

    finished = drive(claims.done(rig.kernel("codex"), found.message.id))

    assert (finished.how, rig.files("codex"), rig.files("codex", "dead_letter")) == ("archived", [], [])
    assert rig.files("codex", "inbox/archive") == [sent.file]


def test_a_reader_that_died_while_archiving_leaves_nothing_to_do_for_the_next_one(rig: Rig) -> None:
    sent = rig.send()
    claimed(rig.kernel("codex"))
    os.link(rig.path("codex") / sent.file, rig.path("codex", "inbox/archive") / sent.file)
    rig.clock.pass_by(minutes=30)

    assert drive(claims.claim_next(rig.kernel("codex"), HALF_AN_HOUR)) is None
    assert (rig.files("codex"), rig.files("codex", "dead_letter")) == ([], [])
    assert rig.files("codex", "inbox/archive") == [sent.file]


def test_a_sender_that_is_another_user_is_doubted_or_refused_where_that_is_asked_for(rig: Rig) -> None:
    (rig.path("codex") / "stranger.yaml").write_bytes(a_file(from_="stranger"))

    found = claimed(rig.kernel("codex"))
    assert [doubt.code for doubt in found.doubts] == ["unverified"]
    drive(claims.release(rig.kernel("codex"), found.message.id))

    assert drive(claims.claim_next(rig.kernel("codex", enforce_owner=True), HALF_AN_HOUR)) is None
    assert reason(rig, "stranger.yaml")["code"] == "from_uid_mismatch"


def test_one_id_with_two_contents_is_two_messages(rig: Rig) -> None:
    for name in ("one", "two"):
        (rig.path("codex") / f"{name}.yaml").write_bytes(a_file(subject=f'"{name}"'))
    kernel = rig.kernel("codex")

    subjects = {claimed(kernel).message.subject for _ in range(2)}
    with pytest.raises(Ambiguous, match="fits 2 messages"):
        drive(claims.done(kernel, "msg-20260313T1430Z-claude-a8f3"))
    finished = {drive(claims.done(kernel, f"{name}.yaml")).file for name in ("one", "two")}

    assert (subjects, finished) == ({"one", "two"}, {"one.yaml", "two.yaml"})


def test_a_claim_is_named_by_the_end_of_its_id_too(rig: Rig) -> None:
    rig.send(ids=Ids("a8f3"))
    kernel = rig.kernel("codex")
    found = claimed(kernel)

    assert drive(claims.release(kernel, "a8f3")) == found.message.id


def test_the_bytes_that_are_handed_over_are_the_bytes_that_are_kept(rig: Rig) -> None:
    content = a_file(unknown_field='"kept"', subject='"As it came"')
    (rig.path("codex") / "foreign.yaml").write_bytes(content)
    kernel = rig.kernel("codex")

    found = claimed(kernel)
    drive(claims.done(kernel, found.message.id))

    assert found.message.extras == {"unknown_field": "kept"}
    assert drive(kernel.store.find(found.message.id))[0].content == content
    assert (rig.path("codex", "inbox/archive") / "foreign.yaml").read_bytes() == content


def test_a_reader_that_comes_second_in_the_ledger_gets_nothing(rig: Rig) -> None:
    rig.send()
    slow, fast = rig.kernel("codex"), rig.kernel("codex")
    key_holder = claimed(fast)
    states = [one.status for one in drive(slow.store.deliveries(Status.CLAIMED))]

    assert states == [Status.CLAIMED]
    assert drive(claims.claim_next(slow, HALF_AN_HOUR)) is None
    assert drive(claims.done(fast, key_holder.message.id)).how == "archived"
