"""Finding messages: one by its name, a whole thread, by text. Nothing here writes.

Files are the truth and the ledger remembers what files no longer show, so both are asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.mailbox.kernel import drive
from parley.app.mailbox.read import delivery_doubts, label_doubts, listing
from parley.domain.errors.errors import Ambiguous, Forbidden, Invalid, ParleyError, UnknownMessage
from parley.domain.hashes import digest
from parley.domain.mailbox.delivery import DeliveryKey, Status
from parley.domain.mailbox.listing import FoundMessage, Item, RefusedFile
from parley.domain.message.message import search_text
from parley.domain.names import MESSAGE_ENDINGS, bare_ref, is_message_file, meant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from parley.app.mailbox.kernel import Kernel
    from parley.domain.mailbox.ledger import StoredMessage
    from parley.domain.message.message import Message

_PLACES = ("inbox", "archive", "outbox", "dead_letter")
_SEARCH_LIMIT = 1_000
# What is shorter was not meant as a whole id.
_SHORTEST_ID = 9
# The random part of our ids.
_SHORTEST_ENDING = 4


async def find(kernel: Kernel, ref: str) -> FoundMessage:
    """The message that `ref` names: an id, a file name, or the end of an id. `Ambiguous` when several fit."""
    ref = bare_ref(ref)
    matches = await by_id(kernel, ref) or await _by_file(kernel, ref) or await _by_ending(kernel, ref)
    if not matches:
        hint = await _like(kernel, ref) or "look with: parley inbox, parley outbox, or parley search TEXT"
        raise UnknownMessage(f"{kernel.agent} has no message {ref!r}", hint=hint)
    distinct = {(match.message.id, match.digest) for match in matches}
    if len(distinct) > 1:
        claimed = [match for match in matches if await _is_claimed(kernel, match)]
        if len(claimed) == 1:
            return claimed[0]
        files = ", ".join(sorted({match.file or match.message.id for match in matches}))
        raise Ambiguous(f"{ref!r} fits {len(distinct)} messages", hint=f"name the file: {files}")
    return matches[0]


async def _like(kernel: Kernel, ref: str) -> str:
    """A hint at the message whose id, or the end of whose id, is like `ref`; "" when there is none."""
    ids = [item.id for _, item in await _all_files(kernel) if item.id]
    return meant(ref, ids if "-" in ref else [message_id.rpartition("-")[2] for message_id in ids])


async def find_readable(kernel: Kernel, ref: str) -> FoundMessage:
    """Like `find`, for a model: what the rules have not let through to this agent is `Forbidden`."""
    located = await find(kernel, ref)
    if located.place == "inbox" and not await _is_claimed(kernel, located) and _is_under_rules(kernel, located.message):
        raise Forbidden(f"{located.message.id} has not been handed over", hint="claim it with: next")
    return located


def readable_bodies(kernel: Kernel, items: Iterable[Item]) -> Iterator[tuple[Item, Message]]:
    """The messages of a list that a model may read before they are claimed, loaded one by one."""
    for item in items:
        if item.status == "new" and not item.expired and not item.problem:
            for located in drive(load_files(kernel, [("inbox", item)])):
                if not _is_under_rules(kernel, located.message):
                    yield item, located.message


def _is_under_rules(kernel: Kernel, message: Message) -> bool:
    """Whether the rules decide about a message when it is claimed."""
    return kernel.is_governed() or "ocip" in message.extras


async def full_id(kernel: Kernel, ref: str) -> str:
    """The id that `ref` stands for. An unknown id is returned as it is; an unknown abbreviation is an error."""
    try:
        return (await find(kernel, ref)).message.id
    except UnknownMessage:
        if len(ref) < _SHORTEST_ID:
            raise
        return ref


async def short_ref(kernel: Kernel, message_id: str) -> str:
    """The end of the id of a claimed message, if it names no other message in the inbox; else the whole id."""
    ending = message_id.rpartition("-")[2]
    claims = await kernel.store.deliveries(Status.CLAIMED)
    rivals = {claim.key.message_id for claim in claims} | {item.id for item in await listing(kernel, "inbox")}
    fitting = {rival for rival in rivals if rival == ending or rival.endswith(f"-{ending}")} - {message_id}
    return message_id if fitting or len(ending) < _SHORTEST_ENDING else ending


async def _is_claimed(kernel: Kernel, match: FoundMessage) -> bool:
    store = kernel.store_if_any
    deliveries = (
        await store.delivery(DeliveryKey(match.message.id, match.digest, kernel.agent)) if store is not None else None
    )
    return deliveries is not None and deliveries.status is Status.CLAIMED


async def by_id(kernel: Kernel, message_id: str) -> list[FoundMessage]:
    """Every message with exactly this id, those in the inbox first.

    What was claimed or sent through Parley is in the ledger; only for other tools' messages are all files read.
    """
    waiting = [("inbox", item) for item in await listing(kernel, "inbox") if item.id == message_id]
    matches = await load_files(kernel, waiting) + await _in_ledger(kernel, message_id)
    if not matches:
        matches = await load_files(kernel, [entry for entry in await _all_files(kernel) if entry[1].id == message_id])
    return list({(match.message.id, match.digest): match for match in reversed(matches)}.values())[::-1]


async def _in_ledger(kernel: Kernel, message_id: str) -> list[FoundMessage]:
    store = kernel.store_if_any
    if store is None:
        return []
    files = {delivery.key.digest: delivery for delivery in await store.find_deliveries(kernel.agent, message_id)}
    matches = []
    for stored in await store.find(message_id):
        delivery = files.get(stored.digest)
        if delivery is not None and delivery.status is Status.DONE and delivery.reason == "archived":
            matches.append(_from_ledger(stored, "archive", delivery.file))
        elif copy := await _outbox_file(kernel, stored):
            matches.append(_from_ledger(stored, "outbox", copy))
        else:
            matches.append(_from_ledger(stored))
    return matches


async def _outbox_file(kernel: Kernel, stored: StoredMessage) -> str:
    """The copy in the outbox of a message that this agent sent; "" when there is none."""
    if stored.message.sender != kernel.agent:
        return ""
    return next((item.file for item in await listing(kernel, "outbox") if item.id == stored.message.id), "")


async def _by_file(kernel: Kernel, ref: str) -> list[FoundMessage]:
    fitting = await _files_named(kernel, ref)
    matches = await load_files(kernel, fitting)
    bad = next((item for _, item in fitting if item.problem), None)
    if bad is not None and not matches:
        raise Invalid(f"{bad.file} is no message: {bad.problem.partition(': ')[2]}")
    return matches


async def _files_named(kernel: Kernel, ref: str) -> list[tuple[str, Item]]:
    """The files of a name; those among the dead letters only when `ref` says so or no other has the name."""
    folder, _, name = ref.rpartition("/")
    names = (name,) if is_message_file(name) else tuple(name + ending for ending in MESSAGE_ENDINGS)
    fitting = [entry for entry in await _all_files(kernel) if entry[1].file in names]
    dead = [entry for entry in fitting if entry[0] == "dead_letter"]
    if folder.endswith("dead_letter"):
        return dead
    return [entry for entry in fitting if entry not in dead] or dead


async def refused_file(kernel: Kernel, ref: str) -> tuple[RefusedFile, bytes] | None:
    """The file of a name that is no message, in the inbox or among the dead letters, with its content; None where there
    is none, or where nothing can be read.
    """
    for place, item in await _files_named(kernel, ref):
        content = _bytes_of(kernel, place, item) if item.problem else None
        if content is not None:
            return _refused(place, item), content
    return None


async def search_refused(kernel: Kernel, text: str) -> list[RefusedFile]:
    """The files that are no messages and have `text` in their name or content, in any case."""
    wanted = text.casefold()
    matches: list[RefusedFile] = []
    for place in ("inbox", "dead_letter"):
        for item in await listing(kernel, place):
            if item.problem and len(matches) < _SEARCH_LIMIT:
                content = (_bytes_of(kernel, place, item) or b"").decode("utf-8", "replace")
                if wanted in f"{item.file}\n{content}".casefold():
                    matches.append(_refused(place, item))
    return matches


def _refused(place: str, item: Item) -> RefusedFile:
    code, _, detail = item.problem.partition(": ")
    return RefusedFile(item.file, place, code, detail)


def _bytes_of(kernel: Kernel, place: str, item: Item) -> bytes | None:
    for _, content, *_ in kernel.inbox.peek([item.file], place):
        if isinstance(content, bytes):
            return content
    return None


async def _by_ending(kernel: Kernel, ref: str) -> list[FoundMessage]:
    """The messages whose id ends with `ref`: after a dash, else anywhere, without regard to dashes and case."""
    ending = "-" + ref.lstrip("-")
    files = await _all_files(kernel)
    matches = await load_files(kernel, [entry for entry in files if entry[1].id.endswith(ending)])
    store = kernel.store_if_any
    if not matches and store is not None:
        messages = await store.search(ending, _SEARCH_LIMIT)
        matches = [_from_ledger(stored) for stored in messages if stored.message.id.endswith(ending)]
    letters = _letters(ref)
    if matches or len(letters) < _SHORTEST_ENDING:
        return matches
    matches = await load_files(kernel, [entry for entry in files if _letters(entry[1].id).endswith(letters)])
    if matches or store is None:
        return matches
    messages = await store.search(letters[-_SHORTEST_ENDING:], _SEARCH_LIMIT)
    return [_from_ledger(stored) for stored in messages if _letters(stored.message.id).endswith(letters)]


def _letters(message_id: str) -> str:
    return message_id.replace("-", "").lower()


async def _all_files(kernel: Kernel) -> list[tuple[str, Item]]:
    return [(place, item) for place in _PLACES for item in await listing(kernel, place)]


async def load_files(kernel: Kernel, files: Iterable[tuple[str, Item]]) -> list[FoundMessage]:
    """The whole messages of these files; one that vanished meanwhile, or is none, is left out."""
    matches = []
    for place, item in files:
        for name, content, owner, _ in kernel.inbox.peek([item.file], place):
            if isinstance(content, ParleyError):
                raise content
            reading = kernel.format.inspect(content)
            if (message := reading.message) is not None:
                doubts = tuple(reading.doubts)
                doubts += label_doubts(kernel, message)
                if place == "inbox":
                    owner_of_sender = kernel.inbox.owner_of(message.sender)
                    doubts += tuple(delivery_doubts(kernel, message.sender, message.to, owner, owner_of_sender))
                matches.append(FoundMessage(message, content, digest(content), place, name, doubts))
    return matches


def _from_ledger(stored: StoredMessage, place: str = "ledger", file: str = "") -> FoundMessage:
    return FoundMessage(stored.message, stored.content, stored.digest, place, file)


async def thread(kernel: Kernel, ref: str) -> list[FoundMessage]:
    """A whole conversation, oldest first: by its id, or by any message in it.

    Messages belong together by conversation id, and by parent where a tool left the conversation out.
    """
    if not ref:
        raise UnknownMessage("a conversation or message has a name")
    files = [entry for entry in await _all_files(kernel) if not entry[1].problem]
    links = {_Link(item.id, item.conversation_id, item.in_reply_to) for _, item in files}
    messages: dict[tuple[str, str], StoredMessage] = {}
    reach = _Reach({ref}, {ref})
    while True:
        reach = _spread(reach, links)
        remembered = await _remembered(kernel, reach)
        if remembered.keys() <= messages.keys():
            break
        messages |= remembered
        links |= {_Link(m.id, m.conversation_id, m.in_reply_to) for m, *_ in messages.values()}
    members = {(match.message.id, match.digest): match for match in map(_from_ledger, messages.values())}
    for match in await load_files(kernel, [entry for entry in files if entry[1].id in reach.ids]):
        members[match.message.id, match.digest] = match
    if not members:
        return await thread(kernel, (await find(kernel, ref)).message.id)
    return oldest_first(members.values())


async def load_thread(kernel: Kernel, files: Iterable[tuple[str, Item]], conversation: str) -> list[FoundMessage]:
    """The messages of these files, and what the ledger remembers of their conversation, oldest first."""
    store = kernel.store_if_any
    messages = await store.conversation(conversation) if store is not None else ()
    members = {(match.message.id, match.digest): match for match in map(_from_ledger, messages)}
    members |= {(match.message.id, match.digest): match for match in await load_files(kernel, files)}
    return oldest_first(members.values())


def oldest_first(matches: Iterable[FoundMessage]) -> list[FoundMessage]:
    """By time, but no answer before what it answers: clocks differ, and one second holds many messages."""
    listed = list(matches)
    messages = {match.message.id: match.message for match in listed}
    places: dict[str, tuple[datetime, int]] = {}
    for match in listed:
        chain: dict[str, Message] = {}
        message: Message | None = match.message
        while message is not None and message.id not in places and message.id not in chain:
            chain[message.id] = message
            message = messages.get(message.in_reply_to)
        for ancestor in reversed(chain.values()):
            above = places.get(ancestor.in_reply_to)
            moment = ancestor.created_at
            places[ancestor.id] = (max(moment, above[0]), above[1] + 1) if above else (moment, 0)
    return sorted(listed, key=lambda match: (*places[match.message.id], match.message.id))


class _Link(NamedTuple):
    id: str
    conversation: str
    parent: str


class _Reach(NamedTuple):
    """The ids and the conversations that a thread has reached."""

    ids: set[str]
    conversations: set[str]


def _spread(reach: _Reach, links: set[_Link]) -> _Reach:
    """Everything that hangs together with what is reached already."""
    ids, conversations = reach
    while True:
        members = {m for m in links if m.id in ids or m.conversation in conversations or m.parent in ids}
        grown = ids | {m.id for m in members} | {m.parent for m in members if m.parent}
        wider = conversations | {m.conversation for m in members if m.conversation}
        if (grown, wider) == (ids, conversations):
            return _Reach(ids, conversations)
        ids, conversations = grown, wider


async def _remembered(kernel: Kernel, reach: _Reach) -> dict[tuple[str, str], StoredMessage]:
    """What the ledger knows of these ids and conversations."""
    store = kernel.store_if_any
    if store is None:
        return {}
    messages = [stored for message_id in reach.ids for stored in await store.find(message_id)]
    messages += [stored for name in reach.conversations for stored in await store.conversation(name)]
    return {(stored.message.id, stored.digest): stored for stored in messages}


async def search(kernel: Kernel, text: str) -> list[FoundMessage]:
    """Messages sent or received whose id, subject or body contains `text` in any case, newest first."""
    wanted = text.casefold()
    readable = [entry for entry in await _all_files(kernel) if not entry[1].problem]
    fitting = [match for match in await load_files(kernel, readable) if wanted in search_text(match.message)]
    store = kernel.store_if_any
    messages = await store.search(text, _SEARCH_LIMIT) if store is not None else ()
    matches = {(match.message.id, match.digest): match for match in (*map(_from_ledger, messages), *fitting)}
    return oldest_first(matches.values())[::-1][:_SEARCH_LIMIT]
