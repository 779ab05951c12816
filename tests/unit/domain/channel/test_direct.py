"""The direct channel of two agents: one for each pair, whoever speaks first."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from parley.domain.channel.direct import direct_ids, direct_pair, new_direct
from parley.domain.directory.access import AccessPolicy

NAMES = st.from_regex(r"\A[a-z0-9][a-z0-9._-]{0,8}\Z")


@given(NAMES, NAMES, NAMES, NAMES)
def test_a_pair_has_one_channel_and_no_other_pair_has_it(one: str, other: str, third: str, tenant: str) -> None:
    ids = direct_ids(tenant, one, other)

    assert direct_ids(tenant, other, one) == ids
    assert re.fullmatch(r"chan_[A-Z2-7]{26}", ids.channel_id)
    assert re.fullmatch(r"intent_[A-Z2-7]{26}", ids.intent_id)
    same = direct_pair(one, third) == direct_pair(one, other)
    assert (direct_ids(tenant, one, third) == ids) is same
    assert direct_ids(f"{tenant}2", one, other) != ids


def test_only_the_two_have_access_and_neither_manages_it() -> None:
    intent, access, channel = new_direct("default", "bob", "alice", "2026-03-01T12:00:00.000000+00:00")

    assert access.policy is AccessPolicy.CLOSED
    assert [grant.principal_id for grant in access.grants] == ["alice", "bob"]
    assert [member.agent for member in channel.members] == list(channel.direct) == ["alice", "bob"]
    assert {intent.created_by, access.created_by, channel.created_by} == {"system"}
    assert intent.id == access.id == channel.intent_id
