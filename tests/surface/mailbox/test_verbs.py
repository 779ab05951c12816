"""`parley.Mailbox`: the verbs of the command line, typed."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

import parley
from parley import Kind, Mailbox, Priority
from parley.domain.message.message import Value
from tests.samples.messages import STRUCTURED, a_body, fields_of
from tests.surface.stage import PROJECT, Stage

NEW_YEAR = datetime(2099, 1, 1, tzinfo=UTC)


def test_a_message_goes_from_one_mailbox_to_the_other(stage: Stage) -> None:
    with stage.mailbox("claude") as claude, stage.mailbox("codex") as codex:
        sent = claude.send(to="codex", kind="question", subject="mTLS or JWT?", body="Internal calls.")

        received = codex.next()

        assert received == sent
        codex.done(sent.id)
        assert (codex.inbox(), codex.next()) == ([], None)


def test_results_are_typed_records(stage: Stage) -> None:
    with stage.mailbox("claude") as claude, stage.mailbox("codex") as codex:
        sent = claude.send("codex", Kind.QUESTION, "Hi", "x", priority=Priority.P1)

        (item,) = codex.inbox()

        assert isinstance(sent, parley.Message)
        assert isinstance(item, parley.Item)
        assert (sent.kind, sent.priority, sent.to) == (Kind.QUESTION, Priority.P1, ("codex",))
        assert isinstance(codex.find(sent.id), parley.FoundMessage)
        assert codex.read(sent.id) == codex.find(sent.id).message == sent
        assert [one.id for one in claude.outbox()] == [sent.id]


def test_place_and_agent_are_found_as_on_the_command_line(stage: Stage) -> None:
    stage.patch.setenv("OACP_AGENT", "gemini")

    with Mailbox() as mailbox, Mailbox(PROJECT, agent="codex", home=Path(stage.home)) as other:
        assert (mailbox.agent, other.agent) == ("gemini", "codex")


def test_the_example_of_the_documentation_works(stage: Stage) -> None:
    with stage.mailbox("claude") as claude:
        asked = [claude.send("codex", "question", f"Question {n}", "?") for n in range(3)]

    with Mailbox(PROJECT, agent="codex") as mailbox:
        while message := mailbox.next(lease="10m"):
            mailbox.reply(message.id, body="done")
            mailbox.done(message.id)

    assert len(stage.files("claude")) == len(stage.files("codex", "inbox/archive")) == len(asked)


@pytest.mark.parametrize(
    ("expires", "seconds"),
    [
        ("2h", 7200),
        (timedelta(minutes=5), 300),
        ("2099-01-01T00:00:00Z", None),
        (NEW_YEAR, None),
    ],
)
def test_an_expiry_is_a_duration_a_time_a_timedelta_or_a_datetime(
    stage: Stage, expires: str | timedelta | datetime, seconds: int | None
) -> None:
    with stage.mailbox("claude") as claude:
        sent = claude.send("codex", "question", "Hi", "x", expires=expires)

    assert sent.expires_at is not None
    if seconds is None:
        assert sent.expires_at == NEW_YEAR
    else:
        assert abs((sent.expires_at - sent.created_at).total_seconds() - seconds) <= 1


def test_an_expiry_in_another_time_zone_is_the_same_moment(stage: Stage) -> None:
    moment = datetime(2099, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    with stage.mailbox("claude") as claude:
        sent = claude.send("codex", "question", "Hi", "x", expires=moment)

    assert sent.expires_at == NEW_YEAR


@pytest.mark.parametrize("expires", ["soon", datetime(2099, 1, 1), timedelta(seconds=-1)])  # noqa: DTZ001
def test_an_expiry_that_means_nothing_is_refused(stage: Stage, expires: str | timedelta | datetime) -> None:
    with stage.mailbox("claude") as claude, pytest.raises(parley.Invalid):
        claude.send("codex", "question", "Hi", "x", expires=expires)

    assert stage.files("codex") == []


def test_context_keys_are_a_text_or_a_list(stage: Stage) -> None:
    with stage.mailbox("claude") as claude:
        as_list = claude.send("codex", "question", "Hi", "x", context_keys=["src/a.py", "PR #42"])
        as_text = claude.send("codex", "question", "Hi", "x", context_keys="read a.py")

    assert (as_list.context_keys, as_text.context_keys) == ("- src/a.py\n- PR #42\n", "read a.py")


def test_every_optional_field_arrives(stage: Stage) -> None:
    with stage.mailbox("claude") as claude:
        sent = claude.send(
            ["codex", "gemini"],
            "notification",
            "Hi",
            "x",
            conversation="ours",
            tag="deploy",
            related_pr=42,
            related_packet="packet-1",
            extras={"model": "m", "turns": 3, "autonomy_hint": True},
        )

    with stage.mailbox("gemini") as gemini:
        received = gemini.next()

    assert received == sent
    assert (sent.conversation_id, sent.tag, sent.related_pr, sent.related_packet) == (
        "ours",
        "deploy",
        "42",
        "packet-1",
    )
    assert sent.extras == {"model": "m", "turns": "3", "autonomy_hint": "true"}


def test_a_draft_is_sent_by_nobody(stage: Stage) -> None:
    with stage.mailbox("claude") as claude:
        draft = claude.draft(to="codex", kind="question", subject="Hi", body="x")

    assert (draft.sender, draft.to, stage.files("codex")) == ("claude", ("codex",), [])


def test_a_claim_bound_to_the_process_returns_when_the_mailbox_closes(stage: Stage) -> None:
    with stage.mailbox("claude") as claude:
        sent = claude.send("codex", "question", "Hi", "x")

    with stage.mailbox("codex") as reader:
        first = reader.next(lease=None)
        with stage.mailbox("codex") as rival:
            assert rival.next() is None
    with stage.mailbox("codex") as rival:
        second = rival.next()

    assert first == second == sent


def test_a_claim_bound_to_a_process_returns_when_the_process_dies(stage: Stage) -> None:
    with stage.mailbox("claude") as claude:
        sent = claude.send("codex", "question", "Hi", "x")
    code = (
        "import os, sys, parley\n"
        f"mailbox = parley.Mailbox({PROJECT!r}, agent='codex')\n"
        "print(mailbox.next(lease=None).id, flush=True)\n"
        "sys.stdin.read()\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdin is not None
    with holder:
        held = holder.stdout.readline().strip()
        with stage.mailbox("codex") as rival:
            meanwhile = rival.next()
            holder.kill()
            holder.wait()
            after = rival.next()

    assert (held, meanwhile) == (sent.id, None)
    assert after == sent


def test_a_message_given_back_is_handed_out_again(stage: Stage) -> None:
    with stage.mailbox("claude") as claude, stage.mailbox("codex") as codex:
        sent = claude.send("codex", "question", "Hi", "x")
        assert codex.next() == sent
        codex.release(sent.id)

        assert codex.next(lease=timedelta(minutes=5)) == sent


def test_a_lost_lease_is_an_exception_with_its_code(stage: Stage) -> None:
    with stage.mailbox("claude") as claude, stage.mailbox("codex") as slow, stage.mailbox("codex") as fast:
        sent = claude.send("codex", "question", "Hi", "x")
        assert slow.next() == sent
        # Somebody gives the message back on the command line, and another reader takes it.
        stage.run("release", sent.id, "-a", "codex")
        assert fast.next() == sent

        with pytest.raises(parley.LeaseLost) as lost:
            slow.done(sent.id)
        fast.extend(sent.id, "1h")
        fast.done(sent.id)

        assert lost.value.code == "lease_lost"
        fast.done(sent.id)


def test_a_message_can_be_deleted_instead_of_archived(stage: Stage) -> None:
    with stage.mailbox("claude") as claude, stage.mailbox("codex") as codex:
        sent = claude.send("codex", "question", "Hi", "x")
        codex.next()
        codex.done(sent.id, delete=True)

        assert stage.files("codex") == stage.files("codex", "inbox/archive") == []
        assert codex.read(sent.id) == sent


def test_a_thread_and_a_search_give_messages(stage: Stage) -> None:
    with stage.mailbox("claude") as claude, stage.mailbox("codex") as codex:
        asked = claude.send("codex", "question", "A needle", "x")
        answered = codex.reply(asked.id, "Found it")

        assert claude.thread(asked.id) == codex.thread(asked.conversation_id) == [asked, answered]
        assert [one.id for one in claude.search("NEEDLE")] == [answered.id, asked.id]


ANSWERS = {
    Kind.TASK_REQUEST: Kind.NOTIFICATION,
    Kind.QUESTION: Kind.NOTIFICATION,
    Kind.NOTIFICATION: Kind.NOTIFICATION,
    Kind.FOLLOW_UP: Kind.NOTIFICATION,
    Kind.HANDOFF: Kind.HANDOFF_COMPLETE,
    Kind.HANDOFF_COMPLETE: Kind.NOTIFICATION,
    Kind.REVIEW_REQUEST: Kind.REVIEW_FEEDBACK,
    Kind.REVIEW_FEEDBACK: Kind.REVIEW_ADDRESSED,
    Kind.REVIEW_ADDRESSED: Kind.REVIEW_FEEDBACK,
    Kind.REVIEW_LGTM: Kind.NOTIFICATION,
    Kind.BRAINSTORM_REQUEST: Kind.NOTIFICATION,
    Kind.BRAINSTORM_FOLLOWUP: Kind.NOTIFICATION,
}


@pytest.mark.parametrize("kind", Kind)
def test_a_reply_fills_in_the_answer_that_each_kind_expects(stage: Stage, kind: Kind) -> None:
    expected = ANSWERS[kind]
    with stage.mailbox("claude") as claude, stage.mailbox("codex") as codex:
        asked = claude.send("codex", kind, "The thing", a_body(kind), priority="P3" if kind in _LOW else "P1")

        answer = codex.reply(asked.id, a_body(expected))

        assert (answer.kind, answer.to, answer.subject) == (expected, ("claude",), "Re: The thing")
        assert (answer.conversation_id, answer.in_reply_to) == (asked.conversation_id, asked.id)
        assert claude.next() == answer
        if expected in (Kind.REVIEW_FEEDBACK, Kind.REVIEW_ADDRESSED, Kind.HANDOFF_COMPLETE):
            assert answer.priority == asked.priority


_LOW = {Kind.FOLLOW_UP}


def test_the_review_loop_runs_from_request_to_approval(stage: Stage) -> None:
    packet = stage.project / "packets" / "findings" / "pr-55-round-1.yaml"
    packet.write_text(
        "findings:\n- {id: f1, severity: P0, summary: A race}\n- {id: f2, severity: P2, blocking: true}\n"
        "- {id: f3, severity: P3, summary: A name}\n"
    )
    told = []
    with stage.mailbox("claude") as author, stage.mailbox("codex") as reviewer:
        request = author.send("codex", "review_request", "Review #55", fields_of(Kind.REVIEW_REQUEST), related_pr=55)
        told.append(author.review(request.conversation_id))
        feedback = reviewer.reply(
            request.id, {"findings_packet": "packets/findings/pr-55-round-1.yaml", "round": 1, "blocking_count": 2}
        )
        told.append(author.review(feedback.id))
        fixed = fields_of(Kind.REVIEW_ADDRESSED, addressed_finding_ids=["f1", "f2"])
        addressed = author.reply(feedback.id, fixed)
        told.append(reviewer.review(addressed.id))
        lgtm = reviewer.reply(
            addressed.id,
            {"quality_gate_result": "pass", "merge_ready": True, "nits": ["Rename it"]},
            kind="review_lgtm",
        )
        told.append(author.review(lgtm.id))

    assert [(one.state.value, one.round, one.waiting_for, one.gate_passed) for one in told] == [
        ("requested", 1, "codex", False),
        ("feedback", 1, "claude", False),
        ("addressed", 1, "codex", True),
        ("approved", 1, "", True),
    ]
    assert [one.id for one in told[1].open_findings] == ["f1", "f2", "f3"]
    assert told[3].nits == ("Rename it", "A name")
    assert [one.remarks for one in told] == [()] * 4
    assert {m.conversation_id for m in (request, feedback, addressed, lgtm)} == {request.conversation_id}


@pytest.mark.parametrize(
    ("act", "error", "code"),
    [
        (lambda m: m.send("nobody", "question", "Hi", "x"), parley.UnknownAgent, "unknown_agent"),
        (lambda m: m.send("../x", "question", "Hi", "x"), parley.Invalid, "bad_agent_name"),
        (lambda m: m.send("codex", "shout", "Hi", "x"), parley.Invalid, "invalid"),
        (lambda m: m.send("codex", "question", "Hi", "x", priority="P7"), parley.Invalid, "invalid"),
        (lambda m: m.send([], "question", "Hi", "x"), parley.Invalid, "invalid"),
        (lambda m: m.send("codex", "handoff", "Hi", {"intent": "x"}), parley.Invalid, "invalid"),
        (lambda m: m.read("zzzz"), parley.UnknownMessage, "unknown_message"),
        (lambda m: m.reply("zzzz", "x"), parley.UnknownMessage, "unknown_message"),
        (lambda m: m.done("zzzz"), parley.UnknownMessage, "unknown_message"),
        (lambda m: m.release("zzzz"), parley.NotFound, "unknown_message"),
        (lambda m: m.next(lease="for ever"), parley.Invalid, "invalid"),
        (lambda m: m.thread("zzzz"), parley.UnknownMessage, "unknown_message"),
    ],
)
def test_errors_are_exceptions_with_stable_codes(
    stage: Stage, act: object, error: type[parley.ParleyError], code: str
) -> None:
    assert callable(act)
    with stage.mailbox("claude") as mailbox, pytest.raises(error) as raised:
        act(mailbox)

    assert raised.value.code == code
    assert raised.value.message
    assert stage.files("codex") == []


def test_what_is_wrong_with_a_kind_or_priority_is_a_problem_with_its_field(stage: Stage) -> None:
    with stage.mailbox("claude") as mailbox, pytest.raises(parley.Invalid) as raised:
        mailbox.send("codex", "shout", "Hi", "x")

    assert [(one.code, one.field) for one in raised.value.problems] == [("bad_type", "type")]


def test_a_missing_body_field_is_named(stage: Stage) -> None:
    body = {key: value for key, value in STRUCTURED[Kind.REVIEW_REQUEST].items() if key != "branch"}
    with stage.mailbox("claude") as mailbox, pytest.raises(parley.Invalid, match="branch") as raised:
        mailbox.send("codex", "review_request", "Hi", body)

    assert [one.field for one in raised.value.problems] == ["body.branch"]


def test_an_unknown_project_or_agent_is_an_exception(stage: Stage) -> None:
    with pytest.raises(parley.UnknownProject):
        Mailbox("nowhere", agent="codex")
    with pytest.raises(parley.UnknownAgent):
        Mailbox(PROJECT, agent="nobody")
    with pytest.raises(parley.NotFound):
        Mailbox(PROJECT)


def test_a_broadcast_that_did_not_reach_everyone_says_who_has_it(stage: Stage) -> None:
    stage.send()
    stage.patch.setenv("PARLEY_INBOX_MESSAGES", "1")
    with stage.mailbox("claude") as claude, pytest.raises(parley.Undelivered, match="gemini have it") as raised:
        claude.send(["codex", "gemini"], "notification", "Hi", "x")

    assert raised.value.code == "undelivered"
    assert [len(stage.files("codex")), len(stage.files("gemini"))] == [1, 1]


def test_closing_twice_is_no_error_and_a_closed_mailbox_opens_again_when_used(stage: Stage) -> None:
    mailbox = stage.mailbox("codex")
    mailbox.close()
    mailbox.close()

    assert mailbox.inbox() == []
    mailbox.close()


def test_a_time_at_the_end_of_all_times_is_refused_in_every_zone(stage: Stage) -> None:
    latest = datetime.max.replace(tzinfo=timezone(-timedelta(hours=12)))

    with stage.mailbox("claude") as claude, pytest.raises(parley.Invalid, match="further away than time goes"):
        claude.send("codex", "question", "s", "b", expires=latest)


def test_approvals_of_an_unknown_status_are_an_error_that_names_the_known_ones(stage: Stage) -> None:
    with stage.mailbox("claude") as claude, pytest.raises(parley.Invalid, match="is not one of pending"):
        claude.approvals("done")


def test_a_body_that_contains_itself_is_refused(stage: Stage) -> None:
    endless: list[Value] = []
    endless.append(endless)

    with stage.mailbox("claude") as claude, pytest.raises(parley.Invalid, match="nested more than 16 deep"):
        claude.send("codex", "question", "s", {"a": endless})

    assert stage.files("codex") == []
