"""All mailboxes of a project at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parley import Mailbox, wiring
from parley.app.mailbox import overview, reviews
from parley.app.mailbox.kernel import drive
from parley.app.mailbox.overview import ProjectReader
from parley.domain.errors.errors import Forbidden, UnknownMessage
from parley.domain.mailbox.ledger import Entry, MailboxChanges
from parley.domain.message.review import ReviewState
from parley.settings import load


@pytest.fixture
def claude(tmp_path: Path) -> Iterator[Mailbox]:
    wiring.create_project(str(tmp_path), "demo", ("claude", "codex"))
    with Mailbox("demo", agent="claude", home=tmp_path) as mailbox:
        yield mailbox


@pytest.fixture
def codex(claude: Mailbox, tmp_path: Path) -> Iterator[Mailbox]:
    with Mailbox("demo", agent="codex", home=tmp_path) as mailbox:
        yield mailbox


@pytest.fixture
def project(claude: Mailbox, tmp_path: Path) -> ProjectReader:
    return wiring.open_project_reader(str(tmp_path), "demo", load({}))


def test_a_conversation_in_two_mailboxes_is_listed_once_with_all_its_messages(
    project: ProjectReader, claude: Mailbox, codex: Mailbox
) -> None:
    sent = claude.send("codex", "question", "Why?", "Why?")
    codex.reply(sent.id, "Therefore.")
    claude.send("codex", "notification", "Something else", "Something else")

    threads = overview.threads(project)
    first = next(thread for thread in threads if thread.subject == "Why?")

    assert (len(threads), first.messages, first.people) == (2, 2, ("claude", "codex"))
    assert [match.message.body for match in overview.thread(project, first.id)] == ["Why?", "Therefore."]
    assert not any(agent.owed for agent in overview.agents(project))


def test_what_a_person_decided_about_a_review_is_shown_whoever_closed_it(
    project: ProjectReader, claude: Mailbox, codex: Mailbox
) -> None:
    body = {"pr": "12", "branch": "parser", "diff_summary": "shorter"}
    sent = claude.send("codex", "review_request", "Review", body)

    before = overview.review(project, sent.conversation_id)
    drive(reviews.close(codex.kernel, sent.conversation_id, ReviewState.REJECTED, "ann", "not now"))
    after = overview.review(project, sent.conversation_id)

    assert before is not None
    assert after is not None
    assert (before.state, after.state) == (ReviewState.REQUESTED, ReviewState.REJECTED)
    assert [(thread.is_review, review) for thread, review in overview.newest_reviews(project, 10)] == [(True, after)]


def test_a_ledger_cannot_be_written_by_who_looks(project: ProjectReader, claude: Mailbox) -> None:
    claude.send("codex", "notification", "Hello", "Hello")
    entry = Entry("noted", "2026-03-13T14:30:00Z", "claude", "", "", {})

    with project.reader("claude").look() as kernel, pytest.raises(Forbidden):
        drive(kernel.store.commit(MailboxChanges(entries=(entry,))))
    with pytest.raises(UnknownMessage):
        overview.thread(project, "none")


def test_an_agent_that_is_added_later_is_there(project: ProjectReader, tmp_path: Path) -> None:
    before = [reader.agent for reader in project.readers()]
    wiring.add_agent(str(tmp_path), "demo", "gemini")

    assert before == ["claude", "codex"]
    assert [agent.agent for agent in overview.agents(project)] == ["claude", "codex", "gemini"]
