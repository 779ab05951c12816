"""The exchanges of a mailbox, as its own ledger knows them: list, show, close."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.mailbox.rules import holding, recording
from parley.app.mailbox.rules.proving import person
from parley.domain.errors.errors import NotFound
from parley.domain.errors.rules import HumanRequired
from parley.domain.exchange.exchange import Exchange, Outcome, ended
from parley.domain.mailbox.ledger import Changes

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel

_PAGE = 500


async def listed(kernel: Kernel) -> list[Exchange]:
    """Every exchange that this agent takes part in, oldest first."""
    await holding.sweep(kernel)
    found: list[Exchange] = []
    after = ""
    while page := await kernel.store.records(Exchange, after=after, limit=_PAGE):
        found += page
        after = page[-1].id
    return found


async def show(kernel: Kernel, exchange_id: str) -> Exchange:
    """One exchange, by its id, the end of it, or its conversation."""
    every = await listed(kernel)
    fitting = [one for one in every if exchange_id in (one.id, one.conversation_id)]
    fitting = fitting or [one for one in every if exchange_id and one.id.endswith(exchange_id)]
    if len(fitting) != 1:
        raise NotFound(f"{kernel.agent} has no exchange {exchange_id!r}", hint="look with: parley exchange list")
    return fitting[0]


async def close(kernel: Kernel, exchange_id: str, reason: str = "", key: str = "") -> Exchange:
    """End an exchange on this side as resolved. One that waits for a person only a person ends."""
    exchange = await show(kernel, exchange_id)
    by = person(kernel, kernel.governance.load().directory, key) if key else kernel.agent
    if exchange.outcome is Outcome.ESCALATED and not key:
        raise HumanRequired("the exchange waits for a person: only a person ends it")
    over = ended(exchange, Outcome.RESOLVED, recording.now(kernel), by, reason or "closed")
    puts = (over, *await holding.closing(kernel, exchange, by))
    audits = (recording.ending(kernel, over, by),)
    await kernel.store.commit(Changes(puts=puts, audits=audits, tenant=exchange.tenant_id))
    return over
