"""Authentication and rate limits: which caller a secret belongs to, whether it may do what it asks for, and how often.

A key is looked up by the SHA-256 of the whole secret.
"""

from __future__ import annotations

import asyncio
import hmac
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol

from parley.app.team.decisions import links
from parley.app.team.directory import sessions
from parley.app.team.directory.agents import as_agent_of
from parley.app.team.directory.names import check_speaks_for_no_person, name_of_person
from parley.app.team.directory.tickets import redeem
from parley.app.team.state.suspended import check_not_suspended
from parley.domain.directory.callers import NO_TENANT, Caller, Key, KeyKind, key_digest, party_name
from parley.domain.errors.errors import ParleyError
from parley.domain.errors.team import RateLimited, ScopeRequired, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.app.team.decisions.links import LinkHolder
    from parley.app.team.team import Team

_CACHE_SIZE = 10_000
# How long a wrong key waits for its answer once its address has sent too many.
WRONG_KEY_SECONDS = 1.0


class Admission(Protocol):
    """Who may use an operation of a surface, and when."""

    @property
    def scope(self) -> frozenset[KeyKind]:
        """The kinds of key that may use it."""
        ...

    @property
    def untimed(self) -> bool:
        """Whether it works while the clock of this server differs from that of the others."""
        ...

    @property
    def while_suspended(self) -> bool:
        """Whether a suspended agent may use it."""
        ...

    @property
    def decides(self) -> bool:
        """Whether a person decides by it: then it is limited for each person."""
        ...


class KnownCaller(NamedTuple):
    """A caller with the key that it was made from, and the generations of the records that this rests on."""

    key: Key
    caller: Caller
    keys_generation: int
    generation: int


class TokenBucket:
    """A token bucket: `burst` tokens at most, refilled at `rate` a second."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = now

    def take(self, now: float) -> float:
        """Take a token: 0, or the seconds until there is one."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self._rate


