"""send with a recipient and a text, and with --wait."""

from __future__ import annotations

import errno
import json

import pytest

from tests.surface.cli.test_watching import every_pause
from tests.surface.stage import Stage


def sent(stage: Stage, *words: str, stdin: bytes = b"") -> dict[str, object]:
    ran = stage.run("send", "-a", "claude", "--json", *words, stdin=stdin)
    assert ran.code == 0, ran.err
    fields: dict[str, object] = ran.json
    return fields


@pytest.mark.parametrize(
    ("text", "kind", "subject"),
    [
        ("mTLS or JWT?", "question", "mTLS or JWT?"),
        ("The build is green.", "notification", "The build is green."),
        ("Which key size?\n\nFor RS256.\n", "notification", "Which key size?"),
        ("Two things.\nWhich one first? \n", "question", "Two things."),
        ("\n  Indented \t heading\nbody", "notification", "Indented heading"),
        ("どちらですか\uff1f", "question", "どちらですか\uff1f"),
        ("x" * 300, "notification", "x" * 199 + "…"),
        ("word " * 100, "notification", "word " * 38 + "word…"),
    ],
)
def test_a_recipient_and_a_text_are_enough(stage: Stage, text: str, kind: str, subject: str) -> None:
    fields = sent(stage, "codex", text)

    assert (fields["to"], fields["type"], fields["subject"], fields["body"]) == ("codex", kind, subject, text)


@pytest.mark.parametrize(
    "words",
    [
        ("codex,gemini", "Freeze at noon"),
        ("--to", "codex", "--to", "gemini", "Freeze at noon"),
        ("Freeze at noon", "--to", "codex,gemini"),
        ("codex,gemini", "--body", "Freeze at noon"),
        ("codex,gemini", "--priority", "P2", "Freeze at noon"),
        ("--priority", "P2", "codex,gemini", "Freeze at noon"),
    ],
)
def test_words_and_options_stand_in_any_order(stage: Stage, words: tuple[str, ...]) -> None:
    fields = sent(stage, *words)

    assert (fields["to"], fields["body"]) == (["codex", "gemini"], "Freeze at noon")


def test_options_go_before_defaults(stage: Stage) -> None:
    fields = sent(stage, "codex", "Who?", "--type", "task_request", "--subject", "Names")

    assert (fields["type"], fields["subject"], fields["body"]) == ("task_request", "Names", "Who?")


def test_the_text_comes_from_standard_input_without_a_word_for_it(stage: Stage) -> None:
    fields = sent(stage, "codex", stdin=b"Changed: a.py\n")

    assert (fields["type"], fields["subject"]) == ("notification", "Changed: a.py")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no recipient given"),
        (("codex", "x", "--to", "gemini"), "recipients given twice"),
        (("codex", "x", "--body", "y"), "more than one body given"),
        (("codex", "x", "y"), "unrecognized arguments: y"),
        (("codex", "--set", "pr=1"), "no type given"),
        (("codex", "x", "--wait", "5m", "--dry-run"), "--wait and --dry-run together"),
        (("codex", "x", "--wait", "5m", "--type", "notification"), "nobody answers a notification"),
        (("codex", "x", "--wait", "soon"), "'soon' is not a duration"),
    ],
)
def test_what_does_not_fit_together_is_refused_and_nothing_is_sent(
    stage: Stage, words: tuple[str, ...], message: str
) -> None:
    ran = stage.run("send", "-a", "claude", *words)

    assert (ran.code, ran.error) == (2, "invalid")
    assert message in ran.err
    assert stage.files("codex") == []


def reply_at(stage: Stage, turn: int, *agents: str) -> list[float]:
    """Let agents answer the message in their inbox during a wait."""

    def act(now: int) -> None:
        for name in agents if now == turn else ():
            mailbox = stage.mailbox(name)
            message = mailbox.next()
            assert message is not None
            mailbox.reply(message.id, f"{name} says yes.")
            mailbox.done(message.id)

    return every_pause(stage, act)


