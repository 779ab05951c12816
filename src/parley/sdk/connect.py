"""`parley.connect()` and `parley.connect_async()`: the server that the user works with, as one agent or person."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.sdk.blocking.session import ServerSession
    from parley.sdk.client.session import AsyncServerSession


def connect(
    url: str | Iterable[str] = "", *, agent: str = "", key: str = "", timeout: float = 30.0, patience: float = 10.0
) -> ServerSession:
    """A server, as an agent or a person uses it; nothing is sent yet.

    What is not given is found as the command line finds it: `url` from PARLEY_URL, `key` from PARLEY_KEY, `agent` (for
    a key that speaks for several) from PARLEY_AGENT. `timeout` and `patience` are those of `Client`.

        with parley.connect(agent="research") as team:
            questions = team.channel("Research Q1", "questions")
            print(questions.ask("data-agent", "Which schema?").text)
    """
    from parley.sdk.blocking.client import Client
    from parley.sdk.blocking.session import ServerSession

    return ServerSession(Client(url, key=key, agent=agent, timeout=timeout, patience=patience))


def connect_async(
    url: str | Iterable[str] = "", *, agent: str = "", key: str = "", timeout: float = 30.0, patience: float = 10.0
) -> AsyncServerSession:
    """`connect` for the tasks of an event loop: `async with parley.connect_async(agent="research") as team: ...`."""
    from parley.sdk.client.client import AsyncClient
    from parley.sdk.client.session import AsyncServerSession

    return AsyncServerSession(AsyncClient(url, key=key, agent=agent, timeout=timeout, patience=patience))
