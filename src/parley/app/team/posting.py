"""Say something in a channel: load, decide, commit, wake. The one way a channel message is written."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from parley.app.team.hub import ATTEMPTS
from parley.domain.access import Access
from parley.domain.channel import Channel, lifetime_end, view
from parley.domain.directory import ROLE_PREFIX, Role
from parley.domain.errors import Conflict, Invalid, NotFound, Problem, Stale
from parley.domain.event import CHANNEL_MESSAGE, EventDraft
from parley.domain.message import Pattern
from parley.domain.post import Post, PostDraft, check_answerable, place
from parley.domain.record import Expect, expecting
from parley.domain.registry import AgentRecord
from parley.domain.team_changes import TeamChanges
from parley.domain.team_errors import AgentDeparted, AskTimeout, ChannelClosed
from parley.domain.times import stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley.app.team.hub import Team
    from parley.domain.directory import Caller


async def post(team: Team, caller: Caller, channel_id: str, draft: PostDraft) -> Post:
    """Post one message; on return it is durable and its recipients can read it."""
    return (await post_all(team, caller, channel_id, (draft,)))[0]


async def post_all(
    team: Team, caller: Caller, channel_id: str, drafts: Sequence[PostDraft], message_ids: Sequence[str] = ()
) -> tuple[Post, ...]:
    """Post several messages in one transaction: all of them, or none."""
    check_speaks(caller)
    ids = tuple(message_ids) or tuple([team.new_id("msg") for _ in drafts])
    for _ in range(ATTEMPTS):
        changes = await decide(team, caller, channel_id, drafts, ids)
        try:
            return (await team.commit(caller, changes)).posts
        except Stale as stale:
            if "kind" not in stale.facts:
                raise
    raise Conflict("the channel changes too often at this moment", hint="try again")


async def decide(
    team: Team, caller: Caller, channel_id: str, drafts: Sequence[PostDraft], ids: Sequence[str]
) -> TeamChanges:
    """What these drafts would write now."""
    tenant = caller.tenant
    channel = await team.store.get(Channel, tenant, channel_id)
    access = await team.store.get(Access, tenant, channel.intent_id) if channel else None
    if channel is None or access is None:
        raise NotFound("there is no such channel")
    now = team.now()
    at = stamp(now)
    seen = view(channel, access, caller, at)
    await _check_alive(team, channel, at)
    expects = [expecting(channel), expecting(access)]
    await check_present(team, tenant, caller.agent, expects)
    posts: list[Post] = []
    for draft, message_id in zip(drafts, ids, strict=True):
        role = await addressed_role(team, tenant, draft, expects)
        request = await _request(team, tenant, draft)
        placed = place(
            draft,
            message_id,
            now,
            caller.agent,
            seen,
            channel,
            access,
            role=role,
            request=request,
            longest=team.limits.longest_expiry if draft.expires_at else timedelta(0),
        )
        if placed.recipients:
            await check_reachable(team, tenant, placed, expects)
        posts.append(placed)
    events: tuple[EventDraft, ...] = ()
    if channel.options.audit:
        events = tuple(audited(team, channel, one, draft) for one, draft in zip(posts, drafts, strict=True))
    return TeamChanges(tenant, tuple(posts), tuple(expects), events=events)


def check_speaks(caller: Caller) -> None:
    """A message has a sender."""
    if not caller.agent:
        detail = "name the agent that speaks, by sender or X-Agent-ID"
        raise Invalid.because([Problem("required", "sender", detail)])


async def check_present(team: Team, tenant: str, agent: str, expects: list[Expect] | None = None) -> None:
    """Refuse an agent that has left. One that never registered is as good as any."""
    record = await team.store.get(AgentRecord, tenant, agent)
    if record is None:
        return
    if record.gone:
        raise AgentDeparted(f"{agent} has left", hint="register it again")
    if expects is not None:
        expects.append(expecting(record))


async def check_reachable(team: Team, tenant: str, said: Post, expects: list[Expect]) -> None:
    """Refuse what is said to one agent that has left."""
    if said.recipients and not said.to.startswith(ROLE_PREFIX):
        await check_present(team, tenant, said.to, expects)


async def _check_alive(team: Team, channel: Channel, now: str) -> None:
    """A channel whose time has run out is closed, whether or not the sweep has been here."""
    if channel.is_open and channel.options.ttl_seconds is not None:
        end = lifetime_end(channel, await team.store.tally(channel.id))
        if end and end <= now:
            raise ChannelClosed(f"the channel {channel.label} is closed: its time ran out")


async def addressed_role(team: Team, tenant: str, draft: PostDraft, expects: list[Expect]) -> Role | None:
    """The role that a draft is for, noted as something the decision depends on."""
    if not draft.to.startswith(ROLE_PREFIX):
        return None
    role_id = draft.to.removeprefix(ROLE_PREFIX)
    role = await team.store.get(Role, tenant, role_id)
    expects.append(expecting(role) if role else Expect(Role.kind, role_id, 0))
    return role


async def _request(team: Team, tenant: str, draft: PostDraft) -> Post | None:
    if draft.pattern is not Pattern.RESPONSE or not draft.in_reply_to:
        return None
    return await team.request(tenant, draft.in_reply_to)


def audited(team: Team, channel: Channel, said: Post, draft: PostDraft) -> EventDraft:
    """The copy of an audited message in its intent's log."""
    quoted = b'{"channel_id":"%b","channel_name":"%b","message_id":"%b","message_type":"%b","to":%b,"payload":%b}' % (
        channel.id.encode(),
        channel.label.encode(),
        said.id.encode(),
        said.pattern.value.encode(),
        b'"%b"' % said.to.encode() if said.to else b"null",
        said.payload,
    )
    return EventDraft(
        team.new_id("evt"),
        channel.intent_id,
        CHANNEL_MESSAGE,
        said.sender,
        quoted,
        said.created_at,
        draft.trace_id,
        draft.parent_event_id,
        draft.proof,
    )


