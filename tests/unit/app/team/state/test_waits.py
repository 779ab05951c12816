"""Waits: who is woken by what, and which circles are refused."""

from __future__ import annotations

import asyncio

import pytest

from parley.app.team.state.waits import Waits
from parley.domain.channel.post import Post
from parley.domain.errors.errors import Unavailable
from parley.domain.errors.team import CircularWait, MessageExpired
from parley.domain.message.message import Pattern
from parley.domain.store.changes import Committed
from tests.contract.team_store import a_post
from tests.rigs.team import in_loop

pytestmark = pytest.mark.both_stores


def a_request(sender: str, *recipients: str, message_id: str = "") -> Post:
    name = message_id or f"msg_{sender}_{'_'.join(recipients)}"
    return a_post(name, sender=sender, pattern=Pattern.REQUEST, recipients=recipients)


def an_answer(request: Post, sender: str = "bob") -> Post:
    return a_post("msg_answer", sender=sender, pattern=Pattern.RESPONSE, in_reply_to=request.id)


@in_loop
async def test_an_answer_wakes_who_asked_and_nobody_else() -> None:
    waits, asked, other = Waits(), a_request("alice", "bob"), a_request("carol", "bob")
    first, second = waits.begin("t", asked), waits.begin("t", other)

    waits.publish("t", Committed(1, (an_answer(asked), an_answer(asked, "dave"))))

    assert (await first).sender == "bob"
    assert not second.done()


@in_loop
async def test_an_answer_in_another_tenant_wakes_nobody() -> None:
    waits, asked = Waits(), a_request("alice", "bob")
    answer = waits.begin("t", asked)

    waits.publish("other", Committed(1, (an_answer(asked),), ended=("chan_1",), departed=("bob",)))

    assert not answer.done()


@in_loop
async def test_who_has_stopped_waiting_is_forgotten() -> None:
    waits, asked = Waits(), a_request("alice", "bob")
    answer = waits.begin("t", asked)

    waits.end(asked.id, answer)
    waits.publish("t", Committed(1, (an_answer(asked),)))

    assert answer.cancelled()
    assert waits._by_request == {}


@in_loop
async def test_the_end_of_the_channel_ends_the_wait() -> None:
    waits = Waits()
    answer = waits.begin("t", a_request("alice", "bob"))

    waits.publish("t", Committed(1, ended=("chan_other",)))
    assert not answer.done()
    waits.publish("t", Committed(1, ended=("chan_1",)))

    with pytest.raises(MessageExpired):
        await answer


@in_loop
async def test_who_waits_has_to_ask_again_when_the_server_has_missed_a_while() -> None:
    waits, asked = Waits(), a_request("carol", "bob")
    heard, unheard = waits.begin("t", asked), waits.begin("t", a_request("alice", "bob"))
    elsewhere = waits.begin("other", a_request("dave", "bob"))

    waits.publish("t", Committed(3, (an_answer(asked),), missed=True))

    assert (await heard).sender == "bob"
    assert isinstance(unheard.exception(), Unavailable)
    assert not elsewhere.done()


@in_loop
async def test_the_wait_for_a_role_ends_when_the_last_of_its_holders_leaves() -> None:
    waits = Waits()
    answer = waits.begin("t", a_request("alice", "bob", "carol"))

    waits.publish("t", Committed(1, departed=("bob",)))
    waits.publish("t", Committed(2, departed=("dave",)))
    assert not answer.done()
    waits.publish("t", Committed(3, departed=("carol",)))

    with pytest.raises(MessageExpired):
        await answer


@in_loop
async def test_the_wait_for_a_role_that_nobody_holds_survives_departures() -> None:
    waits, asked = Waits(), a_request("alice", message_id="msg_1")
    answer = waits.begin("t", asked)

    waits.publish("t", Committed(1, departed=("bob",)))
    assert not answer.done()
    waits.publish("t", Committed(2, (asked._replace(recipients=("carol",)),)))
    waits.publish("t", Committed(3, departed=("carol",)))

    assert isinstance(answer.exception(), MessageExpired)


@in_loop
async def test_a_circle_is_refused_and_named() -> None:
    waits = Waits()
    waits.begin("t", a_request("alice", "bob"))
    waits.begin("t", a_request("bob", "carol"))

    with pytest.raises(CircularWait) as refused:
        waits.begin("t", a_request("carol", "alice"))

    assert refused.value.facts["agents"] == ["carol", "alice", "bob", "carol"]
    assert len(waits._by_request) == 2
    waits.begin("other", a_request("carol", "alice"))
    waits.begin("t", a_request("carol", "dave"))


@in_loop
async def test_who_asks_itself_would_wait_for_ever() -> None:
    with pytest.raises(CircularWait):
        Waits().begin("t", a_request("alice", "alice"))


@in_loop
async def test_a_role_closes_a_circle_only_when_all_its_holders_wait_for_us() -> None:
    waits = Waits()
    waits.begin("t", a_request("bob", "alice"))

    waits.begin("t", a_request("alice", "bob", "carol", message_id="msg_1"))
    waits.begin("t", a_request("carol", "alice"))

    with pytest.raises(CircularWait):
        waits.begin("t", a_request("alice", "bob", "carol", message_id="msg_2"))


@in_loop
async def test_a_role_that_found_its_holder_counts_for_circles() -> None:
    waits, asked = Waits(), a_request("alice", message_id="msg_1")
    waits.begin("t", asked)

    waits.publish("t", Committed(1, (asked._replace(recipients=("bob",)),)))

    with pytest.raises(CircularWait):
        waits.begin("t", a_request("bob", "alice"))


@in_loop
async def test_a_long_chain_that_leads_nowhere_is_no_circle() -> None:
    waits = Waits()
    for n in range(200):
        waits.begin("t", a_request(f"a{n}", f"a{n + 1}"))

    answer = waits.begin("t", a_request("alice", "a0"))

    await asyncio.sleep(0)
    assert not answer.done()


@in_loop
async def test_a_tenant_is_cared_for_as_long_as_anybody_in_it_waits() -> None:
    waits, asked = Waits(), a_request("alice", "bob")
    first, again, other = waits.begin("t", asked), waits.begin("t", asked), waits.begin("t", a_request("carol", "bob"))
    assert (waits.has_waits("t"), waits.has_waits("other")) == (True, False)

    waits.end(asked.id, first)
    waits.end(asked.id, again)
    assert waits.has_waits("t")
    waits.end("msg_carol_bob", other)
    waits.end("msg_carol_bob", other)
    assert not waits.has_waits("t")


@in_loop
async def test_when_no_answer_can_be_heard_every_wait_ends_with_the_reason() -> None:
    waits = Waits()
    answers = [waits.begin("t", a_request("alice", "bob")), waits.begin("other", a_request("carol", "dave"))]

    waits.fail(Unavailable("gone"))

    assert [str(one.exception()) for one in answers] == ["gone", "gone"]
