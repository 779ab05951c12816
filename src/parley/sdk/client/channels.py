"""Channels: create, find, change and close."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.domain.errors.team import NameTaken
from parley.sdk.client.area import AsyncArea
from parley.sdk.client.fields import lists_of, timestamp_of, without_none
from parley.wire.api.records.channels import Channel, ChannelOptions, RecentChannel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from parley.sdk.client.fields import Moment


def _options(options: Mapping[str, Any] | ChannelOptions | None) -> dict[str, Any] | None:
    if options is None:
        return None
    return options.to_dict() if isinstance(options, ChannelOptions) else dict(options)


def _cursor_of(channel: RecentChannel) -> str:
    return f"{timestamp_of(channel.last_message_at or channel.created_at)}/{channel.id}"


class AsyncChannels(AsyncArea):
    """What a client does with channels. `intent_id` may also be the title of the intent, or the end of its id."""

    async def create_channel(
        self,
        intent_id: str,
        name: str,
        members: Iterable[str] | None = None,
        member_policy: str = "intent",
        options: Mapping[str, Any] | ChannelOptions | None = None,
        *,
        task_id: str | None = None,
    ) -> Channel:
        """Create a channel on an intent.

        `member_policy` is "intent" (whoever has access to the intent) or "explicit" (only `members`). `options` are
        `audit`, `ttl_seconds` and `max_messages`. Raises `NameTaken` when there is one of this name.
        """
        body = without_none(name=name, member_policy=member_policy, options=_options(options), task_id=task_id)
        body |= lists_of(members=members)
        return await self._fetch(Channel, "POST", "intents", await self._intent_id(intent_id), "channels", body=body)

    async def list_channels(self, intent_id: str) -> list[Channel]:
        """The channels of an intent that you may see."""
        return await self._fetch(list[Channel], "GET", "intents", await self._intent_id(intent_id), "channels")

    async def recent_channels(
        self,
        *,
        intent_id: str | None = None,
        member: str | None = None,
        status: str | None = None,
        active_since: Moment | None = None,
        before: RecentChannel | str | None = None,
        limit: int | None = None,
    ) -> list[RecentChannel]:
        """The channels that you may read, in all intents, last active first, each with its newest message.

        With `intent_id`, only those on this intent; with `member`, only those that list this agent as a member. `limit`
        is 50 unless it is given, and 200 at most; `before` is the last channel of the page before this one.
        """
        query = without_none(member=member, status=status, active_since=timestamp_of(active_since), limit=limit)
        if intent_id is not None:
            query["intent_id"] = await self._intent_id(intent_id)
        if before is not None:
            query["before"] = before if isinstance(before, str) else _cursor_of(before)
        return await self._fetch(list[RecentChannel], "GET", "channels", query=query)

    async def get_channel(self, channel_id: str) -> Channel:
        """A channel by its id."""
        return await self._fetch(Channel, "GET", "channels", channel_id)

    async def close_channel(self, channel_id: str) -> Channel:
        """Close a channel: nothing more is said in it, and what was said stays."""
        return await self.update_channel(channel_id, status="closed")

    async def update_channel(
        self,
        channel_id: str,
        *,
        members: Iterable[str] | None = None,
        add_members: Iterable[str] | None = None,
        remove_members: Iterable[str] | None = None,
        member_policy: str | None = None,
        options: Mapping[str, Any] | ChannelOptions | None = None,
        status: str | None = None,
    ) -> Channel:
        """Change a channel's members, options or status; what is not given stays as it is."""
        body = without_none(member_policy=member_policy, options=_options(options), status=status)
        body |= lists_of(members=members, add_members=add_members, remove_members=remove_members)
        return await self._fetch(Channel, "PATCH", "channels", channel_id, body=body)

    async def delete_channel(self, channel_id: str) -> None:
        """Close a channel and delete it."""
        await self._tell("DELETE", "channels", channel_id)

    async def open_channel(
        self,
        intent_id: str,
        name: str,
        members: Iterable[str] | None = None,
        member_policy: str = "intent",
        options: Mapping[str, Any] | ChannelOptions | None = None,
        *,
        task_id: str | None = None,
    ) -> Channel:
        """The channel of this name, which is created when there is none; the rest matters only then."""
        intent_id = await self._intent_id(intent_id)
        for channel in await self.list_channels(intent_id):
            if channel.name == name:
                return channel
        try:
            return await self.create_channel(intent_id, name, members, member_policy, options, task_id=task_id)
        except NameTaken as taken:  # another client created it meanwhile
            channel_id = taken.facts.get("channel_id")
            if not isinstance(channel_id, str):
                raise
        return await self.get_channel(channel_id)
