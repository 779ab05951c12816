"""The names of a tenant's agents and roles, for those who mistyped one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.agents.agent import AgentRecord
from parley.domain.directory.callers import Role

if TYPE_CHECKING:
    from parley.domain.store.changes import Committed
    from parley.ports.team import TeamStore

_TENANTS_MAX = 64
# Records of a page: an agent's may be as long as a body.
_PAGE = 500


class KnownNames(NamedTuple):
    """The agents of a tenant that have not left, and the roles that somebody holds."""

    agents: set[str]
    roles: set[str]


class NameCache:
    """By tenant; read from the store once, and kept up to date by the commits."""

    def __init__(self, store: TeamStore) -> None:
        self._store = store
        self._names: dict[str, KnownNames] = {}
        # How often the names of a tenant changed.
        self._generations: Counter[str] = Counter()

    async def get(self, tenant: str) -> KnownNames:
        """The names of a tenant."""
        names = self._names.get(tenant)
        if names is None:
            generation = self._generations[tenant]
            names = await self._load(tenant)
            if generation == self._generations[tenant]:
                if len(self._names) >= _TENANTS_MAX:
                    self._names.clear()
                self._names[tenant] = names
        return names

    def publish(self, tenant: str, committed: Committed) -> None:
        """Take a commit into account."""
        if committed.missed:
            self._generations[tenant] += 1
            self._names.pop(tenant, None)
        for record in committed.puts:
            if isinstance(record, AgentRecord | Role):
                names = self._names.get(tenant)
                if names is None:
                    self._generations[tenant] += 1
                elif isinstance(record, Role):
                    (names.roles.add if record.holders else names.roles.discard)(record.id)
                else:
                    (names.agents.discard if record.gone else names.agents.add)(record.id)

    async def _load(self, tenant: str) -> KnownNames:
        names, after = KnownNames(set(), set()), ""
        while agents := await self._store.children(AgentRecord, tenant, "", after=after, limit=_PAGE):
            after = agents[-1].id
            names.agents.update(record.id for record in agents if not record.gone)
        names.roles.update(role.id for role in await self._store.children(Role, tenant, "") if role.holders)
        return names
