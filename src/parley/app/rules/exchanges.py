"""The end of an exchange: its outcome, its pending approvals, and an entry on each side that knows of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from parley.app.rules.docket import RulesDecision
from parley.app.rules.holding import Closing, close_waiting
from parley.app.rules.recording import ended_entries
from parley.domain.directory.callers import SYSTEM
from parley.domain.exchange.exchange import Exchange, Outcome, ended

if TYPE_CHECKING:
    from parley.app.rules.docket import Docket


async def close_all(  # noqa: PLR0913  # who ends it by what, and who learns of it
    docket: Docket,
    before: Exchange | None,
    after: Exchange,
    actor: str,
    *,
    except_id: str = "",
    key: str = "",
    link: str = "",
    sides: tuple[str, ...] = (),
    noted: tuple[str, ...] = (),
) -> Closing:
    """What follows from the end of an exchange: `before` is how it was, `sides` who learns of it only now.
    `key` and `link`: by which a person ended it.

    Nothing, when it was over already: an end is recorded once.
    """
    if before is not None and before.over:
        return Closing()
    closing = Closing()
    if before is not None:
        closing = await close_waiting(docket, before, actor, except_id=except_id, key=key, link=link)
    earlier = await docket.sides(after) if before is not None else ()
    audits = ended_entries(docket, after, (after.initiator, *sides, *earlier), actor, noted)
    return Closing(closing.approvals, (*closing.audits, *audits))


async def end(
    docket: Docket,
    exchange: Exchange,
    outcome: Outcome,
    actor: str,
    reason: str,
    *,
    note: str = "",
    noted: tuple[str, ...] = (),
) -> RulesDecision[Any]:
    """End an exchange. `note` is what was said about it, `noted` the sides on which that is kept."""
    over = replace(ended(exchange, outcome, docket.at, actor, reason), note=note)
    closing = await close_all(docket, exchange, over, actor, noted=noted)
    return RulesDecision(closing.audits, over, closing.approvals)


async def expire(docket: Docket, exchange: Exchange) -> RulesDecision[Any]:
    """Expire an exchange."""
    return await end(docket, exchange, Outcome.EXPIRED, SYSTEM, "its time has passed")
