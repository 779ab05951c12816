"""Sending: decided, committed, carried, copied, marked."""

from __future__ import annotations

import fcntl
import os
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.app.mailbox import claims, sending, sweep
from parley.app.mailbox import sending as post
from parley.app.mailbox.kernel import drive
from parley.domain.errors.errors import (
    Conflict,
    Invalid,
    NameExists,
    Undelivered,
    UnknownAgent,
    UnknownMessage,
)
from parley.domain.hashes import digest
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.mailbox.delivery import Status
from parley.domain.mailbox.ledger import MailboxChanges
from parley.domain.mailbox.listing import Sent
from parley.domain.message.compose import compose
from parley.domain.message.message import Kind, Priority
from parley.wire.oacp.format import OacpFormat
from tests.samples.messages import NOW, PROPERTY, a_draft, a_message
from tests.unit.app.rig import Ids, Rig, a_rig, claimed

FULL_AFTER_ONE = DEFAULT_LIMITS._replace(inbox_messages=1)


def test_a_sent_message_lies_in_the_inbox_and_a_copy_in_the_outbox(rig: Rig) -> None:
    sent = rig.send()

    delivered = (rig.path("codex") / sent.file).read_bytes()
    assert delivered == (rig.path("claude", "outbox") / sent.file).read_bytes()
    assert rig.kernel("codex").format.decode(delivered) == sent.message


def test_the_ledger_tells_a_send_from_decision_to_delivery(rig: Rig) -> None:
    sent = rig.send()

    assert rig.actions("claude") == ["sent", "delivered"]
    assert [one.status for one in sent.deliveries] == [Status.DELIVERED]


def test_a_broadcast_puts_one_copy_into_each_inbox_and_one_into_the_outbox(rig: Rig) -> None:
    sent = rig.send(Kind.NOTIFICATION, to=("codex", "gemini"))

    places = [("codex", "inbox"), ("gemini", "inbox"), ("claude", "outbox")]
    assert [rig.files(*place) for place in places] == [[sent.file]] * 3
    assert len({(rig.path(*place) / sent.file).read_bytes() for place in places}) == 1


def test_a_recipient_that_is_full_is_named_while_the_others_have_the_message_once(rig: Rig) -> None:
    rig.send()
    kernel = rig.kernel("claude", limits=FULL_AFTER_ONE)

    with pytest.raises(Undelivered, match="codex: inbox_full") as refused:
        drive(sending.send(kernel, a_draft(Kind.NOTIFICATION, to=("codex", "gemini"))))

    assert isinstance(refused.value.sent, Sent)
    states = {one.key.recipient: one.status for one in refused.value.sent.deliveries}
    assert states == {"codex": Status.FAILED, "gemini": Status.DELIVERED}
    assert [len(rig.files("codex")), len(rig.files("gemini"))] == [1, 1]


def test_what_failed_for_good_is_not_carried_again(rig: Rig) -> None:
    rig.send()
    with pytest.raises(Undelivered):
        drive(
            sending.send(
                rig.kernel("claude", limits=FULL_AFTER_ONE), a_draft(Kind.NOTIFICATION, to=("codex", "gemini"))
            )
        )

    drive(sweep.sweep(rig.kernel("claude")))

    assert [len(rig.files("codex")), len(rig.files("gemini"))] == [1, 1]


def test_an_unknown_recipient_stops_a_broadcast_before_anything_is_written(rig: Rig) -> None:
    with pytest.raises(UnknownAgent, match="nobody"):
        rig.send(Kind.NOTIFICATION, to=("codex", "nobody"))

    assert rig.files("codex") == rig.files("claude", "outbox") == rig.actions("claude") == []


def test_everything_wrong_with_a_draft_is_named_at_once(rig: Rig) -> None:
    with pytest.raises(Invalid) as refused:
        rig.send(Kind.HANDOFF, to=("codex", "gemini"), subject="", tag="not allowed")

    assert {problem.field for problem in refused.value.problems} >= {"to", "subject", "channel"}
    assert rig.files("codex") == rig.actions("claude") == []


def test_conversations_are_numbered_by_day_and_sender(rig: Rig) -> None:
    numbers = [rig.send(ids=Ids(f"aaa{n}")).message.conversation_id for n in range(3)]
    rig.clock.pass_by(days=1)
    tomorrow = rig.send().message.conversation_id
    other = rig.send(sender="gemini").message.conversation_id

    assert numbers == [f"conv-20260313-claude-00{n}" for n in (1, 2, 3)]
    assert (tomorrow, other) == ("conv-20260314-claude-001", "conv-20260314-gemini-001")


