"""`self.channels` of an `openintent` agent, and messages as its handlers expect them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from openintent.exceptions import ConflictError, NotFoundError, OpenIntentError
from openintent.models import ChannelMessage

from parley.domain.errors.errors import Conflict, Forbidden, Invalid, NotFound, ParleyError
from parley.domain.errors.rules import MessageHeld
from parley.domain.errors.team import AskTimeout, RateLimited, Unauthorized

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

    from parley.compat.workplace import OpenIntentWorkplace
    from parley.sdk.client.client import AsyncClient
    from parley.wire.api.records import channels as records

_STATUS: tuple[tuple[type[ParleyError], int], ...] = (
    (MessageHeld, 202),
    (Unauthorized, 401),
    (Forbidden, 403),
    (RateLimited, 429),
    (Invalid, 422),
)


class Answer(dict[str, Any]):
    """A message as their clients give it, a dict; its fields are attributes too, as RFC-0021 writes them."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever JSON holds
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Channels:
    """The channels of an agent, as their `self.channels`."""

    def __init__(self, agent: Any) -> None:  # noqa: ANN401  # an agent of theirs
        self._agent = agent

    async def open(
        self,
        name: str,
        intent_id: str,
        members: Iterable[str] | None = None,
        member_policy: str = "intent",
        options: Mapping[str, Any] | None = None,
    ) -> CompatChannelHandle:
        """The open channel of this name; a new one when there is none, or one that is created meanwhile."""
        client = self._agent.async_client
        channel_id = await self._find_channel_id(intent_id, name)
        if channel_id is None:
            channel_options = {"members": list(members or ()), "member_policy": member_policy, "options": options}
            try:
                channel_id = (await client.create_channel(intent_id=intent_id, name=name, **channel_options))["id"]
            except ConflictError:
                channel_id = await self._find_channel_id(intent_id, name)
                if channel_id is None:
                    raise
        return CompatChannelHandle(self._agent, channel_id, name, intent_id)

    async def _find_channel_id(self, intent_id: str, name: str) -> str | None:
        channels = await self._agent.async_client.list_channels(intent_id)
        return next(
            (str(channel["id"]) for channel in channels if channel["name"] == name and channel["status"] == "open"),
            None,
        )


class CompatChannelHandle:
    """An open channel, as their `_ChannelHandle`."""

    def __init__(self, agent: Any, channel_id: str, name: str, intent_id: str) -> None:  # noqa: ANN401
        self._agent = agent
        self.channel_id = channel_id
        self.name = name
        self.intent_id = intent_id

    async def ask(self, to: str, payload: Mapping[str, Any], timeout: float = 30) -> Answer:  # noqa: ASYNC109  # as theirs
        """Ask, and wait for the first answer. `TimeoutError` when none comes in time."""
        async with self._open_client() as client:
            answer = await client.ask(
                self.channel_id, None, to, payload, timeout, check=False, wait_for_responders=True
            )
            return _to_answer(answer)

    async def ask_all(self, to: str, payload: Mapping[str, Any], timeout: float = 30) -> list[Answer]:  # noqa: ASYNC109
        """Ask, and collect every answer that comes within the time."""
        async with self._open_client() as client:
            answers = await client.ask_all(self.channel_id, None, to, payload, timeout, wait_for_responders=True)
            return [_to_answer(message) for message in answers]

    async def notify(self, to: str, payload: Mapping[str, Any]) -> Any:  # noqa: ANN401  # as theirs
        """Tell one agent without waiting for anything."""
        return await self._send(to, "notify", payload)

    async def broadcast(self, payload: Mapping[str, Any]) -> Any:  # noqa: ANN401  # as theirs
        """Tell everyone in the channel."""
        return await self._send("*", "broadcast", payload)

    async def _send(self, to: str, message_type: str, payload: Mapping[str, Any]) -> Any:  # noqa: ANN401
        message = {"sender": self._agent.agent_id, "to": to, "message_type": message_type, "payload": payload}
        return Answer(await self._agent.async_client.send_message(channel_id=self.channel_id, **message))

    @property
    def _workplace(self) -> OpenIntentWorkplace | None:
        """Where the agent works, if it does so in this loop."""
        agent = self._agent
        workplace: OpenIntentWorkplace | None = getattr(agent, "_parley_workplace", None)
        return workplace if workplace is not None and agent._loop is asyncio.get_running_loop() else None

    @asynccontextmanager
    async def _open_client(self) -> AsyncIterator[AsyncClient]:
        """A client of ours, for an agent that runs and for one that does not; its errors become theirs.

        What a running agent waits for does not go to its handlers, too.
        """
        from parley.sdk.client.client import AsyncClient

        workplace, config = self._workplace, self._agent._config
        with _translate_errors():
            if workplace is not None:
                yield workplace.client
            else:
                async with AsyncClient(config.base_url, key=config.api_key, agent=self._agent.agent_id) as client:
                    yield client


def ask_all(  # RFC-0021 has it in both clients
    client: Any,  # noqa: ANN401  # a client of theirs
    channel_id: str,
    sender: str,
    to: str,
    payload: Mapping[str, Any],
    timeout: float = 30,
) -> list[Answer]:
    """Ask, and collect every answer that comes within the time."""
    from parley.sdk.blocking.client import Client

    with _translate_errors(), Client(client.base_url, key=client.api_key, agent=client.agent_id) as ours:
        return [
            _to_answer(message)
            for message in ours.ask_all(channel_id, sender, to, payload, timeout, wait_for_responders=True)
        ]


async def ask_all_async(
    client: Any,  # noqa: ANN401  # a client of theirs
    channel_id: str,
    sender: str,
    to: str,
    payload: Mapping[str, Any],
    timeout: float = 30,  # noqa: ASYNC109  # as the RFC has it
) -> list[Answer]:
    """Ask, and collect every answer that comes within the time."""
    from parley.sdk.client.client import AsyncClient

    with _translate_errors():
        async with AsyncClient(client.base_url, key=client.api_key, agent=client.agent_id) as ours:
            return [
                _to_answer(message)
                for message in await ours.ask_all(channel_id, sender, to, payload, timeout, wait_for_responders=True)
            ]


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except ParleyError as error:
        raise to_openintent_error(error) from error


def channels_of(agent: Any) -> Channels:  # noqa: ANN401  # an agent of theirs
    """What `self.channels` is for a class under their `BaseAgent`."""
    if not isinstance(agent._channels_proxy, Channels):
        agent._channels_proxy = Channels(agent)
    return agent._channels_proxy


def to_openintent_error(error: ParleyError) -> Exception:
    """An error of ours as the one that their clients raise for it."""
    if isinstance(error, AskTimeout):
        return TimeoutError(str(error))
    if isinstance(error, NotFound):
        return NotFoundError(str(error), status_code=404)  # type: ignore[no-any-return]
    if isinstance(error, Conflict):
        return ConflictError(str(error), status_code=409)  # type: ignore[no-any-return]
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 503)
    return OpenIntentError(str(error), status_code=status, response={"code": error.code, **error.facts})  # type: ignore[no-any-return]


def to_openintent_message(message: records.ChannelMessage) -> Any:  # noqa: ANN401  # their ChannelMessage
    """A message of ours as their model, which knows in addition the channel's name and the intent."""
    message_model = ChannelMessage.from_dict(_to_answer(message))
    message_model.channel, message_model.intent_id = message.channel, message.intent_id
    return message_model


def _to_answer(message: records.ChannelMessage) -> Answer:
    """A message of ours as the dict that their clients give."""
    document = message.to_dict()
    return Answer({name: value for name, value in document.items() if name not in ("channel", "intent_id")})
