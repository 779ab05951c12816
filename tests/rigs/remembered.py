"""Two servers with the same records, of which one remembers what it decided: messages must fare the same on both."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import strategies as st

from parley.app.team.channels import posting, requests
from parley.app.team.channels.posting import Held
from parley.app.team.state.decision_cache import DecisionCache
from parley.domain.audit.entry import NO_HASH, AuditEntry, entry_hash
from parley.domain.channel.channel import Channel, ChannelStatus, Member, MemberPolicy, View
from parley.domain.channel.post import Post, PostDraft
from parley.domain.content.classification import Classification
from parley.domain.directory.access import AccessPolicy, Permission
from parley.domain.directory.callers import DEFAULT_TENANT, AgentStatus, KeyKind
from parley.domain.errors.errors import ParleyError
from parley.domain.exchange.exchange import Exchange
from parley.domain.message.message import Pattern
from parley.domain.rules.policy import AppliesTo
from parley.domain.rules.suspension import ALL, Stopped, Suspension, Suspensions
from parley.domain.store.changes import AuditQuery, Query
from parley.domain.times import stamp
from parley.wire.ocip import wishes_of
from parley.wire.rows import encode_audit_entry
from tests.rigs.governed import place, put_policy
from tests.rigs.team import CHANNEL, Rig, before_the_commit, open_rig

AGENTS = ("alice", "bob", "carol")
SECOND = "chan_2"
Change = Callable[[Rig], Awaitable[object]]


# ---------------------------------------------------------------- changes of what decisions rest on


async def opened_intent(rig: Rig, policy: AccessPolicy) -> None:
    await rig.access(policy=policy)


async def granted(rig: Rig, agent: str, permission: Permission, seconds: int) -> None:
    until = stamp(rig.clock.at + timedelta(seconds=seconds)) if seconds else ""
    await rig.access(grants=(replace(rig.grant(agent, permission, until), id=f"grant_{agent}_{seconds}"),))


async def ungranted(rig: Rig) -> None:
    await rig.access(grants=())


async def assigned(rig: Rig, *agents: str) -> None:
    await rig.access(assignments=tuple([rig.assignment(agent) for agent in agents]))


async def with_channel(rig: Rig, channel_id: str, policy: MemberPolicy, status: ChannelStatus, *members: str) -> None:
    channel = await rig.store.get(Channel, DEFAULT_TENANT, channel_id)
    assert channel is not None
    listed = tuple([Member(agent=agent) for agent in members])
    await rig.put(replace(channel, policy=policy, status=status, members=listed))


async def left(rig: Rig, agent: str, status: AgentStatus) -> None:
    await rig.agent(agent, status=status)


async def alive(rig: Rig, agent: str) -> None:
    await rig.agent(agent, last_heartbeat_at=rig.at())


async def moved(rig: Rig, agent: str, org_unit: str) -> None:
    await place(rig, agent, org_unit=org_unit)


async def stopped(rig: Rig, *agents: str) -> None:
    known = await rig.store.get(Suspensions, DEFAULT_TENANT, ALL) or Suspensions(id=ALL, tenant_id=DEFAULT_TENANT)
    suspensions = [Suspension(what=Stopped.AGENT, name=agent, by="root", at=rig.at()) for agent in agents]
    await rig.put(replace(known, stopped=tuple(suspensions)))


async def ruled(rig: Rig, rounds: int) -> None:
    await put_policy(rig, max_rounds=rounds)


async def later(rig: Rig) -> None:
    rig.clock.at += timedelta(seconds=40)


def partly(change: Callable[..., Awaitable[None]], *arguments: object) -> Change:
    return lambda rig: change(rig, *arguments)


def some_agents() -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(AGENTS), unique=True, max_size=3).map(tuple)


def changes() -> st.SearchStrategy[Change]:
    agent = st.sampled_from(AGENTS)
    return st.one_of(
        st.builds(partly, st.just(opened_intent), st.sampled_from(AccessPolicy)),
        st.builds(partly, st.just(granted), agent, st.sampled_from(Permission), st.sampled_from((0, 60))),
        st.just(ungranted),
        some_agents().map(lambda agents: partly(assigned, *agents)),
        st.tuples(
            st.sampled_from((CHANNEL, SECOND)),
            st.sampled_from(MemberPolicy),
            st.sampled_from((ChannelStatus.OPEN, ChannelStatus.OPEN, ChannelStatus.CLOSED)),
            some_agents(),
        ).map(lambda drawn: partly(with_channel, *drawn[:3], *drawn[3])),
        some_agents().map(lambda agents: lambda rig: rig.role("tester", *agents)),
        st.builds(partly, st.just(left), agent, st.sampled_from((AgentStatus.ACTIVE, AgentStatus.DEREGISTERED))),
        st.builds(partly, st.just(alive), agent),
        st.builds(partly, st.just(moved), agent, st.sampled_from(("engineering", "legal"))),
        some_agents().map(lambda agents: partly(stopped, *agents)),
        st.builds(partly, st.just(ruled), st.sampled_from((3, 9))),
        st.just(later),
    )


CLOSE = partly(with_channel, CHANNEL, MemberPolicy.INTENT, ChannelStatus.CLOSED)


async def newest_request(rig: Rig, asker: str, channel_id: str = CHANNEL) -> Post | None:
    """The newest request that an agent sent in a channel."""
    everything = Query(channel_id, View("", 0, takes_part=True, may_write=False), rig.at(), newest=True)
    said = [message.post for message in await rig.store.page(DEFAULT_TENANT, everything)]
    return next((post for post in said if (post.sender, post.pattern) == (asker, Pattern.REQUEST)), None)


async def withdrawn(rig: Rig, asker: str) -> None:
    """An agent takes its newest request back, if it still can."""
    request = await newest_request(rig, asker)
    if request is not None:
        with suppress(ParleyError):
            await requests.withdraw(rig.team, rig.caller(asker), CHANNEL, request.id)


async def handed_on(rig: Rig, asker: str) -> None:
    """Bob hands the newest request of an agent on to carol, if he still can."""
    request = await newest_request(rig, asker)
    if request is not None:
        draft = PostDraft(Pattern.REQUEST, request.payload, "carol", forwards=request.id)
        with suppress(ParleyError):
            await requests.forward(rig.team, rig.caller("bob"), CHANNEL, draft)


async def tighter(rig: Rig) -> None:
    await put_policy(rig, max_classification=Classification.PUBLIC, pair_budget=2)


async def looser(rig: Rig) -> None:
    await put_policy(rig, max_classification=Classification.RESTRICTED, pair_budget=600, applies_to=AppliesTo.ALL)


# ---------------------------------------------------------------- messages


class Message(NamedTuple):
    """A message; what changes between its decision and its commit.

    A response names the newest request of `to`, and so does what `answers` without being one.
    """

    sender: str
    to: str
    metadata: dict[str, Any] = {}  # noqa: RUF012  # nobody changes it
    text: str = "What is the status?"
    channel_id: str = CHANNEL
    pattern: Pattern = Pattern.NOTIFY
    meanwhile: Change | None = None
    answers: bool = False

    @property
    def draft(self) -> PostDraft:
        # As the server encodes what it got.
        payload, metadata = msgspec.json.encode({"text": self.text}), msgspec.json.encode(self.metadata)
        return PostDraft(self.pattern, payload, self.to, metadata=metadata, wishes=wishes_of(self.metadata))


Step = Message | Change
_ID = re.compile(r"\b[a-z]+_[0-9A-Z]{26}\b")
# What is made for each message: two servers that decide alike still have ids of their own.
_OWN = {
    "id",
    "message_id",
    "exchange_id",
    "conversation_id",
    "approval",
    "digest",
    "prev_hash",
    "limit_approval",
    "holds",
}


async def _outcome(rig: Rig, message: Message) -> object:
    """What becomes of a message, and everything that was written about it."""
    with pytest.MonkeyPatch.context() as patch:
        if message.meanwhile is not None:
            before_the_commit(rig, patch, message.meanwhile)
        draft = message.draft
        if message.answers or message.pattern is Pattern.RESPONSE:
            request = await newest_request(rig, message.to, message.channel_id)
            draft = draft._replace(in_reply_to=request.id if request is not None else "")
        try:
            post = await posting.post(rig.team, rig.caller(message.sender), message.channel_id, draft)
        except ParleyError as refusal:
            outcome: object = (refusal.code, _ID.sub("an id", refusal.message))
        else:
            outcome = "held" if isinstance(post, Held) else await _written(rig, post)
    trail = await rig.store.audits(DEFAULT_TENANT, AuditQuery(limit=1000))
    _check_chains(trail)
    return outcome, [_without_ids(json.loads(entry.document)) for entry in trail]


def _check_chains(trail: Sequence[AuditEntry]) -> None:
    """Every entry has its own hash, and names that of the entry before it on its side."""
    hashes: dict[str, str] = {}
    for entry in trail:
        document = json.loads(entry.document)
        assert entry.document == encode_audit_entry(document)
        assert entry.entry_hash == entry_hash(entry.document)
        assert (document["id"], document["prev_hash"]) == (entry.id, hashes.get(entry.side, NO_HASH))
        hashes[entry.side] = entry.entry_hash


async def _written(rig: Rig, post: Any) -> object:  # noqa: ANN401  # a post
    """A message and its exchange, as they are stored."""
    stored = await rig.store.post(DEFAULT_TENANT, post.id)
    assert stored is not None
    assert stored == post._replace(partial=stored.partial)
    exchange = await rig.store.get(Exchange, DEFAULT_TENANT, post.exchange_id) if post.exchange_id else None
    metadata = _without_ids(json.loads(stored.metadata))
    answered = await rig.store.post(DEFAULT_TENANT, stored.in_reply_to) if stored.in_reply_to else None
    placed = stored._replace(id="", in_reply_to=f"{answered and answered.seq}", exchange_id="", metadata=b"")
    return placed, metadata, exchange and _without_ids(asdict(exchange)), answered and answered.answered


def _without_ids(document: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_ids(value) if isinstance(value, dict) else value
        for name, value in document.items()
        if name not in _OWN
    }


async def govern(rig: Rig, **channel: Any) -> None:  # noqa: ANN401  # of a channel
    """A channel of agents of one org unit, so that the default policy allows what they say."""
    await rig.intent(agents=AGENTS)
    await rig.channel(**channel)
    for agent in AGENTS:
        await place(rig, agent, org_unit="engineering")


async def say(rig: Rig, message: Message, kind: KeyKind = KeyKind.AGENT) -> Post | Held:
    """Post a message."""
    return await posting.post(rig.team, rig.caller(message.sender, kind), message.channel_id, message.draft)


RIGS = ("remembers", "decides")


def compare(steps: list[Step], *, governed: bool = False) -> None:
    """Take the same steps on both servers. With `governed` all agents are of one org unit, under a policy."""

    async def run(folder: Path) -> None:
        async with AsyncExitStack() as stack:
            rigs = [await _opened_rig(folder / name, stack, governed=governed) for name in RIGS]
            rigs[1].team.plain_decisions = DecisionCache(rigs[1].store.generation, limit=0)
            rigs[1].team.governed_decisions = DecisionCache(rigs[1].store.generation, limit=0)
            for step in steps:
                if isinstance(step, Message):
                    remembered, decided = [await _outcome(rig, step) for rig in rigs]
                    assert remembered == decided, step
                else:
                    for rig in rigs:
                        await step(rig)

    with TemporaryDirectory() as folder:
        for name in RIGS:
            (Path(folder) / name).mkdir()
        asyncio.run(run(Path(folder)))


def often(steps: list[Step], times: int) -> list[Step]:
    """Each message several times, and all once more at the end: what was remembered on the way is used."""
    said = [step for step in steps if isinstance(step, Message)]
    groups = [
        [step._replace(meanwhile=None)] * (times - 1) + [step] if isinstance(step, Message) else [step]
        for step in steps
    ]
    return [step for group in groups for step in group] + [message._replace(meanwhile=None) for message in said]


async def _opened_rig(folder: Path, stack: AsyncExitStack, *, governed: bool) -> Rig:
    rig = await stack.enter_async_context(open_rig(folder))
    await rig.intent(agents=AGENTS)
    await rig.channel()
    await rig.channel(SECOND)
    await rig.role("tester", "bob")
    if governed:
        for agent in AGENTS:
            await place(rig, agent, org_unit="engineering")
    return rig
