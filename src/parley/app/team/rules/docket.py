"""The server's docket: what is on record in its store, and the one commit that a decision becomes.

Whatever was looked up is noted in `expects`, so that a commit is refused when it has changed meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.app.rules.holding import queue_freed
from parley.app.team import system_posts
from parley.app.team.rules import in_force
from parley.domain.audit.entry import AGENT_EXCHANGE
from parley.domain.exchange.approval import Approval
from parley.domain.exchange.exchange import Exchange
from parley.domain.rules.policy import Policy
from parley.domain.store.changes import AuditQuery, TeamChanges
from parley.domain.times import stamp

if TYPE_CHECKING:
    from datetime import datetime

    from parley.app.rules.docket import RulesDecision
    from parley.app.team.state.rules import Rules
    from parley.app.team.team import Team
    from parley.domain.channel.event import EventDraft
    from parley.domain.channel.post import Post
    from parley.domain.record import Expect, Record
    from parley.domain.rules.rulebook import Rulebook
    from parley.domain.rules.ruling import Proposal, Ruling
    from parley.domain.store.ground import Ground

_PAGE = 500


class TeamDocket:
    """See `app.rules.docket.Docket`. A server keeps the chains of all sides."""

    __slots__ = (
        "affected",
        "at",
        "book",
        "expects",
        "ground",
        "new_conversations",
        "now",
        "rules",
        "stopped",
        "team",
        "tenant",
    )

    def __init__(
        self,
        team: Team,
        tenant: str,
        rules: Rules,
        expects: list[Expect],
        ground: Ground | None = None,
        now: datetime | None = None,
    ) -> None:
        self.team = team
        self.tenant = tenant
        self.rules = rules
        self.book: Rulebook = rules.book
        self.stopped = rules.stopped
        self.now = now or team.now()
        self.at = stamp(self.now)
        self.expects = expects
        # The records that were looked up for an earlier message like this one.
        self.ground = ground
        # Conversations that messages name, and that had no exchange when that was looked up.
        self.new_conversations: list[str] = []
        # Other exchanges of the conversation in which messages are decided otherwise once this one has opened an
        # exchange: they share its rounds, or its receiver takes part in them.
        self.affected: list[Exchange] = []

    @classmethod
    async def open(cls, team: Team, tenant: str, expects: list[Expect] | None = None) -> TeamDocket:
        """Open a docket at the current time; decisions depend on the policies in force now."""
        noted = expects if expects is not None else []
        return cls(team, tenant, await in_force.in_force(team, tenant, noted), noted)

    def new_id(self, prefix: str) -> str:
        """A fresh id."""
        return f"{prefix}_{self.team.ids.ulid()}"

    def keeps(self, side: str) -> bool:
        """Always."""
        del side
        return True

    async def exchange(self, exchange_id: str) -> Exchange | None:
        """An exchange by its id."""
        return await self.team.store.get(Exchange, self.tenant, exchange_id)

    async def approval(self, approval_id: str) -> Approval | None:
        """An approval by its id."""
        return await self.team.store.get(Approval, self.tenant, approval_id)

    async def approval_by_key(self, dedup_key: str) -> Approval | None:
        """The approval of which there is only one, decided or not."""
        for parent in ("pending", "decided"):
            approval = await self.team.store.find_by_name(Approval, self.tenant, parent, dedup_key)
            if approval is not None:
                return approval
        return None

    async def sides(self, exchange: Exchange) -> tuple[str, ...]:
        """The senders, the receivers, and those whose messages were held or denied: each has an entry."""
        sides: dict[str, None] = {}
        query = AuditQuery(limit=_PAGE, exchange_id=exchange.id, action=AGENT_EXCHANGE, bare=True)
        while entries := await self.team.store.audits(self.tenant, query):
            sides.update(dict.fromkeys([entry.side for entry in entries]))
            if len(entries) < _PAGE:
                break
            query = query._replace(after=entries[-1].number)
        return tuple(sides)

    async def policy_for(self, approval: Approval) -> Policy:
        """The policy of the sender's side; without one only its own person decides."""
        party = await in_force.party(self.team, self.tenant, approval.agent)
        return self.book.of(party.attributes) or Policy()

    async def tighten(self, proposal: Proposal, ruling: Ruling) -> Ruling:
        """The ruling after the organisation's own rules, if configured."""
        extension = self.team.governance.extension
        return ruling if extension is None else await extension.tighten(proposal, ruling)

    async def changes(self, decision: RulesDecision[Post], events: tuple[EventDraft, ...] = ()) -> TeamChanges:
        """The commit of a decision, with a message to each agent whose held message was decided."""
        puts = decision.records
        exchange = decision.exchange
        opens = exchange is not None and not exchange.version
        if opens:
            # Written again unchanged, so that their versions move: a message that is being decided without the new
            # exchange becomes stale.
            written = {record.id for record in puts}
            puts += tuple([exchange for exchange in self.affected if exchange.id not in written])
        decided = decision.decided if decision.approvals else ()
        created = decision.message or decision.held or (puts[0] if puts else None)
        changes = TeamChanges(
            self.tenant,
            (decision.message,) if decision.message is not None else (),
            self._expects_beside(puts) if self.expects else (),
            puts=puts,
            events=events,
            audits=decision.audits,
            spends=(*decision.spends, *queue_freed(decided)) if decided else decision.spends,
            new_conversations=tuple(self.new_conversations) if opens else (),
            created_id=created.id if created is not None else "",
            ground=self.ground,
        )
        return await system_posts.with_decisions(self.team, changes, decided, self.at) if decided else changes

    def _expects_beside(self, puts: tuple[Record, ...]) -> tuple[Expect, ...]:
        """What the commit depends on beside the records that it puts: those carry the version that they replace."""
        replaced = [(record.kind, record.id) for record in puts if record.version]
        if not replaced:
            return tuple(self.expects)
        return tuple([expect for expect in self.expects if (expect.kind, expect.id) not in replaced])


async def commit(docket: TeamDocket, decision: RulesDecision[Any]) -> None:
    """Commit a decision about something that has expired."""
    await docket.team.store.commit(await docket.changes(decision))
