"""Finding one message, a thread, a text."""

from __future__ import annotations

from datetime import timedelta

import pytest

from parley.app.mailbox import claims, find, sending
from parley.app.mailbox.kernel import drive
from parley.domain.errors.errors import Ambiguous, Invalid, NotText, UnknownMessage
from parley.domain.message.message import Kind
from tests.samples.messages import a_draft, a_file
from tests.unit.app.rig import Ids, Rig, claimed


def reply(rig: Rig, who: str, to_id: str, kind: Kind = Kind.NOTIFICATION, **changes: object) -> str:
    rig.clock.pass_by(minutes=1)
    draft = a_draft(kind, sender=who, to=(), subject="", **changes)
    return drive(sending.reply(rig.kernel(who), to_id, draft, kind_given=True)).message.id


@pytest.mark.parametrize("spelling", ["id", "file", "stem", "path", "ending"])
def test_a_message_is_found_by_id_by_file_and_by_the_end_of_its_id(rig: Rig, spelling: str) -> None:
    sent = rig.send(ids=Ids("a8f3"))
    path = rig.path("codex") / sent.file
    ref = {"id": sent.message.id, "file": sent.file, "stem": path.stem, "path": str(path), "ending": "a8f3"}[spelling]

    found = drive(find.find(rig.kernel("codex"), ref))

    assert (found.message, found.place, found.file) == (sent.message, "inbox", sent.file)
    assert found.content == path.read_bytes()


def test_a_finished_message_is_found_in_the_archive(rig: Rig) -> None:
    rig.send()
    kernel = rig.kernel("codex")
    message_id = claimed(kernel).message.id
    drive(claims.done(kernel, message_id))

    assert drive(find.find(rig.kernel("codex"), message_id)).place == "archive"


def test_a_deleted_message_is_found_in_the_ledger(rig: Rig) -> None:
    rig.send()
    kernel = rig.kernel("codex")
    message_id = claimed(kernel).message.id
    drive(claims.done(kernel, message_id, delete=True))

    assert drive(find.find(rig.kernel("codex"), message_id)).place == "ledger"


def test_a_message_that_nobody_knows_is_an_error_with_advice(rig: Rig) -> None:
    with pytest.raises(UnknownMessage, match="codex has no message 'zzzz'") as unknown:
        drive(find.find(rig.kernel("codex"), "zzzz"))

    assert "parley search" in unknown.value.hint


def test_an_ending_that_fits_two_messages_is_ambiguous_and_names_the_files(rig: Rig) -> None:
    files = [rig.send(kind, ids=Ids("a8f3", "a8f3"), sender=who).file for kind, who in _TWO]

    with pytest.raises(Ambiguous) as both:
        drive(find.find(rig.kernel("codex"), "a8f3"))

    assert all(file in both.value.hint for file in files)


_TWO = [(Kind.QUESTION, "claude"), (Kind.NOTIFICATION, "gemini")]


def test_one_id_with_two_contents_is_ambiguous_and_each_file_can_be_named(rig: Rig) -> None:
    for name in ("one", "two"):
        (rig.path("codex") / f"{name}.yaml").write_bytes(a_file(subject=f'"{name}"'))
    kernel = rig.kernel("codex")

    with pytest.raises(Ambiguous, match="fits 2 messages"):
        drive(find.find(kernel, "msg-20260313T1430Z-claude-a8f3"))

    assert drive(find.find(kernel, "two.yaml")).message.subject == "two"


def test_a_file_that_is_no_message_is_named_with_its_reason(rig: Rig) -> None:
    (rig.path("codex") / "bytes.yaml").write_bytes(b"\xff")
    (rig.path("codex") / "short.yaml").write_bytes(a_file("subject"))

    with pytest.raises(NotText):
        drive(find.find(rig.kernel("codex"), "bytes.yaml"))
    with pytest.raises(Invalid, match=r"short\.yaml is no message: subject: is missing"):
        drive(find.find(rig.kernel("codex"), "short.yaml"))


def test_what_is_odd_about_a_message_is_told_with_it(rig: Rig) -> None:
    (rig.path("codex") / "odd.yaml").write_bytes(a_file("priority"))

    found = drive(find.find(rig.kernel("codex"), "odd.yaml"))

    assert [doubt.field for doubt in found.doubts] == ["priority"]


def test_a_thread_is_the_whole_conversation_oldest_first(rig: Rig) -> None:
    first = rig.send(Kind.QUESTION).message
    second = reply(rig, "codex", first.id)
    third = reply(rig, "claude", second)

    for agent in ("claude", "codex"):
        for ref in (first.conversation_id, first.id, second, third):
            thread = drive(find.thread(rig.kernel(agent), ref))
            assert [one.message.id for one in thread] == [first.id, second, third]


