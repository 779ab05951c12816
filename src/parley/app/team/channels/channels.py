"""Channels: create, list, change, close, delete; and the closing that follows from an intent, a task or a departure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.channels import posting, responders
from parley.app.team.channels.posting import Held, check_present, check_speaks
from parley.app.team.channels.venues import Venue, channel_of, venue_of
from parley.app.team.channels.visible import scope_of_all
from parley.app.team.directory import roles
from parley.app.team.directory.participants import find_joined
from parley.app.team.directory.permissions import intent_access, is_listed, sees, stands_on
from parley.app.team.directory.viewers import find_reader, is_whole_person, list_viewers, readers_of_channels
from parley.app.team.retry import committed, put
from parley.app.team.rules import governing
from parley.app.team.rules import in_force as rules
from parley.domain.channel.channel import (
    Channel,
    ChannelStatus,
    Member,
    MemberPolicy,
    Options,
    Tally,
    check_manages,
    closed,
    lifetime_end,
    with_members,
    with_policy,
)
from parley.domain.channel.post import PostDraft
from parley.domain.channel.request import RequestMark, RequestState
from parley.domain.directory.access import Access, Permission, standing
from parley.domain.directory.callers import party_name
from parley.domain.directory.intent import RESOLVED, TASK_OVER, Intent, Task
from parley.domain.errors.errors import Invalid, NotFound, Problem
from parley.domain.errors.team import BadTransition, ChannelClosed, NoIntentAccess, QuotaExceeded
from parley.domain.message.message import Pattern
from parley.domain.names import is_name
from parley.domain.record import expecting
from parley.domain.store.changes import Query, TeamChanges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley.app.team.directory.viewers import ActingCaller
    from parley.app.team.team import Team
    from parley.domain.channel.channel import View
    from parley.domain.channel.post import Post
    from parley.domain.directory.callers import Caller
    from parley.domain.record import Expect, Record
    from parley.domain.store.changes import ChannelQuery


class ChannelDraft(NamedTuple):
    """A proposed channel."""

    label: str
    members: tuple[str, ...] = ()
    policy: MemberPolicy = MemberPolicy.INTENT
    options: Options = Options()
    task_id: str = ""


class ChannelChange(NamedTuple):
    """Changes to a channel; None leaves a field as it is."""

    members: tuple[str, ...] | None = None
    add_members: tuple[str, ...] = ()
    remove_members: tuple[str, ...] = ()
    policy: MemberPolicy | None = None
    audit: bool | None = None
    ttl_seconds: int | None = None
    no_ttl: bool = False
    max_messages: int | None = None
    status: ChannelStatus | None = None


class ChannelWithTally(NamedTuple):
    """A channel with its counters."""

    channel: Channel
    tally: Tally


async def create(
    team: Team, caller: Caller, intent_id: str, draft: ChannelDraft, meant_for: str = ""
) -> ChannelWithTally:
    """Create a channel on an intent; `NoResponders` if it is meant for an agent or a role that gets nothing in it."""

    async def decide() -> TeamChanges:
        intent, access, granted = await intent_access(team, caller, intent_id, Permission.WRITE)
        expects = [expecting(intent), *granted]
        channel = await _drafted(team, caller, intent, access, draft, expects)
        if meant_for:
            await _check_responders(team, caller, channel, access, meant_for, expects)
        entry = team.entry(caller, "channel_created", channel.id, intent=intent_id, name=channel.label)
        return TeamChanges(
            caller.tenant, expects=tuple(expects), puts=(channel,), entries=(entry,), created_id=channel.id
        )

    return ChannelWithTally(await put(team, caller, decide, Channel, "intent"), Tally())


async def _drafted(
    team: Team, caller: Caller, intent: Intent, access: Access, draft: ChannelDraft, expects: list[Expect]
) -> Channel:
    """The channel of this draft. Records that the decision depends on are added to `expects`."""
    if not is_name(draft.label):
        raise Invalid.because([Problem("bad_name", "name", "is no channel name")])
    if intent.status in RESOLVED:
        raise ChannelClosed(f"the intent is {intent.status.value}: it takes no more channels")
    if draft.task_id:
        task = await team.store.get(Task, caller.tenant, draft.task_id)
        if task is None or task.intent_id != intent.id:
            raise Invalid.because([Problem("unknown", "task_id", "no such task in this intent")])
        if task.status in TASK_OVER:
            raise ChannelClosed(f"the task is {task.status.value}: it takes no more channels")
        expects.append(expecting(task))
    if caller.agent:
        await check_present(team, caller.tenant, caller.agent, expects)
    members = dict.fromkeys((caller.agent, *draft.members) if caller.agent else draft.members)
    await _check_members(team, access, draft.members, len(members), expects)
    if await team.store.count(Channel, caller.tenant, intent.id) >= team.limits.channels_per_intent:
        raise QuotaExceeded(f"an intent has at most {team.limits.channels_per_intent} channels")
    now = team.at()
    channel = Channel(
        id=team.new_id("chan"),
        tenant_id=caller.tenant,
        intent_id=intent.id,
        label=draft.label,
        created_by=caller.agent or caller.actor,
        created_at=now,
        task_id=draft.task_id,
        members=tuple(Member(agent=agent) for agent in members),
        policy=draft.policy,
        options=draft.options,
    )
    return replace(channel, expires=lifetime_end(channel, Tally()))


async def _check_responders(
    team: Team, caller: Caller, channel: Channel, access: Access, to: str, expects: list[Expect]
) -> None:
    """Refuse a channel for a request that nobody could answer, as the request would be refused."""
    request = PostDraft(Pattern.REQUEST, b"{}", to, wait_for_responders=False)
    role = await responders.addressed_role(team, caller.tenant, request, expects)
    holders = [holder.agent for holder in role.holders] if role is not None else []
    units = await rules.units_of(team, access, holders, expects)
    joined = await find_joined(team, access, role, team.at(), expects) if role is not None else ()
    await responders.check(team, caller, channel, access, request, role, units, joined)


async def _check_members(team: Team, access: Access, agents: Sequence[str], total: int, expects: list[Expect]) -> None:
    """Refuse agents that may not become members, or a total above the limit; adds their records to `expects`."""
    if total > team.limits.members:
        detail = f"a channel has at most {team.limits.members} members"
        raise Invalid.because([Problem("too_many", "members", detail)])
    now, units = team.at(), await rules.units_of(team, access, agents, expects)
    for agent in agents:
        if standing(access, party_name(agent), now, units.get(agent, "")) is None:
            raise NoIntentAccess(f"members: {agent} has no access to the intent")
        await check_present(team, access.tenant_id, agent, expects)


async def post_by_name(team: Team, caller: Caller, intent_id: str, name: str, draft: PostDraft) -> Post | Held:
    """Post to a channel by its name; one that does not exist yet is created in the same transaction."""
    check_speaks(caller)
    ids = (team.new_id("msg"),)

    async def find_venue() -> Venue:
        channel = await team.store.find_by_name(Channel, caller.tenant, intent_id, name)
        listed = await team.store.get(Access, caller.tenant, intent_id)
        if channel is not None and listed is not None and await is_listed(team, listed, caller):
            return await venue_of(team, caller, channel.id)
        intent, access, granted = await intent_access(team, caller, intent_id, Permission.WRITE)
        if channel is not None:
            return await venue_of(team, caller, channel.id)
        expects = [expecting(intent), *granted]
        channel = await _drafted(team, caller, intent, access, ChannelDraft(name), expects)
        entry = team.entry(caller, "channel_created", channel.id, intent=intent.id, name=name)
        return Venue(channel, access, expects, entry)

    async with governing.lock_conversation(team, caller, draft):
        decided, done = await posting.decide_and_commit(
            team, caller, lambda: posting.decide(team, caller, find_venue, (draft,), ids)
        )
    return Held(decided.held) if decided.held is not None else done.posts[0]


async def list_all(team: Team, caller: Caller, intent_id: str) -> list[ChannelWithTally]:
    """The channels of an intent that the caller may know of."""
    access = (await intent_access(team, caller, intent_id, Permission.READ)).access
    shown = []
    for channel in await team.store.children(Channel, caller.tenant, intent_id):
        try:
            await sees(team, channel, access, caller)
        except NotFound:
            continue
        shown.append(await _current(team, channel))
    return shown


class ListedChannel(NamedTuple):
    """A channel with its newest message that the caller may see; `seat`: the agent of a person that reads it."""

    channel: ChannelWithTally
    last: Post | None
    seat: str = ""


class ChannelPage(NamedTuple):
    """Channels, last active first, and where the page ended."""

    channels: tuple[ListedChannel, ...]
    # The last activity of the last one, and its id; empty when there are no more.
    end: tuple[str, str] = ("", "")


async def list_page(team: Team, caller: Caller, query: ChannelQuery) -> ChannelPage:
    """A page of the channels that the caller may read, in all intents; a person those of all its agents."""
    readers: dict[str, list[ActingCaller]] | None = None
    if is_whole_person(caller):
        readers = await readers_of_channels(team, await list_viewers(team, caller))
        query = query._replace(channels=tuple(readers))
    else:
        scope = await scope_of_all(team, caller)
        query = query._replace(channels=None if scope.channels is None else tuple(scope.channels))
    shown: list[ListedChannel] = []
    while len(shown) < query.limit:
        page = await team.store.list_channels(caller.tenant, query)
        for stored, tally in page:
            query = query._replace(before=(tally.last_at or stored.created_at, stored.id))
            reader = caller if readers is None else await _reader(team, stored, readers[stored.id])
            channel = await _listed_channel(team, reader, stored, tally) if reader is not None else None
            if reader is not None and channel is not None and query.status in ("", channel.channel.status):
                seat = reader.agent if readers is not None else ""
                shown.append(ListedChannel(channel, await _last_post(team, reader, stored), seat))
                if len(shown) == query.limit:
                    break
        if len(page) < query.limit:
            return ChannelPage(tuple(shown), query.before if len(shown) == query.limit else ("", ""))
    return ChannelPage(tuple(shown), query.before)


async def _reader(team: Team, channel: Channel, viewers: list[ActingCaller]) -> Caller | None:
    """The agent of a person that hears the newest of a channel that it may read."""
    access = await team.store.get(Access, channel.tenant_id, channel.intent_id)
    return await find_reader(team, channel, access, viewers) if access is not None else None


async def _listed_channel(team: Team, caller: Caller, channel: Channel, tally: Tally) -> ChannelWithTally | None:
    """The channel as it is now, if its name and members are for the caller to know."""
    try:
        await _readable(team, caller, channel.id)
    except NotFound:
        return None
    return _as_of_now(team, channel, tally)


async def _last_post(team: Team, caller: Caller, channel: Channel) -> Post | None:
    """The newest message of a channel that the caller may see."""
    access = await team.store.get(Access, caller.tenant, channel.intent_id)
    if access is None:
        return None
    channel_view = await sees(team, channel, access, caller)
    query = Query(channel.id, channel_view, team.at(), limit=1, newest=True)
    posts = await team.store.page(caller.tenant, query) if channel_view.takes_part else ()
    return posts[0].post if posts else None


async def get(team: Team, caller: Caller, channel_id: str) -> ChannelWithTally:
    """One channel."""
    channel, _, _ = await _readable(team, caller, channel_id)
    return await _current(team, channel)


async def find_channel(team: Team, caller: Caller, channel_id: str) -> tuple[Channel, Access]:
    """The channel and its intent's access list; `NotFound` when the caller may not know of it."""
    channel, access = await channel_of(team, caller, channel_id)
    await sees(team, channel, access, caller)
    return channel, access


