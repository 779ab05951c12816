"""Plain messages by remembered decisions: accepted and refused exactly as if every record were looked at each time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.adapters.postgres.store import PostgresTeamStore
from parley.app.team.channels import plain_messages, posting
from parley.app.team.state.decision_cache import DecisionCache
from parley.domain.channel.channel import ChannelStatus, MemberPolicy, Options
from parley.domain.channel.post import Post, PostDraft
from parley.domain.channel.request import RequestMark, RequestState
from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind, Saved
from parley.domain.errors.errors import Invalid, NotFound, ParleyError, Stale
from parley.domain.errors.rules import Suspended
from parley.domain.errors.team import ChannelClosed, MessageExpired, NotMember
from parley.domain.message.message import Pattern
from parley.domain.store.changes import Committed, TeamChanges
from parley.domain.store.transaction import Transaction
from parley.domain.times import stamp
from tests.postgres.nodes import quiet
from tests.rigs.http_client import Answer, Client
from tests.rigs.node import two_nodes
from tests.rigs.remembered import (
    AGENTS,
    CLOSE,
    SECOND,
    Change,
    Message,
    Step,
    alive,
    changes,
    compare,
    handed_on,
    often,
    partly,
    stopped,
    with_channel,
    withdrawn,
)
from tests.rigs.team import CHANNEL, INTENT, Rig, before_the_commit, live_server, with_rig


def messages() -> st.SearchStrategy[Message]:
    """Messages of all kinds: of those that answer, most have something to answer."""
    return _told() | st.builds(
        Message,
        st.sampled_from(("bob", "bob", "carol")),
        st.sampled_from(("alice", "alice", "carol", "")),
        st.just({}),
        st.just("Yes"),
        channel_id=st.sampled_from((CHANNEL, CHANNEL, SECOND)),
        pattern=st.just(Pattern.RESPONSE),
        meanwhile=st.none() | changes() | _request_changes(),
    )


def _request_changes() -> st.SearchStrategy[Change]:
    return st.builds(partly, st.sampled_from((withdrawn, handed_on)), st.sampled_from(("alice", "carol")))


def _told() -> st.SearchStrategy[Message]:
    return st.builds(
        Message,
        st.sampled_from(AGENTS),
        st.sampled_from(("", "*", "bob", "carol", "role:tester")),
        st.just({}),
        st.just("Hello"),
        channel_id=st.sampled_from((CHANNEL, CHANNEL, SECOND)),
        pattern=st.sampled_from((Pattern.NOTIFY, Pattern.REQUEST, Pattern.REQUEST)),
        meanwhile=st.none() | changes(),
    )


# Many small strategies, which take their time on a busy machine.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(messages() | messages() | changes() | _request_changes(), min_size=4, max_size=14))
def test_a_remembered_decision_accepts_and_refuses_what_a_fresh_one_does(steps: list[Step]) -> None:
    compare(often(steps, 1))


TELL_BOB = Message("alice", "bob")
ASK_BOB = Message("alice", "bob", pattern=Pattern.REQUEST)
BOB_ANSWERS = Message("bob", "alice", text="Yes", pattern=Pattern.RESPONSE)
# What bob answers then is remembered.
ANSWERED: list[Step] = [ASK_BOB, BOB_ANSWERS, ASK_BOB]


def test_the_mutant_that_does_not_compare_the_generation_in_the_commit_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[Step] = [TELL_BOB, TELL_BOB._replace(meanwhile=CLOSE)]
    compare(steps)
    monkeypatch.setattr(Transaction, "_holds", lambda *_: True)

    with pytest.raises(AssertionError):
        compare(steps)


def test_the_mutant_that_remembers_across_generations_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # The commit would refuse this one again and again, and say that the channel changes too often.
    steps: list[Step] = [TELL_BOB, partly(stopped, "bob"), TELL_BOB]
    compare(steps)
    monkeypatch.setattr(Transaction, "_holds", lambda *_: True)
    monkeypatch.setattr(DecisionCache, "find", lambda self, key, now: self._kept.get(key))

    with pytest.raises(AssertionError):
        compare(steps)


@pytest.mark.parametrize("change", [withdrawn, handed_on])
def test_the_mutant_that_does_not_ask_what_happened_to_the_request_is_caught(
    monkeypatch: pytest.MonkeyPatch, change: Callable[..., Awaitable[None]]
) -> None:
    steps: list[Step] = [*ANSWERED, BOB_ANSWERS._replace(meanwhile=partly(change, "alice"))]
    compare(steps)
    write = plain_messages.changes_of

    def without_expects(*message: Any) -> TeamChanges | None:  # noqa: ANN401  # the same arguments
        changes = write(*message)
        return changes and changes._replace(expects=())

    monkeypatch.setattr(plain_messages, "changes_of", without_expects)

    with pytest.raises(AssertionError):
        compare(steps)


@pytest.mark.parametrize(
    "answer",
    [
        BOB_ANSWERS._replace(sender="carol"),
        BOB_ANSWERS._replace(channel_id=SECOND),
        # It answers nothing, and nobody is asked anything.
        BOB_ANSWERS._replace(sender="alice", to="bob"),
    ],
)
def test_who_was_not_asked_is_refused_as_ever(answer: Message) -> None:
    compare([*ANSWERED, BOB_ANSWERS, ASK_BOB, answer])


def test_what_names_a_request_and_is_no_answer_is_refused_as_ever() -> None:
    tell_alice = Message("bob", "alice")
    compare([*ANSWERED, tell_alice, tell_alice, tell_alice._replace(answers=True)])


def test_a_withdrawn_request_is_not_answered_by_what_is_remembered() -> None:
    compare([*ANSWERED, partly(withdrawn, "alice"), BOB_ANSWERS, ASK_BOB, BOB_ANSWERS])


# ---------------------------------------------------------------- what is remembered, and for how long

REMEMBERED = PostDraft(Pattern.NOTIFY, b"{}", "bob")
ANSWER = PostDraft(Pattern.NOTIFY, b'{"a":1}')


async def _said_once(rig: Rig) -> None:
    await rig.intent(agents=AGENTS)
    await rig.channel()
    await rig.say("alice", to="bob")
    assert len(rig.team.plain_decisions) == 1


async def _commits(rig: Rig, monkeypatch: pytest.MonkeyPatch, say: Awaitable[object]) -> list[TeamChanges]:
    """What is committed while something is said."""
    commit, seen = rig.store.commit, list[TeamChanges]()

    async def noted(changes: TeamChanges) -> Committed:
        seen.append(changes)
        return await commit(changes)

    with monkeypatch.context() as patch:
        patch.setattr(rig.store, "commit", noted)
        await say
    return seen


@pytest.mark.both_stores
@with_rig
async def test_the_second_message_rests_on_the_ground_of_the_first(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await _said_once(rig)

    (changes,) = await _commits(rig, monkeypatch, rig.say("alice", "again", to="bob"))

    assert (changes.expects, changes.ground is not None) == ((), True)
    newest = await rig.store.post(DEFAULT_TENANT, changes.posts[0].id)
    assert isinstance(newest, Post)
    assert (newest.payload, newest.recipients, newest.seq) == (b'{"text": "again"}', ("bob",), 2)


@pytest.mark.both_stores
@with_rig
async def test_a_heartbeat_leaves_decisions_remembered(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.agent("bob")
    await _said_once(rig)
    generation = rig.store.generation(DEFAULT_TENANT)

    await alive(rig, "bob")

    assert rig.store.generation(DEFAULT_TENANT) == generation
    (changes,) = await _commits(rig, monkeypatch, rig.say("alice", to="bob"))
    assert changes.ground is not None


@pytest.mark.both_stores
@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (CLOSE, ChannelClosed),
        (partly(with_channel, CHANNEL, MemberPolicy.EXPLICIT, ChannelStatus.OPEN, "bob"), NotMember),
        (partly(with_channel, CHANNEL, MemberPolicy.EXPLICIT, ChannelStatus.OPEN, "alice"), NotMember),
        (partly(stopped, "bob"), Suspended),
        (partly(stopped, "alice"), Suspended),
    ],
)
@with_rig
async def test_what_changes_between_lookup_and_commit_is_decided_again(
    rig: Rig, change: Change, refusal: type[ParleyError], monkeypatch: pytest.MonkeyPatch
) -> None:
    await _said_once(rig)
    before_the_commit(rig, monkeypatch, change)

    with pytest.raises(refusal):
        await rig.say("alice", to="bob")


@pytest.mark.both_stores
@with_rig
async def test_the_second_answer_rests_on_the_ground_of_the_first(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.intent(agents=AGENTS)
    await rig.channel()
    first, second = [await rig.say("alice", to="bob", pattern=Pattern.REQUEST) for _ in range(2)]
    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, first.id, ANSWER)

    reply = posting.reply(rig.team, rig.caller("bob"), CHANNEL, second.id, ANSWER)
    (changes,) = await _commits(rig, monkeypatch, reply)

    assert changes.ground is not None
    assert [expect.kind for expect in changes.expects] == [RequestMark.kind]
    answers = await rig.store.answers(DEFAULT_TENANT, second.id)
    assert [(answer.sender, answer.to, answer.recipients) for answer in answers] == [("bob", "alice", ("alice",))]
    asked = await rig.store.post(DEFAULT_TENANT, second.id)
    assert asked is not None
    assert asked.answered


@with_rig
async def test_what_has_expired_is_not_answered_by_what_is_remembered(rig: Rig) -> None:
    await rig.intent(agents=AGENTS)
    await rig.channel()
    soon = rig.clock.at + timedelta(seconds=60)
    first, second = [
        await rig.say("alice", to="bob", pattern=Pattern.REQUEST, expires_at=expires_at) for expires_at in (None, soon)
    ]
    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, first.id, ANSWER)

    rig.clock.at += timedelta(seconds=61)

    with pytest.raises(MessageExpired):
        await posting.reply(rig.team, rig.caller("bob"), CHANNEL, second.id, ANSWER)


@with_rig
async def test_what_was_evicted_is_not_answered_by_what_is_remembered(rig: Rig) -> None:
    await rig.intent(agents=AGENTS)
    await rig.channel(options=Options(max_messages=3))
    first, second = [await rig.say("alice", to="bob", pattern=Pattern.REQUEST) for _ in range(2)]
    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, first.id, ANSWER)
    for _ in range(3):
        await rig.say("alice", to="bob")

    with pytest.raises(NotFound):
        await posting.reply(rig.team, rig.caller("bob"), CHANNEL, second.id, ANSWER)


@with_rig
async def test_a_request_that_accepts_parts_is_decided(rig: Rig) -> None:
    """Its answer is noted beside it."""
    await rig.intent(agents=AGENTS)
    await rig.channel()
    plain = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, plain.id, ANSWER)
    in_parts = await rig.say("alice", to="bob", pattern=Pattern.REQUEST, partial=True)

    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, in_parts.id, ANSWER)

    state = await rig.store.get(RequestState, DEFAULT_TENANT, in_parts.id)
    assert state is not None
    assert state.answered


@with_rig
async def test_a_response_that_answers_nothing_is_refused_as_ever(rig: Rig) -> None:
    await rig.intent(agents=AGENTS)
    await rig.channel()
    request = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, ANSWER)

    with pytest.raises(Invalid):
        await rig.say("bob", to="alice", pattern=Pattern.RESPONSE)


@with_rig
async def test_an_access_that_expires_ends_what_is_remembered(rig: Rig) -> None:
    until = stamp(rig.clock.at + timedelta(seconds=60))
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob", expires_at=until),))
    await rig.channel()
    await rig.say("bob", to="alice")
    await rig.say("bob", to="alice")

    rig.clock.at += timedelta(seconds=61)

    with pytest.raises(NotFound):
        await rig.say("bob", to="alice")


@pytest.mark.parametrize("options", [Options(ttl_seconds=60), Options(audit=True)])
@with_rig
async def test_what_depends_on_more_than_records_is_not_remembered(rig: Rig, options: Options) -> None:
    await rig.intent(agents=AGENTS)
    await rig.channel(options=options)
    await rig.agent("bob", attributes=(await rig.agent("bob")).attributes)

    await rig.say("alice", to="bob")
    await rig.say("alice", to="any:nobody", wait_for_responders=True)

    assert len(rig.team.plain_decisions) == 0


@with_rig
async def test_a_used_idempotency_key_stays_used(rig: Rig) -> None:
    await _said_once(rig)
    use = Saved("scope", "fingerprint", "once_1", rig.at())
    caller = rig.caller("alice")._replace(saved=use)
    await posting.post(rig.team, caller, CHANNEL, REMEMBERED)

    with pytest.raises(Stale) as refused:
        await posting.post(rig.team, caller, CHANNEL, REMEMBERED)

    assert "kind" not in refused.value.facts


@with_rig
async def test_a_person_is_not_taken_for_its_agent(rig: Rig) -> None:
    await rig.agent("alice", attributes=replace((await rig.agent("alice")).attributes, user_id="ann"))
    await _said_once(rig)
    ann = rig.caller("alice", KeyKind.HUMAN)._replace(user="ann")

    post = await posting.post(rig.team, ann, CHANNEL, REMEMBERED)

    assert isinstance(post, Post)
    assert b"human" in post.metadata


@with_rig
async def test_another_tenants_channel_is_not_reached_by_what_is_remembered(rig: Rig) -> None:
    await _said_once(rig)

    with pytest.raises(NotFound):
        await rig.say("alice", to="bob", tenant="other")


def test_what_another_node_changes_is_no_ground_any_more(tmp_path: Path) -> None:
    async def run() -> None:
        async with two_nodes(tmp_path) as (here, there):
            await here.intent(agents=AGENTS)
            await here.channel()
            await here.say("alice", to="bob")
            await here.say("alice", to="bob")
            assert len(here.team.plain_decisions) == 1

            await there.store.catch_up(DEFAULT_TENANT)
            await CLOSE(there)

            # This node has not heard of it, as far as the lookup knows: the commit finds out.
            with pytest.raises(ChannelClosed):
                await here.say("alice", to="bob")

    asyncio.run(run())


@pytest.mark.parametrize("by_path", [True, False])
def test_a_request_that_other_nodes_have_evicted_is_not_answered(tmp_path: Path, by_path: bool) -> None:
    async def run() -> None:
        async with two_nodes(tmp_path) as (here, there), live_server(here) as server:
            assert isinstance(here.store, PostgresTeamStore)
            await here.intent(agents=AGENTS)
            await here.channel(options=Options(max_messages=3))
            bob = await server.client("bob")
            for _ in range(3):
                request = await here.say("alice", to="bob", pattern=Pattern.REQUEST)
                assert (await _answer(bob, request, by_path=by_path)).status == 201
            assert here.team.plain_decisions
            request = await here.say("alice", to="bob", pattern=Pattern.REQUEST)
            await there.store.catch_up(DEFAULT_TENANT)
            await quiet(here.store)
            for _ in range(4):
                await there.say("carol")

            refused = await _answer(bob, request, by_path=by_path)

            assert refused.status == (404 if by_path else 422)
            newest = await there.say("carol")
            assert newest.seq == request.seq + 5

    asyncio.run(run())


async def _answer(client: Client, request: Post, *, by_path: bool) -> Answer:
    """Answer a request, named in the path or in the body."""
    messages = f"/channels/{CHANNEL}/messages"
    if by_path:
        return await client.post(f"{messages}/{request.id}/reply", {"payload": {"text": "Yes"}})
    body = {"payload": {"text": "Yes"}, "message_type": "response", "correlation_id": request.id}
    return await client.post(messages, body)


@with_rig
async def test_the_intent_may_be_given_away_and_back(rig: Rig) -> None:
    """Not the state but the number is compared: a version that comes back is another one."""
    await _said_once(rig)
    generation = rig.store.generation(DEFAULT_TENANT)

    await rig.access(INTENT, policy=AccessPolicy.CLOSED)
    await rig.access(INTENT, policy=AccessPolicy.OPEN)

    assert rig.store.generation(DEFAULT_TENANT) > generation
