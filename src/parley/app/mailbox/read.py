"""Looking into the inbox and the outbox: listings. Nothing here writes, except for an index of what was read."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from parley.domain.errors.errors import ParleyError, Problem, SenderMismatch, Unfinished
from parley.domain.mailbox.delivery import Status, lease_over, order_key
from parley.domain.mailbox.listing import UNVERIFIED, Item, ReadHeading
from parley.domain.message.message import Heading
from parley.domain.times import format_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.listing import FileKey, HeadingIndex, RefusedFile
    from parley.domain.message.message import Message

    Judge = Callable[[str, tuple[str, ...], int], tuple[str, ...]]

# More of them are not told apart in a listing.
_MOST_HELD = 10_000
# Sorts behind every real priority.
_NO_PRIORITY = "P9"
_BEHIND_MESSAGES = (_NO_PRIORITY, True, "", "")
# From so many files on, what was read is kept for the next process.
_MANY = 500


async def inbox(kernel: Kernel) -> list[Item]:
    """What waits in the inbox, in processing order; unreadable files last. Looking consumes nothing."""
    states = dict.fromkeys(await _claimed_files(kernel), "claimed")
    states |= dict.fromkeys(await _held_files(kernel), "held")
    items = await listing(kernel, "inbox")
    if items and items[-1].problem:  # bad files are last
        unfinished = await kernel.inbox.unfinished((i.file for i in items if i.problem), kernel.clock.now().at)
        items = [_unfinished(item) if item.file in unfinished else item for item in items]
    if not states:
        return items
    return [item._replace(status=states[item.file]) if item.file in states else item for item in items]


async def dead_letters(kernel: Kernel) -> list[RefusedFile]:
    """The files that were put aside, with the reason of each."""
    return await kernel.inbox.dead_letters()


def _unfinished(item: Item) -> Item:
    """A bad file that may still become a message is not bad yet."""
    return item._replace(status="unfinished", problem=f"{Unfinished.code}: may still be written ({item.problem})")


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
    judge = _owners_judge(kernel) if place == "inbox" else _nothing_doubtful
    before = kernel.headings.get(place)
    if before is None:
        # What an earlier process has read is judged anew: who owns which folder may have changed.
        index = kernel.inbox.index(place)
        if index.complete:
            return _index_items(index, judge, now)
        before = {key: _judged(judge, *entry) for key, entry in index.entries.items()}
    return [_item(read, key[0], now) for key, read in await _read_new(kernel, place, before, judge)]


def _index_items(index: HeadingIndex, judge: Judge, now: str) -> list[Item]:
    """The items of a place of which every file is known."""
    _, senders, recipients, _, _, _, _, expires, _, _ = index.columns
    ways = list(zip(senders, recipients, index.owners, strict=True))
    try:
        doubts = {way: judge(*way) for way in set(ways)}
    except ParleyError:  # some are bad files
        ordered = sorted(((key, _judged(judge, *entry)) for key, entry in index.entries.items()), key=_order)
        return [_item(read, key[0], now) for key, read in ordered]
    expired = ["" < time <= now for time in expires] if any(expires) else repeat(False)
    states = (index.names, repeat("new"), expired, repeat(""), map(doubts.__getitem__, ways))
    return list(map(Item._make, zip(*index.columns, *states)))  # noqa: B905  # some repeat without end


async def _read_new(
    kernel: Kernel, place: str, before: dict[FileKey, ReadHeading], judge: Judge
) -> list[tuple[FileKey, ReadHeading]]:
    """The files of a place of which some are known, in processing order; unreadable files last.

    A message file never changes, so it is looked at once; what is gone is forgotten.
    """
    names = await kernel.inbox.names(place, exact=bool(before) or place in kernel.headings)
    headings = kernel.headings[place] = {key: before[key] for key in names if key in before}
    fresh = [key[0] for key in names if key not in headings]
    heading_of = kernel.format.heading
    for name, content, owner, number in kernel.inbox.peek(fresh, place) if fresh else ():
        try:
            if isinstance(content, ParleyError):
                raise content  # both are bad files
            heading = heading_of(content)
            read = ReadHeading(heading, owner, judge(heading.sender, heading.to, owner))
        except ParleyError as error:
            read = ReadHeading(error, owner)
        headings[name, number] = read
    ordered = sorted(headings.items(), key=_order)
    if len(names) >= _MANY and fresh:
        entries = {key: (read.heading, read.owner) for key, read in ordered if isinstance(read.heading, Heading)}
        kernel.inbox.keep_index(place, entries, len(names))
    return ordered


def _judged(judge: Judge, heading: Heading, owner: int) -> ReadHeading:
    try:
        return ReadHeading(heading, owner, judge(heading.sender, heading.to, owner))
    except ParleyError as error:
        return ReadHeading(error, owner)


def _nothing_doubtful(_sender: str, _to: tuple[str, ...], _owner: int) -> tuple[str, ...]:
    return ()


def _owners_judge(kernel: Kernel) -> Judge:
    """What is doubtful about a file of the inbox; each sender's user is looked up once."""
    owners: dict[str, int | None] = {}
    agent = kernel.agent

    def judge(sender: str, to: tuple[str, ...], owner: int) -> tuple[str, ...]:
        if sender not in owners:
            owners[sender] = kernel.inbox.owner_of(sender)
        if owners[sender] == owner and agent in to:
            return ()
        return tuple(map(str, delivery_doubts(kernel, sender, to, owner, owners[sender])))

    return judge


def delivery_doubts(
    kernel: Kernel, sender: str, to: tuple[str, ...], owner: int, senders_owner: int | None
) -> list[Problem]:
    """What is doubtful about how a message came to this inbox: who owns its file, and whom it is for.

    Raises `SenderMismatch` for a file that is not of its sender's user where that is enforced.
    """
    doubts = []
    if owner != senders_owner:
        detail = f"the file belongs to user {owner}, {sender} to user {senders_owner}"
        if senders_owner is None:
            detail = f"{sender} is no agent of this project"
        if kernel.enforce_owner:
            raise SenderMismatch(detail)
        doubts.append(Problem(UNVERIFIED, "from", detail))
    if kernel.agent not in to:
        doubts.append(Problem("other_recipient", "to", f"is for {', '.join(to)}, not for {kernel.agent}"))
    return doubts


def label_doubts(kernel: Kernel, message: Message) -> tuple[Problem, ...]:
    """The doubt about the label of a governed message that is not in the words of the policy."""
    label = message.extras.get("disclosure") if "ocip" in message.extras else None
    if label is None:
        return ()
    governance = kernel.governance.load()
    sender, reader = governance.party(message.sender), governance.party(kernel.agent)
    policy = governance.book.between(sender.attributes, reader.attributes)
    if policy is None or label == policy.disclosure:
        return ()
    return (Problem("false_label", "disclosure", f"is not the label of the policy, which is {policy.disclosure!r}"),)


def _order(entry: tuple[FileKey, ReadHeading]) -> tuple[str, bool, str, str]:
    heading = entry[1].heading
    if isinstance(heading, ParleyError):
        return _BEHIND_MESSAGES
    return order_key(heading.priority, heading.kind, heading.created_at, heading.id)


def _item(read: ReadHeading, file: str, now: str) -> Item:
    heading, _, doubts = read
    if isinstance(heading, ParleyError):
        return _bad(file, heading)
    return Item(*heading, file, "new", "" < heading[7] <= now, "", doubts)


def _bad(file: str, error: ParleyError) -> Item:
    return Item(
        "", "", (), "", _NO_PRIORITY, "", "", "", "", "", file, "unreadable", False, f"{error.code}: {error.message}"
    )


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
