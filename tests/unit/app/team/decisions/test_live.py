from __future__ import annotations

import pytest

from parley.app.team.decisions import live
from parley.app.team.decisions.live import LiveBatch, LiveCursor, LiveTopics
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import ScopeRequired
from tests.rigs.team import CHANNEL, Rig, with_rig

BOB = Caller("default", "bob", KeyKind.AGENT, "key_default_agent_bob")
TOPICS = LiveTopics(channels=(CHANNEL,))


async def prepare(rig: Rig) -> None:
    await rig.key("bob")
    await rig.intent()
    await rig.channel()


@with_rig
async def test_a_stream_begins_behind_its_cursor_and_ends_at_the_head(rig: Rig) -> None:
    await prepare(rig)
    posts = [await rig.say("alice", str(n), to="bob") for n in range(3)]
    batches = live.follow(rig.team, BOB, TOPICS, LiveCursor(posts[0].position, 0))

    assert await anext(batches) is None
    batch = await anext(batches)

    assert isinstance(batch, LiveBatch)
    assert [item.post.id for item in batch.items if item.post is not None] == [posts[1].id, posts[2].id]
    assert batch.cursor == (await live.current_cursor(rig.team, BOB))._replace(audit=0)
    await batches.aclose()
    assert len(rig.team.tail) == 0


@with_rig
async def test_topics_that_a_caller_may_not_follow_are_refused(rig: Rig) -> None:
    await prepare(rig)

    with pytest.raises(ScopeRequired):
        await live.check_topics(rig.team, BOB, LiveTopics(suspensions=True))
    with pytest.raises(NotFound):
        await live.check_topics(rig.team, BOB, LiveTopics(intents=("intent_nowhere",)))
