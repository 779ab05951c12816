from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.channel.event import Event
from parley.domain.channel.feed import FeedItem
from parley.domain.store.changes import Committed, TeamChanges, merge_posts
from parley.domain.store.ground import Ground
from tests.contract.team_store import a_post, an_intent

_EVENT = Event(7, "intent_1", 1, "evt_1", "comment", "alice", "", "", b"{}", "")
# What a commit may result in beside its messages.
_RESULTS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {"events": (_EVENT,)},
    {"puts": (an_intent(),)},
    {"ended": ("chan_1",)},
    {"departed": ("bob",)},
    {"erased": 1},
    {"missed": True},
    {"dropped": (("job", "msg_1"),)},
)


def test_a_change_of_nothing_is_nothing_but_its_tenant() -> None:
    assert {field for field in TeamChanges("t")[1:] if field} == set()
    assert {field for field in Committed(7)[1:] if field} == set()


def test_a_feed_item_of_a_post_is_at_the_posts_place() -> None:
    post = a_post(position=7, seq=3)

    item = FeedItem.of_post(post)

    assert (item.position, item.intent_id, item.channel_id, item.post, item.event) == (
        7,
        "intent_1",
        "chan_1",
        post,
        None,
    )


def test_a_feed_item_of_an_event_is_in_no_channel() -> None:
    item = FeedItem.of_event(_EVENT)

    assert (item.position, item.intent_id, item.channel_id, item.post, item.event) == (7, "intent_1", "", None, _EVENT)


@pytest.mark.parametrize(
    "field", sorted({*TeamChanges._fields} - {"tenant", "posts", "created_id", "ground", "keys_generation", "answer"})
)
def test_a_commit_that_says_anything_more_does_not_only_post(field: str) -> None:
    only = TeamChanges(
        "t", (a_post(),), created_id="msg_1", ground=Ground(1, ()), keys_generation=1, answer=lambda _, __: (201, b"")
    )

    more: dict[str, Any] = {field: ("anything",)}
    assert only.only_posts
    assert not only._replace(**more).only_posts


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.sampled_from(_RESULTS))))
def test_merged_commits_tell_the_same_in_the_same_order(parts: list[tuple[str, int, dict[str, Any]]]) -> None:
    commits, at = [], 0
    for tenant, posts, more in parts:
        placed = tuple(a_post(f"msg_{at + n}", position=at + n) for n in range(1, posts + 1))
        at += posts
        commits.append((tenant, Committed(at, placed, **more)))

    merged = merge_posts(commits)

    def told(heard: list[tuple[str, Committed]]) -> list[tuple[str, object]]:
        """One by one: messages, where nothing comes with them, else the commit as it is."""
        plain = [
            (tenant, one, len(one.posts) > 0 and one == Committed(one.position, one.posts)) for tenant, one in heard
        ]
        return [(tenant, item) for tenant, one, only_posts in plain for item in (one.posts if only_posts else (one,))]

    assert told(merged) == told(commits)
    assert all(one.position == one.posts[-1].position for _, one in merged if one.posts)
    assert len(merged) <= len(commits)