def test_an_answer_stands_after_what_it_answers_whatever_the_clocks_say(rig: Rig) -> None:
    first = rig.send(Kind.QUESTION, ids=Ids("zzzz")).message
    ids = [first.id]
    for who, suffix, shift in (("codex", "mmmm", 0), ("claude", "aaaa", 0), ("codex", "bbbb", -3600)):
        rig.clock.at += timedelta(seconds=shift)
        draft = a_draft(Kind.NOTIFICATION, sender=who, to=(), subject="")
        ids.append(drive(sending.reply(rig.kernel(who, ids=Ids(suffix)), ids[-1], draft, kind_given=True)).message.id)

    for agent in ("claude", "codex"):
        assert [one.message.id for one in drive(find.thread(rig.kernel(agent), first.id))] == ids
        assert [one.message.id for one in drive(find.search(rig.kernel(agent), "msg-"))] == ids[::-1]


def test_a_thread_holds_what_is_archived_and_what_is_deleted(rig: Rig) -> None:
    first = rig.send(Kind.QUESTION).message
    codex = rig.kernel("codex")
    claimed(codex)
    drive(claims.done(codex, first.id, delete=True))
    second = reply(rig, "codex", first.id)

    assert [one.message.id for one in drive(find.thread(rig.kernel("codex"), second))] == [first.id, second]


def test_messages_belong_together_by_parent_where_a_tool_left_the_conversation_out(rig: Rig) -> None:
    (rig.path("codex") / "1.yaml").write_bytes(a_file(id="one"))
    (rig.path("codex") / "2.yaml").write_bytes(a_file(id="two", parent_message_id="one"))
    (rig.path("codex") / "3.yaml").write_bytes(a_file(id="three", parent_message_id="two"))
    (rig.path("codex") / "4.yaml").write_bytes(a_file(id="four"))

    thread = drive(find.thread(rig.kernel("codex"), "two"))

    assert {one.message.id for one in thread} == {"one", "two", "three"}


def test_a_thread_survives_unreadable_neighbours(rig: Rig) -> None:
    first = rig.send(Kind.QUESTION).message
    (rig.path("codex") / "bad.yaml").write_bytes(b"\xff")

    assert [one.message.id for one in drive(find.thread(rig.kernel("codex"), first.id))] == [first.id]


def test_a_thread_by_the_end_of_an_id_is_found_too(rig: Rig) -> None:
    first = rig.send(Kind.QUESTION, ids=Ids("a8f3")).message

    assert [one.message.id for one in drive(find.thread(rig.kernel("codex"), "a8f3"))] == [first.id]


@pytest.mark.parametrize("text", ["RATE", "rate lim", "142 tests", "msg-20260313"])
def test_a_search_looks_into_ids_subjects_and_bodies_in_any_case(rig: Rig, text: str) -> None:
    sent = rig.send(sender="codex", to=("claude",))

    assert [one.message.id for one in drive(find.search(rig.kernel("claude"), text))] == [sent.message.id]


def test_a_search_finds_what_was_sent_and_what_was_received_newest_first(rig: Rig) -> None:
    old = rig.send(subject="The needle goes").message.id
    new = reply(rig, "codex", old, body="the needle comes")

    assert [one.message.id for one in drive(find.search(rig.kernel("claude"), "NEEDLE"))] == [new, old]
    assert drive(find.search(rig.kernel("gemini"), "needle")) == []


def test_a_thread_of_foreign_files_is_whole_from_any_message_in_it(rig: Rig) -> None:
    for number in (1, 2, 3):
        content = a_file(id=f"m-{number}", conversation_id="conv-x")
        (rig.path("codex") / f"{number}.yaml").write_bytes(content)

    assert [one.message.id for one in drive(find.thread(rig.kernel("codex"), "m-2"))] == ["m-1", "m-2", "m-3"]


def test_an_abbreviation_stands_for_its_id_and_an_unknown_id_for_itself(rig: Rig) -> None:
    sent = rig.send(ids=Ids("k2m9"))
    kernel = rig.kernel("codex")

    assert drive(find.full_id(kernel, "k2m9")) == sent.message.id
    assert drive(find.full_id(kernel, "msg-of-somebody-else")) == "msg-of-somebody-else"
    with pytest.raises(UnknownMessage):
        drive(find.full_id(kernel, "zzzz"))
