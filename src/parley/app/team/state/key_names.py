"""The names that keys were given to, by tenant: agents and people. Kept until a key with a name is created."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.directory.callers import ALL_KEYS, NO_TENANT, IssuedKey, Key, KeyKind, KeyNames

if TYPE_CHECKING:
    from parley.ports.team import TeamStore


class Names(NamedTuple):
    """The agents and the people that ever had a key. Revoked ones count: their mail is still there."""

    # Of the record `KeyNames`; 0 without one.
    version: int
    agents: frozenset[str]
    people: frozenset[str]


class KeyNamesCache:
    """The names of each tenant. The record says whether they are current, on every node."""

    def __init__(self, store: TeamStore, keys_per_tenant: int) -> None:
        self._store = store
        self._most = keys_per_tenant + 1
        self._names: dict[str, Names] = {}

    async def of(self, tenant: str) -> Names:
        """All names of a tenant."""
        record = await self._store.get(KeyNames, tenant, ALL_KEYS)
        version = record.version if record is not None else 0
        names = self._names.get(tenant)
        if names is None or names.version != version:
            names = self._names[tenant] = await self._read(tenant, version)
        return names

    async def _read(self, tenant: str, version: int) -> Names:
        agents, people = set(), set()
        for issued in await self._store.children(IssuedKey, tenant, "", limit=self._most):
            key = await self._store.get(Key, NO_TENANT, issued.id)
            if key is not None and key.key_kind is KeyKind.AGENT:
                agents.add(key.agent_id)
            elif key is not None and key.key_kind is KeyKind.HUMAN:
                people.add(key.user_id)
        return Names(version, frozenset(agents), frozenset(people))
