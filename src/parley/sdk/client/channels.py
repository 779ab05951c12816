"""Channels: create, find, change and close."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.domain.errors.team import NameTaken
from parley.sdk.client.session import AsyncSession, Session, fetch, given, tell
from parley.sdk.records.channels import Channel, ChannelOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from parley.sdk.protocol.flow import Flow, Speaker


def _options(options: Mapping[str, Any] | ChannelOptions | None) -> dict[str, Any] | None:
    if options is None:
        return None
    return options.to_dict() if isinstance(options, ChannelOptions) else dict(options)


def _names(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else list(names)


def _list(speaker: Speaker, intent_id: str) -> Flow[list[Channel]]:
    return fetch(speaker, list[Channel], "GET", "intents", intent_id, "channels")


def _create(speaker: Speaker, intent_id: str, body: dict[str, Any]) -> Flow[Channel]:
    return fetch(speaker, Channel, "POST", "intents", intent_id, "channels", body=body)


def _get(speaker: Speaker, channel_id: str) -> Flow[Channel]:
    return fetch(speaker, Channel, "GET", "channels", channel_id)


def _change(speaker: Speaker, channel_id: str, body: dict[str, Any]) -> Flow[Channel]:
    return fetch(speaker, Channel, "PATCH", "channels", channel_id, body=body)


def _open(speaker: Speaker, intent_id: str, body: dict[str, Any]) -> Flow[Channel]:
    """The channel that is there; else a new one, or the one that somebody else made in this moment."""
    found = [one for one in (yield from _list(speaker, intent_id)) if one.name == body["name"]]
    if found:
        return found[0]
    try:
        return (yield from _create(speaker, intent_id, body))
    except NameTaken as taken:
        channel_id = taken.facts.get("channel_id")
        if not isinstance(channel_id, str):
            raise
    return (yield from _get(speaker, channel_id))


class Channels(Session):
    """What a client does with channels."""

    def create_channel(
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
        body = given(name=name, members=_names(members), member_policy=member_policy, task_id=task_id)
        return self._run(_create(self._speaker, intent_id, body | given(options=_options(options))))

    def list_channels(self, intent_id: str) -> list[Channel]:
        """The channels of an intent that you may see."""
        return self._run(_list(self._speaker, intent_id))

    def get_channel(self, channel_id: str) -> Channel:
        """A channel by its id."""
        return self._run(_get(self._speaker, channel_id))

    def close_channel(self, channel_id: str) -> Channel:
        """Close a channel: nothing more is said in it, and what was said stays."""
        return self._run(_change(self._speaker, channel_id, {"status": "closed"}))

    def update_channel(
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
        body = given(members=_names(members), add_members=_names(add_members), remove_members=_names(remove_members))
        body |= given(member_policy=member_policy, options=_options(options), status=status)
        return self._run(_change(self._speaker, channel_id, body))

    def delete_channel(self, channel_id: str) -> None:
        """Close a channel and delete it."""
        return self._run(tell(self._speaker, "DELETE", "channels", channel_id))

    def open_channel(
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
        body = given(name=name, members=_names(members), member_policy=member_policy, task_id=task_id)
        return self._run(_open(self._speaker, intent_id, body | given(options=_options(options))))


class AsyncChannels(AsyncSession):
    """What an asynchronous client does with channels."""

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
        body = given(name=name, members=_names(members), member_policy=member_policy, task_id=task_id)
        return await self._run(_create(self._speaker, intent_id, body | given(options=_options(options))))

    async def list_channels(self, intent_id: str) -> list[Channel]:
        """The channels of an intent that you may see."""
        return await self._run(_list(self._speaker, intent_id))

    async def get_channel(self, channel_id: str) -> Channel:
        """A channel by its id."""
        return await self._run(_get(self._speaker, channel_id))

    async def close_channel(self, channel_id: str) -> Channel:
        """Close a channel: nothing more is said in it, and what was said stays."""
        return await self._run(_change(self._speaker, channel_id, {"status": "closed"}))

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
        body = given(members=_names(members), add_members=_names(add_members), remove_members=_names(remove_members))
        body |= given(member_policy=member_policy, options=_options(options), status=status)
        return await self._run(_change(self._speaker, channel_id, body))

    async def delete_channel(self, channel_id: str) -> None:
        """Close a channel and delete it."""
        return await self._run(tell(self._speaker, "DELETE", "channels", channel_id))

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
        body = given(name=name, members=_names(members), member_policy=member_policy, task_id=task_id)
        return await self._run(_open(self._speaker, intent_id, body | given(options=_options(options))))
