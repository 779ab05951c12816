"""Who is there: tenants, keys, callers, agents and the roles they hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Self

from parley.domain.errors.errors import BadAgentName, Invalid, Problem
from parley.domain.errors.team import WrongSender
from parley.domain.hashes import digest
from parley.domain.names import agent_name, is_name, near_misses, suggestion
from parley.domain.record import UNSETTLED, Record

DEFAULT_TENANT = "default"
# Tenants and keys belong to no tenant: a key is looked up before one knows whose it is.
NO_TENANT = ""
SYSTEM = "system"
ROLE_PREFIX = "role:"
# One holder of the role takes the message; the others never see it.
QUEUE_PREFIX = "any:"
ROLE_PREFIXES = (ROLE_PREFIX, QUEUE_PREFIX)
USER_PREFIX = "user:"
EVERYONE = "*"
# Between an address and the tenant that it is in. Nothing ever goes to another one than the sender's.
TENANT_MARK = "@"
# What every secret begins with, so that one that leaked is found by those who look for them.
SECRET_PREFIX = "pk_"  # noqa: S105  # the part that is not secret


# Renders the answer of a call, its status and content, from the posts of its commit at their places, and its records.
RenderAnswer = Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[int, bytes]]


def key_digest(secret: str) -> str:
    """What is kept of a key."""
    return digest(secret.encode("utf-8", "surrogateescape"))


class KeyKind(StrEnum):
    """What a key may do: speak as one agent, for any agent of its tenant, as a person, rule the tenant, or audit it.

    An auditor's key reads what its commands need, and no content of messages; it writes nothing.
    """

    AGENT = "agent"
    SERVICE = "service"
    HUMAN = "human"
    ADMIN = "admin"
    AUDITOR = "auditor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant(Record):
    """The outer wall: nothing ever crosses it."""

    kind: ClassVar[str] = "tenant"

    title: str
    created_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Record):
    """A credential; only its SHA-256 is kept. `owner` is the tenant it is valid in."""

    kind: ClassVar[str] = "key"

    owner: str
    key_kind: KeyKind
    digest: str
    agent_id: str = ""
    user_id: str = ""
    operator: bool = False  # may create tenants: the first admin key
    created_at: str
    expires_at: str = ""
    revoked_at: str = ""

    @property
    def name(self) -> str:
        return self.digest

    def valid(self, now: str) -> bool:
        return not self.revoked_at and not (self.expires_at and self.expires_at <= now)


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedKey(Record):
    """That a tenant has a key of this id. The key itself lies outside of all tenants, where its digest finds it."""

    kind: ClassVar[str] = "issued_key"


ALL_KEYS = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyNames(Record):
    """That a key was given to an agent or a person: its version changes with each of them.

    One record, so that every server knows whether the names that it has read are current, and a name that is given to
    both at the same moment is refused to one of them.
    """

    kind: ClassVar[str] = "key_names"


class Caller(NamedTuple):
    """Who calls, as the credential says. `agent` is empty for a service or admin key that named no agent."""

    tenant: str
    agent: str
    kind: KeyKind
    key_id: str
    user: str = ""
    operator: bool = False
    # The use of the request's idempotency key, stored with what the request writes.
    saved: Saved | None = None
    # Renders the answer from the messages and records that the request writes: it is stored in their commit.
    answer: RenderAnswer | None = None
    # The trace that this call is part of.
    trace_id: str = ""
    # The sign-in that this call belongs to: what it does ends with that.
    session: str = ""
    # The link to an approval that this call came by: it is about that approval only.
    link: str = ""

    @classmethod
    def system(cls, tenant: str) -> Caller:
        """The system itself: what follows from the clock, or from the acts of others."""
        return cls(tenant, "", KeyKind.ADMIN, "", user=SYSTEM)

    @property
    def all_seeing(self) -> bool:
        """A key of the whole tenant, used without naming an agent. Each operation says whether it may use it."""
        return not self.agent and self.kind in (KeyKind.SERVICE, KeyKind.ADMIN, KeyKind.AUDITOR)

    @property
    def actor(self) -> str:
        """The name in the log, never empty. A key that speaks as no agent is told apart from the agents by its kind."""
        if self.agent or (self.user and not self.key_id):
            return self.agent or self.user  # the server itself has no key
        return f"{USER_PREFIX}{self.user}" if self.user else f"{self.kind.value}:{self.key_id}"

    def speaking_as(self, sender: str) -> Caller:
        """The caller as the agent that a body or header names; `WrongSender` when the key is another's."""
        if not sender or sender == self.agent:
            return self
        if self.kind not in (KeyKind.SERVICE, KeyKind.ADMIN):
            raise WrongSender(f"this key speaks for {self.agent or self.user}, not for {sender[:64]}")
        return self._replace(agent=party_name(sender))


