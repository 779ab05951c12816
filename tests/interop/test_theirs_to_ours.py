"""What the real tool writes, Parley reads, claims and finishes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parley import Mailbox
from parley.domain.message.message import Kind
from tests.interop.peer import OURS as PARLEY
from tests.interop.peer import run, theirs


def sent_by_them(place: Path, *more: str, body: str = "hello") -> str:
    fixed = ("send", "p", "--from", "alice", "--to", "bob", "--subject", "Hi: there", f"--body={body}", "--json")
    kind = () if "--type" in more else ("--type", "notification")
    ran = theirs(place, *fixed, *kind, *more)
    assert ran.status == 0
    message_id: str = json.loads(ran.out)["message_id"]
    return message_id


def bob(place: Path) -> Mailbox:
    return Mailbox("p", agent="bob", home=place / "h")


BODIES = {
    "one line": ("hello", "hello"),
    "lines get a final newline": ("a\nb", "a\nb\n"),
    "empty lines inside": ("a\n\nb", "a\n\nb\n"),
    "quotes": ('say "hi": it\'s #1', 'say "hi": it\'s #1'),
    "a backslash": ("C:\\new: x", "C:\\new: x"),
    "a number": ("42", "42"),
    "a word that YAML knows": ("yes", "yes"),
    "null": ("null", "null"),
    "emoji": ("✓ 漢字", "✓ 漢字"),
    "later indentation": ("a:\n    b", "a:\n    b\n"),
}


@pytest.mark.parametrize(("body", "read"), BODIES.values(), ids=BODIES.keys())
@pytest.mark.requirement("S1-LAYOUT-ANY-TOOL", "S1-LIFECYCLE-READ")
def test_their_body_is_read(place: Path, body: str, read: str) -> None:
    message_id = sent_by_them(place, body=body)

    message = bob(place).read(message_id)

    assert (message.body, message.subject, message.sender, message.to) == (read, "Hi: there", "alice", ("bob",))


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_theirs_is_read(place: Path, kind: Kind) -> None:
    message_id = sent_by_them(place, "--type", kind.value)

    assert [(item.id, item.kind, item.problem) for item in bob(place).inbox()] == [(message_id, kind.value, "")]


def test_every_field_of_theirs_is_read(place: Path) -> None:
    options = ("--priority=P0", "--related-pr=42", "--related-packet=x", "--channel=ops", "--expires=2h")
    message_id = sent_by_them(place, *options, "--context-keys=- a\n- b", "--autonomy-hint=auto_proceed")

    message = bob(place).read(message_id)

    assert (message.priority, message.related_pr, message.related_packet, message.tag) == ("P0", "42", "x", "ops")
    assert message.context_keys == "- a\n- b\n"
    assert message.extras == {"autonomy_hint": "auto_proceed"}
    assert message.conversation_id.startswith("conv-")
    assert message.expires_at is not None


@pytest.mark.requirement("D-FILE-NAME-ACCEPT")
def test_their_messages_are_claimed_and_finished(place: Path) -> None:
    ids = {sent_by_them(place), sent_by_them(place)}
    mailbox = bob(place)

    done = set()
    while message := mailbox.next():
        mailbox.done(message.id)
        done.add(message.id)

    assert done == ids
    assert json.loads(theirs(place, "inbox", "p", "--agent", "bob", "--json").out)["agents"][0]["message_count"] == 0
    assert len(list((place / "h/projects/p/agents/bob/inbox/archive").glob("*.yaml"))) == 2


@pytest.mark.parametrize("body", ["a\tb: c", "   indented\nfirst", "\x1b[31m: red", "line\u2028one\nx"])
def test_what_they_wrote_badly_is_set_apart_and_the_rest_goes_on(place: Path, body: str) -> None:
    sent_by_them(place, body=body)
    good = sent_by_them(place)

    items = bob(place).inbox()
    message = bob(place).next()

    assert good in {item.id for item in items}
    assert len(items) == 2
    assert message is not None


def test_the_command_line_shows_their_message(place: Path) -> None:
    message_id = sent_by_them(place, body="hello\nworld")
    where = ("--home", "h", "--project", "p", "--agent", "bob", "--json")

    listed = run([*PARLEY, "inbox"], *where, at=place)
    shown = run([*PARLEY, "read"], message_id, *where, at=place)

    assert message_id in listed.out
    assert json.loads(shown.out)["body"] == "hello\nworld\n"
