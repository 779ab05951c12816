"""Letting go: what was said and old documents may go, and every proof about the rest stays valid."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from parley.app.team.audit import checkpoints as audit_checkpoints
from parley.app.team.audit import retention
from parley.app.team.team import Team
from parley.domain.audit.entry import TENANT_SIDE
from parley.domain.audit.merkle import is_included
from parley.domain.channel.post import ERASED
from parley.domain.content.envelope import Purpose, ReplyPolicy
from parley.domain.directory.callers import DEFAULT_TENANT, Caller, KeyKind, Saved
from parley.domain.errors.errors import Invalid, NotFound, Unavailable
from parley.domain.exchange.approval import Approval, ApprovalStatus, Cause, HeldDraft
from parley.domain.exchange.exchange import Exchange, Outcome, Turn
from parley.domain.store.changes import AuditQuery, Committed, TeamChanges
from parley.domain.times import stamp
from parley.wire.proofs.audit_log import LogCheck, Report
from tests.rigs.behind_the_server import kept
from tests.rigs.team import CHANNEL, Rig, with_rig
from tests.samples.audit import a_draft, verify

pytestmark = pytest.mark.both_stores

SECRET = "the acquisition of Globex"


async def entries(rig: Rig, count: int, *, days_ago: int = 0) -> None:
    size = await rig.store.audit_size(DEFAULT_TENANT)
    at = stamp(rig.clock.at - timedelta(days=days_ago))
    drafts = tuple(a_draft(n, ("alice", "bob")[n % 2])._replace(at=at) for n in range(size + 1, size + count + 1))
    await rig.store.commit(TeamChanges(DEFAULT_TENANT, audits=drafts))


async def checked(rig: Rig) -> Report:
    check = LogCheck(verify)
    check.header(DEFAULT_TENANT)
    for one in await rig.store.audits(DEFAULT_TENANT, AuditQuery(limit=10_000)):
        check.entry(one.number, one.side, one.seq, one.entry_hash, one.document)
    for mark in await audit_checkpoints.list_page(rig.team, DEFAULT_TENANT, 0, 1000):
        check.checkpoint(mark)
    return check.report()


def keeping(rig: Rig, days: int) -> Team:
    rig.team.limits = rig.limits._replace(audit_retention_days=days)
    return rig.team


# ---------------------------------------------------------------- old documents


@with_rig
async def test_documents_that_are_old_enough_go_and_the_log_is_still_whole(rig: Rig) -> None:
    await entries(rig, 4, days_ago=40)
    await entries(rig, 3, days_ago=10)
    await audit_checkpoints.make(rig.team, DEFAULT_TENANT)

    gone = await retention.trim_due(keeping(rig, 30))
    again = await retention.trim_due(rig.team)
    await audit_checkpoints.make(rig.team, DEFAULT_TENANT)

    found = await rig.store.audits(DEFAULT_TENANT, AuditQuery())
    report = await checked(rig)
    assert (gone, again) == (4, 0)
    assert [one.document == b"" for one in found] == [True] * 4 + [False] * 4
    assert (report.bad, report.let_go, report.let_go_covered) == (None, 4, 7)
    told = msgspec.json.decode(found[-1].document)
    assert (told["side"], told["action"], told["through"]) == (TENANT_SIDE, "audit_let_go", 4)


@with_rig
async def test_only_what_a_checkpoint_covers_may_go(rig: Rig) -> None:
    await entries(rig, 2, days_ago=40)
    await audit_checkpoints.make(rig.team, DEFAULT_TENANT)
    await entries(rig, 2, days_ago=40)

    assert await retention.trim_due(keeping(rig, 30)) == 2
    assert [one.number for one in await rig.store.audits(DEFAULT_TENANT, AuditQuery()) if not one.document] == [1, 2]


@with_rig
async def test_a_lot_goes_in_pieces(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_MOST", 3)
    await entries(rig, 7, days_ago=40)
    await audit_checkpoints.make(rig.team, DEFAULT_TENANT)

    gone = [await retention.trim_due(keeping(rig, 30)) for _ in range(4)]

    assert gone == [3, 3, 1, 0]
    assert (await checked(rig)).bad is None


@pytest.mark.requirement("GOV-CLOCK")
@with_rig
async def test_without_a_limit_and_while_the_clock_is_in_doubt_nothing_goes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await entries(rig, 2, days_ago=4000)
    await audit_checkpoints.make(rig.team, DEFAULT_TENANT)

    assert await retention.trim_due(keeping(rig, 0)) == 0
    doubtful = rig.clock.now()._replace(step=3_600.0)
    monkeypatch.setattr(rig.clock, "now", lambda: doubtful)
    assert await retention.trim_due(keeping(rig, 1)) == 0


@with_rig
async def test_an_entry_is_still_proved_when_its_neighbours_are_gone(rig: Rig) -> None:
    await entries(rig, 5, days_ago=40)
    await entries(rig, 1)
    await audit_checkpoints.make(rig.team, DEFAULT_TENANT)
    await retention.trim_due(keeping(rig, 30))

    (last,) = await rig.store.audits(DEFAULT_TENANT, AuditQuery(after=5, through=6))
    proof = await audit_checkpoints.prove(rig.team, DEFAULT_TENANT, last)

    leaf, root = bytes.fromhex(last.entry_hash), bytes.fromhex(proof.checkpoint.root)
    assert is_included(leaf, last.number - 1, proof.checkpoint.size, proof.path, root)


# ---------------------------------------------------------------- what was said


def an_exchange(rig: Rig, exchange_id: str = "ex_1", conversation: str = "conv_1", **changes: Any) -> Exchange:  # noqa: ANN401
    made = Exchange(
        id=exchange_id,
        tenant_id=DEFAULT_TENANT,
        conversation_id=conversation,
        initiator="alice",
        responder="bob",
        purpose=Purpose.INFORMATION_QUERY,
        reply_policy=ReplyPolicy.AGENT_OK,
        requires_commitment=False,
        max_rounds=3,
        current_round=2,
        transcript=(Turn(1, "alice", SECRET), Turn(2, "bob", f"yes, {SECRET}")),
        started_at=rig.at(),
        expires_at=stamp(rig.clock.at + timedelta(days=1)),
    )
    return replace(made, **changes)


def an_approval(rig: Rig, approval_id: str = "apr_1", **changes: Any) -> Approval:  # noqa: ANN401
    made = Approval(
        id=approval_id,
        tenant_id=DEFAULT_TENANT,
        cause=Cause.COMMITMENT,
        reason="a commitment",
        escalation={"exchangeId": "ex_1", "conversationSummary": f"Round 1 (alice): {SECRET}"},
        exchange_id="ex_1",
        conversation_id="conv_1",
        agent="alice",
        user="ann",
        to="bob",
        classification="internal",
        draft=HeldDraft(pattern="notify", to="bob", in_reply_to="", payload=f'{{"text":"{SECRET}"}}', metadata="{}"),
        digest="d" * 64,
        policy_version="1",
        note=SECRET,
        created_at=rig.at(),
        expires_at=stamp(rig.clock.at + timedelta(days=1)),
    )
    return replace(made, **changes)


async def said(rig: Rig) -> None:
    """Two exchanges of alice and bob with what they said, and one message beside them."""
    await rig.intent()
    await rig.channel(CHANNEL, "alice", "bob")
    for sender, exchange in (("alice", "ex_1"), ("bob", "ex_1"), ("alice", "ex_2"), ("alice", "")):
        post = await rig.say(sender, SECRET)
        with_exchange = post._replace(id=f"{post.id}x", exchange_id=exchange, seq=0, position=0)
        await rig.store.commit(TeamChanges(DEFAULT_TENANT, (with_exchange,)))
    await entries(rig, 12)
    await rig.put(an_exchange(rig, outcome=Outcome.ESCALATED, holds=("apr_1",)))
    await rig.put(an_exchange(rig, "ex_0", "conv_2"))
    await rig.put(an_approval(rig))
    await rig.put(an_approval(rig, "apr_2", conversation_id="conv_2", agent="bob", status=ApprovalStatus.REJECTED))


def admin(rig: Rig) -> Caller:
    return rig.caller(kind=KeyKind.ADMIN)


async def payloads(rig: Rig, exchange_id: str = "", sender: str = "") -> set[bytes]:
    items = await rig.store.feed(DEFAULT_TENANT, 0)
    posts = [one.post for one in items if one.post]
    return {
        one.payload
        for one in posts
        if (not exchange_id or one.exchange_id == exchange_id) and (not sender or one.sender == sender)
    }


@with_rig
async def test_a_conversation_loses_what_was_said_in_it_and_keeps_that_it_was(rig: Rig) -> None:
    await said(rig)
    before = [one.entry_hash for one in await rig.store.audits(DEFAULT_TENANT, AuditQuery())]

    done = await retention.erase(rig.team, admin(rig), conversation_id="conv_1")

    assert (done.messages, done.exchanges, done.approvals) == (2, 1, 1)
    assert await payloads(rig, "ex_1") == {b"{}"}
    assert SECRET.encode() in b"".join(await payloads(rig, "ex_2"))
    exchange = await rig.store.get(Exchange, DEFAULT_TENANT, "ex_1")
    approval = await rig.store.get(Approval, DEFAULT_TENANT, "apr_1")
    assert exchange is not None
    assert approval is not None
    assert SECRET not in repr(exchange)
    assert SECRET not in repr(approval)
    assert [(turn.round, turn.sender) for turn in exchange.transcript] == [(1, "alice"), (2, "bob")]
    assert SECRET in repr(await rig.store.get(Exchange, DEFAULT_TENANT, "ex_0"))
    assert SECRET in repr(await rig.store.get(Approval, DEFAULT_TENANT, "apr_2"))
    after = await rig.store.audits(DEFAULT_TENANT, AuditQuery())
    assert [one.entry_hash for one in after][:-2] == before
    closed = msgspec.json.decode(after[-2].document)
    assert (closed["action"], closed["approval"], closed["decision"]) == ("approval_decided", "apr_1", "closed")
    told = msgspec.json.decode(after[-1].document)
    assert (told["id"], told["action"], told["side"]) == (done.entry_id, "content_erased", TENANT_SIDE)
    assert (told["conversation_id"], told["actor"]) == ("conv_1", admin(rig).actor)


@with_rig
async def test_what_waited_for_a_person_can_no_longer_be_decided(rig: Rig) -> None:
    await said(rig)

    await retention.erase(rig.team, admin(rig), conversation_id="conv_1")

    approval = await rig.store.get(Approval, DEFAULT_TENANT, "apr_1")
    exchange = await rig.store.get(Exchange, DEFAULT_TENANT, "ex_1")
    assert approval is not None
    assert exchange is not None
    assert approval.status is ApprovalStatus.CLOSED
    assert (exchange.outcome, exchange.holds) == (Outcome.IN_PROGRESS, ())


@with_rig
async def test_somebodys_words_go_wherever_they_were_said_and_others_stay(rig: Rig) -> None:
    await said(rig)

    done = await retention.erase(rig.team, admin(rig), agent_id="alice")

    assert done.messages == 6
    assert await payloads(rig, sender="alice") == {b"{}"}
    assert SECRET.encode() in b"".join(await payloads(rig, sender="bob"))
    exchange = await rig.store.get(Exchange, DEFAULT_TENANT, "ex_1")
    assert exchange is not None
    assert [turn.summary for turn in exchange.transcript] == ["[erased]", f"yes, {SECRET}"]


@with_rig
async def test_erasing_what_is_not_there_or_no_longer_is_refused_and_not_recorded(rig: Rig) -> None:
    await said(rig)
    await retention.erase(rig.team, admin(rig), conversation_id="conv_1")
    size = await rig.store.audit_size(DEFAULT_TENANT)

    for names in ({"conversation_id": "conv_1"}, {"conversation_id": "conv_9"}, {"agent_id": "nobody"}):
        with pytest.raises(NotFound):
            await retention.erase(rig.team, admin(rig), **names)

    assert await rig.store.audit_size(DEFAULT_TENANT) == size
    assert (await checked(rig)).bad is None


@with_rig
async def test_only_what_was_really_blanked_is_counted(rig: Rig) -> None:
    await said(rig)
    await retention.erase(rig.team, admin(rig), conversation_id="conv_1")

    rest = await retention.erase(rig.team, admin(rig), agent_id="bob")

    # Of what bob said in the first conversation nothing is left.
    assert (rest.exchanges, rest.approvals) == (1, 1)


@with_rig
async def test_the_bytes_are_gone_from_the_store(rig: Rig) -> None:
    await said(rig)
    for conversation in ("conv_1", "conv_2"):
        await retention.erase(rig.team, admin(rig), conversation_id=conversation)
    for name in ("alice", "bob"):
        await retention.erase(rig.team, admin(rig), agent_id=name)

    await rig.store.close()
    content = kept(rig)
    await rig.reopen()

    assert SECRET.encode() not in content


@with_rig
async def test_a_message_says_that_it_was_erased(rig: Rig) -> None:
    await said(rig)

    await retention.erase(rig.team, admin(rig), agent_id="alice")

    posts = [one.post for one in await rig.store.feed(DEFAULT_TENANT, 0) if one.post]
    assert {(one.sender, one.erased) for one in posts} == {("alice", True), ("bob", False)}
    assert {one.metadata for one in posts if one.sender == "alice"} == {ERASED}


@with_rig
async def test_a_conversation_or_an_agent_is_named_and_not_both(rig: Rig) -> None:
    for names in ({}, {"conversation_id": "c", "agent_id": "a"}):
        with pytest.raises(Invalid):
            await retention.erase(rig.team, admin(rig), **names)


# ---------------------------------------------------------------- a lot of it


@pytest.fixture
def two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_PIECE", 2)


async def talk(rig: Rig, *senders: str) -> None:
    await rig.intent()
    await rig.channel(CHANNEL, "alice", "bob")
    for sender in senders:
        await rig.say(sender, SECRET)


async def recorded(rig: Rig) -> list[dict[str, Any]]:
    """What the audit log says of erasures."""
    found = await rig.store.audits(DEFAULT_TENANT, AuditQuery(action="content_erased"))
    return [msgspec.json.decode(one.document) for one in found]


async def erased(rig: Rig, sender: str) -> list[bool]:
    items = await rig.store.feed(DEFAULT_TENANT, 0)
    return [one.post.erased for one in items if one.post and one.post.sender == sender]


def failing(rig: Rig, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """The database is lost after so many pieces."""
    commit, pieces = rig.store.commit, iter(range(after))

    async def fail(changes: TeamChanges) -> Committed:
        if changes.erase and next(pieces, None) is None:
            raise Unavailable("the database is gone")
        return await commit(changes)

    monkeypatch.setattr(rig.store, "commit", fail)


@pytest.mark.usefixtures("two_at_once")
@with_rig
async def test_a_lot_is_erased_in_pieces_and_each_is_on_record(rig: Rig) -> None:
    await talk(rig, "alice", "alice", "bob", "alice", "bob", "alice", "alice")

    done = await retention.erase(rig.team, admin(rig), agent_id="alice")

    told = await recorded(rig)
    assert done == retention.Erasure(5, 0, 0, told[-1]["id"])
    assert [one["messages"] for one in told] == [2, 4, 5]
    assert [one.get("continues") for one in told] == [None, told[0]["id"], told[1]["id"]]
    assert {(one["agent_id"], one["actor"], one["side"]) for one in told} == {("alice", admin(rig).actor, TENANT_SIDE)}
    assert (await erased(rig, "alice"), await erased(rig, "bob")) == ([True] * 5, [False] * 2)
    await audit_checkpoints.make(rig.team, DEFAULT_TENANT)
    assert (await checked(rig)).bad is None


@pytest.mark.usefixtures("two_at_once")
@with_rig
async def test_an_erasure_that_ends_halfway_is_on_record_and_the_next_one_does_the_rest(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk(rig, *["alice"] * 7)
    key = Saved("scope", "f", "made", rig.at())
    caller = admin(rig)._replace(saved=key)
    with monkeypatch.context() as broken:
        failing(rig, broken, after=2)
        with pytest.raises(Unavailable):
            await retention.erase(rig.team, caller, agent_id="alice")
    await rig.reopen()
    assert await erased(rig, "alice") == [True] * 4 + [False] * 3
    assert [one["messages"] for one in await recorded(rig)] == [2, 4]
    assert await rig.store.saved("scope") is None

    done = await retention.erase(rig.team, caller, agent_id="alice")

    assert (done.messages, await erased(rig, "alice")) == (3, [True] * 7)
    assert [one["messages"] for one in await recorded(rig)] == [2, 4, 2, 3]
    # By the last entry the answer can be given again.
    assert await rig.store.saved("scope") == key._replace(message_id=done.entry_id)


@pytest.mark.usefixtures("two_at_once")
@with_rig
async def test_two_who_erase_the_same_at_once_count_each_message_once(rig: Rig) -> None:
    await talk(rig, *["alice"] * 9)

    async def attempt() -> int:
        try:
            return (await retention.erase(rig.team, admin(rig), agent_id="alice")).messages
        except NotFound:
            return 0

    counts = await asyncio.gather(*(attempt() for _ in range(3)))

    assert (sum(counts), await erased(rig, "alice")) == (9, [True] * 9)
    # The last entry of each says how many it was in all.
    told = await recorded(rig)
    continued = {one.get("continues") for one in told}
    assert sum(one["messages"] for one in told if one["id"] not in continued) == 9


@with_rig
async def test_what_has_no_messages_left_is_on_record_for_what_else_was_erased_of_it(rig: Rig) -> None:
    await said(rig)

    done = await retention.erase(rig.team, admin(rig), conversation_id="conv_2")

    (told,) = await recorded(rig)
    assert done == retention.Erasure(0, 1, 1, told["id"])
    assert (told["messages"], told["exchanges"], told["approvals"]) == (0, 1, 1)