def test_a_conversation_number_that_a_rival_took_is_chosen_anew(rig: Rig) -> None:
    kernel = rig.kernel("claude")
    # Two conversations are counted as one, so the next number is taken already.
    for name in ("conv-20260313-claude-002",):
        drive(sending.send(kernel, a_draft(conversation_id=name)))

    sent = drive(sending.send(kernel, a_draft()))

    assert sent.message.conversation_id.startswith("conv-20260313-claude-")
    assert sent.message.conversation_id != "conv-20260313-claude-002"
    assert len(rig.files("codex")) == 2


def test_an_id_that_is_taken_is_minted_again_with_a_longer_suffix(rig: Rig) -> None:
    first = rig.send(ids=Ids("a8f3"))

    second = rig.send(ids=Ids("a8f3", "b9g4c2d1e5"), subject="Another thing")

    assert first.message.id == "msg-20260313T1430Z-claude-a8f3"
    assert second.message.id == "msg-20260313T1430Z-claude-b9g4c2d1e5"
    assert len(rig.files("codex")) == 2


def test_a_sender_whose_every_id_is_taken_gives_up_with_a_conflict(rig: Rig) -> None:
    rig.send(ids=Ids("a8f3"))
    rig.send(ids=Ids("a8f3", "same"))

    with pytest.raises(Conflict, match="too many others"):
        rig.send(ids=Ids("a8f3", *["same"] * 7))


def test_a_file_name_that_is_taken_gets_the_random_part_of_the_id(rig: Rig) -> None:
    first = rig.send(ids=Ids("a8f3"))
    second = rig.send(ids=Ids("k2m9"))

    assert first.file == "20260313T1430Z_claude_task_request.yaml"
    assert second.file == "20260313T1430Z_claude_task_request_k2m9.yaml"


def test_a_file_name_taken_in_one_inbox_of_a_broadcast_is_taken_for_all(rig: Rig) -> None:
    rig.send(Kind.NOTIFICATION, to=("gemini",))
    sent = rig.send(Kind.NOTIFICATION, to=("codex", "gemini"), ids=Ids("k2m9"))

    assert sent.file == "20260313T1430Z_claude_notification_k2m9.yaml"
    assert rig.files("codex") == [sent.file]


def test_a_file_name_that_was_used_and_consumed_is_not_used_again(rig: Rig) -> None:
    first = rig.send(ids=Ids("a8f3"))
    (rig.path("codex") / first.file).unlink()
    (rig.path("claude", "outbox") / first.file).unlink()

    second = rig.send(ids=Ids("k2m9"))

    assert second.file != first.file


def test_a_file_name_that_the_user_asked_for_is_an_error_when_it_is_taken(rig: Rig) -> None:
    kernel = rig.kernel("claude")
    drive(sending.send(kernel, a_draft(), suffix="mine"))
    before = (rig.path("codex") / "20260313T1430Z_claude_task_request_mine.yaml").read_bytes()

    with pytest.raises(NameExists):
        drive(sending.send(kernel, a_draft(subject="Another thing"), suffix="mine"))

    assert rig.files("codex") == ["20260313T1430Z_claude_task_request_mine.yaml"]
    assert (rig.path("codex") / rig.files("codex")[0]).read_bytes() == before


def test_a_message_to_oneself_is_delivered_claimed_and_finished(rig: Rig) -> None:
    sent = rig.send(Kind.FOLLOW_UP, to=("claude",))
    kernel = rig.kernel("claude")

    found = claimed(kernel)
    finished = drive(claims.done(kernel, found.message.id))

    assert (found.message.id, finished.how) == (sent.message.id, "archived")
    assert (rig.files("claude"), rig.files("claude", "outbox")) == ([], [sent.file])


def test_a_reply_takes_recipient_subject_conversation_and_parent_from_what_it_answers(rig: Rig) -> None:
    asked = rig.send(Kind.QUESTION, subject="mTLS or JWT?", related_pr="42", tag="review")
    kernel = rig.kernel("codex")

    sent = drive(sending.reply(kernel, asked.message.id, a_draft(sender="codex", to=(), subject=""), kind_given=False))

    answer = sent.message
    assert (answer.to, answer.kind, answer.subject) == (("claude",), Kind.NOTIFICATION, "Re: mTLS or JWT?")
    assert (answer.conversation_id, answer.in_reply_to) == (asked.message.conversation_id, asked.message.id)
    assert (answer.related_pr, answer.tag) == ("42", "review")


def test_what_a_reply_says_itself_stays(rig: Rig) -> None:
    asked = rig.send(Kind.QUESTION)
    kernel = rig.kernel("codex")
    draft = a_draft(Kind.TASK_REQUEST, sender="codex", to=("gemini",), subject="Yours", conversation_id="other")

    answer = drive(sending.reply(kernel, asked.message.id, draft, kind_given=True)).message

    assert (answer.to, answer.kind, answer.subject) == (("gemini",), Kind.TASK_REQUEST, "Yours")
    assert (answer.conversation_id, answer.in_reply_to) == ("other", asked.message.id)


