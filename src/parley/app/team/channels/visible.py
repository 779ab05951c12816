"""What a caller may see of a tenant, as a scope that the store reads within: what is hidden is never read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.directory.permissions import assigned
from parley.app.team.rules import in_force as rules
from parley.app.team.state.sights import VisibleParts
from parley.domain.channel.channel import Channel, view
from parley.domain.channel.participation import Participant, heard_since
from parley.domain.directory.access import Access, standing
from parley.domain.errors.errors import NotFound
from parley.domain.record import NEVER
from parley.domain.store.changes import FeedScope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.app.team.team import Team
    from parley.domain.channel.channel import View
    from parley.domain.directory.callers import Caller

_PAGE = 1_000


async def scope_of_channels(team: Team, caller: Caller, channels: Iterable[Channel]) -> FeedScope:
    """Of these channels what the caller may see."""
    seen: dict[str, int] = {}
    unit = await _unit_of(team, caller)
    for channel in channels:
        access = await team.store.get(Access, caller.tenant, channel.intent_id)
        channel_view = _view(channel, access, caller, team.at(), unit) if access is not None else None
        if channel_view is not None:
            seen[channel.id] = channel_view.since
    return FeedScope(seen, viewer="" if caller.all_seeing else caller.agent)


async def scope_of_intent(team: Team, caller: Caller, intent_id: str) -> FeedScope:
    """Of an intent: its events, and the messages that the caller may see."""
    channels = await team.store.children(Channel, caller.tenant, intent_id)
    return (await scope_of_channels(team, caller, channels))._replace(intents=(intent_id,))


async def scope_of_all(team: Team, caller: Caller) -> FeedScope:
    """Every message of the tenant that the caller may see."""
    if caller.all_seeing:
        return FeedScope(None)
    sight = await _sight_of(team, caller)
    return FeedScope(sight.channels, viewer=caller.agent)


async def scope_of_agent(team: Team, caller: Caller, agent: str) -> FeedScope:
    """What was said to an agent, by name or as one who takes part, and the events of the intents it is assigned to."""
    sight = await _sight_of(team, caller._replace(agent=agent))
    channels = None if caller.all_seeing else sight.heard
    return FeedScope(channels, sight.intents, viewer=agent, addressed=True)


async def _sight_of(team: Team, caller: Caller) -> VisibleParts:
    """What an agent sees; of who sees everything only the intents."""
    tenant = caller.tenant
    generation = team.sights.generation(tenant)
    unit = await _unit_of(team, caller)
    whose = f"{caller.agent} of {unit}"
    sight = None if caller.all_seeing else team.sights.get(tenant, whose)
    if sight is not None:
        return sight
    now = team.at()
    lists: dict[str, Access] = {}
    intents: list[str] = []
    after = ""
    while access_lists := await team.store.every(Access, tenant, after=after):
        after = access_lists[-1].id
        for access in access_lists:
            if caller.all_seeing or standing(access, caller.agent, now, unit) is not None:
                lists[access.id] = access
            if assigned(access, caller.agent) is not None:
                intents.append(access.id)
    joined: dict[str, Participant] = {}
    if not caller.all_seeing:
        joined = {record.intent_id: record for record in await _participations(team, caller)}
    channels: dict[str, int] = {}
    heard: dict[str, int] = {}
    after = ""
    while lists and not caller.all_seeing and (page := await team.store.every(Channel, tenant, after=after)):
        after = page[-1].id
        for channel in page:
            access_list = lists.get(channel.intent_id)
            channel_view = _view(channel, access_list, caller, now, unit) if access_list is not None else None
            if access_list is not None and channel_view is not None:
                channels[channel.id] = channel_view.since
                since = heard_since(channel, access_list, joined.get(channel.intent_id), channel_view, now)
                heard[channel.id] = NEVER if since is None else since
    sight = VisibleParts(channels, heard, tuple(intents))
    if not caller.all_seeing:
        team.sights.keep(tenant, whose, generation, sight)
    return sight


async def _participations(team: Team, caller: Caller) -> list[Participant]:
    """The intents that the caller's agent joined."""
    records: list[Participant] = []
    while page := await team.store.children(
        Participant, caller.tenant, caller.agent, after=records[-1].id if records else "", limit=_PAGE
    ):
        records += page
    return records


async def _unit_of(team: Team, caller: Caller) -> str:
    return (await rules.party(team, caller.tenant, caller.agent)).attributes.org_unit if caller.agent else ""


def _view(channel: Channel, access: Access, caller: Caller, now: str, unit: str) -> View | None:
    """The view of a caller that may read the channel; None when it may not."""
    try:
        channel_view = view(channel, access, caller, now, unit)
    except NotFound:
        return None
    return channel_view if channel_view.takes_part else None
