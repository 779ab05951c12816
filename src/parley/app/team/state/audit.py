"""What a server knows of its audit logs from one checkpoint to the next; a restart finds all of it out again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parley.domain.store.changes import Committed
    from parley.ports.team import Signer, Witness


class AuditState:
    """Who signs, who keeps copies outside, and how far that has come."""

    def __init__(self, signer: Signer | None = None, witness: Witness | None = None) -> None:
        # None where no checkpoints are made, or none are kept outside.
        self.signer = signer
        self.witness = witness
        # Tenants in which something was written since they were looked at; None: nobody has looked yet.
        self.active: set[str] | None = None
        # How many entries the last checkpoint covers that was kept outside.
        self.exported: dict[str, int] = {}
        # Roots of the full subtrees of each tenant's log, which never change: proofs are made from them.
        self.blocks: dict[str, list[bytes]] = {}

    def mark_active(self, tenant: str, committed: Committed | None = None) -> None:
        """Something was committed in a tenant: its log is due for a checkpoint."""
        del committed
        if self.active is not None:
            self.active.add(tenant)
