"""What is said arrives: every awkward text, through our reader, PyYAML's and the real tool's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from parley import Mailbox
from tests.interop.awkward import BODIES, SUBJECTS
from tests.interop.peer import ours, theirs

LOADERS = [yaml.BaseLoader, yaml.SafeLoader, getattr(yaml, "CBaseLoader", yaml.BaseLoader)]


def only_file(place: Path, agent: str = "bob") -> Path:
    (path,) = (place / f"h/projects/p/agents/{agent}/inbox").glob("*.yaml")
    return path


@pytest.mark.parametrize("text", BODIES.values(), ids=BODIES.keys())
@pytest.mark.requirement("S1-FIELD-BODY", "S2-FIELD-BODY")
def test_a_body_arrives_exactly(place: Path, text: str) -> None:
    home = place / "h"

    Mailbox("p", agent="alice", home=home).send("bob", "notification", "s", text, context_keys=text)

    path = only_file(place)
    read = Mailbox("p", agent="bob", home=home).read(path.name)
    seen = [yaml.load(path.read_bytes().decode(), loader) for loader in LOADERS]
    assert (read.body, read.context_keys) == (text, text)
    assert [(fields["body"], fields["context_keys"]) for fields in seen] == [(text, text)] * len(LOADERS)
    assert theirs(place, "validate", str(path)).out == f"OK: {path}\n"


@pytest.mark.requirement("S1-FIELD-SUBJECT", "S2-FIELD-SUBJECT")
def test_every_subject_arrives_in_their_listing(place: Path) -> None:
    mailbox = Mailbox("p", agent="alice", home=place / "h")
    sent = {mailbox.send("bob", "question", subject, "b").id: subject for subject in SUBJECTS.values()}

    listed = json.loads(theirs(place, "inbox", "p", "--agent", "bob", "--json").out)["agents"][0]["messages"]

    read = {item.id: item.subject for item in Mailbox("p", agent="bob", home=place / "h").inbox()}
    assert read == sent
    # Their listing strips what surrounds a subject.
    assert sorted(row["subject"] for row in listed) == sorted(subject.strip() for subject in sent.values())


@pytest.mark.parametrize("name", ["a tab inside", "indented first line", "ANSI escapes", "an exclamation", "U+2028"])
def test_the_drop_in_sends_what_the_real_tool_garbles(place: Path, name: str) -> None:
    text = BODIES[name]

    sent = ours(place, "send", "p", "--from=alice", "--to=bob", "--type=question", "--subject=s", f"--body={text}")

    assert sent.status == 0
    assert yaml.load(only_file(place).read_bytes().decode(), yaml.BaseLoader)["body"] == text.rstrip("\n")
