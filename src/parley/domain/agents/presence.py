"""Whether an agent is there, in the words that people use."""

from __future__ import annotations

_PRESENCES = {
    "active": "online",
    "draining": "stopping",
    "unhealthy": "away",
    "dead": "offline",
    "deregistered": "left",
}


def presence_of(status: str, last_seen: object) -> str:
    """An agent's presence, from its status and its last heartbeat.

    One that was registered and has never run is not online. A status of a newer server is given as it is.
    """
    if status == "active" and not last_seen:
        return "never seen"
    return _PRESENCES.get(status, status)
