"""The life of a request: each test stands for a line of docs/explanation/requests.md."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from parley.app.team.channels import channels, posting, requests
from parley.app.team.channels.asking import ask, resume_ask
from parley.app.team.channels.posting import Held
from parley.app.team.channels.requests import RequestView
from parley.app.team.directory import departure
from parley.app.team.queues import claims
from parley.app.team.queues.claims import ClaimWish
from parley.app.team.work.sweep import sweep
from parley.domain.channel.channel import Options
from parley.domain.channel.job import Job
from parley.domain.channel.post import Post, PostDraft
from parley.domain.channel.request import RequestMark, RequestPhase, RequestState
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import ParleyError, Stale
from parley.domain.exchange.exchange import Outcome
from parley.domain.message.message import Pattern
from parley.domain.store.changes import Committed, TeamChanges
from tests.rigs.governed import a_draft, entries, exchange_of, refusal, two_agents
from tests.rigs.governed import answer as governed_answer
from tests.rigs.governed import decide as governed_decide
from tests.rigs.governed import held as governed_hold
from tests.rigs.governed import said as governed_say
from tests.rigs.node import two_nodes
from tests.rigs.team import CHANNEL, CREW, INTENT, Rig, delivered, in_loop, soon, venue, with_rig

pytestmark = pytest.mark.both_stores

ANSWER = PostDraft(Pattern.NOTIFY, b'{"a":1}')


async def an_open_channel(rig: Rig, **options: Any) -> None:  # noqa: ANN401  # of a channel
    await rig.intent(agents=CREW)
    await rig.channel(**options)


async def asked(rig: Rig, to: str = "bob", **draft: Any) -> Post:  # noqa: ANN401  # of a draft
    """A request of alice."""
    return await rig.say("alice", "question", to=to, pattern=Pattern.REQUEST, **draft)


async def answered(rig: Rig, request: Post, agent: str = "bob") -> Post:
    return delivered(await posting.reply(rig.team, rig.caller(agent), CHANNEL, request.id, ANSWER))


async def withdrawn(rig: Rig, request: Post, agent: str = "alice") -> RequestView:
    return await requests.withdraw(rig.team, rig.caller(agent), CHANNEL, request.id)


async def stands(rig: Rig, request: Post, agent: str = "alice") -> RequestPhase:
    return (await requests.get(rig.team, rig.caller(agent), CHANNEL, request.id)).phase


async def notices(rig: Rig) -> list[Post]:
    """Everything that the server said in the channel."""
    feed = await rig.store.feed(DEFAULT_TENANT, 0)
    return [item.post for item in feed if item.post is not None and item.post.sender == "system"]


# ---------------------------------------------------------------- states


@with_rig
async def test_a_request_is_open_until_it_is_answered(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig)

    assert await stands(rig, request) is await stands(rig, request, "bob") is RequestPhase.OPEN
    answer = await answered(rig, request)
    view = await requests.get(rig.team, rig.caller("bob"), CHANNEL, request.id)
    assert (view.phase, view.answers) == (RequestPhase.ANSWERED, (answer,))


@with_rig
async def test_a_request_expires_at_its_time_before_any_sweep(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig, expires_at=rig.clock.at + timedelta(seconds=5))

    rig.clock.pass_by(seconds=5)

    assert await stands(rig, request) is RequestPhase.EXPIRED
    await sweep(rig.team)
    assert await stands(rig, request) is RequestPhase.EXPIRED


@with_rig
async def test_only_who_can_see_a_request_learns_how_it_stands(rig: Rig) -> None:
    await an_open_channel(rig)
    request, notice = await asked(rig), await rig.say("alice", to="bob")

    for agent, message in (("carol", request), ("alice", notice)):
        refused = await refusal(requests.get(rig.team, rig.caller(agent), CHANNEL, message.id))
        assert refused.code == "not_found"


# ---------------------------------------------------------------- withdrawing


@with_rig
async def test_the_sender_withdraws_an_open_request_and_both_see_it(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig)

    view = await withdrawn(rig, request)

    assert view.phase is RequestPhase.WITHDRAWN
    assert view.state is not None
    assert view.state.withdrawn_at == rig.at()
    assert await stands(rig, request, "bob") is RequestPhase.WITHDRAWN
    stored = await rig.store.post(DEFAULT_TENANT, request.id)
    assert stored is not None
    assert stored.state.value == "expired"


@with_rig
async def test_whoever_was_asked_is_told_of_the_withdrawal_and_nobody_else(rig: Rig) -> None:
    await an_open_channel(rig)
    await rig.role("ops", "bob", "carol")
    request = await asked(rig, "role:ops")

    await withdrawn(rig, request)

    told = await notices(rig)
    assert [notice.recipients for notice in told] == [("bob",), ("carol",)]
    assert {notice.pattern for notice in told} == {Pattern.NOTIFY}
    payload = {"event": "request_withdrawn", "request_id": request.id, "agent_id": "alice"}
    assert [json.loads(notice.payload) for notice in told] == [payload, payload]


@with_rig
async def test_withdrawing_twice_is_no_error_and_tells_nobody_twice(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig)

    first, second = await withdrawn(rig, request), await withdrawn(rig, request)

    assert first == second
    assert len(await notices(rig)) == 1


@with_rig
async def test_only_the_sender_withdraws_a_request(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig)
    await withdrawn(rig, await asked(rig))

    assert (await refusal(withdrawn(rig, request, "bob"))).code == "not_asker"
    assert (await refusal(withdrawn(rig, request, "carol"))).code == "not_found"
    nobody = rig.caller("", KeyKind.SERVICE)
    assert (await refusal(requests.withdraw(rig.team, nobody, CHANNEL, request.id))).code == "invalid"
    assert await stands(rig, request) is RequestPhase.OPEN


@with_rig
async def test_only_an_open_request_is_withdrawn(rig: Rig) -> None:
    await an_open_channel(rig)
    late = await asked(rig, expires_at=rig.clock.at + timedelta(seconds=5))
    done, notice = await asked(rig), await rig.say("alice", to="bob")
    await answered(rig, done)
    rig.clock.pass_by(seconds=5)

    assert (await refusal(withdrawn(rig, late))).code == "message_expired"
    assert (await refusal(withdrawn(rig, done))).code == "already_answered"
    assert (await refusal(withdrawn(rig, notice))).code == "not_a_request"
    assert await notices(rig) == []


@with_rig
async def test_a_late_answer_after_the_withdrawal_is_refused(rig: Rig) -> None:
    await an_open_channel(rig)
    request, other = await asked(rig), await asked(rig)

    await withdrawn(rig, request)

    assert (await refusal(answered(rig, request))).code == "request_withdrawn"
    by_post = rig.say("bob", pattern=Pattern.RESPONSE, in_reply_to=request.id)
    assert (await refusal(by_post)).code == "request_withdrawn"
    assert (await answered(rig, other)).in_reply_to == other.id


@with_rig
async def test_an_answer_that_was_decided_before_the_withdrawal_is_not_written_after_it(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig)
    draft = ANSWER._replace(pattern=Pattern.RESPONSE, in_reply_to=request.id)
    decided = await posting.decide(rig.team, rig.caller("bob"), venue(rig, "bob"), (draft,), ("msg_late",))

    await withdrawn(rig, request)

    with pytest.raises(Stale):
        await rig.store.commit(decided.changes)


@with_rig
async def test_a_withdrawal_that_was_decided_before_the_answer_is_not_written_after_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await an_open_channel(rig)
    request = await asked(rig)
    commit = rig.store.commit
    done: list[Post] = []

    async def late(changes: TeamChanges) -> Committed:
        if changes.open_requests and not done:
            done.append(await answered(rig, request))
        return await commit(changes)

    monkeypatch.setattr(rig.store, "commit", late)

    assert (await refusal(withdrawn(rig, request))).code == "already_answered"
    assert await stands(rig, request) is RequestPhase.ANSWERED
    assert await notices(rig) == []


@with_rig
async def test_of_an_answer_and_a_withdrawal_that_cross_one_wins_and_the_other_is_told(rig: Rig) -> None:
    await an_open_channel(rig)
    codes = set()
    for _ in range(20):
        request = await asked(rig)
        first, second = await asyncio.gather(answered(rig, request), withdrawn(rig, request), return_exceptions=True)
        lost = [result for result in (first, second) if isinstance(result, ParleyError)]
        assert len(lost) == 1
        codes.add(lost[0].code)
        wins = RequestPhase.ANSWERED if lost[0] is second else RequestPhase.WITHDRAWN
        assert await stands(rig, request) is wins
    assert codes <= {"already_answered", "request_withdrawn"}


async def asking(rig: Rig, **draft: Any) -> tuple[asyncio.Task[Any], Post]:  # noqa: ANN401  # of a draft
    """An ask of alice that waits for bob, and its request."""
    question = PostDraft(Pattern.REQUEST, b"{}", "bob")._replace(**draft)
    task = asyncio.create_task(ask(rig.team, rig.caller("alice"), CHANNEL, question, 60))
    found: list[Post] = []

    async def posted() -> bool:
        feed = await rig.store.feed(DEFAULT_TENANT, 0)
        found[:] = [item.post for item in feed if item.post is not None and item.post.pattern is Pattern.REQUEST]
        return bool(found)

    await soon(posted)
    return task, found[-1]


@with_rig
async def test_an_ask_that_waits_ends_when_its_request_is_withdrawn_elsewhere(rig: Rig) -> None:
    await an_open_channel(rig)
    task, request = await asking(rig)

    await withdrawn(rig, request)

    assert (await refusal(task)).code == "request_withdrawn"


@in_loop
async def test_a_withdrawal_at_one_server_ends_the_ask_at_another(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        await an_open_channel(a)
        task, request = await asking(a)

        await b.store.catch_up(DEFAULT_TENANT)
        await withdrawn(b, request)

        assert (await refusal(task)).code == "request_withdrawn"
        await a.store.catch_up(DEFAULT_TENANT)
        assert (await refusal(answered(a, request))).code == "request_withdrawn"


@in_loop
async def test_an_answer_at_one_server_and_a_withdrawal_at_another_that_cross_are_not_both_written(
    tmp_path: Path,
) -> None:
    async with two_nodes(tmp_path) as (a, b):
        await an_open_channel(a)
        for _ in range(5):
            request = await asked(a)
            await b.store.catch_up(DEFAULT_TENANT)
            results = await asyncio.gather(answered(a, request), withdrawn(b, request), return_exceptions=True)
            assert len([result for result in results if isinstance(result, ParleyError)]) == 1


@with_rig
async def test_a_withdrawal_is_in_the_log_of_an_audited_channel(rig: Rig) -> None:
    await an_open_channel(rig, options=Options(audit=True))
    request = await asked(rig)

    await withdrawn(rig, request)

    events = await rig.store.events(DEFAULT_TENANT, INTENT)
    last = json.loads(events[-1].document)["payload"]
    assert last["payload"] == {"event": "request_withdrawn", "request_id": request.id, "agent_id": "alice"}
    ledger = await rig.store.entries(DEFAULT_TENANT, 0, 100)
    assert any("request_withdrawn" in str(entry) for entry in ledger)


@with_rig
async def test_a_withdrawn_request_ends_its_exchange_on_both_sides(rig: Rig) -> None:
    await two_agents(rig)
    request = await governed_say(rig, "alice", "bob")

    await withdrawn(rig, request)

    exchange = await exchange_of(rig, request)
    assert (exchange.outcome, exchange.reason) == (Outcome.EXPIRED, "the request was withdrawn")
    written = [(entry["action"], entry["side"]) for entry in await entries(rig)][-4:]
    assert written == [
        ("agent_exchange_withdrawn", "alice"),
        ("agent_exchange_withdrawn", "bob"),
        ("agent_exchange_ended", "alice"),
        ("agent_exchange_ended", "bob"),
    ]
    assert (await refusal(governed_answer(rig, "bob", request))).code == "request_withdrawn"


@with_rig
async def test_an_exchange_in_which_more_was_said_goes_on_after_a_withdrawal(rig: Rig) -> None:
    await two_agents(rig)
    first = await governed_say(rig, "alice", "bob", conversation_id="conv-1", max_rounds=9)
    second = await governed_say(rig, "alice", "bob", "and this?", conversation_id="conv-1")

    await withdrawn(rig, first)

    assert (await exchange_of(rig, first)).outcome is Outcome.IN_PROGRESS
    assert delivered(await governed_answer(rig, "bob", second)).to == "alice"


@with_rig
async def test_an_exchange_that_waits_for_a_person_is_not_ended_by_a_withdrawal(rig: Rig) -> None:
    await two_agents(rig)
    request = await governed_say(rig, "alice", "bob", conversation_id="conv-1")
    await governed_hold(rig, "alice", "bob", conversation_id="conv-1")

    await withdrawn(rig, request)

    assert await stands(rig, request) is RequestPhase.WITHDRAWN
    assert (await exchange_of(rig, request)).outcome is Outcome.ESCALATED


@with_rig
async def test_a_request_that_nobody_got_yet_is_withdrawn_and_never_delivered(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig, "role:ops")
    assert request.recipients == ()

    await withdrawn(rig, request)
    await rig.role("ops", "bob")
    await sweep(rig.team)

    assert await stands(rig, request) is RequestPhase.WITHDRAWN
    stored = await rig.store.post(DEFAULT_TENANT, request.id)
    assert stored is not None
    assert stored.recipients == ()


@with_rig
async def test_a_withdrawn_request_leaves_its_queue_and_who_claimed_it_is_told(rig: Rig) -> None:
    await an_open_channel(rig)
    await rig.role("coder", "bob", "carol")
    waiting, claimed = await asked(rig, "any:coder"), await asked(rig, "any:coder")
    await withdrawn(rig, waiting)
    (item,) = await claims.claim(rig.team, rig.caller("bob"), "bob", ClaimWish())
    assert item.job.item_id == claimed.id

    await withdrawn(rig, claimed)

    assert await rig.store.every(Job, DEFAULT_TENANT) == ()
    assert [notice.recipients for notice in await notices(rig)] == [("bob",)]
    late = ANSWER._replace(lease=item.job.lease)
    refused = await refusal(posting.reply(rig.team, rig.caller("bob"), CHANNEL, claimed.id, late))
    assert refused.code == "lease_lost"


@with_rig
async def test_a_request_whose_addressee_left_is_expired_and_cannot_be_withdrawn(rig: Rig) -> None:
    await an_open_channel(rig)
    await rig.agent("bob")
    request = await asked(rig)

    await departure.depart(rig.team, rig.caller("", KeyKind.ADMIN), "bob")

    assert await stands(rig, request) is RequestPhase.EXPIRED
    assert (await refusal(withdrawn(rig, request))).code == "message_expired"


# ---------------------------------------------------------------- partial answers

PART = PostDraft(Pattern.RESPONSE, b'{"part":1}', metadata=b'{"partial":"artifact"}', partial=True)
STREAMING: dict[str, Any] = {"metadata": b'{"accepts_partial":true}', "partial": True}


async def part(rig: Rig, request: Post, agent: str = "bob") -> Post:
    return delivered(await posting.reply(rig.team, rig.caller(agent), CHANNEL, request.id, PART))


@with_rig
async def test_a_partial_answer_leaves_the_request_open_and_the_answer_ends_it(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig, **STREAMING)

    parts = [await part(rig, request), await part(rig, request)]
    assert await stands(rig, request) is RequestPhase.PARTIALLY_ANSWERED
    stored = await rig.store.post(DEFAULT_TENANT, request.id)
    assert stored is not None
    assert not stored.answered
    answer = await answered(rig, request)

    view = await requests.get(rig.team, rig.caller("alice"), CHANNEL, request.id)
    assert (view.phase, view.answers, view.parts) == (RequestPhase.ANSWERED, (answer,), 2)
    assert [one.partial for one in await rig.store.answers(DEFAULT_TENANT, request.id)] == [True, True, False]
    assert [one.in_reply_to for one in parts] == [request.id, request.id]


@with_rig
async def test_a_partial_answer_does_not_end_an_ask(rig: Rig) -> None:
    await an_open_channel(rig)
    task, request = await asking(rig, **STREAMING)

    await part(rig, request)
    resumed = asyncio.create_task(resume_ask(rig.team, rig.caller("alice"), request.id, 60))
    await asyncio.sleep(0)
    assert not task.done()
    answer = await answered(rig, request)

    assert (await task, await resumed) == (answer, answer)


@in_loop
async def test_a_partial_answer_at_another_server_does_not_end_an_ask_either(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as (a, b):
        await an_open_channel(a)
        task, request = await asking(a, **STREAMING)
        await b.store.catch_up(DEFAULT_TENANT)

        await part(b, request)
        answer = await answered(b, request)

        assert (await task).id == answer.id


@with_rig
async def test_a_request_that_does_not_accept_partial_answers_gets_none(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig)

    assert (await refusal(part(rig, request))).code == "partial_not_accepted"
    assert await stands(rig, request) is RequestPhase.OPEN


@with_rig
async def test_a_partial_answer_after_the_answer_is_refused(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig, **STREAMING)
    await answered(rig, request)

    assert (await refusal(part(rig, request))).code == "already_answered"


@with_rig
async def test_a_partial_answer_that_was_decided_before_the_answer_is_not_written_after_it(rig: Rig) -> None:
    await an_open_channel(rig)
    await rig.role("ops", "bob", "carol")
    request = await asked(rig, "role:ops", **STREAMING)
    draft = PART._replace(in_reply_to=request.id)
    decided = await posting.decide(rig.team, rig.caller("bob"), venue(rig, "bob"), (draft,), ("msg_late",))

    await answered(rig, request, "carol")

    with pytest.raises(Stale):
        await rig.store.commit(decided.changes)


@with_rig
async def test_a_partial_answer_after_the_withdrawal_is_refused(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig, **STREAMING)
    await part(rig, request)

    await withdrawn(rig, request)

    assert (await refusal(part(rig, request))).code == "request_withdrawn"
    assert await stands(rig, request) is RequestPhase.WITHDRAWN


@with_rig
async def test_a_partial_answer_after_the_expiry_is_refused(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig, expires_at=rig.clock.at + timedelta(seconds=5), **STREAMING)
    await part(rig, request)

    rig.clock.pass_by(seconds=5)

    assert (await refusal(part(rig, request))).code == "message_expired"


@with_rig
async def test_partial_answers_are_bounded_and_the_answer_still_comes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.domain.channel.request.PARTS_MAX", 3)
    await an_open_channel(rig)
    request = await asked(rig, **STREAMING)
    for _ in range(3):
        await part(rig, request)

    assert (await refusal(part(rig, request))).code == "too_many_parts"
    assert (await answered(rig, request)).in_reply_to == request.id


@with_rig
async def test_a_partial_answer_does_not_end_the_job_of_a_claimed_request(rig: Rig) -> None:
    await an_open_channel(rig)
    await rig.role("coder", "bob")
    request = await asked(rig, "any:coder", **STREAMING)
    (item,) = await claims.claim(rig.team, rig.caller("bob"), "bob", ClaimWish())

    def reply(draft: PostDraft) -> Awaitable[Post | Held]:
        claimed = draft._replace(lease=item.job.lease)
        return posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, claimed)

    await reply(PART)
    assert await rig.store.get(Job, DEFAULT_TENANT, item.job.id) is not None
    await reply(ANSWER)
    assert await rig.store.get(Job, DEFAULT_TENANT, item.job.id) is None


@with_rig
async def test_partial_answers_take_no_round_but_each_is_judged(rig: Rig) -> None:
    await two_agents(rig)
    request = await governed_say(rig, "alice", "bob", accepts_partial=True, max_rounds=2)

    async def governed_part(text: str) -> Post | Held:
        draft = a_draft("", text, pattern=Pattern.RESPONSE, partial="artifact")
        return await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, draft)

    for text in ("first", "second"):
        assert isinstance(await governed_part(text), Post)
    assert isinstance(await governed_part("We promise it."), Held)
    exchange = await exchange_of(rig, request)
    assert exchange.current_round == 1
    assert [(turn.round, turn.summary) for turn in exchange.transcript] == [(1, "hello"), (2, "second")]
    bobs = [one for one in await entries(rig) if one.get("outcome") == "delivered" and one["side"] == "bob"]
    assert [one["round"] for one in bobs] == [1, 2, 2]


@with_rig
async def test_partial_answers_of_an_exchange_at_its_limit_are_held(rig: Rig) -> None:
    await two_agents(rig)
    request = await governed_say(rig, "alice", "bob", accepts_partial=True, max_rounds=1)

    draft = a_draft("", "first", pattern=Pattern.RESPONSE, partial="artifact")
    held = await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, draft)

    assert isinstance(held, Held)
    assert await stands(rig, request) is RequestPhase.OPEN


@with_rig
async def test_a_held_partial_answer_that_is_approved_after_the_answer_is_refused(rig: Rig) -> None:
    await two_agents(rig)
    request = await governed_say(rig, "alice", "bob", accepts_partial=True)
    draft = a_draft("", "We promise it.", pattern=Pattern.RESPONSE, partial="artifact")
    held = await posting.reply(rig.team, rig.caller("bob"), CHANNEL, request.id, draft)
    assert isinstance(held, Held)
    await governed_answer(rig, "bob", request)

    assert (await refusal(governed_decide(rig, "ben", held.approval))).code == "already_answered"


# ---------------------------------------------------------------- what is stored


@with_rig
async def test_what_is_stored_about_a_request_goes_when_it_is_old(rig: Rig) -> None:
    await an_open_channel(rig)
    request = await asked(rig, expires_at=rig.clock.at + timedelta(seconds=60))
    await withdrawn(rig, request)

    rig.clock.pass_by(seconds=60 + rig.limits.retention.total_seconds())
    await sweep(rig.team)

    assert await rig.store.get(RequestState, DEFAULT_TENANT, request.id) is None
    assert await stands(rig, request) is RequestPhase.EXPIRED


@with_rig
async def test_what_is_stored_about_requests_goes_with_their_channel(rig: Rig) -> None:
    await an_open_channel(rig)
    await withdrawn(rig, await asked(rig))

    await channels.delete(rig.team, rig.caller("alice"), CHANNEL)

    assert await rig.store.every(RequestState, DEFAULT_TENANT) == ()
    assert await rig.store.every(RequestMark, DEFAULT_TENANT) == ()
