from __future__ import annotations

from typing import cast

from parley.app.team.state.openings import MessageTemplates, Opening, TemplateKey

KEY = TemplateKey(b'{"exchange_type":"information_query"}', None, "alice", "key_1")
OPENING = cast("Opening", object())


def test_an_opening_is_worth_keeping_when_one_of_the_last_messages_was_like_this_one() -> None:
    openings = MessageTemplates[Opening]()
    other = KEY._replace(shape=(1, 2))

    assert [openings.is_repeated(key) for key in (KEY, other, KEY, other)] == [False, False, True, True]


def test_what_came_long_ago_is_not_remembered() -> None:
    openings = MessageTemplates[Opening]()
    for number in range(65):
        assert not openings.is_repeated(KEY._replace(key_id=f"key_{number}"))

    assert not openings.is_repeated(KEY._replace(key_id="key_0"))
    assert openings.is_repeated(KEY._replace(key_id="key_64"))


def test_long_metadata_is_not_kept() -> None:
    openings, key = MessageTemplates[Opening](), KEY._replace(metadata=b"x" * 1025)

    assert [openings.is_repeated(key), openings.is_repeated(key)] == [False, False]


def test_an_opening_holds_for_the_same_metadata_wishes_and_key_only() -> None:
    openings = MessageTemplates[Opening]()
    openings.keep(KEY, OPENING)

    assert openings.find(KEY) is OPENING
    assert openings.find(KEY._replace(metadata=b"{}")) is None
    assert openings.find(KEY._replace(actor="bob")) is None
    assert openings.find(KEY._replace(key_id="key_2")) is None


def test_so_many_are_kept_and_no_more() -> None:
    openings = MessageTemplates[Opening]()
    for number in range(64):
        openings.keep(KEY._replace(key_id=f"key_{number}"), OPENING)
    assert openings.find(KEY._replace(key_id="key_0")) is OPENING

    openings.keep(KEY._replace(key_id="key_64"), OPENING)

    assert openings.find(KEY._replace(key_id="key_0")) is None
    assert openings.find(KEY._replace(key_id="key_64")) is OPENING
