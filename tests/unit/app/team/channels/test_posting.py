"""Posting: who may say what to whom, and what is written with it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from parley.app.team.channels import posting, requests
from parley.app.team.channels.posting import Held
from parley.app.team.directory import agents
from parley.domain.agents.agent import AgentDraft
from parley.domain.channel.channel import MemberPolicy, Options, closed
from parley.domain.channel.post import Post, PostDraft, PostState
from parley.domain.channel.request import RequestState
from parley.domain.directory.access import AccessPolicy, Permission
from parley.domain.directory.callers import DEFAULT_TENANT, AgentStatus, KeyKind, Saved
from parley.domain.errors.errors import Conflict, Invalid, NotFound, Stale
from parley.domain.errors.team import (
    AgentDeparted,
    BadCorrelation,
    ChannelClosed,
    MessageExpired,
    NotAddressee,
    NotARequest,
    NotMember,
    RequestWithdrawn,
)
from parley.domain.message.message import Pattern
from parley.domain.record import Expect
from parley.domain.store.changes import Committed, TeamChanges
from parley.domain.times import stamp
from tests.rigs.team import (
    CHANNEL,
    INTENT,
    Rig,
    before_the_commit,
    delivered,
    refusal,
    venue,
    with_rig,
)

pytestmark = pytest.mark.both_stores

NOTE = PostDraft(Pattern.NOTIFY, b"{}")
QUESTION = PostDraft(Pattern.REQUEST, b'{"q":1}', "bob")
REPLY = PostDraft(Pattern.NOTIFY, b'{"a":1}')


@with_rig
async def test_a_message_is_there_when_the_post_returns(rig: Rig) -> None:
    await rig.open_channel()

    said = await rig.say("bob", "hello", to="alice")

    assert await rig.store.post("default", said.id) == said
    assert (said.sender, said.to, said.recipients, said.seq) == ("bob", "alice", ("alice",), 1)
    assert (said.created_at, said.state) == (rig.at(), PostState.DELIVERED)


@with_rig
async def test_a_message_without_addressee_is_for_everyone(rig: Rig) -> None:
    await rig.open_channel()

    silent = await rig.say("bob")
    starred = await rig.say("bob", to="*")
    broadcast = await rig.say("bob", pattern=Pattern.BROADCAST)

    assert [(one.to, one.recipients) for one in (silent, starred, broadcast)] == [("", None), ("*", None), ("*", None)]


@with_rig
async def test_somebody_has_to_speak(rig: Rig) -> None:
    await rig.open_channel()

    service = rig.caller(kind=KeyKind.SERVICE)

    assert await refusal(posting.post(rig.team, service, CHANNEL, NOTE)) is Invalid


@with_rig
async def test_a_channel_that_one_may_not_know_of_does_not_exist(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)
    await rig.channel("chan_closed")
    await rig.intent("intent_2")
    await rig.channel("chan_explicit", "bob", intent_id="intent_2", policy=MemberPolicy.EXPLICIT)

    for channel_id in ("chan_none", "chan_closed", "chan_explicit"):
        assert await refusal(rig.say("carol", channel_id=channel_id)) is NotFound
    assert await refusal(rig.say("bob", channel_id="chan_explicit", tenant="other")) is NotFound
    assert (await rig.say("bob", channel_id="chan_explicit")).seq == 1


@with_rig
async def test_who_may_only_read_does_not_write(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob", Permission.READ), rig.grant("carol")))
    await rig.channel()

    assert await refusal(rig.say("bob")) is NotMember
    assert (await rig.say("carol", to="bob")).recipients == ("bob",)


@with_rig
async def test_a_coordinator_who_is_no_member_does_not_write_in_an_explicit_channel(rig: Rig) -> None:
    await rig.intent(assignments=(rig.assignment("carol", "coordinator"),))
    await rig.channel(policy=MemberPolicy.EXPLICIT)

    assert await refusal(rig.say("carol")) is NotMember


@with_rig
async def test_an_explicit_channel_reaches_its_members_only(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("bob"), rig.grant("carol")))
    await rig.channel(CHANNEL, "bob", "dave", policy=MemberPolicy.EXPLICIT)

    assert (await rig.say("alice", to="bob")).recipients == ("bob",)
    assert await refusal(rig.say("alice", to="carol")) is NotMember
    assert await refusal(rig.say("alice", to="dave")) is NotMember  # a member without access to the intent


@with_rig
async def test_a_role_reaches_those_who_hold_it_and_take_part(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(CHANNEL, "bob", "carol", policy=MemberPolicy.EXPLICIT)
    await rig.role("billing", "bob", "carol", "dave")

    said = await rig.say("alice", to="role:billing")
    waiting = await rig.say("alice", to="role:nobody")

    assert (said.recipients, said.state) == (("bob", "carol"), PostState.DELIVERED)
    assert (waiting.recipients, waiting.state) == ((), PostState.PENDING)


async def beat(rig: Rig, agent: str) -> None:
    await agents.heartbeat(rig.team, rig.caller(agent), agent, 3)


async def register_with_another_capability(rig: Rig, agent: str) -> None:
    await agents.register(rig.team, rig.caller(agent), AgentDraft(agent, capabilities=(rig.ids.suffix(4),)))


async def drain(rig: Rig, agent: str) -> None:
    await agents.change_status(rig.team, rig.caller(agent), agent, AgentStatus.DRAINING)


@pytest.mark.parametrize("news", [beat, register_with_another_capability, drain])
@pytest.mark.parametrize("to", ["role:worker", "any:worker", "bob", "*"])
@with_rig
async def test_what_agents_say_of_themselves_delays_no_message(
    rig: Rig, news: Callable[[Rig, str], Awaitable[None]], to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.open_channel()
    for agent in ("alice", "bob", "carol"):
        await rig.agent(agent)
    await rig.role("worker", "bob", "carol")
    commit, tries = rig.store.commit, 0

    async def after_news_of_all(changes: TeamChanges) -> Committed:
        nonlocal tries
        if changes.posts:
            tries += 1
            for agent in ("alice", "bob", "carol"):
                await news(rig, agent)
        return await commit(changes)

    monkeypatch.setattr(rig.store, "commit", after_news_of_all)
    said = await rig.say("alice", to=to)

    assert tries == 1
    assert said.state in (PostState.DELIVERED, PostState.PENDING)


@pytest.mark.parametrize("agent", ["alice", "bob"])
@with_rig
async def test_who_leaves_after_a_heartbeat_at_this_moment_neither_speaks_nor_is_spoken_to(
    rig: Rig, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.open_channel()
    await rig.agent(agent)

    async def leave(rig: Rig) -> None:
        await beat(rig, agent)
        await agents.deregister(rig.team, rig.caller(agent), agent)
        await rig.agent(agent, current_load=1)

    before_the_commit(rig, monkeypatch, leave)

    assert await refusal(rig.say("alice", to="bob")) is AgentDeparted


@with_rig
async def test_a_role_that_changes_at_this_moment_is_looked_at_again(rig: Rig) -> None:
    await rig.open_channel()
    await rig.role("billing", "bob")
    draft = PostDraft(Pattern.NOTIFY, b"{}", "role:billing")
    decided = await posting.decide(rig.team, rig.caller("alice"), venue(rig, "alice"), (draft,), ("msg_x",))

    await rig.role("billing", "carol")

    assert await refusal(rig.store.commit(decided.changes)) is Stale
    assert delivered(await posting.post(rig.team, rig.caller("alice"), CHANNEL, draft)).recipients == ("carol",)


@with_rig
async def test_nothing_is_said_in_a_closed_channel(rig: Rig) -> None:
    await rig.intent()
    channel = await rig.channel()
    await rig.put(closed(channel, rig.at(), timedelta(days=7)))

    assert await refusal(rig.say("bob")) is ChannelClosed


@with_rig
async def test_no_message_slips_in_behind_a_close(rig: Rig) -> None:
    await rig.intent()
    channel = await rig.channel()
    decided = await posting.decide(rig.team, rig.caller("bob"), venue(rig, "bob"), (NOTE,), ("msg_x",))

    await rig.put(closed(channel, rig.at(), timedelta(days=7)))

    assert await refusal(rig.store.commit(decided.changes)) is Stale
    assert (await rig.store.tally(DEFAULT_TENANT, CHANNEL)).total == 0


@with_rig
async def test_a_channel_lives_its_time_after_the_last_message(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(options=Options(ttl_seconds=60))

    rig.clock.pass_by(seconds=59)
    await rig.say("bob")
    rig.clock.pass_by(seconds=59)
    await rig.say("bob")
    rig.clock.pass_by(seconds=60)

    assert await refusal(rig.say("bob")) is ChannelClosed


@with_rig
async def test_who_has_left_neither_speaks_nor_is_spoken_to(rig: Rig) -> None:
    await rig.open_channel()
    await rig.agent("bob", status=AgentStatus.DEREGISTERED)

    assert await refusal(rig.say("bob")) is AgentDeparted
    assert await refusal(rig.say("alice", to="bob")) is AgentDeparted
    assert (await rig.say("alice", to="carol")).seq == 1


@with_rig
async def test_no_message_slips_in_behind_a_departure(rig: Rig) -> None:
    await rig.open_channel()
    await rig.agent("bob")
    speaks = await posting.decide(rig.team, rig.caller("bob"), venue(rig, "bob"), (NOTE,), ("msg_x",))
    spoken_to = await posting.decide(rig.team, rig.caller("alice"), venue(rig, "alice"), (QUESTION,), ("msg_y",))

    await rig.agent("bob", status=AgentStatus.DEREGISTERED)

    assert await refusal(rig.store.commit(speaks.changes)) is Stale
    assert await refusal(rig.store.commit(spoken_to.changes)) is Stale


@with_rig
async def test_several_messages_are_posted_together_or_not_at_all(rig: Rig) -> None:
    await rig.open_channel()

    posts = await posting.post_all(rig.team, rig.caller("alice"), CHANNEL, (NOTE, QUESTION, NOTE))
    wrong = (NOTE, PostDraft(Pattern.REQUEST, b"{}"))

    assert [one.seq for one in posts] == [1, 2, 3]
    assert await refusal(posting.post_all(rig.team, rig.caller("alice"), CHANNEL, wrong)) is Invalid
    assert (await rig.store.tally(DEFAULT_TENANT, CHANNEL)).total == 3


@with_rig
async def test_a_channel_that_keeps_changing_is_given_up_at_last(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.open_channel()
    tries = 0

    async def stale(changes: TeamChanges) -> None:
        nonlocal tries
        tries += 1
        raise Stale(facts={"kind": "channel", "id": CHANNEL, "tenant": "default"})

    monkeypatch.setattr(rig.store, "commit", stale)

    assert await refusal(rig.say("bob")) is Conflict
    assert tries == 8


@with_rig
async def test_a_used_idempotency_key_is_not_tried_again(rig: Rig) -> None:
    await rig.open_channel()
    caller = rig.caller("bob")._replace(saved=Saved("scope", "f", "once_1", rig.at()))

    said = await posting.post(rig.team, caller, CHANNEL, NOTE)

    saved = await rig.store.saved("scope")
    assert saved is not None
    assert saved.message_id == delivered(said).id
    assert await refusal(posting.post(rig.team, caller, CHANNEL, NOTE)) is Stale
    assert (await rig.store.tally(DEFAULT_TENANT, CHANNEL)).total == 1


# ---------------------------------------------------------------- audit


@with_rig
async def test_an_audited_message_is_in_the_log_of_its_intent(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(label="talk", options=Options(audit=True))
    trace = "0123456789abcdef" * 2

    said = await rig.say("bob", 'a "quoted"\nword', to="alice", trace_id=trace, parent_event_id="evt_0")

    (event,) = await rig.store.events("default", INTENT)
    document = json.loads(event.document)
    assert (event.event_type, event.actor, event.trace_id) == ("channel_message", "bob", trace)
    assert (document["trace_id"], document["parent_event_id"]) == (trace, "evt_0")
    assert document["payload"] == {
        "channel_id": CHANNEL,
        "channel_name": "talk",
        "message_id": said.id,
        "message_type": "notify",
        "to": "alice",
        "payload": {"text": 'a "quoted"\nword'},
    }


@with_rig
async def test_a_message_that_is_not_audited_is_not_in_the_log(rig: Rig) -> None:
    await rig.open_channel()

    await rig.say("bob")

    assert await rig.store.events("default", INTENT) == ()


# ---------------------------------------------------------------- answering


@with_rig
async def test_a_reply_goes_to_the_one_who_asked(rig: Rig) -> None:
    await rig.open_channel()
    request = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)

    answer = delivered(await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, REPLY))

    assert (answer.pattern, answer.to, answer.in_reply_to) == (Pattern.RESPONSE, "alice", request.id)
    assert answer.recipients == ("alice",)
    kept = await rig.store.post("default", request.id)
    assert kept is not None
    assert kept.answered


@with_rig
async def test_a_response_by_post_follows_the_same_rules(rig: Rig) -> None:
    await rig.open_channel()
    await rig.channel("chan_2")
    request = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    elsewhere = await rig.say("alice", to="bob", pattern=Pattern.REQUEST, channel_id="chan_2")
    notice = await rig.say("alice", to="bob")

    async def respond(sender: str, to: str = "", **draft: str) -> Post:
        return await rig.say(sender, to=to, pattern=Pattern.RESPONSE, **draft)

    assert (await respond("bob", in_reply_to=request.id)).to == "alice"
    assert (await respond("bob", "alice", in_reply_to=request.id)).to == "alice"
    assert await refusal(respond("bob")) is Invalid
    assert await refusal(respond("bob", "carol", in_reply_to=request.id)) is Invalid
    assert await refusal(respond("bob", in_reply_to=elsewhere.id)) is BadCorrelation
    assert await refusal(respond("bob", in_reply_to=notice.id)) is BadCorrelation
    assert await refusal(respond("bob", in_reply_to="msg_none")) is BadCorrelation
    assert await refusal(respond("carol", in_reply_to=request.id)) is NotAddressee


@with_rig
async def test_only_who_was_asked_may_reply(rig: Rig) -> None:
    await rig.open_channel()
    await rig.role("billing", "bob", "carol")
    direct = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    to_role = await rig.say("alice", to="role:billing", pattern=Pattern.REQUEST)

    async def reply(sender: str, request: Post) -> Post:
        return delivered(await posting.reply(rig.team, rig.caller(sender), CHANNEL, request.id, REPLY))

    assert await refusal(reply("carol", direct)) is NotAddressee
    assert await refusal(reply("alice", direct)) is NotAddressee
    assert await refusal(reply("dave", to_role)) is NotAddressee
    assert (await reply("carol", to_role)).seq == 3
    assert (await reply("bob", to_role)).seq == 4


@with_rig
async def test_of_what_one_may_not_see_a_reply_tells_nothing(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(CHANNEL, "bob", policy=MemberPolicy.EXPLICIT)
    notice = await rig.say("alice", to="bob")
    request = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    await rig.channel("chan_2")

    def reply(sender: str, channel_id: str, message_id: str) -> Awaitable[Post | Held]:
        return posting.reply(rig.team, rig.caller(sender), channel_id, message_id, REPLY)

    said = set()
    for sender, channel_id, message_id in (
        ("carol", CHANNEL, request.id),
        ("carol", CHANNEL, "msg_none"),
        ("carol", "chan_none", request.id),
    ):
        with pytest.raises(NotFound) as refused:
            await reply(sender, channel_id, message_id)
        said.add(str(refused.value))
    assert len(said) == 1
    assert await refusal(reply("bob", "chan_2", request.id)) is NotFound
    assert await refusal(reply("bob", CHANNEL, "msg_none")) is NotFound
    assert await refusal(reply("bob", CHANNEL, notice.id)) is NotARequest


@with_rig
async def test_a_directed_notice_to_another_cannot_be_found_by_replying(rig: Rig) -> None:
    await rig.open_channel()
    notice = await rig.say("alice", to="bob")

    assert await refusal(posting.reply(rig.team, rig.caller("carol"), CHANNEL, notice.id, REPLY)) is NotFound


@with_rig
async def test_an_expired_request_is_not_answered(rig: Rig) -> None:
    await rig.open_channel()
    ends = rig.clock.at + timedelta(seconds=10)
    request = await rig.say("alice", to="bob", pattern=Pattern.REQUEST, expires_at=ends)

    rig.clock.pass_by(seconds=10)

    assert request.expires_at == stamp(ends)
    assert await refusal(posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, REPLY)) is MessageExpired
    assert await refusal(posting.reply(rig.team, rig.caller("carol"), CHANNEL, request.id, REPLY)) is NotAddressee


@with_rig
async def test_an_evicted_request_is_answered_as_if_it_had_never_been(rig: Rig) -> None:
    await rig.intent()
    await rig.channel(options=Options(max_messages=1))
    request = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)

    await rig.say("alice")

    assert await refusal(posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, REPLY)) is NotFound


@with_rig
async def test_a_request_of_a_closed_channel_is_not_answered(rig: Rig) -> None:
    await rig.intent()
    channel = await rig.channel()
    request = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)

    await rig.put(closed(channel, rig.at(), timedelta(days=7)))

    assert await refusal(posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, REPLY)) is ChannelClosed


@with_rig
async def test_a_reply_looks_once_how_its_request_stands(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.open_channel()
    request = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    looked_up: list[str] = []
    state = rig.team.requests.state

    async def noted(tenant: str, post: Post, expects: list[Expect] | None = None) -> RequestState | None:
        looked_up.append(post.id)
        return await state(tenant, post, expects)

    monkeypatch.setattr(rig.team.requests, "state", noted)
    await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, PostDraft(Pattern.RESPONSE, b"{}"))

    assert looked_up == [request.id]


@with_rig
async def test_a_reply_that_a_withdrawal_overtakes_is_refused(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.open_channel()
    request = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)

    async def withdraw(rig: Rig) -> None:
        await requests.withdraw(rig.team, rig.caller("alice"), CHANNEL, request.id)

    before_the_commit(rig, monkeypatch, withdraw)

    answer = PostDraft(Pattern.RESPONSE, b"{}")
    refused = await refusal(posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, answer))
    assert refused is RequestWithdrawn
