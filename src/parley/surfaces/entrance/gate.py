"""The gate: which key calls, and whether it calls too often. A key is known by the SHA-256 of all of it."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from parley.app.team.directory.agents import in_seat, own_name
from parley.domain.directory.callers import NO_TENANT, Caller, Key, KeyKind, key_digest, party_name
from parley.domain.errors.team import RateLimited, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Callable

    from parley.app.team.team import Team
    from parley.surfaces.http.http1.message import Request

_REMEMBERED = 10_000


class Bucket:
    """Tokens that come back with time."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = now

    def take(self, now: float) -> float:
        """0 when there was a token, else the seconds until there is one."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self._rate


class Gate:
    """Knows callers by their keys, and slows down who guesses or floods."""

    def __init__(self, team: Team, *, limited: bool, monotonic: Callable[[], float]) -> None:
        self._team = team
        self._limited = limited
        self._monotonic = monotonic
        # By the digest of a secret: the id of its key, and the tenant that the key is for.
        self._ids: dict[str, tuple[str, str]] = {}
        # Callers by key and the name they gave, with the very record they were made from.
        self._callers: dict[tuple[str, bytes], tuple[Key, Caller]] = {}
        self._requests: dict[str, Bucket] = {}
        self._failures: dict[str, Bucket] = {}

    async def caller(self, request: Request) -> Caller:
        """Who calls; `Unauthorized` in the same words whatever is wrong with the key."""
        secret = request.header(b"x-api-key") or _bearer(request)
        key = await self._key(secret) if secret else None
        # Most keys have no end, so nobody has to ask what time it is.
        if key is None or not key.valid(self._team.at() if key.expires_at else ""):
            self._failed(request.peer)
            raise Unauthorized
        self._count(key)
        named = request.headers.get(b"x-agent-id", b"")
        if key.key_kind is KeyKind.HUMAN:
            return await self._person(key, named.decode("latin-1"))
        known = self._callers.get((key.id, named))
        if known is not None and known[0] is key:
            return known[1]
        caller = _caller(key, named.decode("latin-1"))
        if len(self._callers) >= _REMEMBERED:
            self._callers.clear()
        self._callers[key.id, named] = (key, caller)
        return caller

    async def _person(self, key: Key, named: str) -> Caller:
        """A person, under its own name or in the place of an agent that acts for it: as the directory says now."""
        agent = await own_name(self._team, key.owner, key.user_id)
        caller = Caller(key.owner, agent, key.key_kind, key.id, key.user_id)
        return await in_seat(self._team, caller, named) if named and named != agent else caller

    async def _key(self, secret: str) -> Key | None:
        digest = key_digest(secret)
        store = self._team.store
        key_id, tenant = self._ids.get(digest, ("", ""))
        # Whatever this request reads, it is not older than the request. Mostly both tenants are known beforehand.
        await store.catch_up(NO_TENANT, *([tenant] if tenant else []))
        if not key_id:
            found = await store.named(Key, NO_TENANT, "", digest)
            if found is None:
                return None
            if len(self._ids) >= _REMEMBERED:
                self._ids.clear()
            key_id = found.id
            self._ids[digest] = (key_id, found.owner)
            await store.catch_up(found.owner)
        key = await store.get(Key, NO_TENANT, key_id)
        return key if key is not None and hmac.compare_digest(key.digest, digest) else None

    def _count(self, key: Key) -> None:
        if not self._limited:
            return
        now = self._monotonic()
        limits = self._team.limits
        bucket = self._requests.get(key.id)
        if bucket is None:
            bucket = self._remember(self._requests, key.id, limits.requests_per_second, limits.requests_burst, now)
        wait = bucket.take(now)
        if wait:
            raise RateLimited(facts={"retry_after": max(1, round(wait + 0.5))})

    def _failed(self, peer: str) -> None:
        now = self._monotonic()
        most = self._team.limits.failed_logins_per_minute
        bucket = self._failures.get(peer)
        if bucket is None:
            bucket = self._remember(self._failures, peer, most / 60, most, now)
        wait = bucket.take(now)
        if wait:
            raise RateLimited("too many wrong keys from this address", facts={"retry_after": max(1, round(wait + 0.5))})

    @staticmethod
    def _remember(buckets: dict[str, Bucket], name: str, rate: float, burst: float, now: float) -> Bucket:
        if len(buckets) >= _REMEMBERED:
            buckets.clear()
        bucket = buckets[name] = Bucket(rate, burst, now)
        return bucket


def _caller(key: Key, named: str) -> Caller:
    caller = Caller(key.owner, key.agent_id, key.key_kind, key.id, key.user_id, key.operator)
    if not named or named == caller.agent:
        return caller
    return caller.speaking_as(party_name(named))


def _bearer(request: Request) -> str:
    kind, _, secret = request.header(b"authorization").partition(" ")
    return secret.strip() if kind.lower() == "bearer" else ""
