from __future__ import annotations

import pytest

from parley.domain.content.classification import (
    LEVELS,
    Classification,
    DataItem,
    OnOver,
    Withheld,
    can_share,
    highest,
    level_of,
    lowest,
    sort_data,
    withheld_reasons,
)

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = LEVELS


def test_the_levels_have_the_order_of_the_specification_and_not_of_the_alphabet() -> None:
    assert [one.value for one in LEVELS] == ["public", "internal", "confidential", "restricted"]
    assert [one.rank for one in LEVELS] == [0, 1, 2, 3]


@pytest.mark.parametrize("text", ["secret", "", "PUBLIC", "public ", None, 0, True, ["public"], {}])
def test_what_nobody_knows_is_as_secret_as_can_be(text: object) -> None:
    assert level_of(text) is RESTRICTED


def test_a_level_is_known_by_its_name() -> None:
    assert [level_of(one.value) for one in LEVELS] == list(LEVELS)


def test_the_lowest_and_the_highest_are_those_by_rank() -> None:
    # As texts, confidential would be the lowest and restricted the highest of these two.
    assert lowest(CONFIDENTIAL, INTERNAL) is INTERNAL
    assert lowest(RESTRICTED) is RESTRICTED
    assert highest(INTERNAL, CONFIDENTIAL, PUBLIC) is CONFIDENTIAL
    assert highest(PUBLIC) is PUBLIC


@pytest.mark.parametrize(
    ("most", "shared"),
    [
        (PUBLIC, ["public"]),
        (INTERNAL, ["public", "internal"]),
        (CONFIDENTIAL, ["public", "internal", "confidential"]),
        (RESTRICTED, ["public", "internal", "confidential", "restricted"]),
    ],
)
def test_who_may_share_a_level_may_share_all_below_it(most: Classification, shared: list[str]) -> None:
    assert [one.value for one in can_share(most)] == shared


def test_to_block_is_the_strictest() -> None:
    assert list(OnOver) == [OnOver.BLOCK, OnOver.WITHHOLD, OnOver.REDACT]


def an_item(level: Classification, description: str = "") -> DataItem:
    return DataItem("crm", ("customer.name", "customer.iban"), level, description)


def test_data_on_the_ceiling_passes_and_data_above_it_does_not() -> None:
    items = tuple(an_item(level) for level in LEVELS)

    shared, over = sort_data(items, INTERNAL)

    assert [one.classification for one in shared] == [PUBLIC, INTERNAL]
    assert [one.classification for one in over] == [CONFIDENTIAL, RESTRICTED]
    assert sort_data((), PUBLIC) == ((), ())


def test_what_was_withheld_is_told_with_the_reason_and_without_content() -> None:
    described, bare = an_item(RESTRICTED, description="the account"), an_item(CONFIDENTIAL)

    assert withheld_reasons((described, bare), INTERNAL) == (
        Withheld("restricted is above internal", "the account"),
        Withheld("confidential is above internal", "crm: customer.name, customer.iban"),
    )
