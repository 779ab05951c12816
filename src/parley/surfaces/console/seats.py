"""Through whose eyes a page is read. An admin sees the whole tenant; a person what each of their agents sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.surfaces.console.menu import PERSON
from parley.surfaces.console.parts import Filter

if TYPE_CHECKING:
    from parley.surfaces.console.visit import Visit


async def find_seat(visit: Visit, **what: str) -> str:
    """The agent to read this as: the one in the address, or the first of the person's that can see it. "" is the caller
    itself. Refused when none can.
    """
    if visit.query.get("seat") or visit.who["kind"] != PERSON:
        return visit.query.get("seat", "")
    viewer = await visit.get("viewer", **what)
    return str(viewer["seat"])


def seat_filter(visit: Visit) -> tuple[Filter, ...]:
    """The field that chooses one of several agents."""
    names = visit.who["agents"] if visit.who["kind"] == PERSON else []
    return (Filter("seat", "As", tuple([(name, name) for name in names])),) if len(names) > 1 else ()
