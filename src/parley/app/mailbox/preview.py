"""What would become of a message if it were sent now: the rules are asked, and nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from parley.app.mailbox import sending as post
from parley.domain import names
from parley.domain.message.compose import compose

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.ledger import MailboxChanges
    from parley.domain.message.message import Draft, Message
    from parley.domain.record import Record
    from parley.ports.mailbox import Store

    R = TypeVar("R", bound=Record)

# In the place of what is random in an id.
_UNKNOWN = "0000"


class Unwritten:
    """A ledger in front of a mailbox's own, as far as the rules use one: what is written to it is only remembered."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._written: dict[tuple[type[Record], str], Record] = {}

    async def commit(self, changes: MailboxChanges) -> int:
        """Remember the records; a file that was judged meanwhile is judged for what comes after it."""
        self._written |= {(type(record), record.id): record for record in changes.puts}
        return 0

    async def record(self, kind: type[R], record_id: str) -> R | None:
        """As written here, else as it is kept."""
        record = self._written.get((kind, record_id))
        if record is not None:
            return cast("R", record)
        store = self._kernel.store_if_any
        return await store.record(kind, record_id) if store is not None else None

    async def records(
        self, kind: type[R], parent: str | None = None, *, after: str = "", limit: int = 1_000
    ) -> tuple[R, ...]:
        """As they are kept, and as written here."""
        store = self._kernel.store_if_any
        stored = await store.records(kind, parent, after=after, limit=limit) if store is not None else ()
        mine = {
            name: cast("R", record)
            for (of, name), record in self._written.items()
            if of is kind and name > after and parent in (None, record.parent)
        }
        records = {**{record.id: record for record in stored if (kind, record.id) not in self._written}, **mine}
        return tuple([records[name] for name in sorted(records)][:limit])

    async def has_records(self, kind: str, parent: str) -> bool:
        """Whether there is one that is kept, or written here."""
        if any(of.kind == kind and record.parent == parent for (of, _), record in self._written.items()):
            return True
        store = self._kernel.store_if_any
        return store is not None and await store.has_records(kind, parent)

    async def count_conversations(self, prefix: str) -> int:
        """As many as are kept."""
        store = self._kernel.store_if_any
        return await store.count_conversations(prefix) if store is not None else 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever else is only read
        return getattr(self._kernel.store, name)


async def preview(kernel: Kernel, draft: Draft, answered: Message | None = None) -> Message:
    """The message as `post.send` would write it now, but for its id and the ids of a governed exchange that it begins.

    Raises what the rules would refuse it with, and `MessageHeld` if it would wait for a person.
    """
    trying = kernel.over(cast("Store", Unwritten(kernel)))
    if any(post.TENANT_MARK in name for name in draft.to):
        from parley.app.mailbox.rules import sending as mail_sending

        draft = await mail_sending.addressed(trying, draft)
    now = kernel.clock.now().at
    parent, origin = await post.parents_of(kernel, draft, answered)
    message_id = names.message_id(now, draft.sender, _UNKNOWN)
    opened = await post.opened_by(trying, draft, parent)
    opening = draft._replace(conversation_id=opened) if opened else draft
    plain = compose(opening, message_id, now, parent, kernel.limits, origin=origin)
    governed = await post.govern(trying, draft, plain, parent)
    if governed is None:
        return plain
    if governed.refusal is not None:
        raise governed.refusal
    return governed.message
