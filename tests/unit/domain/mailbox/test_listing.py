"""The records that a mailbox gives back start out harmless."""

from parley.domain.mailbox.listing import Finished, FoundMessage, Item
from parley.domain.message.message import Heading
from tests.samples.messages import a_message


def test_a_line_of_a_listing_begins_with_the_heading_of_its_message() -> None:
    assert Item._fields[: len(Heading._fields)] == Heading._fields


def test_a_line_of_a_listing_is_new_and_without_a_problem_until_somebody_says_otherwise() -> None:
    heading = Heading("m1", "claude", ("codex",), "question", "P2", "2026-03-13T14:30:00Z", "Why?", "", "", "")

    item = Item(*heading, "m1.yaml")

    assert (item.file, item.status, item.expired, item.problem) == ("m1.yaml", "new", False, "")


def test_a_found_message_is_without_doubt_and_a_finished_one_unchanged_by_default() -> None:
    assert FoundMessage(a_message(), b"", "", "inbox", "a.yaml").doubts == ()
    assert Finished("m1", "a.yaml", "archived").content_changed is False