def test_a_reply_to_my_own_message_goes_to_those_it_went_to() -> None:
    answered = a_message(Kind.NOTIFICATION, sender="claude", to=("codex", "gemini"))

    draft = post.answer(a_draft(sender="claude", to=()), answered, DEFAULT_LIMITS, kind_given=False)

    assert draft.to == ("codex", "gemini")


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("Hello", "Re: Hello"),
        ("RE: Hello", "RE: Hello"),
        ("two\nlines", "Re: two lines"),
        ("x" * 200, "Re: " + "x" * 195 + "…"),
    ],
)
def test_a_reply_keeps_its_subject_short_and_on_one_line(subject: str, expected: str) -> None:
    answered = a_message(subject=subject)

    draft = post.answer(a_draft(sender="codex", to=(), subject=""), answered, DEFAULT_LIMITS, kind_given=False)

    assert draft.subject == expected


def test_an_answer_inherits_the_urgency_of_what_it_answers(rig: Rig) -> None:
    asked = rig.send(Kind.REVIEW_REQUEST, priority=Priority.P0)
    draft = a_draft(Kind.REVIEW_LGTM, sender="codex", to=())

    answer = drive(sending.reply(rig.kernel("codex"), asked.message.id, draft, kind_given=True)).message

    assert answer.priority is Priority.P0


@pytest.mark.requirement("D-PRIORITY-ORIGIN")
@pytest.mark.parametrize(
    ("first", "last"),
    [
        (Kind.REVIEW_REQUEST, Kind.REVIEW_ADDRESSED),
        (Kind.REVIEW_REQUEST, Kind.REVIEW_LGTM),
        (Kind.BRAINSTORM_REQUEST, Kind.BRAINSTORM_FOLLOWUP),
        (Kind.HANDOFF, Kind.HANDOFF_COMPLETE),
    ],
)
@pytest.mark.parametrize("priority", [Priority.P0, Priority.P3])
def test_the_priority_comes_from_the_originating_message_of_the_thread(
    rig: Rig, first: Kind, last: Kind, priority: Priority
) -> None:
    asked = rig.send(first, priority=priority).message
    between = a_draft(Kind.NOTIFICATION, sender="codex", to=())
    told = drive(sending.reply(rig.kernel("codex"), asked.id, between, kind_given=True)).message
    draft = a_draft(last, to=("codex",))

    answer = drive(sending.reply(rig.kernel("claude"), told.id, draft, kind_given=True))
    in_conversation = rig.send(last, conversation_id=asked.conversation_id)

    assert told.priority is Priority.P2
    assert answer.message.priority is in_conversation.message.priority is priority
    assert answer.warnings == in_conversation.warnings == []


def test_the_nearest_originating_message_above_counts(rig: Rig) -> None:
    first = rig.send(Kind.REVIEW_REQUEST, priority=Priority.P0).message
    rig.send(Kind.REVIEW_REQUEST, priority=Priority.P3, conversation_id=first.conversation_id)
    told = rig.send(Kind.NOTIFICATION, in_reply_to=first.id).message

    assert rig.send(Kind.REVIEW_LGTM, in_reply_to=told.id).message.priority is Priority.P0
    assert rig.send(Kind.REVIEW_LGTM, conversation_id=first.conversation_id).message.priority is Priority.P3


def test_a_completion_without_a_handoff_is_remarked(rig: Rig) -> None:
    sent = rig.send(Kind.HANDOFF_COMPLETE, conversation_id="conv-of-others", priority=Priority.P1)

    assert [warning.code for warning in sent.warnings] == ["no_handoff"]


@pytest.mark.requirement("D-REPLY-COPIES")
@PROPERTY
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=80), st.text(max_size=40))
def test_what_a_reply_copies_it_may_always_send(tag: str, pr: str) -> None:
    files = OacpFormat()
    try:
        content = files.encode(a_message(tag=tag, related_pr=pr))
    except (Invalid, UnicodeEncodeError):
        return
    answered = files.decode(content)

    draft = post.answer(a_draft(sender="codex", to=()), answered, DEFAULT_LIMITS, kind_given=False)

    read = files.decode(files.encode(compose(draft, "msg-1", NOW, answered)))
    assert (read.tag, read.related_pr) == (answered.tag, answered.related_pr)


def test_a_reply_to_a_message_whose_file_was_deleted_says_what_to_do(rig: Rig) -> None:
    with pytest.raises(UnknownMessage) as unknown:
        drive(sending.reply(rig.kernel("codex"), "msg-gone", a_draft(to=()), kind_given=False))

    assert "parley send --to SENDER" in unknown.value.hint
    assert "--reply-to ID --conversation CONVERSATION" in unknown.value.hint


