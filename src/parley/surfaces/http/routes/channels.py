"""Channels over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from parley.app.team.channels import channels
from parley.app.team.channels.channels import ChannelChange, ChannelDraft
from parley.app.team.channels.venues import direct_with
from parley.app.team.directory import viewers
from parley.domain.channel.channel import ChannelStatus
from parley.domain.channel.direct import direct_pair
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.errors.team import BadCursor
from parley.domain.names import is_name
from parley.domain.store.changes import ChannelQuery
from parley.domain.times import parse_time, stamp
from parley.surfaces.http.route import EVERYBODY, Call, Param, Route, json
from parley.wire.api import channels as rfc0021
from parley.wire.api.channels import ChannelIn, ChannelPatch
from parley.wire.api.records.channels import Channel, DirectChannel, RecentChannel, Viewer

if TYPE_CHECKING:
    from parley.app.team.channels.channels import ChannelWithTally
    from parley.surfaces.http.http1.message import Response


def _channel(shown: ChannelWithTally) -> Channel:
    return rfc0021.channel_of(shown.channel, shown.tally)


async def create(call: Call) -> Response:
    body: ChannelIn = call.body
    draft = ChannelDraft(
        body.name,
        tuple(body.members),
        body.member_policy,
        rfc0021.options_of(body.options),
        body.task_id or "",
    )
    caller, meant_for = await call.speaker(body.created_by), call.query.get("for", "")
    shown = await channels.create(call.team, caller, call.params["intent_id"], draft, meant_for)
    return json(201, _channel(shown))


async def list_page(call: Call) -> Response:
    page = await channels.list_all(call.team, call.caller, call.params["intent_id"])
    return json(200, [_channel(shown) for shown in page])


async def find_viewer(call: Call) -> Response:
    channel_id, message_id, conversation_id = (
        call.query.get(name, "") for name in ("channel_id", "message_id", "conversation_id")
    )
    if bool(channel_id) == bool(conversation_id) or (message_id and not channel_id):
        raise Invalid.because([Problem("required", "channel_id", "name a channel or a conversation, not both")])
    if conversation_id:
        viewer = await viewers.find_viewer_of_conversation(call.team, call.caller, conversation_id)
    else:
        viewer = await viewers.find_viewer(call.team, call.caller, channel_id, message_id)
    return json(200, Viewer(seat=viewer.agent))


async def list_recent(call: Call) -> Response:
    query = call.query
    member = query.get("member", "")
    if member and not is_name(member):
        raise Invalid.because([Problem("bad_name", "member", "is no agent name")])
    moment = rfc0021.moment(query.get("active_since") or None, "active_since")
    wanted = ChannelQuery(
        intent_id=query.get("intent_id", ""),
        member=member,
        status=call.choice("status", "", *ChannelStatus),
        active_since=stamp(moment) if moment is not None else "",
        before=_place_of(query.get("before", "")),
        limit=call.whole("limit", 50, 1, _MOST_RECENT),
    )
    page = await channels.list_page(call.team, call.caller, wanted)
    documents = [
        rfc0021.recent_channel_of(recent.channel.channel, recent.channel.tally, recent.last, recent.seat)
        for recent in page.channels
    ]
    headers = ((b"X-Next-Cursor", "/".join(page.end).encode()),) if page.end[0] else ()
    return json(200, documents, headers)


def _place_of(cursor: str) -> tuple[str, str]:
    """The place of a cursor of this list: a moment and the id of a channel."""
    if not cursor:
        return "", ""
    moment, slash, channel_id = cursor.partition("/")
    try:
        place = stamp(parse_time(moment.replace(" ", "+"))), channel_id
    except Invalid:
        place = "", ""
    if not slash or not place[0]:
        raise BadCursor("before is no X-Next-Cursor of this list")
    return place


async def get(call: Call) -> Response:
    return json(200, _channel(await channels.get(call.team, call.caller, call.params["channel_id"])))


async def _create_again(call: Call, channel_id: str) -> Response:
    return json(201, _channel(await channels.get(call.team, call.caller, channel_id)))


async def change(call: Call) -> Response:
    body: ChannelPatch = call.body
    options = body.options
    wanted = ChannelChange(
        members=None if body.members is UNSET else tuple(body.members),
        add_members=tuple(body.add_members),
        remove_members=tuple(body.remove_members),
        policy=None if body.member_policy is UNSET else body.member_policy,
        status=None if body.status is UNSET else body.status,
    )
    if options is not UNSET:
        wanted = wanted._replace(
            audit=None if options.audit is UNSET else options.audit,
            ttl_seconds=None if options.ttl_seconds is UNSET else options.ttl_seconds,
            no_ttl=options.ttl_seconds is None,
            max_messages=None if options.max_messages is UNSET else options.max_messages,
        )
    return json(200, _channel(await channels.change(call.team, call.caller, call.params["channel_id"], wanted)))


async def delete(call: Call) -> Response:
    channel_id = call.params["channel_id"]
    await channels.delete(call.team, call.caller, channel_id)
    return json(200, {"status": "closed", "channel_id": channel_id})


async def get_direct(call: Call) -> Response:
    agent = call.params["agent_id"]
    ids = direct_with(call.caller, agent)
    agents = list(direct_pair(call.caller.agent, agent))
    return json(200, DirectChannel(channel_id=ids.channel_id, intent_id=ids.intent_id, agents=agents))


_TAG = "channels"
# Each comes with its newest message, which is looked for by itself.
_MOST_RECENT = 200
ROUTES = (
    Route(
        "POST",
        "/intents/{intent_id}/channels",
        create,
        "Create a channel",
        _TAG,
        {201: Channel},
        body=ChannelIn,
        query=(
            Param("for", "An agent, role:ROLE or any:ROLE: refuse with no_responders if a request to it would be."),
        ),
        again=_create_again,
    ),
    Route(
        "GET",
        "/intents/{intent_id}/channels",
        list_page,
        "List channels on an intent",
        _TAG,
        {200: list[Channel]},
        scope=EVERYBODY,
    ),
    Route(
        "GET",
        "/channels",
        list_recent,
        "List the channels that you can read, in all intents, last active first",
        _TAG,
        {200: list[RecentChannel]},
        query=(
            Param("intent_id", "Only channels on this intent."),
            Param("member", "Only channels that list this agent as a member."),
            Param("status", "Only channels with this status.", choices=tuple(ChannelStatus)),
            Param("active_since", "Only channels with a message, or created, since this time."),
            Param("before", "The X-Next-Cursor of the page before this one."),
            Param("limit", "The maximum number of results; 50 by default.", "integer", 1, _MOST_RECENT),
        ),
        scope=EVERYBODY,
    ),
    Route(
        "GET",
        "/viewer",
        find_viewer,
        "Get which of your agents can see a channel, a message or a conversation: the first one, by name",
        _TAG,
        {200: Viewer},
        query=(
            Param("channel_id", "A channel."),
            Param("message_id", "A message in that channel."),
            Param("conversation_id", "A conversation, instead of a channel."),
        ),
        scope=EVERYBODY,
    ),
    Route("GET", "/channels/{channel_id}", get, "Get channel details", _TAG, {200: Channel}, scope=EVERYBODY),
    Route(
        "PATCH",
        "/channels/{channel_id}",
        change,
        "Update a channel: members, options, status",
        _TAG,
        {200: Channel},
        body=ChannelPatch,
    ),
    Route(
        "GET",
        "/agents/{agent_id}/direct",
        get_direct,
        "Get the direct channel of an agent and you; the first message in it creates it",
        _TAG,
        {200: DirectChannel},
        scope=EVERYBODY,
        # It follows from the two names. A suspended agent that cannot ask for it sends no message to record.
        while_suspended=True,
    ),
    Route("DELETE", "/channels/{channel_id}", delete, "Close and delete a channel", _TAG, {200: dict[str, str]}),
)
