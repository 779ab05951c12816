"""The acts of a transaction are told apart by what they are, whatever they hold."""

from __future__ import annotations

from typing import get_args

import pytest

from parley.domain.store import writes as acts
from parley.domain.store.writes import EvictPosts, ExpireChannel, ExpirePost, InsertPosts, TrimAudit, Write

KINDS = get_args(Write)


def test_every_kind_of_act_is_one_that_a_store_has_to_carry_out() -> None:
    made = {one for one in vars(acts).values() if isinstance(one, type) and hasattr(one, "_fields")}

    assert made == set(KINDS)


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (InsertPosts([], []), InsertPosts),
        (ExpirePost(1, "msg_1"), ExpirePost),
        (ExpireChannel(7), ExpireChannel),
        (TrimAudit(1, 5), TrimAudit),
    ],
)
def test_an_act_is_matched_by_its_kind(act: Write, kind: type) -> None:
    assert [one for one in KINDS if isinstance(act, one)] == [kind]


def test_what_is_evicted_is_named_by_numbers() -> None:
    match EvictPosts(3, 7, 64):
        case EvictPosts(tenant, channel, floor):
            assert (tenant, channel, floor) == (3, 7, 64)
