"""An audit log that somebody tampered with: edited, cut, mixed or written anew. Every time it is found out.

The log is a real one: written by the store, signed by the server, exported over HTTP, with its checkpoints outside.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from parley.app.team.audit import checkpoints as audit_checkpoints
from parley.domain.audit.checkpoint import AuditCheckpoint
from parley.domain.audit.entry import NO_HASH, AuditEntry, entry_hash
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import Invalid
from parley.domain.store.changes import TeamChanges
from parley.wire.proofs import audit_log
from parley.wire.proofs.audit_log import LogCheck, check_export
from tests.rigs.team import live_server, open_rig
from tests.samples.audit import a_draft, checkpoints_of, export_of, signer, verify

pytestmark = pytest.mark.fault

ENTRIES = 240
QUICK, FULL = 200, 1_000
SIDES = ("alice", "bob", "carol", "@tenant")
KEY = frozenset({signer().public_key.hex()})


class Real(NamedTuple):
    """An export, and the checkpoints that lie somewhere else."""

    lines: tuple[bytes, ...]
    outside: tuple[AuditCheckpoint, ...]

    @property
    def entries(self) -> list[int]:
        """The places of entries among the lines."""
        return [at for at, line in enumerate(self.lines) if line.startswith(b'{"number":')]

    @property
    def checkpoints(self) -> list[int]:
        return [at for at, line in enumerate(self.lines) if line.startswith(b'{"checkpoint":')]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Real:
    return asyncio.run(_made(tmp_path_factory.mktemp("audit")))


async def _made(folder: Path) -> Real:
    async with open_rig(folder) as rig, live_server(rig) as server:
        for start in range(1, ENTRIES + 1, 30):
            drafts = tuple(a_draft(n, SIDES[n * n % len(SIDES)]) for n in range(start, start + 30))
            await rig.store.commit(TeamChanges(DEFAULT_TENANT, audits=drafts))
            await audit_checkpoints.make(rig.team, DEFAULT_TENANT)
        admin = await server.client(kind=KeyKind.ADMIN)
        content = (await admin.get("/audit/export")).body
        outside = await audit_checkpoints.list_page(rig.team, DEFAULT_TENANT, 0, 1000)
    return Real(tuple(content.splitlines(keepends=True)), outside)


def found_out(lines: list[bytes], outside: tuple[AuditCheckpoint, ...]) -> bool:
    """Whether somebody who has the checkpoints from elsewhere and knows the key sees that it was tampered with."""
    try:
        return check_export(lines, verify, trusted=KEY, outside=outside).bad is not None
    except Invalid:
        return True


# ---------------------------------------------------------------- what can be done to a log

Tampering = Callable[[Real, random.Random], list[bytes]]


def edit_a_byte(real: Real, dice: random.Random) -> list[bytes]:
    lines = list(real.lines)
    at = dice.randrange(len(lines))
    line = bytearray(lines[at])
    place = dice.randrange(len(line))
    line[place] ^= 1 << dice.randrange(8)
    lines[at] = bytes(line)
    return lines


def edit_a_fact(real: Real, dice: random.Random) -> list[bytes]:
    """Change what an entry says, with or without a hash that fits, and let the next of its side follow it."""
    entries = parsed(real)
    at = dice.randrange(len(entries))
    facts = json.loads(entries[at].document)
    name = dice.choice(("outcome", "classification", "round", "content_digest", "actor", "exchange_id"))
    facts[name] = facts[name] + 1 if isinstance(facts[name], int) else "something else"
    document = spelled(facts)
    hashed = entry_hash(document) if dice.random() < 0.7 else entries[at].entry_hash
    entries[at] = entries[at]._replace(document=document, entry_hash=hashed)
    return rebuilt(real, entries)


def delete_some(real: Real, dice: random.Random) -> list[bytes]:
    """Remove a run of entries; sometimes the rest closes ranks with numbers and chains that fit."""
    entries = parsed(real)
    at, count = dice.randrange(len(entries)), dice.randrange(1, 6)
    del entries[at : at + count]
    return rebuilt(real, chained(entries) if dice.random() < 0.5 else entries)


def insert_one(real: Real, dice: random.Random) -> list[bytes]:
    entries = parsed(real)
    at = dice.randrange(len(entries) + 1)
    forged = dice.choice(entries)
    facts = {**json.loads(forged.document), "id": "aud_forged", "outcome": "approved"}
    entries.insert(at, forged._replace(id="aud_forged", document=spelled(facts)))
    return rebuilt(real, chained(entries) if dice.random() < 0.5 else entries)


def reorder_two(real: Real, dice: random.Random) -> list[bytes]:
    entries = parsed(real)
    one, other = dice.sample(range(len(entries)), 2)
    entries[one], entries[other] = entries[other], entries[one]
    return rebuilt(real, chained(entries) if dice.random() < 0.5 else entries)


def truncate(real: Real, dice: random.Random) -> list[bytes]:
    """Cut off the end, sometimes exactly where a checkpoint ended, so that what is left is a log of its own."""
    entries = parsed(real)
    left = dice.choice([one.size for one in real.outside[:-1]]) if dice.random() < 0.5 else dice.randrange(len(entries))
    kept = [one for one in real.outside if one.size <= left]
    return export_of(entries[:left], kept, tenant=DEFAULT_TENANT)


def rewrite_all(real: Real, dice: random.Random) -> list[bytes]:
    """A whole new log, in which everything fits: under the old checkpoints, without any, or under new ones."""
    entries = parsed(real)
    at = dice.randrange(len(entries))
    facts = {**json.loads(entries[at].document), "outcome": "it never happened"}
    entries[at] = entries[at]._replace(document=spelled(facts))
    anew = chained(entries)
    sizes = [one.size for one in real.outside]
    marks = dice.choice(
        [list(real.outside), [], checkpoints_of(anew, *sizes, by=signer(2), tenant=DEFAULT_TENANT)],
    )
    return export_of(anew, marks, tenant=DEFAULT_TENANT)


def mend_checkpoints(real: Real, dice: random.Random) -> list[bytes]:
    """Remove, double or change a checkpoint in the export."""
    lines = list(real.lines)
    at = dice.choice(real.checkpoints)
    kind = dice.randrange(3)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[at])
    else:
        name = dice.choice((b'"root":"', b'"signature":"', b'"previous":"', b'"at":"', b'"size":'))
        lines[at] = lines[at].replace(name, name + b"1", 1)
    return lines


TAMPERINGS: tuple[Tampering, ...] = (
    edit_a_byte,
    edit_a_fact,
    delete_some,
    insert_one,
    reorder_two,
    truncate,
    rewrite_all,
    mend_checkpoints,
)


def parsed(real: Real) -> list[AuditEntry]:
    found = []
    for at in real.entries:
        line = msgspec.json.decode(real.lines[at], type=audit_log.EntryLine)
        document = bytes(line.document)
        facts = json.loads(document)
        found.append(
            AuditEntry(line.number, line.side, line.seq, facts["id"], facts["at"], "", line.entry_hash, document)
        )
    return found


def spelled(facts: dict[str, object]) -> bytes:
    return msgspec.json.encode(facts, order="sorted")


def chained(entries: list[AuditEntry]) -> list[AuditEntry]:
    """The entries with numbers, chains and hashes that fit, as an owner of the store could write them."""
    heads: dict[str, tuple[int, str]] = {}
    made = []
    for number, one in enumerate(entries, 1):
        seq, link = heads.get(one.side, (0, NO_HASH))
        document = spelled({**json.loads(one.document), "seq": seq + 1, "prev_hash": link})
        hashed = entry_hash(document)
        heads[one.side] = (seq + 1, hashed)
        made.append(one._replace(number=number, seq=seq + 1, entry_hash=hashed, document=document))
    return made


def rebuilt(real: Real, entries: list[AuditEntry]) -> list[bytes]:
    """An export of these entries with the checkpoints that there are."""
    return export_of(entries, list(real.outside), tenant=DEFAULT_TENANT)


def tamperings(real: Real, seed: int, count: int) -> Iterator[tuple[str, list[bytes]]]:
    dice = random.Random(seed)
    made = 0
    while made < count:
        tampering = TAMPERINGS[made % len(TAMPERINGS)]
        lines = tampering(real, dice)
        if lines != list(real.lines):
            made += 1
            yield f"{tampering.__name__}, {seed}:{made}", lines


# ---------------------------------------------------------------- tests


def test_the_log_that_nobody_touched_is_whole(real: Real) -> None:
    report = check_export(real.lines, verify, trusted=KEY, outside=real.outside)

    assert (report.bad, report.entries, report.covered, len(real.outside)) == (None, ENTRIES, ENTRIES, 8)


def test_every_tampering_is_found_out(real: Real, full: bool) -> None:
    count = FULL if full else QUICK

    missed = [name for name, lines in tamperings(real, 20260313, count) if not found_out(lines, real.outside)]

    assert missed == []


def test_a_fresh_tampering_is_found_out_too(real: Real) -> None:
    seed = random.SystemRandom().randrange(2**32)

    missed = [name for name, lines in tamperings(real, seed, 40) if not found_out(lines, real.outside)]

    assert missed == [], f"the dice were thrown with {seed}"


@pytest.mark.parametrize(
    ("skipped", "needed_by"),
    [
        ("hashes", "edit_a_fact"),
        ("numbers", "edit_a_fact"),
        ("signatures", "rewrite_all"),
        ("roots", "rewrite_all"),
        ("outside", "truncate"),
    ],
)
def test_a_verifier_that_leaves_a_check_out_is_found_out(
    real: Real, skipped: str, needed_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tamperings are worth something: with any of these checks left out, some of them pass."""
    outside = real.outside
    if skipped == "hashes":
        monkeypatch.setattr(audit_log, "sha256", _Agreeable)
        monkeypatch.setattr(LogCheck, "_signed", lambda self: (self.size, "", ()))
    elif skipped == "numbers":
        monkeypatch.setattr(LogCheck, "entry", _take_anything)
        monkeypatch.setattr(LogCheck, "_signed", lambda self: (self.size, "", ()))
    elif skipped == "signatures":
        monkeypatch.setattr(audit_log, "is_signed", lambda *_: True)
        outside = ()
    elif skipped == "roots":
        monkeypatch.setattr(LogCheck, "_signed", lambda self: (self.size, "", ()))
    else:
        outside = ()

    missed = {name for name, lines in tamperings(real, 1, 160) if not found_out(lines, outside)}

    assert any(name.startswith(needed_by) for name in missed), missed


class _Agreeable:
    """A hash that is always the one that was expected."""

    def __init__(self, content: bytes) -> None:
        del content

    def digest(self) -> _Agreeable:
        return self

    def __ne__(self, other: object) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def _take_anything(self: LogCheck, number: int, side: str, seq: int, stated: str, document: bytes) -> None:
    del number, side, seq, stated, document
    self._leaves.append(b"\x00" * 32)