def test_an_answer_to_a_parent_nobody_has_is_sent_without_a_conversation(rig: Rig) -> None:
    sent = rig.send(in_reply_to="msg-of-another-world")

    assert (sent.message.in_reply_to, sent.message.conversation_id) == ("msg-of-another-world", "")


def interrupted(rig: Rig, **changes: object) -> Sent:
    """A send whose process died right after the commit: it is in the ledger, and in no folder."""
    kernel = rig.kernel("claude")
    draft = a_draft(Kind.NOTIFICATION, **changes)
    kept, deliveries, *_ = drive(post._commit(kernel, draft, post.Parents(), "", free_form=False))
    return Sent(kept.message, deliveries[0].file, deliveries, [])


def test_the_next_command_carries_a_send_that_was_interrupted(rig: Rig) -> None:
    lost = interrupted(rig, to=("codex", "gemini"))
    assert rig.files("codex") == []

    drive(sweep.sweep(rig.kernel("claude")))

    assert rig.files("codex") == rig.files("gemini") == rig.files("claude", "outbox") == [lost.file]
    assert rig.actions("claude") == ["sent", "delivered", "delivered"]


def test_recovery_does_not_double_what_was_already_delivered(rig: Rig) -> None:
    lost = interrupted(rig, to=("codex", "gemini"))
    kept = drive(rig.stores["claude"].find(lost.message.id))[0]
    drive(rig.kernel("claude").courier.deliver("codex", lost.file, kept.content))

    recovered = drive(post.recover(rig.kernel("claude")))

    assert recovered == 1
    assert rig.files("codex") == rig.files("gemini") == [lost.file]


def test_the_outbox_copy_says_that_everyone_has_the_message(rig: Rig) -> None:
    lost = interrupted(rig)
    kept = drive(rig.stores["claude"].find(lost.message.id))[0]
    # Delivered, consumed by its reader, copied to the outbox: only the mark was lost.
    drive(rig.kernel("claude").courier.keep_copy(lost.file, kept.content))

    drive(sweep.sweep(rig.kernel("claude")))

    assert rig.files("codex") == []
    assert rig.actions("claude") == ["sent", "delivered"]


def test_a_send_of_a_live_process_is_left_to_it(rig: Rig) -> None:
    interrupted(rig)
    lock = rig.path("claude", ".parley") / "sending.lock"
    lock.parent.mkdir(exist_ok=True)
    holder = os.open(lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(holder, fcntl.LOCK_SH)

    try:
        recovered = drive(post.recover(rig.kernel("claude")))
    finally:
        os.close(holder)

    assert (recovered, rig.files("codex")) == (0, [])


def test_recovery_with_nothing_to_do_writes_nothing(rig: Rig) -> None:
    rig.send()
    before = rig.actions("claude")

    assert drive(post.recover(rig.kernel("claude"))) == 0
    assert rig.actions("claude") == before


def test_a_recovered_message_to_myself_that_i_claimed_meanwhile_stays_claimed(rig: Rig) -> None:
    lost = interrupted(rig, to=("claude",))
    kernel = rig.kernel("claude")
    kept = drive(rig.stores["claude"].find(lost.message.id))[0]
    drive(kernel.courier.deliver("claude", lost.file, kept.content))
    pending = drive(rig.stores["claude"].deliveries(Status.PENDING))[0]
    drive(rig.stores["claude"].commit(MailboxChanges(deliveries=(pending._replace(status=Status.CLAIMED),))))

    drive(post._mark(kernel, kept, [pending._replace(status=Status.DELIVERED)]))

    assert [one.status for one in drive(rig.stores["claude"].deliveries(Status.CLAIMED))] == [Status.CLAIMED]


def test_ten_recipients_are_allowed_and_eleven_are_not(tmp_path: object, rig: Rig) -> None:
    names = tuple(f"agent{n}" for n in range(11))
    crowd = a_rig(rig.folder.with_name("crowd"), ("claude", *names))

    crowd.send(Kind.NOTIFICATION, to=names[:10])
    with pytest.raises(Invalid, match="11 recipients, at most 10"):
        crowd.send(Kind.NOTIFICATION, to=names)

    assert [len(crowd.files(name)) for name in names] == [1] * 10 + [0]


def test_an_expiry_in_the_past_is_refused(rig: Rig) -> None:
    with pytest.raises(Invalid, match="lies in the past"):
        rig.send(expires_at=rig.clock.at - timedelta(seconds=1))

    assert rig.files("codex") == []


def test_what_is_kept_is_what_was_delivered(rig: Rig) -> None:
    sent = rig.send()

    kept = drive(rig.stores["claude"].find(sent.message.id))[0]

    assert kept.content == (rig.path("codex") / sent.file).read_bytes()
    assert kept.digest == digest(kept.content)
