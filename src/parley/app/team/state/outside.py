"""What a server keeps in memory for the parts outside its store: checkpoints, notifications and policy files.

A restart rebuilds all of it; a person may then be notified twice, but none is forgotten.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from parley.domain.audit.chain import AuditChainCheck
from parley.domain.rules.policy import SHORTEST, first_snapshot

if TYPE_CHECKING:
    from datetime import datetime

    from parley.domain.rules.policy import BrokenPolicy, Document, PolicySnapshot
    from parley.domain.store.changes import Committed
    from parley.ports.outside import CheckpointArchive, Notifier, PolicyFolder, Signer

_NOTIFIED_MAX = 10_000


class LogVerification:
    """A check of one tenant's audit log, as far as it has come; one request at a time goes on with it."""

    def __init__(self, tenant: str, now: datetime) -> None:
        self._tenant = tenant
        self.lock = asyncio.Lock()
        self.restart(now)

    def restart(self, now: datetime) -> None:
        """Begin with the first entry."""
        self.check = AuditChainCheck(self._tenant)
        self.begun_at = now


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
        # Held while checkpoints are archived.
        self.exporting = asyncio.Lock()
        # Roots of the full subtrees of each tenant's log, which never change: proofs are made from them.
        self.blocks: dict[str, list[bytes]] = {}
        # How far the log of each tenant was checked.
        self.verifications: dict[str, LogVerification] = {}

    def mark_active(self, tenant: str, committed: Committed | None = None) -> None:
        """Something was committed in a tenant: its log is due for a checkpoint."""
        del committed
        if self.active is not None:
            self.active.add(tenant)


class NoticeState:
    """The notifier, and its recent notifications."""

    def __init__(self, notifier: Notifier | None = None) -> None:
        # None where people have no mailboxes.
        self.notifier = notifier
        self._notified: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def was_notified(self, approval_id: str, stage: str, user: str) -> bool:
        """Whether this person was notified, even if that could not be written down."""
        return (approval_id, stage, user) in self._notified

    def mark_notified(self, approval_id: str, stage: str, user: str) -> None:
        """Remember it."""
        self._notified[approval_id, stage, user] = None
        if len(self._notified) > _NOTIFIED_MAX:
            self._notified.popitem(last=False)


class PolicyState:
    """The default document, the folder where people edit, and what of it cannot be read."""

    def __init__(self, default: Document = SHORTEST, folder: PolicyFolder | None = None) -> None:
        self.default = default
        # None where policies are no files.
        self.folder = folder
        # By tenant: the files that changed nothing, because of what is wrong with them.
        self.broken: dict[str, tuple[BrokenPolicy, ...]] = {}
        # By tenant: what was in force when its files were last written.
        self.mirrored: dict[str, str] = {}
        # Set to have the files read at once.
        self.look = asyncio.Event()
        self._first: dict[str, PolicySnapshot] = {}

    def first(self, tenant: str) -> PolicySnapshot:
        """What is in force in a tenant in which nobody has ever changed a policy; always the same object."""
        snapshot = self._first.get(tenant)
        if snapshot is None:
            snapshot = self._first[tenant] = first_snapshot(tenant, self.default)
        return snapshot