async def view_of(team: Team, caller: Caller, channel_id: str) -> View:
    """What the caller may see of the messages of a channel; `NotFound` when it may not know of it."""
    return await sees(team, *await channel_of(team, caller, channel_id), caller)


async def _readable(team: Team, caller: Caller, channel_id: str) -> tuple[Channel, Access, list[Expect]]:
    """The same for the channel itself, whose name and members are text of its intent; and what that depends on."""
    channel, access = await find_channel(team, caller, channel_id)
    expects = [expecting(access)]
    if await stands_on(team, access, caller, expects) is None:
        raise NotFound.no_such("channel")
    return channel, access, expects


async def _current(team: Team, channel: Channel) -> ChannelWithTally:
    return _as_of_now(team, channel, await team.store.tally(channel.tenant_id, channel.id))


def _as_of_now(team: Team, channel: Channel, tally: Tally) -> ChannelWithTally:
    """The channel with its counters; closed if it has expired, even before the sweep."""
    end = lifetime_end(channel, tally) if channel.is_open else ""
    if end and end <= team.at():
        channel = closed(channel, end, team.limits.retention)
    return ChannelWithTally(channel, tally)


async def change(team: Team, caller: Caller, channel_id: str, wanted: ChannelChange) -> ChannelWithTally:
    """Change members, options or status."""

    async def decide() -> TeamChanges:
        channel, access, expects = await _readable(team, caller, channel_id)
        check_manages(channel, access, caller)
        current = (await _current(team, channel)).channel
        changed = await _apply_change(team, current, access, wanted, expects)
        if wanted.status is ChannelStatus.CLOSED and current.is_open:
            changed = closed(changed, team.at(), team.limits.retention)
        facts = {"status": changed.status.value, "members": ",".join(member.agent for member in changed.members)}
        entry = team.entry(caller, "channel_changed", channel.id, **facts)
        ended = (channel.id,) if channel.is_open and not changed.is_open else ()
        return TeamChanges(caller.tenant, expects=tuple(expects), puts=(changed,), ended=ended, entries=(entry,))

    stored = await put(team, caller, decide, Channel, "channel")
    await roles.deliver_waiting(team, caller.tenant, channel_id=channel_id)
    return ChannelWithTally(stored, await team.store.tally(stored.tenant_id, channel_id))


