"""The team: the ports of a server, and what its use cases share in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from parley.app.team.state.decision_cache import DecisionCache
from parley.app.team.state.key_names import KeyNamesCache
from parley.app.team.state.known_names import NameCache
from parley.app.team.state.nodes import NodeState
from parley.app.team.state.outside import AuditState, NoticeState, PolicyState
from parley.app.team.state.presence import ConnectedAgents
from parley.app.team.state.queues import Queues
from parley.app.team.state.requests import RequestCache
from parley.app.team.state.rules import GovernedTerms, RulesState
from parley.app.team.state.sights import SightCache
from parley.app.team.state.suspended import check_not_suspended
from parley.app.team.state.tail import Tail
from parley.app.team.state.waits import Waits
from parley.domain.channel.event import EventDraft, quoted
from parley.domain.directory.access import AccessPolicy
from parley.domain.mailbox.ledger import Entry
from parley.domain.store.limits import TeamLimits
from parley.domain.times import stamp

if TYPE_CHECKING:
    from datetime import datetime

    from parley.domain.channel.post import Post
    from parley.domain.directory.callers import Caller
    from parley.domain.store.changes import Committed, TeamChanges
    from parley.ports.mailbox import Clock, Ids
    from parley.ports.outside import Envelopes, Outbound, Signatures
    from parley.ports.team import TeamStore

ATTEMPTS = 8


class Team:
    """Everything a use case of the server needs."""

    # The time of the event loop's present round and its stamp; None and "" until somebody asks.
    _round_time: datetime | None = None
    _round_stamp = ""
    # Whether people may decide by a link, without signing in. Set by `wiring`.
    approval_links = False

    def __init__(  # noqa: PLR0913  # one parameter a port, or what holds one
        self,
        store: TeamStore,
        clock: Clock,
        ids: Ids,
        signatures: Signatures,
        envelopes: Envelopes,
        limits: TeamLimits = TeamLimits(),  # noqa: B008  # frozen
        *,
        sdk_event_names: bool = False,
        new_intents: AccessPolicy = AccessPolicy.CLOSED,
        outbound: Outbound | None = None,
        audit: AuditState | None = None,
        policies: PolicyState | None = None,
        governance: RulesState | None = None,
        notices: NoticeState | None = None,
        nodes: NodeState | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids
        self.signatures = signatures
        self.envelopes = envelopes
        self.limits = limits
        # Whether listings spell event types as the OpenIntent SDK's parser knows them; the log never does.
        self.sdk_event_names = sdk_event_names
        # Who has access to an intent whose creator does not say.
        self.new_intents = new_intents
        # Judges where webhooks may go; None where none are sent.
        self.outbound = outbound
        self.audit = audit or AuditState()
        self.policies = policies or PolicyState()
        self.governance = governance or RulesState()
        self.notices = notices or NoticeState()
        self.nodes = nodes or NodeState()
        self.requests = RequestCache(store)
        # What was decided about plain messages, as a message that is like them; and the terms of governed ones.
        self.plain_decisions: DecisionCache[Post] = DecisionCache(store.generation)
        self.governed_decisions: DecisionCache[GovernedTerms] = DecisionCache(store.generation)
        self.key_names = KeyNamesCache(store, limits.keys_per_tenant)
        self.tail = Tail()
        self.connected = ConnectedAgents(self.tail, clock)
        self.waits = Waits()
        self.queues = Queues(clock)
        self.sights = SightCache()
        self.names = NameCache(store)
        # Held while roles change and agents leave, so that they do not conflict with each other.
        self.roster = asyncio.Lock()
        self.forgot_at = ""  # when the sweep last dropped idempotency keys
        # When the sweep last looked for messages that could be delivered, and up to which address.
        self.stranded_at = self.stranded_after = ""
        self.began = clock.now().at
        store.watch(self.requests.publish)
        store.watch(self.sights.publish)
        store.watch(self.names.publish)
        store.watch(self.audit.mark_active)
        store.watch(self.governance.publish)
        store.watch(self.queues.publish)
        store.watch(self.tail.publish, needs=self.tail.has_listeners, on_lost=self.tail.fail)
        store.watch(self.waits.publish, needs=self.waits.has_waits, on_lost=self.waits.fail)

    def now(self) -> datetime:
        """This moment, by the server's steady clock."""
        return self.clock.now().at

    def at(self) -> str:
        """This moment as a stamp."""
        return stamp(self.clock.now().at)

    def round_stamp(self) -> str:
        """This moment as a stamp, formatted once for all that happens in one round of the event loop."""
        if not self._round_stamp:
            self._round_stamp = stamp(self.round_time())
        return self._round_stamp

    def round_time(self) -> datetime:
        """This moment, the same for all that happens in one round of the event loop."""
        if self._round_time is None:
            self._round_time = self.now()
            asyncio.get_running_loop().call_soon(self._end_round)
        return self._round_time

    def _end_round(self) -> None:
        self._round_time, self._round_stamp = None, ""

    def new_id(self, prefix: str) -> str:
        """A fresh id: prefix, then 26 characters that sort by time."""
        return f"{prefix}_{self.ids.ulid()}"

    async def commit(self, caller: Caller, changes: TeamChanges) -> Committed:
        """Commit for a caller that is not suspended, with its idempotency key.

        Messages of the caller are committed by `posting`: the rules record the refusal of a suspended sender.
        """
        if caller.agent:
            expects = await check_not_suspended(self.store, caller)
            changes = changes._replace(expects=(*changes.expects, *expects))
        if caller.saved is not None:
            changes = changes.with_key(caller.saved, caller.answer)
        return await self.store.commit(changes)

    def entry(self, caller: Caller, action: str, subject: str, **facts: str) -> Entry:
        """A fact for the tenant's ledger: who did what to which thing, with which key."""
        facts["key"] = caller.key_id
        return Entry(action, self.at(), caller.actor, subject, "", facts)

    def event(self, intent_id: str, event_type: str, actor: str, payload: bytes) -> EventDraft:
        """An event for an intent's log; `payload` is JSON."""
        return EventDraft(self.new_id("evt"), intent_id, event_type, actor, payload, self.at())

    def event_by(self, caller: Caller, intent_id: str, event_type: str, **payload: object) -> EventDraft:
        """An event about what a caller did, for the commit that does it."""
        draft = self.event(intent_id, event_type, caller.actor, quoted(payload))
        return draft._replace(trace_id=caller.trace_id) if caller.trace_id else draft
