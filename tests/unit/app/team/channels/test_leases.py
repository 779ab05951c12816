"""The request that a response answers, and the job that ends with it."""

from __future__ import annotations

import pytest

from parley.app.team.channels.leases import AnswerEffects, answered_by, with_effects
from parley.app.team.queues import claims
from parley.app.team.queues.claims import ClaimWish
from parley.domain.channel.post import PostDraft
from parley.domain.errors.errors import LeaseLost
from parley.domain.message.message import Pattern
from parley.domain.store.changes import TeamChanges
from tests.rigs.team import CHANNEL, CREW, Rig, with_rig

pytestmark = pytest.mark.both_stores


def an_answer(request_id: str, lease: str = "") -> PostDraft:
    return PostDraft(Pattern.RESPONSE, b"{}", in_reply_to=request_id, lease=lease)


@with_rig
async def test_an_ordinary_request_needs_no_lease(rig: Rig) -> None:
    await rig.intent(agents=CREW)
    await rig.channel()
    request = await rig.say("alice", to="bob", pattern=Pattern.REQUEST)
    _, answered, job, *_ = await answered_by(rig.team, rig.caller("bob"), CHANNEL, an_answer(request.id))

    assert answered is not None
    assert (answered.id, answered.recipients, job) == (request.id, ("bob",), None)
    assert (await answered_by(rig.team, rig.caller("bob"), CHANNEL, an_answer("msg_none"))).request is None
    assert (await answered_by(rig.team, rig.caller("bob"), CHANNEL, PostDraft(Pattern.NOTIFY, b"{}"))).request is None


@with_rig
async def test_who_claimed_a_request_is_the_one_who_was_asked(rig: Rig) -> None:
    await rig.intent(agents=CREW)
    await rig.channel()
    await rig.role("coder", "bob")
    request = await rig.say("alice", to="any:coder", pattern=Pattern.REQUEST)
    (item,) = await claims.claim(rig.team, rig.caller("bob"), "bob", ClaimWish())
    _, answered, job, *_ = await answered_by(
        rig.team, rig.caller("bob"), CHANNEL, an_answer(request.id, item.job.lease)
    )

    assert answered is not None
    assert (answered.recipients, job) == (("bob",), item.job)
    assert with_effects(TeamChanges("default"), [AnswerEffects((item.job,))]).drops == (item.job,)
    with pytest.raises(LeaseLost, match="claim it"):
        await answered_by(rig.team, rig.caller("bob"), CHANNEL, an_answer(request.id))


@with_rig
async def test_what_a_person_releases_needs_no_lease(rig: Rig) -> None:
    await rig.intent(agents=CREW)
    await rig.channel()
    await rig.role("coder", "bob")
    request = await rig.say("alice", to="any:coder", pattern=Pattern.REQUEST)
    _, answered, job, *_ = await answered_by(
        rig.team, rig.caller("bob"), CHANNEL, an_answer(request.id), by_person=True
    )

    assert answered is not None
    assert (answered.recipients, job) == (("bob",), None)
