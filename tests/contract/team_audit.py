"""The contract of every server's store about its audit log: what is found, what may go, and what never does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from parley.domain.audit.entry import AuditDraft, AuditEntry, entry_hash
from parley.domain.channel.post import ERASED, PostState
from parley.domain.directory.callers import SYSTEM
from parley.domain.errors.errors import NotFound
from parley.domain.store.changes import AuditQuery, ErasableMessage, ErasureQuery, FeedScope, Moved, TeamChanges
from parley.ports.team import TeamStore
from tests.contract.team_store import (
    AT,
    LATER,
    T1,
    T2,
    TeamStoreContract,
    a_channel,
    a_post,
    a_request,
    a_use,
    an_answer,
    stored,
)


def an_audit(number: int, side: str = "alice", **changes: Any) -> AuditDraft:  # noqa: ANN401
    facts = {"exchange_id": f"ex_{number % 2}", "conversation_id": "conv_1", "outcome": "delivered", "round": number}
    made = AuditDraft(f"aud_{number}", side, AT, "agent_exchange", side, facts, f"ex_{number % 2}")
    return made._replace(**changes)


async def numbers(store: TeamStore, tenant: str = T1, **query: Any) -> list[int]:  # noqa: ANN401
    return [one.number for one in await store.audits(tenant, AuditQuery(**query))]


async def all_of(store: TeamStore, tenant: str = T1) -> tuple[AuditEntry, ...]:
    return await store.audits(tenant, AuditQuery())


async def erased(store: TeamStore, words: ErasureQuery) -> int:
    """Blank all that says these words; how many messages there were."""
    found, _ = await store.words(T1, words, 0)
    return (await store.commit(TeamChanges(T1, erase=found))).erased


async def empty(store: TeamStore, *scopes: str) -> list[bool]:
    """Whether nothing is left of the answers that were kept there."""
    found = [await store.saved(scope) for scope in scopes]
    return [one is not None and not one.answer for one in found]


class TeamAuditContract(TeamStoreContract):
    """All of the contract: what a store does for governance is the last part of it."""

    @stored
    async def test_audit_entries_are_found_by_what_they_tell(self, store: TeamStore) -> None:
        drafts = (
            an_audit(1),
            an_audit(2, "bob"),
            an_audit(3, facts={"outcome": "denied", "conversation_id": "conv_2"}),
            an_audit(4, "bob", action="suspended", actor="ann", at=LATER),
        )
        await store.commit(TeamChanges(T1, audits=drafts))
        await store.commit(TeamChanges(T2, audits=(an_audit(1),)))

        assert await numbers(store) == [1, 2, 3, 4]
        assert await numbers(store, after=1, through=3) == [2, 3]
        assert await numbers(store, limit=2) == [1, 2]
        assert await numbers(store, sides=("bob",)) == [2, 4]
        assert await numbers(store, sides=()) == []
        assert await numbers(store, sides=("alice",), or_actor="ann") == [1, 3, 4]
        assert await numbers(store, exchange_id="ex_1") == [1, 3]
        assert await numbers(store, exchange_id="ex_1", after=1) == [3]
        assert await numbers(store, entry_id="aud_2") == [2]
        assert await numbers(store, action="suspended") == [4]
        assert await numbers(store, outcome="denied") == [3]
        assert await numbers(store, conversation_id="conv_1") == [1, 2, 4]
        assert await numbers(store, since=LATER) == [4]
        assert await numbers(store, until=LATER) == [1, 2, 3]
        assert await numbers(store, T2) == [1]
        assert (await store.audit_size(T1), await store.audit_size(T2), await store.audit_size("nobody")) == (4, 1, 0)

    @stored
    async def test_audit_entries_are_found_by_actor_code_message_and_pair_and_counted_by_hour(
        self, store: TeamStore
    ) -> None:
        sent = {"sender": "alice", "to": "role:support", "receivers": ["bob", "carol"], "message_id": "msg_1"}
        drafts = (
            an_audit(1, facts=sent | {"outcome": "delivered", "role": "sender"}),
            an_audit(2, "bob", actor="ben", facts=sent | {"outcome": "delivered", "role": "receiver"}),
            an_audit(3, "bob", facts={"sender": "bob", "to": "alice", "outcome": "denied", "code": "policy_denied"}),
            an_audit(4, "@tenant", action="suspended", actor="ann", at=LATER, facts={}),
        )
        await store.commit(TeamChanges(T1, audits=drafts))

        assert await numbers(store, actor="ben") == [2]
        assert await numbers(store, code="policy_denied") == [3]
        assert await numbers(store, message_id="msg_1") == [1, 2]
        assert await numbers(store, pair=("alice", "bob")) == await numbers(store, pair=("bob", "alice")) == [1, 2, 3]
        assert await numbers(store, pair=("carol", "alice")) == [1, 2]
        assert await numbers(store, pair=("bob", "carol")) == await numbers(store, pair=("alice", "bo")) == []
        assert await store.audit_counts(T1, AuditQuery(), 13) == (
            (AT[:13], "delivered", "receiver", 1),
            (AT[:13], "delivered", "sender", 1),
            (AT[:13], "denied", "", 1),
            (LATER[:13], "", "", 1),
        )
        assert await store.audit_counts(T1, AuditQuery(sides=("bob",), outcome="denied"), 10) == (
            (AT[:10], "denied", "", 1),
        )
        assert await store.audit_counts("nobody", AuditQuery(), 13) == ()

    @stored
    async def test_bare_audit_entries_have_everything_but_their_documents(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T1, audits=(an_audit(1), an_audit(2, "bob"))))

        whole, bare = await all_of(store), await store.audits(T1, AuditQuery(bare=True))

        assert [one._replace(document=b"") for one in whole] == [*bare]
        assert [entry_hash(one.document) for one in whole] == [one.entry_hash for one in bare]

    @stored
    async def test_documents_that_are_let_go_of_leave_their_hashes_and_the_chain_goes_on(
        self, store: TeamStore
    ) -> None:
        await store.commit(TeamChanges(T1, audits=(an_audit(1), an_audit(2, "bob"), an_audit(3))))
        await store.commit(TeamChanges(T2, audits=(an_audit(1),)))
        before = await all_of(store)

        # What is written by the same commit may be let go of, too: the order within a commit is not the point.
        await store.commit(TeamChanges(T1, audits=(an_audit(4),), trim_audit=2))

        after = await all_of(store)
        assert [one.document == b"" for one in after] == [True, True, False, False]
        assert [one._replace(document=b"") for one in after[:3]] == [one._replace(document=b"") for one in before]
        assert after[2] == before[2]
        assert before[2].entry_hash.encode() in after[3].document
        assert (await all_of(store, T2))[0].document != b""
        assert await numbers(store, outcome="delivered") == [3, 4]
        assert await numbers(store, sides=("alice",), or_actor="bob") == [1, 3, 4]

    @stored
    async def test_messages_of_an_exchange_or_a_sender_lose_what_they_say_and_keep_their_places(
        self, store: TeamStore
    ) -> None:
        posts = (
            a_post("msg_1", exchange_id="ex_1"),
            a_post("msg_2", exchange_id="ex_2"),
            a_post("msg_3", sender="bob", exchange_id="ex_1"),
            a_post("msg_4"),
        )
        await store.commit(TeamChanges(T1, posts))
        before = {one.id: await store.post(T1, one.id) for one in posts}

        by_exchange = await erased(store, ErasureQuery(exchanges=("ex_1", "ex_9")))
        again = await erased(store, ErasureQuery(exchanges=("ex_1",)))
        by_sender = await erased(store, ErasureQuery(sender="alice"))
        nobody = await erased(store, ErasureQuery())

        assert (by_exchange, again, by_sender, nobody) == (2, 0, 2, 0)
        for name, post in before.items():
            found = await store.post(T1, name)
            assert post is not None
            assert found == post._replace(payload=b"{}", metadata=ERASED)
        assert await store.search(T1, "hello", FeedScope(None), AT, 10) == ()

    @stored
    async def test_nothing_of_a_commit_is_done_where_no_message_of_it_says_anything(self, store: TeamStore) -> None:
        blank = TeamChanges(T1, audits=(an_audit(1),), erase=(ErasableMessage("msg_1"), ErasableMessage("msg_2")))
        with pytest.raises(NotFound):
            await store.commit(blank)
        assert await store.audit_size(T1) == 0

        await store.commit(TeamChanges(T1, (a_post("msg_1"),)))
        done = await store.commit(blank)
        with pytest.raises(NotFound):
            await store.commit(blank)

        assert (done.erased, await store.audit_size(T1)) == (1, 1)

    @stored
    async def test_the_entry_of_an_erasure_says_how_many_messages_it_blanked(self, store: TeamStore) -> None:
        posts = tuple([a_post(f"msg_{n}") for n in range(5)])
        await store.commit(TeamChanges(T1, posts))

        first = tuple(map(ErasableMessage, ("msg_1", "msg_3", "msg_9")))
        await store.commit(TeamChanges(T1, audits=(an_audit(1),), erase=first))
        rest = tuple(map(ErasableMessage, ("msg_0", "msg_1", "msg_2", "msg_4")))
        await store.commit(TeamChanges(T1, audits=(an_audit(2, facts={"messages": 2}),), erase=rest))

        assert [json.loads(one.document)["messages"] for one in await all_of(store)] == [2, 5]

    @stored
    async def test_words_are_found_in_order_after_a_position_until_there_are_no_more(self, store: TeamStore) -> None:
        posts = [a_post(f"msg_{n}", sender="bob" if n % 3 else "alice") for n in range(9)]
        await store.commit(TeamChanges(T1, tuple(posts)))

        everything, through = await store.words(T1, ErasureQuery(sender="bob"), 0)
        rest, _ = await store.words(T1, ErasureQuery(sender="bob"), 5)

        assert [one.message_id for one in everything] == ["msg_1", "msg_2", "msg_4", "msg_5", "msg_7", "msg_8"]
        assert [one.message_id for one in rest] == ["msg_5", "msg_7", "msg_8"]
        assert await store.words(T1, ErasureQuery(sender="bob"), through) == ((), 0)
        assert await store.words("nobody", ErasureQuery(sender="bob"), 0) == ((), 0)

    @stored
    async def test_what_was_said_to_somebody_alone_about_its_messages_is_among_its_words(
        self, store: TeamStore
    ) -> None:
        posts = (a_post("msg_1", sender=SYSTEM, to="bob"), a_post("msg_2", sender=SYSTEM), a_post("msg_3", to="bob"))
        await store.commit(TeamChanges(T1, posts))

        found, _ = await store.words(T1, ErasureQuery(sender="bob"), 0)

        assert found == (ErasableMessage("msg_1"),)

    @stored
    async def test_words_of_a_message_that_takes_a_new_place_meanwhile_are_found_there(self, store: TeamStore) -> None:
        waiting = a_post("msg_2", to="role:helper", state=PostState.PENDING, recipients=())
        await store.commit(TeamChanges(T1, (a_post("msg_1"), waiting, a_post("msg_3"))))

        await store.commit(TeamChanges(T1, moved=(Moved("msg_2", PostState.DELIVERED, ("bob",)),)))

        found, _ = await store.words(T1, ErasureQuery(sender="alice"), 1)
        assert [one.message_id for one in found] == ["msg_3", "msg_2"]

    @stored
    async def test_another_tenants_messages_keep_what_they_say(self, store: TeamStore) -> None:
        await store.commit(TeamChanges(T2, puts=(a_channel("chan_2", T2),)))
        await store.commit(TeamChanges(T2, (a_post("msg_9", "chan_2", exchange_id="ex_1"),)))

        found, _ = await store.words(T1, ErasureQuery(("ex_1",), "alice"), 0)
        with pytest.raises(NotFound):
            await store.commit(TeamChanges(T1, erase=(ErasableMessage("msg_9"),)))

        kept = await store.post(T2, "msg_9")
        assert found == ()
        assert kept is not None
        assert not kept.erased

    @stored
    async def test_the_answers_that_are_kept_for_who_asks_again_are_blanked_too(self, store: TeamStore) -> None:
        # Of its own, of a question that it answers, and of a batch that it came in.
        posts = (a_request("msg_1", sender="carol"), a_post("msg_2", sender="bob"), a_post("msg_3"))
        await store.commit(TeamChanges(T1, posts))
        batch = [a_post(f"msg_{n}", sender="bob", created_at=LATER, exchange_id=f"ex_{n - 4}") for n in (4, 5)]
        answer = an_answer("msg_6", "msg_1", exchange_id="ex_1", created_at=LATER)
        await store.commit(TeamChanges(T1, (*batch, answer)))
        for name in ("msg_1", "msg_2", "msg_3", ",msg_4,msg_5", "msg_6"):
            told = a_use(f"of {name}", message_id=name, status=201, answer=b"hello")
            await store.commit(TeamChanges(T1, saved=told))
        await store.commit(TeamChanges(T1, saved=a_use("other", status=201, answer=b"something else")))

        await erased(store, ErasureQuery(exchanges=("ex_1",)))

        assert await empty(store, "of msg_1", "of ,msg_4,msg_5", "of msg_6") == [True, True, True]
        assert await empty(store, "of msg_2", "of msg_3", "other") == [False, False, False]

        await erased(store, ErasureQuery(sender="bob"))

        assert await empty(store, "of msg_2", "of msg_3", "other") == [True, False, False]