async def reply(team: Team, caller: Caller, channel_id: str, request_id: str, draft: PostDraft) -> Post:
    """Answer a request: whom it goes to and what it answers follow from the request."""
    check_speaks(caller)
    channel = await team.store.get(Channel, caller.tenant, channel_id)
    access = await team.store.get(Access, caller.tenant, channel.intent_id) if channel else None
    if channel is None or access is None:
        raise NotFound("there is no such channel")
    seen = view(channel, access, caller, team.at())
    request = await team.request(caller.tenant, request_id)
    if request is None or request.channel_id != channel_id:
        raise NotFound("there is no such message")
    # Of what it may not see an agent learns only that a request was not for it.
    if request.pattern is not Pattern.REQUEST and not request.visible_to(seen):
        raise NotFound("there is no such message")
    if channel.is_open and seen.takes_part:
        check_answerable(request, caller.agent, team.at())
    answer = draft._replace(pattern=Pattern.RESPONSE, in_reply_to=request_id, to="")
    return await post(team, caller, channel_id, answer)


async def ask(team: Team, caller: Caller, channel_id: str, draft: PostDraft, patience: float) -> tuple[Post, Post]:
    """Post a request and wait so many seconds for its first answer; both. `AskTimeout` when none comes in time."""
    check_speaks(caller)
    if draft.pattern is not Pattern.REQUEST:
        raise Invalid.because([Problem("invalid", "message_type", "only a request can be waited for")])
    if draft.expires_at is None:
        draft = draft._replace(expires_at=team.now() + timedelta(seconds=patience))
    message_id = team.new_id("msg")
    changes = await decide(team, caller, channel_id, (draft,), (message_id,))
    answer = team.waits.begin(caller.tenant, changes.posts[0])
    try:
        (request,) = await post_all(team, caller, channel_id, (draft,), (message_id,))
        return request, await _answer(request, answer, patience)
    finally:
        team.waits.end(message_id, answer)


async def ask_again(team: Team, caller: Caller, request_id: str, patience: float) -> Post:
    """Wait on for the first answer to a request that was posted before, as one whose connection broke would."""
    request = await team.request(caller.tenant, request_id)
    if request is None:
        raise NotFound("there is no such message")
    answer = team.waits.begin(caller.tenant, request)
    try:
        # Begun before we look: what is answered from now on wakes us.
        answers = await team.store.answers(caller.tenant, request_id)
        return answers[0] if answers else await _answer(request, answer, patience)
    finally:
        team.waits.end(request_id, answer)


async def _answer(request: Post, answer: asyncio.Future[Post], patience: float) -> Post:
    try:
        async with asyncio.timeout(patience):
            return await answer
    except TimeoutError:
        raise AskTimeout(
            f"nobody answered {request.id} within {patience:g} s",
            facts={"request_id": request.id},
        ) from None
