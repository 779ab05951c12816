"""The team's kernel: ports, the tail and the waits, shared by every use case of the server."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from parley.app.team.audit.state import AuditKeeping
from parley.app.team.channels.tail import Tail
from parley.app.team.channels.waits import Waits
from parley.app.team.decisions.state import NoticeKeeping
from parley.app.team.rules import in_force as rules
from parley.app.team.rules.policy_state import PolicyKeeping
from parley.app.team.rules.state import GovernanceKeeping
from parley.app.team.work.node import NodeKeeping
from parley.domain.channel.channel import Channel
from parley.domain.channel.event import EventDraft
from parley.domain.directory.callers import NO_TENANT, ROLE_PREFIX
from parley.domain.directory.intent import Intent, Task
from parley.domain.mailbox.ledger import Entry
from parley.domain.message.message import Pattern
from parley.domain.store.limits import TeamLimits
from parley.domain.times import stamp

if TYPE_CHECKING:
    from datetime import datetime

    from parley.domain.channel.post import Post
    from parley.domain.directory.callers import Caller
    from parley.domain.errors.errors import Unavailable
    from parley.domain.store.changes import Committed, TeamChanges
    from parley.ports.mailbox import Clock, Ids
    from parley.ports.team import Envelopes, Outbound, Signatures, Signer, TeamStore, Witness

ATTEMPTS = 8
_REMEMBERED = 10_000
_TOLD_AGAIN = (Intent, Channel, Task)


class Team:
    """Everything a use case of the server needs."""

    def __init__(  # noqa: PLR0913  # one parameter a port
        self,
        store: TeamStore,
        clock: Clock,
        ids: Ids,
        signatures: Signatures,
        envelopes: Envelopes,
        limits: TeamLimits = TeamLimits(),  # noqa: B008  # frozen
        *,
        sdk_event_names: bool = False,
        outbound: Outbound | None = None,
        signer: Signer | None = None,
        witness: Witness | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids
        self.signatures = signatures
        self.envelopes = envelopes
        self.limits = limits
        # Whether listings spell event types as the OpenIntent SDK's parser knows them; the log never does.
        self.sdk_event_names = sdk_event_names
        # Who judges where webhooks may go; None where none are sent.
        self.outbound = outbound
        self.audit = AuditKeeping(signer, witness)
        # Whoever puts the parts together may give it a default document and a folder.
        self.policies = PolicyKeeping()
        self.governance = GovernanceKeeping()
        # Whoever puts the parts together may give it somebody who carries letters to people.
        self.notices = NoticeKeeping()
        self.tail = Tail()
        self.waits = Waits()
        # Who changes roles, or leaves, waits here for the others instead of trying against them.
        self.roster = asyncio.Lock()
        # When the sweep last let go of idempotency keys.
        self.forgot_at = ""
        # When the sweep last looked for what waits in vain, and how far it came.
        self.stranded_at = ""
        self.stranded_after = ""
        self._requests: OrderedDict[str, tuple[str, Post]] = OrderedDict()
        # The last request of each agent in each channel, while it is unanswered.
        self._asking: OrderedDict[tuple[str, str, str], Post] = OrderedDict()
        # Whoever puts the parts together may say which other servers share the store.
        self.nodes = NodeKeeping()
        self.began = clock.now().at
        store.watch(self._committed, cares=self._cares, lost=self._lost)

    def now(self) -> datetime:
        """This moment, by the server's steady clock."""
        return self.clock.now().at

    def at(self) -> str:
        """This moment as a stamp."""
        return stamp(self.clock.now().at)

    def new_id(self, prefix: str) -> str:
        """A fresh id: prefix, then 26 characters that sort by time."""
        return f"{prefix}_{self.ids.ulid()}"

    async def commit(self, caller: Caller, changes: TeamChanges, held_id: str = "") -> Committed:
        """Commit for a caller, remembering its idempotency key in the same transaction, and what it was used for."""
        if caller.agent and rules.tells(changes):
            expects = await rules.check_active(self, caller)
            changes = changes._replace(expects=(*changes.expects, *expects))
        if caller.saved is not None:
            changes = changes._replace(saved=caller.saved._replace(message_id=held_id or _made(changes)))
        return await self.store.commit(changes)

    def entry(self, caller: Caller, action: str, subject: str, **facts: str) -> Entry:
        """A fact for the tenant's ledger: who did what to which thing, with which key."""
        facts["key"] = caller.key_id
        return Entry(action, self.at(), caller.actor, subject, "", facts)

    def event(self, intent_id: str, event_type: str, actor: str, payload: bytes) -> EventDraft:
        """An event for an intent's log; `payload` is JSON."""
        return EventDraft(self.new_id("evt"), intent_id, event_type, actor, payload, self.at())

    async def request(self, tenant: str, message_id: str) -> Post | None:
        """A message that may be answered, perhaps without what it says: most are remembered from their commit."""
        known = self._requests.get(message_id)
        if known is not None and known[0] == tenant:
            post = known[1]
            return post if post.seq > (await self.store.tally(tenant, post.channel_id)).floor else None
        return await self.store.post(tenant, message_id)

    def asks(self, tenant: str, channel_id: str, agent: str) -> Post | None:
        """The agent's last request in a channel, as long as nobody has answered it. Only what this process knows."""
        return self._asking.get((tenant, channel_id, agent))

    def _cares(self, tenant: str) -> bool:
        # Keys are no tenant's: whoever follows anything has to hear that its own was revoked.
        return tenant == NO_TENANT or self.tail.cares(tenant) or self.waits.cares(tenant)

    def _lost(self, error: Unavailable) -> None:
        self.tail.lose(error)
        self.waits.lose(error)

    def _committed(self, tenant: str, committed: Committed) -> None:
        for post in committed.posts:
            if post.pattern is Pattern.REQUEST:
                # Whom it was for and until when is what counts; what was said in it would fill the memory.
                asked = post._replace(payload=b"", metadata=b"")
                if not post.to.startswith(ROLE_PREFIX):  # whom that is for may change, on another server, too
                    self._requests[post.id] = (tenant, asked)
                self._asking[tenant, post.channel_id, post.sender] = asked
                if len(self._requests) > _REMEMBERED:
                    self._requests.popitem(last=False)
                if len(self._asking) > _REMEMBERED:
                    self._asking.popitem(last=False)
            elif post.pattern is Pattern.RESPONSE:
                open_one = self._asking.get((tenant, post.channel_id, post.to))
                if open_one is not None and open_one.id == post.in_reply_to:
                    del self._asking[tenant, post.channel_id, post.to]
        if committed.ended or committed.departed or committed.missed:
            self._requests.clear()
            self._asking.clear()
        self.audit.wrote(tenant)
        self.governance.committed(tenant, committed)
        self.tail.publish(tenant, committed)
        self.waits.publish(tenant, committed)


def _made(changes: TeamChanges) -> str:
    """The id of what a commit makes, by which it can be told again."""
    if changes.posts:
        return changes.posts[0].id
    first = changes.puts[0] if changes.puts else None
    return first.id if isinstance(first, _TOLD_AGAIN) else ""
