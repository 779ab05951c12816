"""Handing a request on: each test stands for a line of docs/explanation/requests.md."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from parley.app.team.channels import posting, reading, requests
from parley.app.team.channels.asking import ask
from parley.app.team.channels.posting import Held
from parley.app.team.channels.reading import MessageFilter
from parley.app.team.directory import departure
from parley.app.team.queues import claims
from parley.app.team.queues.claims import ClaimWish
from parley.domain.channel.channel import MemberPolicy
from parley.domain.channel.job import Job
from parley.domain.channel.post import Post, PostDraft
from parley.domain.channel.request import FORWARDS_MAX, RequestPhase
from parley.domain.content.classification import Classification
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import Stale
from parley.domain.errors.team import NotAsker
from parley.domain.message.message import Pattern
from parley.domain.rules.policy import CrossOrg
from tests.rigs.governed import decide as governed_decide
from tests.rigs.governed import entries, exchange_of, metadata_of, place, put_policy, refusal, two_agents
from tests.rigs.governed import said as governed_say
from tests.rigs.node import two_nodes
from tests.rigs.team import CHANNEL, CREW, Rig, delivered, in_loop, soon, venue, with_rig

pytestmark = pytest.mark.both_stores

ANSWER = PostDraft(Pattern.NOTIFY, b'{"a":1}')


async def an_open_channel(rig: Rig) -> None:
    await rig.intent(agents=CREW)
    await rig.channel()


async def asked(rig: Rig, to: str = "bob", **draft: Any) -> Post:  # noqa: ANN401  # of a draft
    """A request of alice."""
    return await rig.say("alice", "question", to=to, pattern=Pattern.REQUEST, **draft)


async def forwarded(rig: Rig, request: Post, to: str = "carol", by: str = "bob", **draft: Any) -> Post | Held:  # noqa: ANN401  # of a draft
    handed = PostDraft(Pattern.REQUEST, b"", to, forwards=request.id)._replace(**draft)
    return await requests.forward(rig.team, rig.caller(by), CHANNEL, handed)


async def handed(rig: Rig, request: Post, to: str = "carol", by: str = "bob", **draft: Any) -> Post:  # noqa: ANN401  # of a draft
    return delivered(await forwarded(rig, request, to, by, **draft))


async def answered(rig: Rig, request: Post, agent: str, **draft: Any) -> Post:  # noqa: ANN401  # of a draft
    reply = ANSWER._replace(**draft)
    return delivered(await posting.reply(rig.team, rig.caller(agent), CHANNEL, request.id, reply))


async def stands(rig: Rig, request: Post, agent: str = "alice") -> RequestPhase:
    return (await requests.get(rig.team, rig.caller(agent), CHANNEL, request.id)).phase


@with_rig
async def test_whoever_gets_a_request_that_was_handed_on_answers_its_first_sender(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig)

    forward = await handed(rig, request)
    assert (forward.sender, forward.to, forward.payload) == ("bob", "carol", request.payload)
    assert await stands(rig, request) is await stands(rig, request, "bob") is RequestPhase.FORWARDED
    answer = await answered(rig, forward, "carol")

    assert (answer.sender, answer.to, answer.in_reply_to) == ("carol", "alice", request.id)
    assert await stands(rig, request) is RequestPhase.ANSWERED
    assert await stands(rig, forward, "bob") is RequestPhase.ANSWERED


@with_rig
async def test_a_waiting_ask_gets_the_answer_of_whom_its_request_was_handed_on_to(rig: Rig) -> None:
    await an_open_channel(rig)
    task, request = await asking(rig)

    answer = await answered(rig, await handed(rig, request), "carol")

    assert await task == answer


async def asking(rig: Rig) -> tuple[asyncio.Task[Any], Post]:
    """An ask of alice that waits for bob, and its request."""
    question = PostDraft(Pattern.REQUEST, b"{}", "bob")
    task = asyncio.create_task(ask(rig.team, rig.caller("alice"), CHANNEL, question, 60))
    found: list[Post] = []

    async def posted() -> bool:
        feed = await rig.store.feed(DEFAULT_TENANT, 0)
        found[:] = [item.post for item in feed if item.post is not None and item.post.pattern is Pattern.REQUEST]
        return bool(found)

    await soon(posted)
    return task, found[-1]


@in_loop
async def test_an_ask_at_one_server_gets_the_answer_to_what_was_handed_on_at_another(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        await an_open_channel(a)
        task, request = await asking(a)
        await b.store.catch_up(DEFAULT_TENANT)

        forward = await handed(b, request)
        await a.store.catch_up(DEFAULT_TENANT)
        assert (await refusal(answered(a, request, "bob"))).code == "request_forwarded"
        answer = await answered(a, forward, "carol")

        assert (await task).id == answer.id


@with_rig
async def test_the_chain_is_shown_in_the_request_and_in_the_answer(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig)

    first = await handed(rig, request)
    second = await handed(rig, first, "dave", "carol")
    answer = await answered(rig, second, "dave")

    assert metadata_of(first)["forwarded"] == {"request_id": request.id, "asker": "alice", "by": ["bob"]}
    assert metadata_of(second)["forwarded"] == {"request_id": first.id, "asker": "alice", "by": ["bob", "carol"]}
    assert metadata_of(answer)["forwarded"] == {"request_id": second.id, "asker": "alice", "by": ["bob", "carol"]}
    assert (answer.to, answer.in_reply_to) == ("alice", request.id)
    for one, agent in ((request, "alice"), (first, "bob"), (second, "carol")):
        assert await stands(rig, one, agent) is RequestPhase.ANSWERED


@with_rig
async def test_who_handed_a_request_on_can_no_longer_answer_it(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig)
    await handed(rig, request)

    assert (await refusal(answered(rig, request, "bob"))).code == "request_forwarded"
    assert (await refusal(forwarded(rig, request, "dave"))).code == "request_forwarded"


@with_rig
async def test_an_answer_that_was_decided_before_the_request_was_handed_on_is_not_written_after_it(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig)
    draft = ANSWER._replace(pattern=Pattern.RESPONSE, in_reply_to=request.id)
    decided = await posting.decide(rig.team, rig.caller("bob"), venue(rig, "bob"), (draft,), ("msg_late",))

    await handed(rig, request)

    with pytest.raises(Stale):
        await rig.store.commit(decided.changes)


@with_rig
async def test_only_who_was_asked_hands_a_request_on(rig: Rig) -> None:
    await an_open_channel(rig)
    request, notice = await asked(rig), await rig.say("alice", to="bob")

    assert (await refusal(forwarded(rig, request, by="alice"))).code == "not_addressee"
    assert (await refusal(forwarded(rig, request, by="dave"))).code == "not_found"
    assert (await refusal(forwarded(rig, notice))).code == "not_a_request"


@with_rig
async def test_only_an_open_request_is_handed_on(rig: Rig) -> None:
    await an_open_channel(rig)
    done, withdrawn = await asked(rig), await asked(rig)
    late = await asked(rig, expires_at=rig.clock.at + timedelta(seconds=5))
    await answered(rig, done, "bob")
    await requests.withdraw(rig.team, rig.caller("alice"), CHANNEL, withdrawn.id)
    rig.clock.pass_by(seconds=5)

    assert (await refusal(forwarded(rig, done))).code == "already_answered"
    assert (await refusal(forwarded(rig, withdrawn))).code == "request_withdrawn"
    assert (await refusal(forwarded(rig, late))).code == "message_expired"


@with_rig
async def test_a_request_is_not_handed_back_to_anybody_who_had_it(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig)
    first = await handed(rig, request)

    for to in ("alice", "bob", "carol"):
        refused = await refusal(forwarded(rig, first, to, "carol"))
        assert refused.code == "forward_loop"
    await rig.role("ops", "dave", "bob")
    assert (await refusal(forwarded(rig, first, "role:ops", "carol"))).code == "forward_loop"
    assert delivered(await forwarded(rig, first, "dave", "carol")).to == "dave"


@with_rig
async def test_a_request_is_handed_on_only_so_often(rig: Rig) -> None:
    await an_open_channel(rig)
    request, holder = await asked(rig, "agent-0"), "agent-0"
    for number in range(1, FORWARDS_MAX + 1):
        request, holder = await handed(rig, request, f"agent-{number}", holder), f"agent-{number}"

    assert (await refusal(forwarded(rig, request, "agent-9", holder))).code == "forward_loop"
    assert (await answered(rig, request, holder)).to == "alice"


@with_rig
async def test_a_request_that_was_handed_on_expires_with_the_first_one(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig, expires_at=rig.clock.at + timedelta(seconds=5))
    forward = await handed(rig, request, expires_at=rig.clock.at + timedelta(days=1))
    assert forward.expires_at == request.expires_at

    rig.clock.pass_by(seconds=5)

    assert (await refusal(answered(rig, forward, "carol"))).code == "message_expired"


@with_rig
async def test_withdrawing_a_request_reaches_whoever_has_it_now(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig)
    first = await handed(rig, request)
    second = await handed(rig, first, "dave", "carol")

    await requests.withdraw(rig.team, rig.caller("alice"), CHANNEL, request.id)

    feed = await rig.store.feed(DEFAULT_TENANT, 0)
    notices = [item.post for item in feed if item.post is not None and item.post.sender == "system"]
    assert [notice.recipients for notice in notices] == [("dave",)]
    assert json.loads(notices[0].payload)["request_id"] == second.id
    assert (await refusal(answered(rig, second, "dave"))).code == "request_withdrawn"
    assert await stands(rig, second, "carol") is RequestPhase.WITHDRAWN


@with_rig
async def test_who_handed_a_request_on_cannot_withdraw_it(rig: Rig) -> None:
    """Nobody could answer the first request any more."""
    await an_open_channel(rig)
    request = await asked(rig)
    forward = await handed(rig, request)

    with pytest.raises(NotAsker, match="only whoever asked first withdraws it"):
        await requests.withdraw(rig.team, rig.caller("bob"), CHANNEL, forward.id)

    await answered(rig, forward, "carol")
    assert await stands(rig, request) is RequestPhase.ANSWERED


@with_rig
async def test_an_answer_to_what_was_handed_on_is_not_written_after_the_withdrawal(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig)
    forward = await handed(rig, request)
    draft = ANSWER._replace(pattern=Pattern.RESPONSE, in_reply_to=forward.id)
    decided = await posting.decide(rig.team, rig.caller("carol"), venue(rig, "carol"), (draft,), ("msg_late",))

    await requests.withdraw(rig.team, rig.caller("alice"), CHANNEL, request.id)

    with pytest.raises(Stale):
        await rig.store.commit(decided.changes)


@with_rig
async def test_a_request_that_was_handed_on_survives_the_agent_that_did(rig: Rig) -> None:
    await an_open_channel(rig)
    await rig.agent("bob")
    await rig.agent("carol")
    task, request = await asking(rig)
    forward, other = await handed(rig, request), await asked(rig)

    await departure.depart(rig.team, rig.caller("", KeyKind.ADMIN), "bob")

    assert await stands(rig, other) is RequestPhase.EXPIRED
    assert not task.done()
    assert await answered(rig, forward, "carol") == await task


@with_rig
async def test_an_ask_ends_when_whoever_has_its_request_now_leaves(rig: Rig) -> None:
    await an_open_channel(rig)
    await rig.agent("carol")
    task, request = await asking(rig)
    await handed(rig, request)

    await departure.depart(rig.team, rig.caller("", KeyKind.ADMIN), "carol")

    assert (await refusal(task)).code == "message_expired"


async def leave(rig: Rig, agent: str) -> None:
    await departure.depart(rig.team, rig.caller("", KeyKind.ADMIN), agent)


@with_rig
async def test_a_request_expires_when_whoever_has_it_now_leaves(rig: Rig) -> None:
    await an_open_channel(rig)
    for agent in CREW:
        await rig.agent(agent)
    request = await asked(rig)
    first = await handed(rig, request)
    second = await handed(rig, first, "dave", "carol")

    await leave(rig, "bob")
    await leave(rig, "carol")
    assert await stands(rig, request) is RequestPhase.FORWARDED
    await leave(rig, "dave")

    assert await stands(rig, request) is RequestPhase.EXPIRED
    for between in (first, second):
        kept = await rig.store.post(DEFAULT_TENANT, between.id)
        assert kept is not None
        assert kept.over(rig.at())
    page = await reading.page(rig.team, rig.caller("alice"), CHANNEL, MessageFilter())
    heard = [json.loads(post.payload) for post, _ in page.messages]
    assert {"event": "agent_departed", "agent_id": "dave"} in heard


@with_rig
async def test_a_request_that_others_can_answer_survives_whoever_has_a_part_of_it(rig: Rig) -> None:
    await an_open_channel(rig)
    for agent in (*CREW, "erik"):
        await rig.agent(agent)
    await rig.role("expert", "bob", "carol")
    to_both, to_role = await asked(rig, "role:expert"), await asked(rig, "dave")
    await handed(rig, to_both, "erik")
    await handed(rig, to_role, "role:expert", "dave")
    answered_before = await asked(rig)
    await answered(rig, await handed(rig, answered_before, "erik"), "erik")

    await leave(rig, "erik")
    assert await stands(rig, to_both) is RequestPhase.OPEN
    assert await stands(rig, answered_before) is RequestPhase.ANSWERED
    await leave(rig, "carol")
    assert await stands(rig, to_role) is RequestPhase.FORWARDED


@with_rig
async def test_a_claimed_request_is_handed_on_under_its_lease_and_its_job_ends(rig: Rig) -> None:
    await an_open_channel(rig)
    await rig.role("coder", "bob")
    request = await asked(rig, "any:coder")
    (item,) = await claims.claim(rig.team, rig.caller("bob"), "bob", ClaimWish())

    assert (await refusal(forwarded(rig, request))).code in ("lease_lost", "not_found")
    forward = await handed(rig, request, lease=item.job.lease)

    assert await rig.store.get(Job, DEFAULT_TENANT, item.job.id) is None
    assert (await answered(rig, forward, "carol")).to == "alice"


@with_rig
async def test_a_claimed_request_that_was_handed_on_is_shown_as_forwarded(rig: Rig) -> None:
    await an_open_channel(rig)
    await rig.role("coder", "bob")
    request = await asked(rig, "any:coder")
    (item,) = await claims.claim(rig.team, rig.caller("bob"), "bob", ClaimWish())
    await handed(rig, request, lease=item.job.lease)

    assert await stands(rig, request) is RequestPhase.FORWARDED


@with_rig
async def test_withdrawing_a_request_that_was_handed_on_to_a_queue_reaches_only_who_claimed_it(rig: Rig) -> None:
    await an_open_channel(rig)
    await rig.role("expert", "carol", "dave")
    request = await asked(rig)
    forward = await handed(rig, request, "any:expert")
    (item,) = await claims.claim(rig.team, rig.caller("carol"), "carol", ClaimWish())

    await requests.withdraw(rig.team, rig.caller("alice"), CHANNEL, request.id)

    assert await rig.store.get(Job, DEFAULT_TENANT, item.job.id) is None
    feed = await rig.store.feed(DEFAULT_TENANT, 0)
    notices = [item.post for item in feed if item.post is not None and item.post.sender == "system"]
    assert [notice.recipients for notice in notices] == [("carol",)]
    assert json.loads(notices[0].payload)["request_id"] == forward.id


@with_rig
async def test_partial_answers_to_what_was_handed_on_go_to_the_first_sender(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig, metadata=b'{"accepts_partial":true}', partial=True)
    forward = await handed(rig, request)
    assert forward.partial
    assert metadata_of(forward)["accepts_partial"] is True

    part = await answered(rig, forward, "carol", metadata=b'{"partial":"artifact"}', partial=True)

    assert (part.to, part.in_reply_to) == ("alice", request.id)
    assert (await requests.get(rig.team, rig.caller("alice"), CHANNEL, request.id)).parts == 1
    assert await stands(rig, request) is RequestPhase.FORWARDED
    await answered(rig, forward, "carol")
    assert await stands(rig, request) is RequestPhase.ANSWERED


@with_rig
async def test_a_request_is_handed_on_only_to_who_takes_part_in_its_channel(rig: Rig) -> None:
    await rig.intent(agents=CREW)
    await rig.channel(CHANNEL, "bob", policy=MemberPolicy.EXPLICIT)
    request = await asked(rig)

    assert (await refusal(forwarded(rig, request))).code == "not_member"
    assert await stands(rig, request) is RequestPhase.OPEN


@with_rig
async def test_handing_on_is_no_way_around_a_rule_between_the_asker_and_the_next_one(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "carol", org_unit="sales")
    await put_policy(rig, cross_org=CrossOrg.DENY)
    request = await asked(rig)

    refused = await refusal(forwarded(rig, request))

    assert refused.code in ("policy_denied", "cross_org_denied")
    assert await stands(rig, request) is RequestPhase.OPEN
    (last,) = [one for one in await entries(rig) if one["outcome"] == "denied"]
    assert (last["side"], last["to"]) == ("bob", "carol")


@with_rig
async def test_a_mediator_does_not_hand_on_what_the_asker_may_not_say_to_the_next_one(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "bob", user_id="ben", org_unit="sales")
    await place(rig, "carol", user_id="cleo", org_unit="sales")
    await put_policy(rig, cross_org=CrossOrg.ALLOW)
    await put_policy(rig, "user/cleo", cross_org=CrossOrg.DENY)
    request = await asked(rig)
    assert (await rig.say("bob", to="carol")).recipients == ("carol",)

    refused = await refusal(forwarded(rig, request))

    assert (refused.code, refused.message) == ("policy_denied", "carol may not answer alice")
    (last,) = [one for one in await entries(rig) if one["outcome"] == "denied"]
    assert (last["side"], last["to"]) == ("bob", "carol")


@with_rig
async def test_a_governed_request_is_handed_on_in_its_conversation_at_its_level(rig: Rig) -> None:
    await two_agents(rig, max_classification=Classification.CONFIDENTIAL)
    await place(rig, "carol", user_id="cleo", max_classification=Classification.CONFIDENTIAL)
    request = await governed_say(rig, "alice", "bob", conversation_id="conv-1", classification="confidential")

    forward = await handed(rig, request)
    answer = await answered(rig, forward, "carol")

    stamped = metadata_of(forward)["ocip"]
    assert (stamped["conversation_id"], stamped["classification"]) == ("conv-1", "confidential")
    exchanges = [await exchange_of(rig, one) for one in (request, forward, answer)]
    assert [(one.initiator, one.responder) for one in exchanges] == [
        ("alice", "bob"),
        ("bob", "carol"),
        ("carol", "alice"),
    ]
    assert {one.conversation_id for one in exchanges} == {"conv-1"}
    assert [one.hops for one in exchanges] == [1, 2, 3]
    assert [one["side"] for one in await entries(rig) if one["message_id"] == answer.id] == ["carol", "alice"]


@with_rig
async def test_a_forward_that_is_held_links_the_requests_when_a_person_releases_it(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "carol", user_id="cleo")
    request = await governed_say(rig, "alice", "bob")
    draft: dict[str, Any] = {"payload": b'{"text":"We promise it."}'}

    held = await forwarded(rig, request, **draft)
    assert isinstance(held, Held)
    assert await stands(rig, request) is RequestPhase.OPEN
    released = await governed_decide(rig, "ben", held.approval)

    assert await stands(rig, request) is RequestPhase.FORWARDED
    forward = await rig.store.post(DEFAULT_TENANT, released.message_id)
    assert forward is not None
    assert (await answered(rig, forward, "carol")).in_reply_to == request.id


@with_rig
async def test_a_held_answer_to_what_was_handed_on_still_goes_to_the_first_sender(rig: Rig) -> None:
    await two_agents(rig)
    await place(rig, "carol", user_id="cleo")
    request = await governed_say(rig, "alice", "bob")
    forward = await handed(rig, request)
    reply = ANSWER._replace(payload=b'{"text":"We promise it."}')

    held = await posting.reply(rig.team, rig.caller("carol"), CHANNEL, forward.id, reply)
    assert isinstance(held, Held)
    released = await governed_decide(rig, "cleo", held.approval)

    answer = await rig.store.post(DEFAULT_TENANT, released.message_id)
    assert answer is not None
    assert (answer.to, answer.in_reply_to) == ("alice", request.id)


@with_rig
async def test_one_holder_of_a_role_hands_on_and_the_others_may_still_answer(rig: Rig) -> None:
    await an_open_channel(rig)
    await rig.role("ops", "bob", "carol")
    request = await asked(rig, "role:ops")

    forward = await handed(rig, request, "dave")

    assert await stands(rig, request) is RequestPhase.OPEN
    assert (await answered(rig, request, "carol")).to == "alice"
    assert (await answered(rig, forward, "dave")).to == "alice"


@with_rig
async def test_who_handed_a_request_on_does_not_see_its_answer(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig)
    answer = await answered(rig, await handed(rig, request), "carol")

    assert answer.recipients == ("alice",)
    assert json.loads(answer.metadata)["forwarded"]["by"] == ["bob"]
    shown = [await requests.get(rig.team, rig.caller(agent), CHANNEL, request.id) for agent in ("alice", "bob")]
    assert [view.phase for view in shown] == [RequestPhase.ANSWERED] * 2
    assert [[one.id for one in view.answers] for view in shown] == [[answer.id], []]
    everything = await requests.get(rig.team, rig.caller("", KeyKind.ADMIN), CHANNEL, request.id)
    assert [one.id for one in everything.answers] == [answer.id]


# ---------------------------------------------------------------- questions in return


@with_rig
async def test_an_answer_that_asks_back_is_shown_as_a_question(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig)

    await answered(rig, request, "bob", metadata=b'{"kind":"question"}')

    assert await stands(rig, request) is RequestPhase.QUESTION
