"""What the clients of a test did and saw, record by record, and the rules that all of it together must keep.

Every client appends to a file of its own: `invoke` before it asks for something, `ok` or `fail` when it has the answer.
A client that was killed leaves an `invoke` without an answer: that may have happened, at most once.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from parley.domain.errors.errors import ParleyError
from parley.domain.message.message import Message
from parley.wire.oacp.format import OacpFormat

# Errors after which nothing may ever arrive; every other failure may have happened.
_CERTAINLY_NOT = frozenset({"invalid", "unknown_agent", "unknown_project", "bad_agent_name", "name_exists"})


class Record(NamedTuple):
    """One line of a client's file; `tag` names the message.

    `at` counts nanoseconds of one clock for all; `since` is when the client asked for what it got at `at`.
    """

    client: str
    op: str
    phase: str
    tag: str
    at: int
    detail: str = ""
    since: int = 0


class Recorder:
    """Writes one client's records so that a kill at any moment keeps those that were written."""

    def __init__(self, folder: str | Path, client: str) -> None:
        self.client = client
        self._fd = os.open(Path(folder) / f"{client}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)

    def note(self, op: str, phase: str, tag: str = "", detail: str = "", since: int = 0) -> None:
        record = Record(self.client, op, phase, tag, time.monotonic_ns(), detail, since)
        os.write(self._fd, json.dumps(record).encode() + b"\n")
        os.fsync(self._fd)


def load(folder: Path) -> list[Record]:
    """All records of all clients, in the order of time; a line that is just being written is not yet one."""
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_bytes().split(b"\n")[:-1]]
    return sorted((Record(*json.loads(line)) for line in lines), key=lambda record: record.at)


def body_of(tag: str) -> str:
    """The text of the message `tag`: some are short, some longer than a page of memory; each says where it ends."""
    lines = sum(tag.encode()) % 97
    return f"begin {tag}\n" + f"{tag} goes on and on, so that a torn file would show\n" * lines + f"end {tag}\n"


def tag_of(message: Message) -> str:
    """The tag of a message that arrived whole; `torn` for one that did not."""
    return message.subject if message.body == body_of(message.subject) else f"torn {message.subject}"


class Mail(NamedTuple):
    """The tags that lie in each of an agent's places."""

    inbox: list[str]
    archive: list[str]
    dead: list[str]
    outbox: list[str]
    strays: list[str]


def look(agent_folder: Path) -> Mail:
    """Read every message file of an agent with our own strict reader; what it refuses is torn."""
    inbox = agent_folder / "inbox"
    return Mail(
        inbox=_tags(inbox),
        archive=_tags(inbox / "archive"),
        dead=_tags(agent_folder / "dead_letter"),
        outbox=_tags(agent_folder / "outbox"),
        strays=[
            path.name
            for folder in (inbox, inbox / "archive", agent_folder / "outbox")
            if folder.is_dir()
            for path in folder.iterdir()
            if path.suffix != ".yaml" and path.name not in {".gitkeep", "archive"}
        ],
    )


def _tags(folder: Path) -> list[str]:
    return [_tag(path) for path in sorted(folder.glob("*.yaml"))] if folder.is_dir() else []


def _tag(path: Path) -> str:
    try:
        return tag_of(OacpFormat().decode(path.read_bytes()))
    except ParleyError as error:
        return f"torn {path.name}: {error.code}"


def check(records: list[Record], mail: dict[str, Mail], lease: float | None = None) -> list[str]:
    """Every way in which this history breaks a promise; nothing for a good one.

    `mail` holds the places of every agent after everything came to rest: senders recovered, readers drained.
    `lease` is the length of the readers' claims in seconds; without one a claim lasts as long as its reader.
    """
    return [
        *_torn(records, mail),
        *_phantoms(records, mail),
        *_sends(records, mail),
        *_handovers(records, mail, lease),
    ]


