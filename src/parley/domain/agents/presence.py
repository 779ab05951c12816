"""Whether an agent is there, in the words that people use."""

from __future__ import annotations

_PRESENCES = {
    "active": "online",
    "draining": "stopping",
    "unhealthy": "away",
    "dead": "offline",
    "deregistered": "left",
}
# Statuses of an agent that sends heartbeats in time.
_HEARD = ("active", "draining")


def presence_of(status: str, last_seen: object, *, online: bool = False) -> str:
    """An agent's presence, from its status, when it was last seen, and whether it is online by `is_online`.

    One that was registered and has never run is not online. A status of a newer server is given as it is.
    """
    if online:
        return "online" if status in ("active", "unhealthy", "dead") else _PRESENCES.get(status, status)
    if status == "active":
        return "offline" if last_seen else "never seen"
    return _PRESENCES.get(status, status)


def is_online(status: str, last_heartbeat: str, *, is_connected: bool) -> bool:
    """Whether an agent is there: it has a stream open, or its heartbeats come in time. Registering is not enough."""
    if status == "deregistered":
        return False
    return is_connected or (status in _HEARD and bool(last_heartbeat))
