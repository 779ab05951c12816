"""The exchanges of a mailbox, as its own ledger knows them: list, get, close; and what is over by the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.app.mailbox.rules.docket import PENDING, MailboxDocket
from parley.app.mailbox.rules.proving import person
from parley.app.rules import approvals, exchanges
from parley.domain.errors.errors import Stale
from parley.domain.errors.rules import HumanRequired
from parley.domain.exchange.approval import Approval
from parley.domain.exchange.exchange import Exchange, Outcome, with_note
from parley.domain.lookup import Candidate, Noun, pick

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.app.rules.docket import RulesDecision

_EXCHANGE = Noun("exchange", "exch", "parley exchange list")


async def list_all(kernel: Kernel) -> list[Exchange]:
    """Every exchange that this agent takes part in, oldest first."""
    return [with_note(exchange) for exchange in await (await expire_due(kernel)).every(Exchange)]


async def get(kernel: Kernel, exchange_id: str) -> Exchange:
    """One exchange, by its id, the end of it, or its conversation."""
    exchanges = await list_all(kernel)
    fitting = [exchange for exchange in exchanges if exchange_id in (exchange.id, exchange.conversation_id)]
    if len(fitting) == 1:
        return fitting[0]
    candidates = [Candidate(exchange.id, note=exchange.outcome.value) for exchange in fitting or exchanges]
    chosen = pick(_EXCHANGE, exchange_id, candidates, where=f" of {kernel.agent}")
    return next(exchange for exchange in exchanges if exchange.id == chosen.id)


async def close(kernel: Kernel, exchange_id: str, reason: str = "", key: str = "") -> Exchange:
    """Close an exchange on this side as resolved. Only a person closes one that waits for a person."""
    exchange = await get(kernel, exchange_id)
    docket = MailboxDocket(kernel)
    actor = person(kernel, docket.governance.directory, key) if key else kernel.agent
    if exchange.outcome is Outcome.ESCALATED and not key:
        raise HumanRequired("the exchange waits for a person: only a person ends it")
    noted = (kernel.agent,)
    decision = await exchanges.end(docket, exchange, Outcome.RESOLVED, actor, "closed", note=reason, noted=noted)
    await kernel.store.commit(await docket.changes(decision))
    return await get(kernel, exchange.id)


async def expire_due(kernel: Kernel) -> MailboxDocket:
    """Expire approvals and exchanges that are due."""
    docket = MailboxDocket(kernel)
    for approval in await docket.every(Approval, PENDING):
        if approval.expires_at <= docket.at:
            waiting = await docket.approval(approval.id)
            if waiting is not None and waiting.pending:  # the end of its exchange may have closed it just now
                await _commit(docket, await approvals.expire(docket, waiting))
    for exchange in await docket.every(Exchange):
        if not exchange.over and exchange.expires_at <= docket.at:
            await _commit(docket, await exchanges.expire(docket, exchange))
    return docket


async def _commit(docket: MailboxDocket, decision: RulesDecision[Any]) -> None:
    try:
        await docket.kernel.store.commit(await docket.changes(decision))
    except Stale:
        return  # decided concurrently
