"""The tail: who hears what, and what happens to those who do not keep up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parley.app.team.state import tail as module
from parley.app.team.state.tail import Listener, Tail, of_agent, of_channel, of_intent
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.event import Event
from parley.domain.channel.feed import FeedItem
from parley.domain.channel.post import Post
from parley.domain.directory.access import Access
from parley.domain.directory.callers import Key, KeyKind
from parley.domain.errors.errors import Unavailable
from parley.domain.store.changes import Committed
from tests.contract.team_store import a_channel, a_post

pytestmark = pytest.mark.both_stores

TENANT = "acme"


def said(position: int = 1, to: str = "") -> Post:
    return a_post(to=to, recipients=(to,) if to else None, position=position)


def happened(position: int = 1) -> Event:
    return Event(position, "intent_1", 1, "evt_1", "comment", "alice", "", "", b"{}", "")


def heard(listener: Listener) -> list[int]:
    return [item.position for item in listener.take()]


def test_a_message_is_heard_in_its_channel_on_its_intent_and_by_its_recipients() -> None:
    tail = Tail()
    topics = [
        of_channel(TENANT, "chan_1"),
        of_intent(TENANT, "intent_1"),
        of_agent(TENANT, "bob"),
        of_agent(TENANT, "alice"),
        of_agent(TENANT, "carol"),
        of_channel(TENANT, "chan_2"),
        of_intent(TENANT, "intent_2"),
        of_channel("other", "chan_1"),
    ]
    listeners = [tail.listen(topic) for topic in topics]

    tail.publish(TENANT, Committed(1, (said(to="bob"),)))

    assert [heard(one) for one in listeners] == [[1], [1], [1], [1], [], [], [], []]


def test_what_is_said_to_everyone_is_offered_to_every_agent_of_the_tenant() -> None:
    tail = Tail()
    mine, theirs = tail.listen(of_agent(TENANT, "bob")), tail.listen(of_agent("other", "bob"))

    tail.publish(TENANT, Committed(1, (said(),)))

    assert (heard(mine), heard(theirs)) == ([1], [])


def test_an_event_is_heard_on_its_intent_and_by_agents() -> None:
    tail = Tail()
    topics = [of_intent(TENANT, "intent_1"), of_agent(TENANT, "bob"), of_channel(TENANT, "chan_1")]
    listeners = [tail.listen(topic) for topic in topics]

    tail.publish(TENANT, Committed(1, events=(happened(),)))

    assert [heard(one) for one in listeners] == [[1], [1], []]


def test_who_has_left_hears_nothing_and_leaves_nothing() -> None:
    tail = Tail()
    gone, stays = tail.listen(of_agent(TENANT, "bob")), tail.listen(of_agent(TENANT, "bob"))

    tail.leave(gone)
    tail.publish(TENANT, Committed(1, (said(),)))

    assert (heard(gone), heard(stays)) == ([], [1])
    tail.leave(stays)
    tail.leave(stays)
    assert (tail._listeners, tail._agents, tail._tenants) == ({}, {}, {})


def test_who_falls_behind_is_told_so_and_queues_no_more() -> None:
    tail = Tail()
    listener = tail.listen(of_channel(TENANT, "chan_1"))

    for position in range(1, module._QUEUE_MAX + 3):
        tail.publish(TENANT, Committed(position, (said(position),)))

    assert listener.behind
    assert listener.event.is_set()
    assert heard(listener) == []


def test_as_many_as_fit_are_all_there() -> None:
    listener = Listener(of_channel(TENANT, "chan_1"))

    for position in range(1, module._QUEUE_MAX + 1):
        listener.enqueue(FeedItem.of_post(said(position)))

    assert not listener.behind
    assert heard(listener) == list(range(1, module._QUEUE_MAX + 1))
    assert not listener.event.is_set()


def test_a_change_of_rights_wakes_those_whom_it_concerns() -> None:
    key = Key(id="key_1", tenant_id="", owner=TENANT, key_kind=KeyKind.AGENT, digest="d", created_at="")
    access = Access(id="intent_1", tenant_id=TENANT, created_by="alice")
    agent = AgentRecord(id="bob", tenant_id=TENANT, registered_at="")
    for tenant, committed, woken in (
        (TENANT, Committed(1, puts=(access,)), [True, True, False]),
        ("", Committed(1, puts=(key,)), [True, True, False]),
        ("", Committed(1, puts=(replace(key, owner="other"),)), [False, False, True]),
        (TENANT, Committed(1, puts=(a_channel(),)), [True, False, False]),
        (TENANT, Committed(1, ended=("chan_1",)), [True, False, False]),
        # A heartbeat changes nobody's rights: it must not wake a thousand streams.
        (TENANT, Committed(1, puts=(agent,)), [False, False, False]),
    ):
        tail = Tail()
        topics = [of_channel(TENANT, "chan_1"), of_intent(TENANT, "intent_9"), of_channel("other", "chan_1")]
        listeners = [tail.listen(topic) for topic in topics]

        tail.publish(tenant, committed)

        assert [one.event.is_set() for one in listeners] == woken, committed


def test_a_tenant_is_cared_for_as_long_as_anybody_listens() -> None:
    tail = Tail()
    assert not tail.has_listeners(TENANT)
    first, second = tail.listen(of_agent(TENANT, "bob")), tail.listen(of_intent(TENANT, "intent_1"))
    assert (tail.has_listeners(TENANT), tail.has_listeners("other"), len(tail)) == (True, False, 2)

    tail.leave(first)
    assert tail.has_listeners(TENANT)
    tail.leave(second)
    assert (tail.has_listeners(TENANT), len(tail)) == (False, 0)


def test_who_listens_in_vain_is_woken_and_told_why_and_who_comes_later_is_not() -> None:
    tail = Tail()
    listener = tail.listen(of_channel(TENANT, "chan_1"))

    tail.fail(Unavailable("gone"))
    later = tail.listen(of_channel(TENANT, "chan_1"))

    assert listener.event.is_set()
    with pytest.raises(Unavailable, match="gone"):
        listener.take()
    assert later.take() == []


def test_when_the_server_stops_everyone_is_woken_to_wait_no_more() -> None:
    tail = Tail()
    listeners = [tail.listen(of_channel(tenant, "chan_1")) for tenant in (TENANT, "other")]

    tail.close()

    assert tail.closing
    assert all(one.event.is_set() for one in listeners)
