"""How a client is set up: which server, who speaks, with how much patience, and what to do about a refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_HINTS = {
    "required sender": "give agent= or PARLEY_AGENT, or name the sender",
    "bookmark_taken": "one process at a time runs an agent: stop the other one, or give this one another name",
    "sender_mismatch": "leave out agent= (or PARLEY_AGENT), or use a service key",
}


class ClientOptions(NamedTuple):
    """Which server, who speaks, with how much patience, and what to do about a refusal, by its code."""

    url: str
    key: str
    agent: str
    plain_http: bool
    hints: dict[str, str]
    timeout: float
    patience: float

    def __repr__(self) -> str:
        return f"ClientOptions({self.url!r}, agent={self.agent!r})"  # without the key: this may go into logs


def find_options(
    url: str | Iterable[str], key: str, agent: str, timeout: float, patience: float, *, saved: bool = True
) -> ClientOptions:
    """The options of a client; address, key and agent come from settings and saved logins where they are empty."""
    from parley.wiring import find_server

    address = url if isinstance(url, str) else ",".join(url)
    server = find_server(address, key, agent, saved=saved)
    return ClientOptions(*server[:4], {**_HINTS, **server.hints}, timeout, patience)
