"""Secrets that are used once: each stands for a key, and for the agent that it speaks for, for a short time.

Only the SHA-256 of a secret is stored, where every node finds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.directory.callers import NO_TENANT, Key, Saved, key_digest
from parley.domain.errors.errors import Stale
from parley.domain.errors.team import Unauthorized
from parley.domain.store.changes import TeamChanges
from parley.domain.times import from_stamp

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from parley.app.team.team import Team
    from parley.domain.audit.entry import AuditDraft
    from parley.domain.directory.callers import Caller


class IssuedSecret(NamedTuple):
    """A secret that is used once, and when it expires."""

    secret: str
    expires_at: datetime


class SecretHolder(NamedTuple):
    """Whom a secret stands for: a key, and the agent that it speaks for."""

    key: Key
    agent: str


class OneTimeSecrets(NamedTuple):
    """One kind of such secrets: its name in the store, how its secrets begin, and how long they can be used."""

    kind: str
    prefix: str
    lifetime: timedelta

    async def issue(
        self, team: Team, caller: Caller, purpose: str, audit: Callable[[], AuditDraft] | None = None
    ) -> IssuedSecret:
        """A secret of the caller for one purpose."""
        secret = self.prefix + team.ids.secret()
        agent = f"agent={caller.agent}".encode()
        issued = Saved(self._scope(secret), purpose, caller.key_id, team.at(), status=201, answer=agent)
        changes = TeamChanges(NO_TENANT, saved=issued)
        if audit is not None:
            changes = changes._replace(tenant=caller.tenant, audits=(audit(),))
        await team.store.commit(changes)
        return IssuedSecret(secret, from_stamp(issued.at) + self.lifetime)

    async def redeem(self, team: Team, secret: str, purpose: str) -> SecretHolder:
        """Use a secret. `Unauthorized` when it is for another purpose, too old, or was used before."""
        issued = await team.store.saved(self._scope(secret)) if secret.startswith(self.prefix) else None
        if issued is None or issued.fingerprint != purpose or team.now() >= from_stamp(issued.at) + self.lifetime:
            raise Unauthorized
        # Of those that use it at the same moment, on whatever nodes, one is the first to commit.
        used = Saved(f"{self._scope(secret)}\nused", purpose, team.new_id("use"), team.at())
        try:
            await team.store.commit(TeamChanges(NO_TENANT, saved=used))
        except Stale:
            raise Unauthorized from None
        await team.store.catch_up(NO_TENANT)
        key = await team.store.get(Key, NO_TENANT, issued.made)
        if key is None or not key.valid(team.at()):
            raise Unauthorized
        await team.store.catch_up(key.owner)
        return SecretHolder(key, issued.answer.decode().removeprefix("agent="))

    def _scope(self, secret: str) -> str:
        return f"{self.kind}\n{key_digest(secret)}"
