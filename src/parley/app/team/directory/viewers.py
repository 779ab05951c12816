"""Which of a person's agents can see something. Judged for all of them at once, by records that are read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.directory.names import agents_of_person
from parley.app.team.directory.permissions import stands_on
from parley.app.team.rules import in_force as rules
from parley.domain.agents.party import Attributes, Party
from parley.domain.channel.channel import Channel, View, view
from parley.domain.directory.access import Access, standing
from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import NotFound
from parley.domain.errors.rules import Suspended
from parley.domain.rules import suspension
from parley.domain.rules.suspension import Suspensions, check_not_stopped
from parley.domain.store.changes import ConversationQuery, Query

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.app.team.team import Team
    from parley.domain.agents.agent import AgentRecord
    from parley.domain.channel.post import Post
    from parley.domain.directory.access import Standing
    from parley.domain.directory.callers import Caller


_PAGE = 200
# By so many messages it is found out who hears a channel.
_NEWEST = 20
_ALL = View("", 0, takes_part=True, may_write=False)


class ActingCaller(NamedTuple):
    """A caller as one of its agents, with what an admin said about that agent."""

    caller: Caller
    attributes: Attributes


def is_whole_person(caller: Caller) -> bool:
    """Whether a person asks, and not as one of its agents."""
    return caller.kind is KeyKind.HUMAN and caller.agent in ("", caller.user)


async def list_viewers(team: Team, caller: Caller) -> list[ActingCaller]:
    """Every agent that acts for a person, by name, then the person itself; of anybody else only the caller.

    Without agents that have left or are suspended: nobody reads as one of these.
    """
    own = (await rules.party(team, caller.tenant, caller.agent)).attributes if caller.agent else Attributes()
    if not is_whole_person(caller):
        return [ActingCaller(caller, own)]
    records = sorted(await agents_of_person(team, caller.tenant, caller.user), key=lambda record: record.id)
    stopped = await team.store.get(Suspensions, caller.tenant, suspension.ALL)
    viewers = [
        ActingCaller(caller._replace(agent=record.id), record.attributes)
        for record in records
        if record.id != caller.agent and not record.gone and not _is_stopped(stopped, record)
    ]
    return [*viewers, ActingCaller(caller, own)]


def _is_stopped(stopped: Suspensions | None, record: AgentRecord) -> bool:
    try:
        if stopped is not None and stopped.stopped:
            check_not_stopped(stopped, Party(record.id, record.attributes), None)
    except Suspended:
        return True
    return False


async def find_viewer(team: Team, caller: Caller, channel_id: str, message_id: str = "") -> Caller:
    """The first that can see a channel, or a message in it; `NotFound` when none can."""
    post = await team.store.post(caller.tenant, message_id, evicted=True) if message_id else None
    if message_id and (post is None or post.channel_id != channel_id):
        raise NotFound.no_such("message")
    channel = await team.store.get(Channel, caller.tenant, channel_id)
    access = await team.store.get(Access, caller.tenant, channel.intent_id) if channel is not None else None
    if channel is None or access is None:
        raise NotFound.no_such("channel")
    viewers = [viewer for viewer in await list_viewers(team, caller) if _sees(team, viewer, channel, access, post)]
    found = await find_reader(team, channel, access, viewers)
    if found is None:
        raise NotFound.no_such("channel" if post is None else "message")
    return found


async def find_reader(team: Team, channel: Channel, access: Access, viewers: list[ActingCaller]) -> Caller | None:
    """The one that hears the newest messages of a channel: as another, its page might be empty.

    Where none hears any, the first that may know the channel; None when none may.
    """
    if len(viewers) > 1:
        query = Query(channel.id, _ALL, team.at(), limit=_NEWEST, newest=True)
        posts = [message.post for message in await team.store.page(channel.tenant_id, query)]
        viewers = sorted(viewers, key=lambda viewer: _newest_heard(posts, _view(team, viewer, channel, access)))
    return await first_not_apart(team, access, viewers)


def _newest_heard(posts: list[Post], channel_view: View | None) -> int:
    """The place of the first of these messages that somebody hears; behind them when that is none."""
    if channel_view is None or not channel_view.takes_part:
        return len(posts)
    return next((place for place, post in enumerate(posts) if post.visible_to(channel_view)), len(posts))


async def _find_viewer_among(team: Team, caller: Caller, posts: Iterable[Post]) -> Caller | None:
    """The first that can see one of these messages; None when none can."""
    viewers = await list_viewers(team, caller)
    seen: set[str] = set()
    for post in posts:
        channel = await team.store.get(Channel, caller.tenant, post.channel_id)
        access = await team.store.get(Access, caller.tenant, channel.intent_id) if channel is not None else None
        if channel is not None and access is not None and not post.expired(team.at()):
            seen |= {viewer.caller.agent for viewer in viewers if _sees(team, viewer, channel, access, post)}
    return next((viewer.caller for viewer in viewers if viewer.caller.agent in seen), None)


async def find_viewer_of_conversation(team: Team, caller: Caller, conversation_id: str) -> Caller:
    """The first that can see one of the newest messages of a conversation that any can see; `NotFound` without any."""
    exchanges = await team.governance.conversation(team.store, caller.tenant, conversation_id)
    query = ConversationQuery(conversation_id, team.at(), exchanges, newest=True, limit=_PAGE)
    while posts := await team.store.conversation_posts(caller.tenant, query):
        found = await _find_viewer_among(team, caller, posts)
        if found is not None:
            return found
        query = query._replace(before=posts[-1].position)
    raise NotFound.no_such("conversation")


async def first_not_apart(team: Team, access: Access, viewers: Iterable[ActingCaller]) -> Caller | None:
    """The first that isolation does not keep from an intent. Agents that are alike are asked about once."""
    refused: list[tuple[Attributes, Standing | None]] = []
    for viewer in viewers:
        stands = standing(access, viewer.caller.agent, team.at(), viewer.attributes.org_unit)
        if (viewer.attributes, stands) in refused:
            continue
        if await stands_on(team, access, viewer.caller) is not None:
            return viewer.caller
        refused.append((viewer.attributes, stands))
    return None


async def readers_of_channels(team: Team, viewers: list[ActingCaller]) -> dict[str, list[ActingCaller]]:
    """Those that can read each channel of the tenant: access lists and channels are gone through once."""
    tenant, now = viewers[0].caller.tenant, team.at()
    lists: dict[str, tuple[Access, list[ActingCaller]]] = {}
    after = ""
    while access_lists := await team.store.every(Access, tenant, after=after):
        after = access_lists[-1].id
        for access in access_lists:
            on_list = [
                viewer
                for viewer in viewers
                if viewer.caller.agent
                and standing(access, viewer.caller.agent, now, viewer.attributes.org_unit) is not None
            ]
            if on_list:
                lists[access.id] = (access, on_list)
    readers: dict[str, list[ActingCaller]] = {}
    after = ""
    while lists and (channels := await team.store.every(Channel, tenant, after=after)):
        after = channels[-1].id
        for channel in channels:
            if channel.intent_id in lists:
                access, on_list = lists[channel.intent_id]
                reading = [viewer for viewer in on_list if _takes_part(_view(team, viewer, channel, access))]
                if reading:
                    readers[channel.id] = reading
    return readers


def _sees(team: Team, viewer: ActingCaller, channel: Channel, access: Access, post: Post | None) -> bool:
    channel_view = _view(team, viewer, channel, access)
    if post is None:
        return channel_view is not None
    return channel_view is not None and channel_view.takes_part and post.visible_to(channel_view)


def _view(team: Team, viewer: ActingCaller, channel: Channel, access: Access) -> View | None:
    try:
        return view(channel, access, viewer.caller, team.at(), viewer.attributes.org_unit)
    except NotFound:
        return None


def _takes_part(channel_view: View | None) -> bool:
    return channel_view is not None and channel_view.takes_part