async def _apply_change(
    team: Team, channel: Channel, access: Access, wanted: ChannelChange, expects: list[Expect]
) -> Channel:
    """The changed channel. Records that the decision depends on are added to `expects`."""
    if not channel.is_open:
        if wanted.status is ChannelStatus.OPEN:
            raise BadTransition("a closed channel stays closed")
        if wanted.status is None or wanted != ChannelChange(status=ChannelStatus.CLOSED):
            raise ChannelClosed(f"the channel {channel.label} is closed")
        return channel
    agents = [member.agent for member in channel.members] if wanted.members is None else list(wanted.members)
    agents = [agent for agent in (*agents, *wanted.add_members) if agent not in wanted.remove_members]
    present = {member.agent for member in channel.members}
    changed = channel
    if {*agents} != present:
        changed = with_members(channel, tuple(agents))
    new = [agent for agent in dict.fromkeys(agents) if agent not in present]
    await _check_members(team, access, new, len(changed.members), expects)
    options = changed.options
    ttl = None if wanted.no_ttl else wanted.ttl_seconds if wanted.ttl_seconds is not None else options.ttl_seconds
    options = Options(
        audit=options.audit if wanted.audit is None else wanted.audit,
        ttl_seconds=ttl,
        max_messages=wanted.max_messages or options.max_messages,
    )
    changed = with_policy(replace(changed, options=options), wanted.policy or changed.policy)
    return replace(changed, expires=lifetime_end(changed, await team.store.tally(channel.tenant_id, channel.id)))


