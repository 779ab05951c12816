"""The policies of a server beside the store: the default, and the folder of files with what is wrong in it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from parley.domain.rules.policy import SHORTEST, first_snapshot

if TYPE_CHECKING:
    from parley.domain.rules.policy import BrokenPolicy, Document, PolicySnapshot
    from parley.ports.outside import PolicyFolder


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
