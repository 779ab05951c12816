"""The ports of one mailbox: what every use case of `app.mailbox` is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.errors.errors import Unavailable
from parley.domain.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import TypeVar

    from parley.domain.mailbox.delivery import DeliveryKey
    from parley.domain.mailbox.ledger import WatchedFile
    from parley.domain.mailbox.listing import FileKey, ReadHeading
    from parley.ports.mailbox import (
        Clock,
        Courier,
        Format,
        Ids,
        Inbox,
        LockedFile,
        MailEnvelopes,
        MailGovernance,
        MailSignatures,
        ReceiptLog,
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
        holder: Callable[[], str] = str,
        has_ended: Callable[[str], bool] = lambda _holder: False,
        open_receipts: Callable[[], ReceiptLog] | None = None,
        session: str = "",
    ) -> None:
        self.agent = agent
        self.inbox = inbox
        self.format = format
        self.clock = clock
        self.ids = ids
        self.limits = limits
        self.enforce_owner = enforce_owner
        # The mark of the process that claims are taken for, and whether the process of a mark has ended.
        self.holder = holder
        self.has_ended = has_ended
        # The session of the coding agent that runs us, "" when there is none.
        self.session = session
        # Claims that last as long as this process: the lock dies with it.
        self.held: dict[DeliveryKey, LockedFile] = {}
        # What listings have read, by place and file.
        self.headings: dict[str, dict[FileKey, ReadHeading]] = {}
        # What watchers have shown and the ledger could not take: a mailbox may be read-only.
        self.unsaved_marks: set[WatchedFile] = set()
        self._open_store = open_store
        self._has_store = has_store
        self._open_courier = open_courier
        # Whether the project is governed: one look at the disk.
        self.is_governed = is_governed
        self._open_rules = open_rules
        self._rules: tuple[MailGovernance, MailEnvelopes] | None = None
        self._open_signatures = open_signatures
        self._open_receipts = open_receipts
        self._receipts: ReceiptLog | None = None
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
    def receipts(self) -> ReceiptLog | None:
        """What recipients say about messages; None where no receipts are kept."""
        if self._receipts is None and self._open_receipts is not None:
            self._receipts = self._open_receipts()
        return self._receipts

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

    def reopened(self) -> Kernel:
        """The same kernel with its ledger closed, which shares what listings have read."""
        from copy import copy

        other = copy(self)
        other._store = None  # of the same class
        return other

    def over(self, store: Store) -> Kernel:
        """The same kernel over another ledger."""
        from copy import copy

        other = copy(self)
        other._store = store  # of the same class
        return other


def drive(use_case: Coroutine[object, None, T]) -> T:
    """Run a use case whose ports never suspend, without an event loop."""
    try:
        use_case.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    use_case.close()
    raise RuntimeError("a mailbox use case must not wait")
