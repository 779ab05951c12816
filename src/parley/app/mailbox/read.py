"""Looking into the inbox and the outbox: listings. Nothing here writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.errors.errors import ParleyError
from parley.domain.mailbox.delivery import Status, lease_over, order_key
from parley.domain.mailbox.listing import Item
from parley.domain.times import format_time

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.message.message import Heading

# More of them are not told apart in a listing.
_MOST_HELD = 10_000


async def inbox(kernel: Kernel) -> list[Item]:
    """What waits in the inbox, in processing order; unreadable files last. Looking consumes nothing."""
    states = dict.fromkeys(await _claimed_files(kernel), "claimed")
    states |= dict.fromkeys(await _held_files(kernel), "held")
    items = await listing(kernel, "inbox")
    if not states:
        return items
    return [item._replace(status=states[item.file]) if item.file in states else item for item in items]


async def outbox(kernel: Kernel) -> list[Item]:
    """Copies of what this agent sent, newest first, with the ledger's word on who has not got it."""
    items = await listing(kernel, "outbox")
    store = kernel.store_if_any
    states: dict[str, str] = {}
    if store is not None:
        for delivery in await store.deliveries(Status.PENDING, Status.FAILED):
            states[delivery.key.message_id] = delivery.status.value
    items.sort(key=lambda item: (item.created_at, item.id), reverse=True)
    return [item._replace(status=states.get(item.id, "sent")) for item in items]


async def listing(kernel: Kernel, place: str) -> list[Item]:
    """The message files of a place in processing order, each read once in the life of this process."""
    now = format_time(kernel.clock.now().at)
    names = await kernel.inbox.names(place, exact=place in kernel.headings)
    # A message file never changes, so its heading is read once; what is gone is forgotten.
    before = kernel.headings.get(place, {})
    headings = kernel.headings[place] = {entry: before[entry] for entry in names if entry in before}
    items = [_item(headings[entry], entry[0], now) for entry in names if entry in headings]
    fresh = {name: entry for entry in names if entry not in headings for name in (entry[0],)}
    heading_of = kernel.format.heading
    for name, content in kernel.inbox.peek(fresh, place) if fresh else ():
        if isinstance(content, ParleyError):
            items.append(_bad(name, content))
            continue
        try:
            heading = heading_of(content)
        except ParleyError as error:
            items.append(_bad(name, error))
        else:
            headings[fresh[name]] = heading
            items.append(_item(heading, name, now))
    items.sort(key=_order)
    return items


def _order(item: Item) -> tuple[str, bool, str, str]:
    return order_key(item.priority, item.kind, item.created_at, item.id)


def _item(heading: Heading, file: str, now: str) -> Item:
    return Item(*heading, file, "new", "" < heading[7] <= now)


def _bad(file: str, error: ParleyError) -> Item:
    # P9 sorts behind every real priority.
    return Item("", "", (), "", "P9", "", "", "", "", "", file, "unreadable", False, f"{error.code}: {error.message}")


async def _claimed_files(kernel: Kernel) -> frozenset[str]:
    store = kernel.store_if_any
    if store is None:
        return frozenset()
    now = kernel.clock.now()
    return frozenset(
        delivery.file
        for delivery in await store.deliveries(Status.CLAIMED)
        if delivery.lease is not None and not lease_over(delivery.lease, now)
    )


async def _held_files(kernel: Kernel) -> list[str]:
    """What waits for my person: it is not handed over."""
    store = kernel.store_if_any
    if store is None or not await store.has_records("receipt", "held"):
        return []
    from parley.domain.exchange.incoming import InboxReceipt, InboxVerdict

    return [receipt.file for receipt in await store.records(InboxReceipt, InboxVerdict.HELD.value, limit=_MOST_HELD)]
