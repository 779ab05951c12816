"""Signed checkpoints of the audit logs: made in the background, exported, and proofs that an entry is in one.

    entries ──every 1,000, or after a few seconds──> checkpoint in the store ──> a line in a file outside of it

The mark holds the peaks of the tree, so a checkpoint reads only new entries. Of two concurrent ones, one fails.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.team import ATTEMPTS
from parley.domain.audit.checkpoint import AuditCheckpoint, AuditMark, checkpoint_id
from parley.domain.audit.merkle import grown, inclusion, tree_root
from parley.domain.directory.callers import DEFAULT_TENANT, NO_TENANT, Tenant
from parley.domain.errors.errors import Conflict, ParleyError, Stale, Unavailable
from parley.domain.store.changes import TeamChanges
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parley.app.team.team import Team
    from parley.domain.audit.entry import AuditEntry

_log = logging.getLogger("parley.audit")
LOOK_SECONDS = 1.0
ALL_SECONDS = 60.0
# A checkpoint is due after this many new entries, or after this time.
DUE_ENTRIES = 1_000
DUE_AFTER = timedelta(seconds=5)
_PAGE = 1_000
# The root of a full subtree of this many leaves is cached.
_BLOCK = 1_024
_MARK = "audit"


class EntryProof(NamedTuple):
    """Proof that a checkpoint covers an entry: the sibling hashes from its leaf to the root."""

    entry: AuditEntry
    path: tuple[bytes, ...]
    checkpoint: AuditCheckpoint


async def keep_forever(team: Team) -> None:
    """Make checkpoints when they are due, until cancelled; failed writes are retried after a second."""
    loop = asyncio.get_running_loop()
    looked_at_all = -inf
    while True:
        if loop.time() >= looked_at_all + ALL_SECONDS:
            # The previous leader may not have finished, and writes of other nodes may have been missed.
            team.audit.active = None
            looked_at_all = loop.time() if team.nodes.nodes is not None else inf
        try:
            await make_due(team)
        except ParleyError as error:
            _log.warning("no checkpoint was made", extra={"action": "audit_checkpoint", "code": error.code})
        await asyncio.sleep(LOOK_SECONDS)


async def make_due(team: Team) -> int:
    """Make the checkpoints that are due in all tenants; return how many."""
    state = team.audit
    if state.signer is None:
        return 0
    looked = state.active
    if looked is None:
        looked = {tenant.id for tenant in await team.store.children(Tenant, NO_TENANT, "")} | {DEFAULT_TENANT}
    await team.store.catch_up(*looked)
    state.active = set()
    count = 0
    left = set(looked)
    try:
        for tenant in sorted(looked):
            new, waits = await _make_due(team, tenant)
            count += new
            if not waits:
                left.discard(tenant)
    finally:
        # Tenants that were not finished are checked again next time.
        state.active |= left
    return count


async def _make_due(team: Team, tenant: str) -> tuple[int, bool]:
    """How many checkpoints were made in a tenant, and whether it must be checked again without new entries."""
    mark = await mark_of(team, tenant)
    new = await team.store.audit_size(tenant) - mark.size
    if new <= 0:
        await _export(team, tenant, mark.size)
        return 0, False
    if new < DUE_ENTRIES and mark.at and team.at() < stamp(from_stamp(mark.at) + DUE_AFTER):
        return 0, True
    await make(team, tenant)
    return 1, False


async def make(team: Team, tenant: str) -> AuditCheckpoint | None:
    """Make a checkpoint over all entries. Returns the last one when nothing is new, None without any."""
    for _ in range(ATTEMPTS):
        mark = await mark_of(team, tenant)
        size = await team.store.audit_size(tenant)
        if size <= mark.size or team.audit.signer is None:
            return await team.store.get(AuditCheckpoint, tenant, checkpoint_id(mark.size))
        try:
            return await _make(team, tenant, mark, size)
        except Stale:
            continue  # made concurrently: it may cover all entries
    raise Conflict("the audit log changes too often at this moment", hint="try again")


async def _make(team: Team, tenant: str, mark: AuditMark, size: int) -> AuditCheckpoint:
    signer = team.audit.signer
    assert signer is not None  # noqa: S101  # who calls has looked
    tree = mark.tree
    while tree.size < size:
        tree = grown(tree, await leaves(team, tenant, tree.size, min(size, tree.size + _PAGE)))
    unsigned = AuditCheckpoint(
        id=checkpoint_id(size),
        tenant_id=tenant,
        size=size,
        root=tree.root().hex(),
        at=team.at(),
        previous=mark.hash,
        public_key=signer.public_key.hex(),
    )
    checkpoint = replace(unsigned, signature=signer.sign(unsigned.statement).hex())
    peaks = tuple(root.hex() for root in tree.roots)
    moved = replace(mark, size=size, peaks=peaks, at=checkpoint.at, hash=checkpoint.hash)
    await team.store.commit(TeamChanges(tenant, puts=(checkpoint, moved)))
    try:
        await _export(team, tenant, size)
    except Unavailable as error:
        # The checkpoint is committed; only its exported copy is late. A full export disk must not stop its users.
        team.audit.mark_active(tenant)
        _log.warning("a checkpoint was not kept outside", extra={"action": "audit_checkpoint", "code": error.code})
    return checkpoint


async def _export(team: Team, tenant: str, size: int) -> None:
    """Export the checkpoints that are not exported yet: many, after a crash or with a new folder.

    One at a time: a request that makes a checkpoint and the background job export the same ones.
    """
    state = team.audit
    if state.archive is None:
        return
    async with state.exporting:
        covered = state.exported.get(tenant)
        if covered is None:
            covered = await state.archive.covered(tenant)
            if covered > size:
                _log.warning(
                    "the audit log is shorter than the checkpoints that were kept of it",
                    extra={"action": "audit_checkpoint", "tenant": tenant, "kept": covered, "entries": size},
                )
                covered = size
        while covered < size:
            page = await team.store.children(AuditCheckpoint, tenant, "", after=checkpoint_id(covered), limit=_PAGE)
            if not page:
                break
            await state.archive.append(page)
            # Possibly more than `size`: a later checkpoint may be there already.
            covered = page[-1].size
            state.exported[tenant] = covered
        state.exported[tenant] = covered


async def mark_of(team: Team, tenant: str) -> AuditMark:
    """The mark of a tenant: how many entries its checkpoints cover."""
    return await team.store.get(AuditMark, tenant, _MARK) or AuditMark(id=_MARK, tenant_id=tenant)


async def list_page(team: Team, tenant: str, after: int, limit: int) -> tuple[AuditCheckpoint, ...]:
    """Checkpoints over more entries than this, oldest first."""
    return await team.store.children(AuditCheckpoint, tenant, "", after=checkpoint_id(after), limit=limit)


async def of_size(team: Team, tenant: str, size: int) -> AuditCheckpoint | None:
    """The checkpoint over exactly this number of entries."""
    return await team.store.get(AuditCheckpoint, tenant, checkpoint_id(size))


async def covering(team: Team, tenant: str, number: int) -> AuditCheckpoint:
    """A checkpoint that covers an entry; made if there is none yet."""
    mark = await mark_of(team, tenant)
    checkpoint = (
        await team.store.get(AuditCheckpoint, tenant, checkpoint_id(mark.size)) if mark.size >= number else None
    )
    checkpoint = checkpoint or await make(team, tenant)
    if checkpoint is None or checkpoint.size < number:
        raise Conflict("no checkpoint covers this entry yet", hint="try again in a few seconds")
    return checkpoint


async def prove(team: Team, tenant: str, entry: AuditEntry) -> EntryProof:
    """The proof that a checkpoint covers an entry."""
    checkpoint = await covering(team, tenant, entry.number)
    index, size = entry.number - 1, checkpoint.size
    blocks = await _blocks(team, tenant, size // _BLOCK)
    rest = await leaves(team, tenant, len(blocks) * _BLOCK, size)
    block = index // _BLOCK
    own = rest if block == len(blocks) else await leaves(team, tenant, block * _BLOCK, (block + 1) * _BLOCK)
    # An incomplete block is the last leaf of the upper tree.
    upper = [*blocks, tree_root(rest)] if rest else blocks
    return EntryProof(entry, inclusion(own, index - block * _BLOCK) + inclusion(upper, block), checkpoint)


async def _blocks(team: Team, tenant: str, count: int) -> list[bytes]:
    """The roots of the first full blocks; each is computed once."""
    blocks = team.audit.blocks.setdefault(tenant, [])
    while len(blocks) < count:
        number = len(blocks)
        root = tree_root(await leaves(team, tenant, number * _BLOCK, (number + 1) * _BLOCK))
        if len(blocks) == number:  # not computed concurrently
            blocks.append(root)
    return blocks[:count]


async def leaves(team: Team, tenant: str, after: int, through: int) -> Sequence[bytes]:
    """The hashes of entries, in their order."""
    if after >= through:
        return ()
    hashes = await team.store.audit_hashes(tenant, after, through)
    if len(hashes) != through - after:
        raise Unavailable(f"the audit log of {tenant} does not hold what it counts", hint="verify it")
    return [bytes.fromhex(entry_hash) for entry_hash in hashes]
