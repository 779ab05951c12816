"""The client of agents that have no key yet: a server that is started for the first time saves one for this user."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from parley.domain.errors.errors import ParleyError
from parley.sdk.agent.logs import log_event
from parley.sdk.client.client import AsyncClient
from parley.sdk.protocol.refusal import is_temporary
from parley.wiring import find_server

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAUSE_SECONDS = 0.5
# `parley up` saves the key a moment after it can be reached.
_SAVING_SECONDS = 2.0

_log = logging.getLogger("parley.agent")


async def open_client(address: str, key: str, agents: Sequence[str], stop: asyncio.Event) -> AsyncClient:
    """A client of the server; without a key, when the server answers, with the key that is saved then."""
    if not find_server(address, key).key and await _wait_for_server(address, agents, stop):
        seconds = _SAVING_SECONDS
        while not find_server(address, key).key and seconds > 0 and not stop.is_set():
            await asyncio.sleep(_PAUSE_SECONDS)
            seconds -= _PAUSE_SECONDS
    return AsyncClient(address, key=key)


async def _wait_for_server(address: str, agents: Sequence[str], stop: asyncio.Event) -> bool:
    """Wait until the server answers or `stop` is set; whether there was anything to wait for."""
    waited = False
    client = AsyncClient(address, patience=0)
    try:
        while not stop.is_set():
            try:
                await client.server_info()
                break
            except ParleyError as error:
                if not is_temporary(error):
                    break
                for agent in () if waited else agents:
                    log_event(_log, agent, "agent_waits_for_server", "waits for its server", str(error))
                waited = True
            await asyncio.sleep(_PAUSE_SECONDS)
    finally:
        await client.close()
    return waited
