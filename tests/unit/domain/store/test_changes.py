from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.channel.event import Event
from parley.domain.channel.feed import FeedItem
from parley.domain.exchange.exchange import Exchange
from parley.domain.store.changes import Committed, TeamChanges, merge_posts
from parley.domain.store.ground import Ground
from tests.contract.team_store import a_post, an_intent
from tests.samples.governed import an_exchange

_EVENT = Event(7, "intent_1", 1, "evt_1", "comment", "alice", "", "", b"{}", "")
# What a commit may result in beside its messages.
_RESULTS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {"events": (_EVENT,)},
    {"puts": (an_intent(),)},
    {"puts": (an_exchange(),)},
    {"puts": (an_exchange(),), "new_conversations": ("conv_1",)},
    {"puts": (an_exchange(), an_intent())},
    {"puts": (an_exchange(),), "ended": ("chan_1",)},
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


_COMMON = {"expects", "puts", "creates", "new_conversations", "saved", "audits", "spends"}


@pytest.mark.parametrize("field", sorted({*TeamChanges._fields} - {"tenant", "posts", "created_id", "answer"}))
def test_a_common_commit_has_no_more_than_a_governed_message(field: str) -> None:
    more: dict[str, Any] = {field: ("anything",)}
    changes = TeamChanges("t", (a_post(),))._replace(**more)

    assert changes.has_rare_fields == (field not in {*_COMMON, "ground", "keys_generation"})


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.sampled_from(_RESULTS))))
def test_merged_commits_tell_the_same_in_the_same_order(parts: list[tuple[str, int, dict[str, Any]]]) -> None:
    commits, at = [], 0
    for tenant, posts, more in parts:
        placed = tuple(a_post(f"msg_{at + n}", position=at + n) for n in range(1, posts + 1))
        at += posts
        commits.append((tenant, Committed(at, placed, **more)))

    merged = merge_posts(commits)

    def told(heard: list[tuple[str, Committed]], part: str) -> list[tuple[str, object]]:
        """One part of what comes with messages and exchanges, where nothing else does; else the commit as it is."""
        items: list[tuple[str, object]] = []
        for tenant, one in heard:
            alone = one == Committed(one.position, one.posts, one.puts, one.new_conversations)
            if one.posts and alone and all(record.kind == Exchange.kind for record in one.puts):
                items += [(tenant, item) for item in getattr(one, part)]
            else:
                items.append((tenant, one))
        return items

    for part in ("posts", "puts", "new_conversations"):
        assert told(merged, part) == told(commits, part)
    assert all(one.position == one.posts[-1].position for _, one in merged if one.posts)
    assert len(merged) <= len(commits)


def test_governed_messages_of_one_tenant_in_a_row_are_told_at_once() -> None:
    opened = [an_exchange(id=f"exch_{number}") for number in range(3)]
    commits = [
        ("t", Committed(n + 1, (a_post(f"msg_{n}", position=n + 1),), (opened[n],), (f"conv_{n}",))) for n in range(3)
    ]

    ((tenant, merged),) = merge_posts(commits)

    assert (tenant, merged.position, merged.puts) == ("t", 3, tuple(opened))
    assert merged.new_conversations == ("conv_0", "conv_1", "conv_2")