def test_send_waits_for_the_reply_prints_and_finishes_it(stage: Stage) -> None:
    waits = reply_at(stage, 3, "codex")

    ran = stage.run("send", "codex", "mTLS or JWT?", "--wait", "5m", "-a", "claude")

    assert (ran.code, ran.err, len(waits)) == (0, "", 3)
    assert ran.out.startswith("Sent msg-")
    assert "\nfrom: codex\n" in ran.out
    assert ran.out.endswith("\n\ncodex says yes.\n")
    assert (stage.files("claude"), len(stage.files("claude", "inbox/archive"))) == ([], 1)


def test_as_json_the_replies_stand_beside_what_was_sent(stage: Stage) -> None:
    reply_at(stage, 2, "codex", "gemini")

    fields = sent(stage, "codex,gemini", "Ready?", "--wait", "5m")

    replies = fields["replies"]
    assert isinstance(replies, list)
    assert sorted(reply["body"] for reply in replies) == ["codex says yes.", "gemini says yes."]
    assert stage.files("claude") == []


def test_with_a_wait_a_text_is_a_question(stage: Stage) -> None:
    reply_at(stage, 1, "codex")

    assert sent(stage, "codex", "Please tell me.", "--wait", "5m")["type"] == "question"


def test_other_messages_are_left_alone_while_it_waits(stage: Stage) -> None:
    reply_at(stage, 2, "codex")
    other = stage.send(sender="gemini", to="claude", subject="Something else")
    bad = stage.inbox("claude") / "bad.yaml"
    bad.write_text("no message")

    assert stage.run("send", "codex", "Ready?", "--wait", "5m", "-a", "claude").code == 0

    assert [item.id for item in stage.mailbox("claude").inbox() if not item.problem] == [other["id"]]
    assert bad.exists()


def test_without_a_reply_in_time_the_exit_code_says_so_and_the_reply_arrives_later(stage: Stage) -> None:
    ran = stage.run("send", "codex", "Ready?", "--wait", "1s", "-a", "claude")

    assert (ran.code, ran.error) == (8, "ask_timeout")
    assert ran.err == (
        "error: no reply from codex within 1s [ask_timeout]\n"
        "hint: it will be in the inbox: parley next --agent claude\n"
    )
    stage.mailbox("codex").reply(stage.mailbox("codex").inbox()[0].id, "Yes.")
    assert [item.subject for item in stage.mailbox("claude").inbox()] == ["Re: Ready?"]


def test_as_json_a_timeout_still_shows_what_was_sent_and_who_replied(stage: Stage) -> None:
    reply_at(stage, 1, "gemini")
    stage.patch.setattr("parley.app.mailbox.waiting.Deadline.seconds_left", property(lambda _: next(left)))
    left = iter([1.0, 1.0, 0.0])

    ran = stage.run("send", "codex,gemini", "Ready?", "--wait", "5m", "-a", "claude", "--json")

    assert (ran.code, json.loads(ran.err)["error"]["code"]) == (8, "ask_timeout")
    assert [reply["from"] for reply in ran.json["replies"]] == ["gemini"]


def test_a_reply_that_another_reader_has_taken_is_printed_and_left_to_it(stage: Stage) -> None:
    def act(turn: int) -> None:
        if turn == 1:
            codex = stage.mailbox("codex")
            codex.reply(codex.inbox()[0].id, "Yes.")
            assert stage.mailbox("claude").next() is not None

    every_pause(stage, act)

    ran = stage.run("send", "codex", "Ready?", "--wait", "5m", "-a", "claude")

    assert ran.code == 0
    assert "note: another reader of this inbox has claimed it\n" in ran.out
    assert len(stage.files("claude")) == 1


def test_a_reply_whose_output_fails_stays_in_the_inbox(stage: Stage) -> None:
    reply_at(stage, 1, "codex")
    stage.patch.setattr("parley.cli.mailbox.answers.show_message", _fail_to_write)

    ran = stage.run("send", "codex", "Ready?", "--wait", "5m", "-a", "claude")

    assert (ran.code, ran.error) == (7, "unavailable")

    assert len(stage.files("claude")) == 1


def _fail_to_write(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_reply_takes_its_text_as_a_word(stage: Stage) -> None:
    message = stage.send()

    replied = stage.run("reply", message["id"], "Signed JWTs.", "-a", "codex", "--json")

    assert replied.json["body"] == "Signed JWTs."
