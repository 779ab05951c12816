"""The audit logs of a server in memory, from one checkpoint to the next. A restart rebuilds all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parley.domain.store.changes import Committed
    from parley.ports.outside import CheckpointArchive, Signer


class AuditState:
    """The signer, the archive outside of the store, and how far both have come."""

    def __init__(self, signer: Signer | None = None, archive: CheckpointArchive | None = None) -> None:
        # None where no checkpoints are made, or none are archived.
        self.signer = signer
        self.archive = archive
        # Tenants with commits since the last look at them; None before the first look.
        self.active: set[str] | None = None
        # How many entries the last archived checkpoint of each tenant covers.
        self.exported: dict[str, int] = {}
        # Roots of the full subtrees of each tenant's log, which never change: proofs are made from them.
        self.blocks: dict[str, list[bytes]] = {}

    def mark_active(self, tenant: str, committed: Committed | None = None) -> None:
        """Something was committed in a tenant: its log is due for a checkpoint."""
        del committed
        if self.active is not None:
            self.active.add(tenant)
