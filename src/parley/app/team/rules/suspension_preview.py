"""What a suspension would halt, before an admin adds it: agents, open exchanges, held messages, requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.rules import suspensions
from parley.domain.agents.agent import AgentRecord
from parley.domain.agents.party import PAIR_MARK, UNKNOWN_ATTRIBUTES, Party
from parley.domain.exchange.approval import Approval
from parley.domain.exchange.exchange import FINAL, Exchange, Outcome
from parley.domain.rules.suspension import Stopped, concerns
from parley.domain.store.changes import RecordQuery, UnansweredQuery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller

# Counts end here: whoever looks needs to know that it is a lot, not how many.
COUNT_MAX = 1_000
IDS_MAX = 20
# Records of a page: few, because each may be as long as a body.
_PAGE = 32
_OPEN = [outcome for outcome in Outcome if outcome not in FINAL]


class SuspensionPreview(NamedTuple):
    """How many agents, open exchanges, pending approvals and unanswered requests a suspension concerns, and the ids of
    the first ones.
    """

    what: Stopped
    name: str
    suspended: bool
    agents: int
    exchanges: int
    exchange_ids: tuple[str, ...]
    approvals: int
    approval_ids: tuple[str, ...]
    asks: int
    ask_ids: tuple[str, ...]


class _Subject:
    """What would be suspended, and the agents of the tenant by name."""

    def __init__(self, team: Team, tenant: str, what: Stopped, name: str) -> None:
        self._team = team
        self._tenant = tenant
        self.what = what
        self.name = name
        self._parties: dict[str, Party] = {}

    async def halts(self, sender: str, receiver: str) -> bool:
        """Whether a message from one to the other would be refused."""
        return concerns(self.what, self.name, await self._party(sender), await self._party(receiver))

    async def _party(self, agent: str) -> Party:
        if agent not in self._parties:
            record = await self._team.store.get(AgentRecord, self._tenant, agent)
            self._parties[agent] = Party(agent, record.attributes if record is not None else UNKNOWN_ATTRIBUTES)
        return self._parties[agent]


async def preview(team: Team, caller: Caller, what: Stopped, name: str) -> SuspensionPreview:
    """What would be halted by suspending this now."""
    name = suspensions.checked(what, name)
    subject = _Subject(team, caller.tenant, what, name)
    exchanges = await _first(_exchanges(team, caller.tenant, subject))
    approvals = await _first(_approvals(team, caller.tenant, subject))
    asks = await _first(_asks(team, caller.tenant, subject))
    in_force = await suspensions.list_all(team, caller)
    return SuspensionPreview(
        what,
        name,
        any(suspension.key == (what, name) for suspension in in_force),
        await _count_agents(team, caller.tenant, subject),
        len(exchanges),
        tuple(exchanges[:IDS_MAX]),
        len(approvals),
        tuple(approvals[:IDS_MAX]),
        len(asks),
        tuple(asks[:IDS_MAX]),
    )


async def _first(ids: AsyncIterator[str]) -> list[str]:
    first: list[str] = []
    async for record_id in ids:
        first.append(record_id)
        if len(first) == COUNT_MAX:
            break
    return first


async def _count_agents(team: Team, tenant: str, subject: _Subject) -> int:
    if subject.what in (Stopped.AGENT, Stopped.PAIR):
        records = [await team.store.get(AgentRecord, tenant, name) for name in subject.name.split(PAIR_MARK)]
        return sum(1 for record in records if record is not None and not record.gone)
    unit = (("attributes.org_unit", subject.name),) if subject.what is Stopped.ORG_UNIT else ()
    page = await team.store.find(AgentRecord, tenant, RecordQuery(fields=unit, limit=COUNT_MAX))
    return sum(1 for record in page if not record.gone)


async def _exchanges(team: Team, tenant: str, subject: _Subject) -> AsyncIterator[str]:
    """Ids of exchanges that are not over and would stand still."""
    for outcome in _OPEN:
        query = RecordQuery(fields=(("outcome", outcome.value),), limit=_PAGE)
        while page := await team.store.find(Exchange, tenant, query):
            for exchange in page:
                if await subject.halts(exchange.initiator, exchange.responder):
                    yield exchange.id
            query = query._replace(after=("", page[-1].id))


async def _approvals(team: Team, tenant: str, subject: _Subject) -> AsyncIterator[str]:
    """Ids of pending approvals whose message could not be released."""
    query = RecordQuery("pending", limit=_PAGE)
    while page := await team.store.find(Approval, tenant, query):
        for approval in page:
            if await subject.halts(approval.agent, approval.to):
                yield approval.id
        query = query._replace(after=("", page[-1].id))


async def _asks(team: Team, tenant: str, subject: _Subject) -> AsyncIterator[str]:
    """Ids of unanswered requests whose answer would not be sent."""
    query = UnansweredQuery(team.at(), limit=_PAGE)
    while page := await team.store.unanswered(tenant, query):
        for request in page:
            receivers = request.recipients or (request.to,)
            if any([await subject.halts(request.sender, receiver) for receiver in receivers]):
                yield request.id
        query = query._replace(after=page[-1].position)