def _torn(records: list[Record], mail: dict[str, Mail]) -> Iterable[str]:
    for record in records:
        if record.tag.startswith("torn"):
            yield f"{record.client} saw {record.tag}"
    for agent, places in mail.items():
        for place in (places.inbox, places.archive, places.dead, places.outbox):
            yield from (f"{agent} has {tag}" for tag in place if tag.startswith("torn"))


def _phantoms(records: list[Record], mail: dict[str, Mail]) -> Iterable[str]:
    invoked = {r.tag for r in records if r.op == "send" and r.phase == "invoke"}
    refused = {r.tag for r in records if r.op == "send" and r.phase == "fail" and r.detail in _CERTAINLY_NOT}
    seen = {r.tag for r in records if r.op == "claim"}
    for places in mail.values():
        seen |= {*places.inbox, *places.archive, *places.dead, *places.outbox}
    for tag in sorted(seen):
        if tag not in invoked and not tag.startswith("torn"):
            yield f"{tag} appeared, and nobody sent it"
        if tag in refused:
            yield f"{tag} was refused to its sender and appeared all the same"


def _sends(records: list[Record], mail: dict[str, Mail]) -> Iterable[str]:
    """Acknowledged means that everyone has it; everyone or no one; the outbox copy says which."""
    acknowledged = {r.tag for r in records if r.op == "send" and r.phase == "ok"}
    claimed = {(r.tag, r.detail) for r in records if r.op == "claim"}
    present = {agent: Counter([*places.inbox, *places.archive, *places.dead]) for agent, places in mail.items()}
    copies = Counter(tag for places in mail.values() for tag in places.outbox)
    for invoke in (r for r in records if r.op == "send" and r.phase == "invoke"):
        recipients = invoke.detail.split(",")
        have = [r for r in recipients if present[r][invoke.tag] or (invoke.tag, r) in claimed]
        if invoke.tag in acknowledged and len(have) < len(recipients):
            yield f"{invoke.tag} was acknowledged and is lost to {sorted(set(recipients) - set(have))}"
        if 0 < len(have) < len(recipients):
            yield f"{invoke.tag} reached only {have} of {recipients}"
        if copies[invoke.tag] != bool(have):
            yield f"{invoke.tag} reached {have} and has {copies[invoke.tag]} copies in the outbox"
        for agent in have:
            if present[agent][invoke.tag] > 1:
                yield f"{invoke.tag} lies {present[agent][invoke.tag]} times at {agent}"


def _handovers(records: list[Record], mail: dict[str, Mail], lease: float | None) -> Iterable[str]:
    """A message is handed to one reader; to the next only when that one was killed or kept it beyond its lease."""
    killed = {r.client: r.at for r in records if r.op == "kill"}
    done = {(r.client, r.tag): r.at for r in records if r.op == "done" and r.phase == "ok"}
    holder: dict[tuple[str, str], Record] = {}
    for claim in (r for r in records if r.op == "claim"):
        before = holder.get((claim.tag, claim.detail))
        if before is not None:
            if done.get((before.client, claim.tag), claim.at) < claim.since:
                yield f"{claim.tag} was handed to {claim.client} after {before.client} was done with it"
            elif lease is not None:
                if claim.at - before.since < lease * 1e9:
                    yield f"{claim.tag} was handed to {claim.client} within the lease of {before.client}"
            elif not killed.get(before.client, claim.at) < claim.at:
                yield f"{claim.tag} was handed to {claim.client} while {before.client} had it"
        holder[claim.tag, claim.detail] = claim
    for (tag, agent), claim in holder.items():
        if tag in mail[agent].dead:
            yield f"{tag} is in the dead letters of {agent} after {claim.client} had it"
        if (claim.client, tag) in done and tag in mail[agent].inbox:
            yield f"{tag} is done and lies in the inbox of {agent} again"
    for agent, places in mail.items():
        for tag in places.archive:
            if (tag, agent) not in holder:
                yield f"{tag} was archived by {agent} and nobody had it"
