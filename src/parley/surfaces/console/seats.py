"""Through whose eyes a page is read. An admin sees the whole tenant; a person what each of their agents sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.surfaces.console.parts import Filter
from parley.surfaces.console.visit import ApiRefused

if TYPE_CHECKING:
    from parley.surfaces.console.visit import Visit

# Agents of a person that a page asks about.
_SEATS_MAX = 50


def seats_of(visit: Visit) -> list[str]:
    """The agents to read as: the one in the address, or all that act for the person. "" is the caller itself."""
    if visit.query.get("seat"):
        return [visit.query["seat"]]
    if visit.who["kind"] != "human":
        return [""]
    return [*visit.who["agents"][:_SEATS_MAX], ""]


async def first_seat(visit: Visit, *steps: str, **query: str | int | None) -> tuple[str, Any]:
    """The first agent that can read this, and what it reads; refused as the last one is."""
    seats = seats_of(visit)
    for seat in seats[:-1]:
        try:
            return seat, await visit.get(*steps, **query, seat=seat)
        except ApiRefused as refused:
            if refused.status not in (403, 404):
                raise
    return seats[-1], await visit.get(*steps, **query, seat=seats[-1])


def seat_filter(visit: Visit) -> tuple[Filter, ...]:
    """The field that chooses one of several agents."""
    names = visit.who["agents"][:_SEATS_MAX] if visit.who["kind"] == "human" else []
    return (Filter("seat", "As", tuple([(name, name) for name in names])),) if len(names) > 1 else ()
