"""What `parley.connect()` gives: channels by name, approvals, agents."""

from __future__ import annotations

import asyncio
import logging

import pytest

import parley
from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import Ambiguous, Invalid, NotFound
from parley.sdk.client.session import AsyncServerSession
from tests.rigs.team import CHANNEL, INTENT, LiveServer, with_server
from tests.unit.sdk.agent.at_work import client_of


@with_server
async def test_a_channel_is_found_by_the_title_of_its_intent_or_created_with_it(server: LiveServer) -> None:
    async with AsyncServerSession(await client_of(server)) as alice:
        created = await alice.channel("Research Q1", "questions", access=["bob"])
        again = await alice.channel("Research Q1", "questions")
        by_id = await alice.channel(created.intent_id, "questions")
        intent = await alice.client.get_intent("Research Q1")

        assert created.id == again.id == by_id.id
        assert (intent.status, intent.created_by) == ("active", "alice")
    async with AsyncServerSession(await client_of(server, "bob")) as bob:
        assert (await bob.channel("Research Q1", "questions")).id == created.id


@with_server
async def test_one_name_alone_is_a_channel_in_the_intent_that_is_meant(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncServerSession(await client_of(server)) as alice:
        only = await alice.channel("questions")
        other = await alice.channel("Launch", "goals")
        monkeypatch.setenv("PARLEY_INTENT", "Launch")
        named = await alice.channel("goals")

    assert only.intent_id == INTENT
    assert named.id == other.id


@with_server
async def test_nothing_is_created_where_that_is_not_wanted(server: LiveServer) -> None:
    async with AsyncServerSession(await client_of(server)) as alice:
        await alice.channel("Launch", "goals")

        for intent, name, sentence in (
            ("Lauch", "goals", 'no intent "Lauch" that you can see (did you mean "Launch"?)'),
            ("Launch", "gaols", 'no channel "gaols" in intent "Launch" (did you mean "goals"?)'),
        ):
            with pytest.raises(NotFound) as unknown:
                await alice.channel(intent, name, create=False)
            assert str(unknown.value) == sentence
        with pytest.raises(NotFound):
            await alice.channel("intent_01M7JYMMDERYX3R3R89P5RSX06", "goals")
        assert (await alice.channel(INTENT, CHANNEL, create=False)).id == CHANNEL


@with_server
async def test_an_intent_that_is_created_is_logged(server: LiveServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="parley"):
        async with AsyncServerSession(await client_of(server)) as alice:
            await alice.channel("Reprot", "goals")
            await alice.channel("Reprot", "goals")

    assert [record.getMessage() for record in caplog.records if "created" in record.getMessage()] == [
        'created the intent "Reprot"'
    ]


@with_server
async def test_a_channel_of_an_intent_that_is_not_clear_says_how_to_name_it(server: LiveServer) -> None:
    async with AsyncServerSession(await client_of(server)) as alice:
        await alice.channel("Launch", "goals")

        with pytest.raises(Ambiguous) as several:
            await alice.channel("goals")

    assert several.value.hint == "name one: channel(intent=TITLE, name='goals'), or set PARLEY_INTENT"


@with_server
async def test_calls_that_create_an_intent_at_once_get_one(server: LiveServer) -> None:
    async with AsyncServerSession(await client_of(server)) as alice:
        opened = await asyncio.gather(*(alice.channel("Launch", "goals") for _ in range(4)))
        active = [intent for intent in await alice.client.list_intents("active") if intent.title == "Launch"]

    assert {channel.intent_id for channel in opened} == {intent.id for intent in active}
    assert len(active) == 1


@with_server
async def test_a_name_that_is_no_text_is_refused_at_once(server: LiveServer) -> None:
    async with AsyncServerSession(await client_of(server)) as alice:
        intent = await alice.client.get_intent(INTENT)
        with pytest.raises(Invalid) as refused:
            await alice.channel(intent, "questions")  # type: ignore[arg-type]

    assert str(refused.value) == "channel: intent is a text, not an Intent"


@with_server
async def test_connecting_finds_what_is_not_given_in_the_environment(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://127.0.0.1:{server.listener.port}"
    monkeypatch.setenv("PARLEY_URL", url)
    monkeypatch.setenv("PARLEY_KEY", await server.rig.key(kind=KeyKind.SERVICE))
    async with parley.connect_async(agent="alice") as alice:
        told = await (await alice.channel(INTENT, "news")).broadcast("Good morning")

    def blocking() -> list[str]:
        with parley.connect(agent="bob") as bob:
            assert (bob.agent, bob.url, repr(bob)) == ("bob", url, f"ServerSession({url!r}, agent='bob')")
            return [message.id for message in bob.channel(INTENT, "news").history()]

    assert await asyncio.to_thread(blocking) == [told.id]
    assert repr(alice) == f"AsyncServerSession({url!r}, agent='alice')"
