"""What Parley writes, the real tool takes: valid, listed, answered in its thread."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from parley import Mailbox
from parley.domain.message.message import Kind
from tests.interop.peer import OURS as PARLEY
from tests.interop.peer import Ran, ours, run, theirs
from tests.samples.messages import a_body


def files(place: Path, agent: str, folder: str = "inbox") -> list[Path]:
    return sorted((place / f"h/projects/p/agents/{agent}/{folder}").glob("*.yaml"))


def fields(path: Path) -> dict[str, str]:
    loaded: dict[str, str] = yaml.load(path.read_text(), yaml.BaseLoader)
    return loaded


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.requirement("S1-TYPE-COUNT", "S1-LAYOUT-ANY-TOOL", "D-BODY-EMIT")
def test_every_kind_is_valid_for_them(place: Path, kind: Kind) -> None:
    Mailbox("p", agent="alice", home=place / "h").send("bob", kind, "Subject", a_body(kind))

    for path in (*files(place, "bob"), *files(place, "alice", "outbox")):
        assert theirs(place, "validate", str(path)) == Ran(0, f"OK: {path}\n", "")


def test_a_message_with_every_field_is_valid_for_them(place: Path) -> None:
    Mailbox("p", agent="alice", home=place / "h").send(
        ["bob", "carol"],
        "review_lgtm",
        "All fields",
        a_body(Kind.REVIEW_LGTM),
        priority="P0",
        reply_to="msg-unknown",
        expires="2h",
        conversation="conv-20260313-alice-001",
        tag="release_1",
        related_pr="#42",
        related_packet="packet-1",
        context_keys=["a.py", "b.py"],
        extras={"model": "m-1", "turns": 3, "wall_time_s": "1.5"},
    )

    (path,) = files(place, "carol")
    assert theirs(place, "validate", str(path)) == Ran(0, f"OK: {path}\n", "")
    assert fields(path)["related_pr"] == "42"


@pytest.mark.requirement("S1-LAYOUT-YAML-FILES", "S1-FORMAT-SINGLE-FILE", "S1-LAYOUT-PATH")
def test_they_list_what_parley_sent(place: Path) -> None:
    mailbox = Mailbox("p", agent="alice", home=place / "h")
    for number in range(5):
        mailbox.send(["bob", "carol"], "task_request", f"Task {number}", "do it", priority=f"P{number % 4}")

    listed = json.loads(theirs(place, "inbox", "p", "--all", "--json").out)["agents"]

    rows = {agent["agent"]: agent["messages"] for agent in listed}
    subjects = {row["subject"] for row in rows["bob"]}
    assert subjects == {f"Task {number}" for number in range(5)}
    assert len(rows["carol"]) == 5
    assert {(row["from"], row["type"], "load_error" in row) for row in rows["bob"]} == {
        ("alice", "task_request", False)
    }


@pytest.mark.requirement("D-CONVERSATION-ID-EMIT", "S1-THREAD-CONVERSATION-ID", "S1-THREAD-CONTINUE-CONVERSATION")
def test_their_answer_stays_in_our_thread(place: Path) -> None:
    alice = Mailbox("p", agent="alice", home=place / "h")
    asked = alice.send("bob", "question", "mTLS?", "or JWT?")

    answered = theirs(
        *(place, "send", "p", "--from", "bob", "--to", "alice", "--type", "notification", "--subject", "Re: mTLS?"),
        *("--body", "JWT", "--in-reply-to", asked.id),
    )

    (path,) = files(place, "alice")
    assert (answered.status, answered.err) == (0, "")
    assert (fields(path)["conversation_id"], fields(path)["parent_message_id"]) == (asked.conversation_id, asked.id)
    assert [found.subject for found in alice.thread(asked.id)] == ["mTLS?", "Re: mTLS?"]


def test_a_conversation_of_two_tools_stays_one_thread(place: Path) -> None:
    fixed = ("--from", "bob", "--to", "alice", "--type", "question", "--subject", "Start", "--body", "?", "--json")
    started = json.loads(theirs(place, "send", "p", *fixed).out)["message_id"]

    reply = Mailbox("p", agent="alice", home=place / "h").reply(started, "from Parley", keep_open=True)
    again = theirs(place, "send", "p", *fixed[:-1], "--in-reply-to", reply.id)
    last = ours(place, "send", "p", *fixed[:-1], "--in-reply-to", reply.id)

    sent = [fields(path) for path in (*files(place, "alice"), *files(place, "bob"))]
    assert (again.status, again.err, last.status, last.err) == (0, "", 0, "")
    assert len(sent) == 4
    assert len({message["conversation_id"] for message in sent}) == 1


def test_their_watch_sees_what_parley_sends(place: Path) -> None:
    look = ("watch", "--agent", "bob", "--project", "p", "--json")
    theirs(place, *look)

    Mailbox("p", agent="alice", home=place / "h").send("bob", "question", "News", "!")

    event = json.loads(theirs(place, *look).out)
    assert (event["event"], event["from"], event["subject"]) == ("new_message", "alice", "News")


def test_the_command_line_sends_what_they_accept(place: Path) -> None:
    options = ("--home", "h", "--project", "p", "--from", "alice", "--to", "bob", "--subject", "s")
    sent = run([*PARLEY, "send"], *options, "--type", "question", "--body", "b", at=place)

    (path,) = files(place, "bob")
    assert sent.status == 0
    assert theirs(place, "validate", str(path)).status == 0
