"""Whether the audit log of a tenant is intact, as the server itself can tell: checked piece by piece while it is asked.

    each call ──> up to 10,000 more entries ──> intact so far, or the first entry that is not

What was checked counts for ten minutes; then the next call begins anew, so a later change is found, too. The owner of
the server could change the answer: only `parley audit verify` with checkpoints kept elsewhere proves it to others.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from parley.app.team.audit.checkpoints import mark_of, of_size
from parley.app.team.state.outside import LogVerification
from parley.domain.audit.chain import EntryPlace
from parley.domain.audit.checkpoint import is_signed
from parley.domain.store.changes import AuditQuery

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.audit.checkpoint import AuditCheckpoint

_PIECE = 1_000
_PIECES_MAX = 10
# A finished check is repeated after this time.
CHECK_AGAIN_AFTER = timedelta(minutes=10)
_place_of = msgspec.json.Decoder(EntryPlace).decode


class LogState(NamedTuple):
    """How long the log is, how far it is signed and checked; `broken_at` is 0 while nothing is wrong."""

    size: int
    signed_size: int
    signed_at: str
    key_id: str
    verified_to: int
    broken_at: int
    why: str


async def state(team: Team, tenant: str) -> LogState:
    """The state of a tenant's log. Call again while `verified_to` is less than `size`: each call checks some more."""
    verification = team.audit.verifications.setdefault(tenant, LogVerification(tenant, team.now()))
    async with verification.lock:
        check = verification.check
        checkpoint = await of_size(team, tenant, (await mark_of(team, tenant)).size)
        size = await team.store.audit_size(tenant)
        is_over = check.broken_at or check.verified_to >= size
        if is_over and team.now() >= verification.begun_at + CHECK_AGAIN_AFTER:
            verification.restart(team.now())
            check = verification.check
        await _go_on(team, tenant, verification, checkpoint, size)
    return LogState(
        size,
        checkpoint.size if checkpoint else 0,
        checkpoint.at if checkpoint else "",
        checkpoint.key_id if checkpoint else "",
        min(check.verified_to, size),
        check.broken_at,
        check.why,
    )


async def _go_on(
    team: Team, tenant: str, verification: LogVerification, checkpoint: AuditCheckpoint | None, size: int
) -> None:
    """Check the next entries. At the last checkpoint it stops for a moment, to compare the tree with what is signed."""
    check = verification.check
    signed_size = checkpoint.size if checkpoint else 0
    wanted = max(size, signed_size)
    for _ in range(_PIECES_MAX):
        done = check.verified_to
        if checkpoint is not None and done == signed_size:
            check.add_checkpoint(checkpoint, is_signed=is_signed(checkpoint, team.signatures.verify))
        if check.broken_at or done >= wanted:
            break
        through = signed_size if done < signed_size else size
        query = AuditQuery(after=done, through=min(through, done + _PIECE), limit=_PIECE)
        entries = await team.store.audits(tenant, query)
        for entry in entries:
            check.add(entry, _readable_place(entry.document))
        if not entries:
            check.end(wanted)
    if check.verified_to >= wanted:
        check.end(wanted)


def _readable_place(document: bytes) -> EntryPlace | None:
    try:
        return _place_of(document) if document else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