async def delete(team: Team, caller: Caller, channel_id: str) -> None:
    """Close a channel and purge it at once; its name is free again. Audit events stay."""

    async def decide() -> TeamChanges:
        channel, access, expects = await _readable(team, caller, channel_id)
        check_manages(channel, access, caller)
        entry = team.entry(caller, "channel_deleted", channel.id, intent=channel.intent_id, name=channel.label)
        drops = (channel, *await request_records(team, channel))
        return TeamChanges(caller.tenant, expects=tuple(expects), drops=drops, purges=(channel.id,), entries=(entry,))

    await committed(team, caller, decide, "channel")


async def request_records(team: Team, channel: Channel) -> tuple[Record, ...]:
    """What is stored about the requests of a channel beside its messages: it goes with the channel."""
    states = await team.store.children(RequestState, channel.tenant_id, channel.id)
    return (*states, *await team.store.children(RequestMark, channel.tenant_id, channel.id))


async def closing(team: Team, tenant: str, intent_id: str, *, task_id: str = "") -> tuple[Channel, ...]:
    """The open channels of an intent, or of one of its tasks, closed as of now: for the commit that ends it."""
    now = team.at()
    channels = []
    for channel in await team.store.children(Channel, tenant, intent_id):
        if channel.is_open and (not task_id or channel.task_id == task_id):
            current = (await _current(team, channel)).channel
            channels.append(closed(current, now, team.limits.retention) if current.is_open else current)
    return tuple(channels)
