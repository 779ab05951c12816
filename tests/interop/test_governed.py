"""A message under rules beside the real tool: it lists, watches and answers it; only its validator is against it."""

from __future__ import annotations

import json
from pathlib import Path

from parley import Mailbox
from parley.domain.message.message import Message
from tests.interop.peer import Ran, ours, theirs
from tests.interop.test_ours_to_theirs import files

RULES = {"exchange_type": "information_query", "classification": "public"}


def asked(place: Path) -> Message:
    return Mailbox("p", agent="alice", home=place / "h").send("bob", "question", "Status?", "How far?", rules=RULES)


def test_they_list_and_watch_what_carries_an_envelope(place: Path) -> None:
    look = ("watch", "--agent", "bob", "--project", "p", "--json")
    theirs(place, *look)
    asked(place)

    listed = json.loads(theirs(place, "inbox", "p", "--agent", "bob", "--json").out)
    event = json.loads(theirs(place, *look).out)

    (row,) = [row for agent in listed["agents"] for row in agent["messages"]]
    assert (row["subject"], "load_error" in row) == ("Status?", False)
    assert (event["event"], event["from"], event["subject"]) == ("new_message", "alice", "Status?")


def test_only_their_validator_complains_and_it_names_exactly_what_the_rules_add(place: Path) -> None:
    asked(place)
    (path,) = files(place, "bob")

    assert theirs(place, "validate", str(path)) == Ran(1, "", "ERROR: unknown field(s): disclosure, ocip, ocip_ext\n")


def test_our_drop_in_says_the_same_about_it_as_they_do(place: Path) -> None:
    asked(place)
    (path,) = files(place, "bob")

    assert ours(place, "validate", str(path)) == theirs(place, "validate", str(path))


def test_their_answer_stays_in_the_thread_and_takes_a_round(place: Path) -> None:
    sent = asked(place)
    answered = theirs(
        *(place, "send", "p", "--from", "bob", "--to", "alice", "--type", "notification", "--subject", "Re: Status?"),
        *("--body", "Half of it", "--in-reply-to", sent.id),
    )
    alice = Mailbox("p", agent="alice", home=place / "h")

    got = alice.next()

    assert (answered.status, answered.err) == (0, "")
    assert got is not None
    assert (got.body.strip() if isinstance(got.body, str) else "", "ocip" in got.extras) == ("Half of it", False)
    (exchange,) = alice.exchanges()
    assert [(turn.round, turn.sender) for turn in exchange.transcript] == [(1, "alice"), (2, "bob")]
