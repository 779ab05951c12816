"""Where something is said: in an existing channel, or in the direct channel that the first message of two creates."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.channels import responders
from parley.app.team.directory.quotas import check_intents, counted_intent
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.channel import Channel, lifetime_end, with_members
from parley.domain.channel.direct import DirectIds, direct_ids, new_direct
from parley.domain.channel.event import INTENT_CREATED
from parley.domain.directory.access import Access
from parley.domain.errors.errors import Invalid, NotFound, Problem
from parley.domain.errors.team import CLOSED_ADVICE, AgentDeparted, ChannelClosed
from parley.domain.names import is_name
from parley.domain.record import Expect, expecting

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.channel.event import EventDraft
    from parley.domain.directory.callers import Caller
    from parley.domain.mailbox.ledger import Entry
    from parley.domain.record import Record
    from parley.domain.store.changes import TeamChanges


class Venue(NamedTuple):
    """The channel that something is said in, and what the decision about it depends on."""

    channel: Channel
    access: Access
    expects: list[Expect]
    # The ledger entry of the change, when this message creates the channel or lets an agent in again.
    creation_entry: Entry | None = None
    # What is created with a channel: the intent of two agents, and its event.
    records: tuple[Record, ...] = ()
    events: tuple[EventDraft, ...] = ()


async def venue_of(team: Team, caller: Caller, channel_id: str, to: str = "") -> Venue:
    """An existing channel whose time has not run out; or the direct channel of the caller with the agent `to`."""
    channel = await team.store.get(Channel, caller.tenant, channel_id)
    if channel is None:
        return await _new_direct_venue(team, caller, channel_id, to)
    access = await team.store.get(Access, caller.tenant, channel.intent_id)
    if access is None:
        raise NotFound.no_such("channel")
    if channel.options.ttl_seconds is not None:
        await _check_alive(team, channel)
    if channel.direct:
        return await _direct_venue(team, caller, channel, access, to)
    return Venue(channel, access, [expecting(channel), expecting(access)])


def with_channel(changes: TeamChanges, venue: Venue) -> TeamChanges:
    """The changes, with the channel when this message creates or changes it."""
    if venue.creation_entry is None:
        return changes
    return changes._replace(
        puts=(venue.channel, *venue.records, *changes.puts),
        events=(*venue.events, *changes.events),
        entries=(venue.creation_entry,),
    )


async def channel_of(team: Team, caller: Caller, channel_id: str) -> tuple[Channel, Access]:
    """A channel and the access list of its intent."""
    channel = await team.store.get(Channel, caller.tenant, channel_id)
    access = await team.store.get(Access, caller.tenant, channel.intent_id) if channel else None
    if channel is None or access is None:
        raise NotFound.no_such("channel")
    return channel, access


async def _check_alive(team: Team, channel: Channel) -> None:
    """A channel whose time has run out is closed, whether or not the sweep has been here."""
    if channel.is_open:
        end = lifetime_end(channel, await team.store.tally(channel.tenant_id, channel.id))
        if end and end <= team.at():
            raise ChannelClosed(f"the channel {channel.label} is closed, its time ran out: {CLOSED_ADVICE}")


# ---------------------------------------------------------------- direct channels


def direct_with(caller: Caller, other: str) -> DirectIds:
    """The ids of the direct channel of a caller with another agent, whether or not anything was said in it."""
    if not caller.agent:
        raise Invalid.because([Problem("required", "sender", "name the agent that speaks, by X-Agent-ID")])
    if not is_name(other) or other == caller.agent:
        raise Invalid.because([Problem("invalid", "agent_id", "is another agent than the one that speaks")])
    return direct_ids(caller.tenant, caller.agent, other)


async def _new_direct_venue(team: Team, caller: Caller, channel_id: str, to: str) -> Venue:
    """The direct channel that a first message creates, with its intent. No other channel is created by its id."""
    speaks = caller.agent and is_name(to) and to != caller.agent
    if not speaks or direct_ids(caller.tenant, caller.agent, to).channel_id != channel_id:
        raise NotFound.no_such("channel")
    # Nothing is created for a name that nobody knows.
    await responders.check_known(team, caller, to)
    await check_intents(team, caller.tenant)
    count = await counted_intent(team, caller)
    intent, access, channel = new_direct(caller.tenant, caller.agent, to, team.at())
    entry = team.entry(caller, "channel_created", channel.id, intent=intent.id, name=channel.label)
    event = team.event_by(caller, intent.id, INTENT_CREATED, title=intent.title)
    return Venue(channel, access, [], entry, (intent, access, *count), (event,))


async def _direct_venue(team: Team, caller: Caller, channel: Channel, access: Access, to: str) -> Venue:
    """A direct channel. An agent that was deregistered and came back is let in again when one of the two speaks."""
    expects = [expecting(channel), expecting(access)]
    absent = [agent for agent in channel.direct if channel.member(agent) is None and agent in (caller.agent, to)]
    if not absent or not channel.is_open or caller.agent not in channel.direct:
        return Venue(channel, access, expects)
    for agent in absent:
        record = await team.store.get(AgentRecord, caller.tenant, agent)
        if record is not None and record.gone:
            raise AgentDeparted(f"{agent} has left", hint="register it again")
    members = (*[member.agent for member in channel.members], *absent)
    entry = team.entry(caller, "channel_updated", channel.id, intent=channel.intent_id, name=channel.label)
    return Venue(with_members(channel, members), access, expects, entry)
