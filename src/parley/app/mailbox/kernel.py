"""The use cases bound to their ports: what a surface is given.

Each verb imports its module when it is first used, so that a command pays only for what it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from parley.domain.errors.errors import Unavailable
from parley.domain.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from datetime import timedelta

    from parley.app.mailbox.rules.approvals import MailboxDecision
    from parley.app.mailbox.rules.sending import HumanDecision
    from parley.domain.exchange.approval import Approval, ApprovalStatus, DecisionRight
    from parley.domain.exchange.exchange import Exchange
    from parley.domain.mailbox.delivery import DeliveryKey, Lease
    from parley.domain.mailbox.listing import Claimed, Finished, FoundMessage, Item, Sent
    from parley.domain.message.message import Draft, Heading, Message
    from parley.domain.message.review import Review
    from parley.ports.mailbox import (
        Clock,
        Courier,
        Format,
        Held,
        Ids,
        Inbox,
        MailEnvelopes,
        MailGovernance,
        MailSignatures,
        Store,
    )

T = TypeVar("T")


class Kernel:
    """Everything a use case needs to act for one agent.

    The ledger and the courier are opened when they are first needed: looking into an inbox needs neither.
    """

    def __init__(  # noqa: PLR0913  # one parameter a port
        self,
        agent: str,
        *,
        open_store: Callable[[], Store],
        has_store: Callable[[], bool],
        open_courier: Callable[[], Courier],
        inbox: Inbox,
        format: Format,  # noqa: A002  # the glossary's word
        clock: Clock,
        ids: Ids,
        limits: Limits = DEFAULT_LIMITS,
        enforce_owner: bool = False,
        is_governed: Callable[[], bool] = bool,
        open_rules: Callable[[], tuple[MailGovernance, MailEnvelopes]] | None = None,
        open_signatures: Callable[[], MailSignatures] | None = None,
    ) -> None:
        self.agent = agent
        self.inbox = inbox
        self.format = format
        self.clock = clock
        self.ids = ids
        self.limits = limits
        self.enforce_owner = enforce_owner
        # Claims that last as long as this process: the lock dies with it.
        self.held: dict[DeliveryKey, Held] = {}
        # What listings have read, by place and file.
        self.headings: dict[str, dict[tuple[str, int], Heading]] = {}
        self._open_store = open_store
        self._has_store = has_store
        self._open_courier = open_courier
        # Whether the project is governed: one look at the disk.
        self.is_governed = is_governed
        self._open_rules = open_rules
        self._rules: tuple[MailGovernance, MailEnvelopes] | None = None
        self._open_signatures = open_signatures
        self._closed = False
        self._store: Store | None = None
        self._courier: Courier | None = None

    @property
    def courier(self) -> Courier:
        """Delivers this agent's files."""
        if self._courier is None:
            self._courier = self._open_courier()
        return self._courier

    @property
    def store(self) -> Store:
        """The agent's private ledger."""
        if self._closed:
            raise Unavailable("this mailbox is closed")
        if self._store is None:
            self._store = self._open_store()
        return self._store

    @property
    def store_if_any(self) -> Store | None:
        """The ledger if it exists already, for use cases that only read."""
        return self.store if self._store is not None or self._has_store() else None

    @property
    def governance(self) -> MailGovernance:
        """The rules of the project; `PolicyUnavailable` where there are none, so that nothing is allowed."""
        return self._loaded_rules()[0]

    @property
    def envelopes(self) -> MailEnvelopes:
        """Reads and writes the envelopes of governed messages."""
        return self._loaded_rules()[1]

    @property
    def signatures(self) -> MailSignatures:
        """Signs and verifies; loaded only for signed messages. `PolicyUnavailable` where it is not installed."""
        if self._open_signatures is None:
            from parley.domain.errors.rules import PolicyUnavailable

            raise PolicyUnavailable
        return self._open_signatures()

    def _loaded_rules(self) -> tuple[MailGovernance, MailEnvelopes]:
        if self._rules is None:
            if self._open_rules is None:
                from parley.domain.errors.rules import PolicyUnavailable

                raise PolicyUnavailable
            self._rules = self._open_rules()
        return self._rules

    def close(self) -> None:
        """Release locks and close the ledger."""
        self._closed = True
        for held in self.held.values():
            held.release()
        self.held.clear()
        if self._store is not None:
            self._store.close()
            self._store = None
        self._courier = None  # with it go the folders that it kept open

    async def send(self, draft: Draft, *, suffix: str = "", decided: HumanDecision | None = None) -> Sent:
        """See `app.mailbox.sending.send`."""
        from parley.app.mailbox import sending as post

        return await post.send(self, draft, suffix=suffix, decided=decided)

    async def preview(self, draft: Draft) -> Message:
        """See `app.mailbox.preview.preview`."""
        from parley.app.mailbox import preview

        return await preview.preview(self, draft)

    def over(self, store: Store) -> Kernel:
        """The same kernel over another ledger."""
        from copy import copy

        other = copy(self)
        other._store = store  # of the same class
        return other

    async def reply(self, ref: str, draft: Draft, *, kind_given: bool) -> Sent:
        """See `app.mailbox.sending.reply`."""
        from parley.app.mailbox import sending as post

        return await post.reply(self, ref, draft, kind_given=kind_given)

    async def inbox_items(self) -> list[Item]:
        """See `app.mailbox.read.inbox`."""
        from parley.app.mailbox import read

        return await read.inbox(self)

    async def outbox_items(self) -> list[Item]:
        """See `app.mailbox.read.outbox`."""
        from parley.app.mailbox import read

        return await read.outbox(self)

    async def find(self, ref: str) -> FoundMessage:
        """See `app.mailbox.find.find`."""
        from parley.app.mailbox import find

        return await find.find(self, ref)

    async def full_id(self, ref: str) -> str:
        """See `app.mailbox.find.full_id`."""
        from parley.app.mailbox import find

        return await find.full_id(self, ref)

    async def thread(self, ref: str) -> list[FoundMessage]:
        """See `app.mailbox.find.thread`."""
        from parley.app.mailbox import find

        return await find.thread(self, ref)

    async def search(self, text: str) -> list[FoundMessage]:
        """See `app.mailbox.find.search`."""
        from parley.app.mailbox import find

        return await find.search(self, text)

    async def review(self, ref: str) -> Review:
        """See `app.mailbox.find.review`."""
        from parley.app.mailbox import find

        return await find.review(self, ref)

    async def claim_next(self, length: timedelta | None) -> Claimed | None:
        """See `app.mailbox.claims.claim_next`."""
        from parley.app.mailbox import claims as receipts

        return await receipts.claim_next(self, length)

    async def extend(self, ref: str, length: timedelta, token: str | None = None) -> tuple[str, Lease]:
        """See `app.mailbox.claims.extend`."""
        from parley.app.mailbox import claims as receipts

        return await receipts.extend(self, ref, length, token)

    async def release(self, ref: str, token: str | None = None) -> str:
        """See `app.mailbox.claims.release`."""
        from parley.app.mailbox import claims as receipts

        return await receipts.release(self, ref, token)

    async def done(self, ref: str, *, delete: bool = False, token: str | None = None) -> Finished:
        """See `app.mailbox.claims.done`."""
        from parley.app.mailbox import claims as receipts

        return await receipts.done(self, ref, delete=delete, token=token)

    async def unseen(self, watcher: str) -> list[Item]:
        """See `app.mailbox.follow.unseen`."""
        from parley.app.mailbox import follow

        return await follow.unseen(self, watcher)

    async def shown(self, watcher: str, items: list[Item]) -> None:
        """See `app.mailbox.follow.shown`."""
        from parley.app.mailbox import follow

        await follow.shown(self, watcher, items)

    async def approvals(self, status: ApprovalStatus | None = None) -> list[Approval]:
        """See `app.mailbox.rules.approvals.list_all`."""
        from parley.app.mailbox.rules import approvals

        return await approvals.list_all(self, status)

    async def approval(self, approval_id: str) -> Approval:
        """See `app.mailbox.rules.approvals.get`."""
        from parley.app.mailbox.rules import approvals

        return await approvals.get(self, approval_id)

    async def standing(self, approval: Approval, key: str = "") -> DecisionRight:
        """See `app.mailbox.rules.approvals.standing`."""
        from parley.app.mailbox.rules import approvals

        return await approvals.standing(self, approval, key)

    async def decide(self, approval_id: str, deciding: MailboxDecision) -> Approval:
        """See `app.mailbox.rules.approvals.decide`."""
        from parley.app.mailbox.rules import approvals

        return await approvals.decide(self, approval_id, deciding)

    async def exchanges(self) -> list[Exchange]:
        """See `app.mailbox.rules.exchanges.list_all`."""
        from parley.app.mailbox.rules import exchanges

        return await exchanges.list_all(self)

    async def exchange(self, exchange_id: str) -> Exchange:
        """See `app.mailbox.rules.exchanges.get`."""
        from parley.app.mailbox.rules import exchanges

        return await exchanges.get(self, exchange_id)

    async def close_exchange(self, exchange_id: str, reason: str = "", key: str = "") -> Exchange:
        """See `app.mailbox.rules.exchanges.close`."""
        from parley.app.mailbox.rules import exchanges

        return await exchanges.close(self, exchange_id, reason, key)

    async def sweep(self) -> None:
        """See `app.mailbox.sweep.sweep`."""
        from parley.app.mailbox import sweep

        await sweep.sweep(self)


def drive(use_case: Coroutine[object, None, T]) -> T:
    """Run a use case whose ports never suspend, without an event loop."""
    try:
        use_case.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    use_case.close()
    raise RuntimeError("a mailbox use case must not wait")