def party_name(text: str) -> str:
    """`text` if an agent may be called so on the server, where some names are reserved."""
    if text == SYSTEM or not is_name(text):
        if text == SYSTEM:
            raise BadAgentName(f"{SYSTEM} is a reserved name")
        agent_name(text)
    return text


def address(text: str) -> str:
    """`text` if a message may be addressed so: an agent, role:x, any:x, or * for everyone; with @TENANT of a tenant."""
    local, mark, tenant = text.partition(TENANT_MARK)
    if mark:
        party_name(tenant)
        return f"{address(local)}{mark}{tenant}"
    if text == EVERYONE:
        return text
    if text.startswith(ROLE_PREFIXES):
        if not is_name(role_of(text)):
            raise Invalid("to: the role is not a valid name", problems=(Problem("bad_name", "to", "not a role"),))
        return text
    prefix, colon, role = text.partition(":")
    if colon and is_name(role) and is_name(prefix):
        meant = near_misses(f"{prefix}:", ROLE_PREFIXES, 1)
        if meant:
            raise BadAgentName(f"{text!r} is not a valid address", hint=suggestion([f"{meant[0]}{role}"]))
    return party_name(text)


def role_of(text: str) -> str:
    """The role of an address like role:x or any:x; empty for any other address."""
    return text.partition(":")[2] if text.startswith(ROLE_PREFIXES) else ""


class AgentStatus(StrEnum):
    """The registry's word for how an agent is. Unhealthy and dead follow from silence, and change nothing else."""

    ACTIVE = "active"
    DRAINING = "draining"
    UNHEALTHY = "unhealthy"
    DEAD = "dead"
    DEREGISTERED = "deregistered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """An agent that holds a role, since a position."""

    agent: str
    since: int = UNSETTLED


@dataclass(frozen=True, slots=True, kw_only=True)
class Role(Record):
    """A role and who holds it: what `role:x` reaches."""

    kind: ClassVar[str] = "role"

    holders: tuple[Holder, ...] = ()

    def with_position(self, position: int) -> Self:
        holders = tuple(
            replace(holder, since=position) if holder.since == UNSETTLED else holder for holder in self.holders
        )
        return replace(self, holders=holders)

    def held_by(self, agent: str) -> bool:
        return any(holder.agent == agent for holder in self.holders)


def with_holder(role: Role, agent: str) -> Role:
    return role if role.held_by(agent) else replace(role, holders=(*role.holders, Holder(agent=agent)))


def without_holder(role: Role, agent: str) -> Role:
    return replace(role, holders=tuple(holder for holder in role.holders if holder.agent != agent))


# The status of a stored answer whose content was erased. It stays, so that an answer on its way is not stored either.
ANSWER_ERASED = 410


def created_ids(ids: list[str]) -> str:
    """The ids of what one call created, as one text. Several begin with a comma, so that an index finds them."""
    return ids[0] if len(ids) == 1 else "".join([f",{created}" for created in ids])


def ids_created(text: str) -> tuple[str, ...]:
    """The ids in such a text."""
    return tuple(text.lstrip(",").split(",")) if text else ()


class Saved(NamedTuple):
    """That an idempotency key was used, and for what. `made` tells one use from another.

    An answer that follows from what the call wrote is stored with the use, another one after it.
    """

    scope: str
    fingerprint: str
    made: str
    at: str
    # What the call created: the ids of its messages, or of one record. The answer can be built again from it.
    message_id: str = ""
    status: int = 0
    answer: bytes = b""

    @property
    def created(self) -> tuple[str, ...]:
        """The ids of what the call created."""
        return ids_created(self.message_id)


def with_answer(use: Saved | None, answer: Saved) -> Saved:
    """The use of a key with its answer, which does not know what the call created."""
    return answer._replace(message_id=use.message_id) if use is not None and not answer.message_id else answer
