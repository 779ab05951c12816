"""How far an agent is: who may say so, and that it never goes back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parley.domain.channel.bookmark import (
    MOST_OPEN,
    Bookmark,
    Start,
    bookmark_id,
    check_claim,
    first_position,
    opened,
    saved,
)
from parley.domain.errors.errors import BadAgentName, BadName, Invalid
from parley.domain.errors.team import BookmarkTaken

AT = "2026-03-13T14:30:00.000000+00:00"
LATER = "2026-03-13T15:30:00.000000+00:00"
HEAD = 5_000
MARK = Bookmark(
    id="bob/main",
    tenant_id="t",
    version=3,
    agent="bob",
    label="main",
    position=10,
    open=(4, 7),
    begin=2,
    holder="h1",
    saved_at=AT,
)


def fields_of(refusal: Invalid) -> list[str]:
    return [one.field for one in refusal.problems]


def save(mark: Bookmark = MARK, holder: str = "h1", position: int = 10, still: tuple[int, ...] = (4, 7)) -> Bookmark:
    return saved(mark, holder, position, still, HEAD, LATER)


@pytest.mark.parametrize(
    ("start", "oldest", "position"),
    [
        (Start.BEGINNING, 3, 0),
        (Start.NOW, 3, 9),
        (Start.UNANSWERED, 3, 2),
        (Start.UNANSWERED, 1, 0),
        (Start.UNANSWERED, None, 9),
        # Asked after the head was looked up.
        (Start.UNANSWERED, 12, 9),
    ],
)
def test_a_new_bookmark_begins_where_it_was_asked_to(start: Start, oldest: int | None, position: int) -> None:
    assert first_position(start, 9, oldest) == position


def test_whoever_opens_a_bookmark_holds_it_and_finds_it_as_it_was() -> None:
    after = replace(MARK, holder="h2", process="7@vm", opened_at=LATER, interrupted=True, saved_at=LATER)
    assert opened(MARK, "h2", "7@vm", LATER) == after


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        (opened(MARK, "h2", "7@vm", AT), "bob: taken over by pid 7 on host vm, 1h ago"),
        (opened(MARK, "h2", "", LATER), "bob: taken over by another process, 0s ago"),
        (replace(MARK, holder="h2"), "bob: taken over by another process"),  # written before bookmarks named it
    ],
)
def test_who_held_it_before_the_last_opening_saves_nothing_and_learns_who_has_it(mark: Bookmark, says: str) -> None:
    with pytest.raises(BookmarkTaken) as refused:
        save(mark, "h1", 11)

    assert refused.value.message == says
    assert refused.value.facts["process"] == (mark.process or None)


def test_a_position_moves_on_and_leaves_behind_what_is_still_open() -> None:
    after = save(position=12, still=(11, 7))

    assert (after.position, after.open, after.saved_at, after.version) == (12, (7, 11), LATER, 3)


def test_what_was_dealt_with_is_not_opened_again_by_a_word_that_comes_late() -> None:
    assert save(still=(3, 7)).open == (7,)
    assert save(position=12, still=(5, 11)).open == (11,)


def test_the_same_twice_changes_nothing() -> None:
    once = save(position=12, still=(11, 11, 7))

    assert save(once, position=12, still=(7, 11)) is once
    assert save(replace(MARK, saved_at=LATER)) == replace(MARK, saved_at=LATER)


def test_a_save_that_changes_nothing_shows_a_moment_later_that_the_holder_is_alive() -> None:
    assert save() == replace(MARK, saved_at=LATER)


@pytest.mark.parametrize(
    ("claim", "refused"),
    [
        ((None, None), False),
        ((3601.0, None), True),  # saved an hour ago
        ((3600.0, None), False),
        ((None, "h1"), False),
        ((None, "h0"), True),
        ((3601.0, "h1"), True),
    ],
)
def test_a_bookmark_is_claimed_only_from_whom_the_claim_names(
    claim: tuple[float | None, str | None], refused: bool
) -> None:
    mark = replace(MARK, process="7@vm")
    if not refused:
        check_claim(mark, LATER, *claim)
        return
    with pytest.raises(BookmarkTaken) as told:
        check_claim(mark, LATER, *claim)

    assert told.value.message == "bob: held by pid 7 on host vm, last seen 1h ago"
    assert told.value.facts["holder"] == "h1"


@pytest.mark.parametrize(
    ("position", "still", "fields"),
    [
        (9, (), ["position"]),
        (HEAD + 1, (), ["position"]),
        (11, (11, 12), ["open"]),
        (11, (0,), ["open"]),
        (11, (HEAD + 1,), ["open"]),
        (9, (5, HEAD + 1), ["position", "open"]),
        (HEAD, tuple(range(1_000, 1_001 + MOST_OPEN)), ["open"]),
    ],
)
def test_a_place_that_cannot_be_is_refused_by_its_field(
    position: int, still: tuple[int, ...], fields: list[str]
) -> None:
    with pytest.raises(Invalid) as refused:
        save(position=position, still=still)
    assert fields_of(refused.value) == fields


def test_the_head_itself_and_as_much_as_may_be_open_are_fine() -> None:
    assert save(position=HEAD, still=()).open == ()
    full = tuple(range(1_000, 1_000 + MOST_OPEN))
    assert save(position=HEAD, still=full).open == full


def test_an_agent_and_a_name_make_one_id() -> None:
    assert bookmark_id("bob", "main") == "bob/main"
    assert MARK.parent == "bob"


@pytest.mark.parametrize("name", ["", "a/b", "a b", "..", "x" * 65, "é"])
def test_what_is_no_name_makes_no_id(name: str) -> None:
    with pytest.raises(BadName):
        bookmark_id("bob", name)
    with pytest.raises(BadAgentName):
        bookmark_id(name, "main")


def test_the_server_itself_has_no_bookmark() -> None:
    with pytest.raises(BadAgentName):
        bookmark_id("system", "main")
