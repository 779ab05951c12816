from __future__ import annotations

from parley.domain.channel.event import Event
from parley.domain.channel.feed import FeedItem
from parley.domain.store.changes import Committed, TeamChanges
from tests.contract.team_store import a_post


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
    event = Event(7, "intent_1", 1, "evt_1", "comment", "alice", "", "", b"{}", "")

    item = FeedItem.of_event(event)

    assert (item.position, item.intent_id, item.channel_id, item.post, item.event) == (7, "intent_1", "", None, event)
