"""The messages of an exchange with what became of each, from the entries that the caller may see."""

from __future__ import annotations

from parley.app.team.audit.reading import sight
from parley.app.team.decisions import transcripts
from parley.domain.content.classification import Classification
from parley.domain.directory.callers import Caller, KeyKind
from parley.domain.exchange.approval import Decision
from tests.rigs.governed import decide, exchange_of, held, person, refusal, said, send, two_agents
from tests.rigs.team import Rig, with_rig

ADMIN = Caller("default", "", KeyKind.ADMIN, "key_admin")


@with_rig
async def test_what_is_held_can_be_read_by_who_may_decide_and_a_rejection_is_named(rig: Rig) -> None:
    await two_agents(rig)
    first = await said(rig, "alice", "bob", "How is it?", conversation_id="conv-1")
    promise = await held(rig, "bob", "alice", "We promise it.", conversation_id="conv-1")
    exchange = await exchange_of(rig, first)

    async def told(caller: Caller) -> list[tuple[str, str, str]]:
        messages = await transcripts.messages_of(rig.team, caller, exchange)
        return [(message.outcome, message.summary, message.decision) for message in messages]

    asked = ("delivered", "How is it?", "")
    assert await told(person("ben")) == await told(ADMIN) == [asked, ("held", "We promise it.", "")]
    assert await told(person("ann")) == [asked]
    await decide(rig, "ben", promise, Decision.REJECT)
    assert await told(person("ben")) == [asked, ("held", "We promise it.", "rejected")]


@with_rig
async def test_the_level_of_an_exchange_is_the_highest_that_the_caller_may_know_of(rig: Rig) -> None:
    await two_agents(rig)
    first = await said(rig, "alice", "bob", conversation_id="conv-1")
    await refusal(send(rig, "alice", "bob", "secret", conversation_id="conv-1", classification="restricted"))
    exchange = await exchange_of(rig, first)

    async def level(caller: Caller) -> Classification | None:
        return await transcripts.level_of_exchange(rig.team, exchange, await sight(rig.team, caller))

    assert [await level(caller) for caller in (ADMIN, person("ben"), rig.caller("dora"))] == [
        Classification.RESTRICTED,
        Classification.INTERNAL,
        None,
    ]