class Authenticator:
    """Turns a secret into a caller. Limits requests per key, decisions per person, and failed logins per peer."""

    def __init__(self, team: Team, *, limited: bool, monotonic: Callable[[], float]) -> None:
        self._team = team
        self._limited = limited
        self._monotonic = monotonic
        # By digest of the secret: the id of its key, and the key's tenant.
        self._ids: dict[str, tuple[str, str]] = {}
        # By key id and claimed agent: the caller, and the key record it was made from.
        self._callers: dict[tuple[str, str], tuple[Key, Caller]] = {}
        # By digest of the secret and claimed agent: callers that were admitted before.
        self._known: dict[tuple[str, str], KnownCaller] = {}
        self._requests: dict[str, TokenBucket] = {}
        self._failures: dict[str, TokenBucket] = {}
        self._decisions: dict[str, TokenBucket] = {}

    async def admit(
        self, operation: Admission, secret: str, agent: str, peer: str, *, is_counted: bool = False
    ) -> Caller:
        """The caller with this secret, if it may use the operation now; `is_counted`: for the limit of its key."""
        if not operation.untimed:
            self._team.nodes.check_time()
        return await self._permitted(operation, await self.caller(secret, agent, peer, is_counted=is_counted))

    async def admit_ticket(self, operation: Admission, ticket: str, path: str, peer: str) -> Caller:
        """The caller that a ticket stands for, if it may use the operation at this path now."""
        if not operation.untimed:
            self._team.nodes.check_time()
        try:
            holder = await redeem(self._team, ticket, path)
        except Unauthorized:
            self._count_failure(peer)
            raise
        self._count_request(holder.key.id)
        return await self._permitted(operation, await self._as_agent(holder.key, holder.agent))

    async def admit_session(self, operation: Admission, secret: str, agent: str, peer: str) -> Caller:
        """The caller that a sign-in stands for, if it may use the operation now."""
        if not operation.untimed:
            self._team.nodes.check_time()
        try:
            holder = await sessions.find(self._team, secret)
        except Unauthorized:
            self._count_failure(peer)
            raise
        self._count_request(holder.key.id)
        caller = await self._as_agent(holder.key, agent)
        return await self._permitted(operation, caller._replace(session=holder.session.id))

    async def admit_link(self, operation: Admission, holder: LinkHolder, agent: str) -> Caller:
        """The caller that a link to an approval stands for, if it may use the operation now.

        Requests are counted for the link: whoever it was forwarded to cannot use up those of the key.
        """
        if not operation.untimed:
            self._team.nodes.check_time()
        self._count_request(holder.link.id)
        caller = await self._as_agent(holder.key, agent)
        return await self._permitted(operation, caller._replace(link=holder.link.id))

    async def check_link(self, secret: str, peer: str) -> LinkHolder:
        """The link with this secret; else `Unauthorized`, and one more failed login."""
        try:
            return await links.find(self._team, secret)
        except Unauthorized:
            await self.refuse_login(peer)

    async def _permitted(self, operation: Admission, caller: Caller) -> Caller:
        if caller.kind not in operation.scope:
            raise ScopeRequired(f"this needs a key of kind {' or '.join(sorted(operation.scope))}")
        if not operation.while_suspended:
            await check_not_suspended(self._team.store, caller)
        if operation.decides and caller.kind is KeyKind.HUMAN:
            self._count_decision(caller)
        return caller

    async def refusal(self, operation: Admission, caller: Caller, error: ParleyError) -> ParleyError:
        """What a refused caller is told: a suspended agent only that it is suspended."""
        if operation.while_suspended and caller.agent:
            try:
                await check_not_suspended(self._team.store, caller)
            except ParleyError as suspended:
                return suspended
        return error

    async def caller(self, secret: str, agent: str, peer: str, *, is_counted: bool = False) -> Caller:
        """The caller with this secret that claims to be `agent` ("": the key's own).

        Whatever is wrong with the key, `Unauthorized` reads the same.
        """
        store = self._team.store
        # Read before the records: see `domain.store.ground`.
        keys_generation = store.generation(NO_TENANT)
        key = await self.check(secret, peer)
        if not is_counted:
            self._count_request(key.id)
        generation = store.generation(key.owner)
        caller = await self._as_agent(key, agent)
        if keys_generation and generation and key.key_kind is not KeyKind.HUMAN and not key.expires_at:
            if len(self._known) >= _CACHE_SIZE:
                self._known.clear()
            self._known[key.digest, agent] = KnownCaller(key, caller, keys_generation, generation)
        return caller

    def known_caller(self, operation: Admission, known_as: tuple[str, str]) -> Caller | None:
        """The caller, if it was admitted before and this node knows of no change since; None: `admit` decides.

        `known_as` is the digest of its secret and the agent that it claims to be. Where other nodes write, too, the
        commit has to compare (`TeamChanges.keys_generation`).
        """
        known = self._known.get(known_as)
        store = self._team.store
        if (
            known is None
            or known.keys_generation != store.generation(NO_TENANT)
            or known.generation != store.generation(known.caller.tenant)
            or known.caller.kind not in operation.scope
            or not operation.while_suspended
            or self._team.nodes.out_of_time
        ):
            return None
        self._count_request(known.key.id)
        return known.caller

    async def _as_agent(self, key: Key, agent: str) -> Caller:
        if key.key_kind is KeyKind.HUMAN:
            return await self._person(key, agent)
        cached = self._callers.get((key.id, agent))
        if cached is None or cached[0] is not key:
            cached = (key, _caller(key, agent))
            if len(self._callers) >= _CACHE_SIZE:
                self._callers.clear()
            self._callers[key.id, agent] = cached
        caller = cached[1]
        if caller.agent != key.agent_id:
            await check_speaks_for_no_person(self._team, key.owner, agent)
        return caller

    async def check(self, secret: str, peer: str) -> Key:
        """The key with this secret, without counting a request; else `Unauthorized`, and one more failed login."""
        key = await self._key(secret) if secret else None
        # Most keys never expire: then the clock is not read.
        if key is None or not key.valid(self._team.at() if key.expires_at else ""):
            await self.refuse_login(peer)
        return key

    async def refuse_login(self, peer: str) -> NoReturn:
        """Count a failed login, and raise `Unauthorized`; or `RateLimited` when there were too many."""
        wait = self._count_failure(peer)
        if not wait:
            raise Unauthorized
        # One guess a second on a connection. A valid key is not delayed: others may share the address.
        await asyncio.sleep(WRONG_KEY_SECONDS)
        raise RateLimited("too many wrong keys from this address", facts={"retry_after": max(1, round(wait + 0.5))})

    async def _person(self, key: Key, agent: str) -> Caller:
        """A person under its own name, or as an agent that acts for it according to the directory."""
        name = await name_of_person(self._team, key.owner, key.user_id)
        caller = Caller(key.owner, name, key.key_kind, key.id, key.user_id)
        return await as_agent_of(self._team, caller, agent) if agent and agent != name else caller

    async def _key(self, secret: str) -> Key | None:
        digest = key_digest(secret)
        store = self._team.store
        key_id, tenant = self._ids.get(digest, ("", ""))
        # Nothing that this request reads is older than the request. Usually both tenants are cached.
        await store.catch_up(NO_TENANT, *([tenant] if tenant else []))
        if not key_id:
            record = await store.find_by_name(Key, NO_TENANT, "", digest)
            if record is None:
                return None
            if len(self._ids) >= _CACHE_SIZE:
                self._ids.clear()
            key_id = record.id
            self._ids[digest] = (key_id, record.owner)
            await store.catch_up(record.owner)
        key = await store.get(Key, NO_TENANT, key_id)
        return key if key is not None and hmac.compare_digest(key.digest, digest) else None

    def _count_request(self, holder: str) -> None:
        """Count a request of a key or a link, by its id."""
        if not self._limited:
            return
        now = self._monotonic()
        limits = self._team.limits
        bucket = self._requests.get(holder)
        if bucket is None:
            bucket = self._add_bucket(self._requests, holder, limits.requests_per_second, limits.requests_burst, now)
        wait = bucket.take(now)
        if wait:
            raise RateLimited(facts={"retry_after": max(1, round(wait + 0.5))})

    def _count_decision(self, caller: Caller) -> None:
        """Count a decision of a person, by whichever of their keys, sign-ins and links."""
        if not self._limited:
            return
        now, most = self._monotonic(), self._team.limits.decisions_per_minute
        person = f"{caller.tenant} {caller.user}"
        bucket = self._decisions.get(person) or self._add_bucket(self._decisions, person, most / 60, most, now)
        wait = bucket.take(now)
        if wait:
            message = f"you have decided {most} times within a minute"
            raise RateLimited(message, facts={"retry_after": max(1, round(wait + 0.5))})

    def _count_failure(self, peer: str) -> float:
        """Count a wrong key: 0, or the seconds until the next one of this address is allowed."""
        now = self._monotonic()
        most = self._team.limits.failed_logins_per_minute
        bucket = self._failures.get(peer)
        if bucket is None:
            bucket = self._add_bucket(self._failures, peer, most / 60, most, now)
        return bucket.take(now)

    @staticmethod
    def _add_bucket(buckets: dict[str, TokenBucket], name: str, rate: float, burst: float, now: float) -> TokenBucket:
        if len(buckets) >= _CACHE_SIZE:
            buckets.clear()
        bucket = buckets[name] = TokenBucket(rate, burst, now)
        return bucket


async def sender_of(team: Team, caller: Caller, sender: str | None) -> Caller:
    """The agent that a message names as its sender, or a person in place of an agent that acts for it."""
    if not sender or sender == caller.agent:
        return caller
    if caller.kind is KeyKind.HUMAN:
        return await as_agent_of(team, caller, sender)
    named = caller.speaking_as(sender)
    await check_speaks_for_no_person(team, caller.tenant, sender)
    return named


def _caller(key: Key, agent: str) -> Caller:
    caller = Caller(key.owner, key.agent_id, key.key_kind, key.id, key.user_id, key.operator)
    return caller if not agent or agent == caller.agent else caller.speaking_as(party_name(agent))
