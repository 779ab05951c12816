"""A server's kernel over a real store, with a clock that only tests move; and the same behind its real HTTP server.

    @with_rig
    async def test_...(rig: Rig) -> None: ...

    @with_server
    async def test_...(server: LiveServer) -> None: ...

Both run the test in an event loop of its own. Records are committed directly, so that no test depends on the use cases
of another.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import pytest

from parley.adapters.data.signatures import Ed25519Signer
from parley.adapters.sqlite.team.store import SqliteTeamStore
from parley.app.team.channels import posting, venues
from parley.app.team.channels.posting import Held
from parley.app.team.state.outside import AuditState
from parley.app.team.team import Team
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.channel import Channel, Member, MemberPolicy, Options, Tally, lifetime_end
from parley.domain.channel.participation import joining
from parley.domain.channel.post import Post, PostDraft
from parley.domain.directory.access import Access, AccessPolicy, Assignment, Grant, Permission
from parley.domain.directory.callers import (
    ALL_KEYS,
    DEFAULT_TENANT,
    NO_TENANT,
    Caller,
    Holder,
    IssuedKey,
    Key,
    KeyKind,
    KeyNames,
    Role,
    Tenant,
    key_digest,
)
from parley.domain.directory.intent import Intent, IntentStatus, Task
from parley.domain.errors.errors import ParleyError
from parley.domain.message.message import Pattern
from parley.domain.record import Record
from parley.domain.store.changes import Committed, TeamChanges
from parley.domain.store.limits import TeamLimits
from parley.domain.times import stamp
from parley.ports.team import TeamStore
from parley.surfaces.console.loading import load_console
from parley.surfaces.http.http1.listener import Listener
from parley.surfaces.http.origins import LOCAL_NAMES
from parley.surfaces.http.server import Reach, serve
from parley.wire.ocip import OcipFormat
from tests.rigs.chosen_store import a_database
from tests.rigs.http_client import Answer, Client, Connection, Events, Sent, whole, with_query
from tests.unit.app.rig import FakeClock

__all__ = [
    "Answer",
    "Client",
    "Connection",
    "Events",
    "FakeClock",
    "LiveServer",
    "Rig",
    "Sent",
    "in_loop",
    "live_server",
    "open_rig",
    "whole",
    "with_query",
    "with_rig",
    "with_server",
]

# A test that waits longer than this waits for ever.
PATIENCE = 180.0
# A stream says that it is there every 15 s, and looks whether it still may. What comes sooner, came at once.
AT_ONCE = 10.0
_EAGER_TURNS = 200
INTENT = "intent_1"
# Who takes part in the intent of a live server, beside alice, who created it.
CREW = ("bob", "carol", "dave")
CHANNEL = "chan_1"

R = TypeVar("R", bound=Record)
AsyncTest = Callable[..., Coroutine[Any, Any, None]]


def kinds() -> dict[str, type[Record]]:
    """Every kind of record that is imported by now."""
    made: list[type[Record]] = [*Record.__subclasses__(), Tenant, Key, Role, Channel, Intent, Task, Access, AgentRecord]
    return {one.kind: one for one in made}


class CountedIds:
    """Ids in the order in which they were asked for; servers that share a store begin each somewhere else."""

    def __init__(self, first: int = 1) -> None:
        self._count = itertools.count(first)

    def suffix(self, length: int) -> str:
        return f"{next(self._count):0{length}d}"

    def token(self) -> str:
        return f"{next(self._count):032x}"

    def ulid(self) -> str:
        return f"{next(self._count):026d}"

    def secret(self) -> str:
        return f"{next(self._count):043d}"


class Ed25519:
    """Signatures by the library itself."""

    def verify(self, public_key: bytes, signature: bytes, content: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(public_key).verify(signature, content)
        except (InvalidSignature, ValueError):
            return False
        return True


def a_signer() -> Ed25519Signer:
    """The same key in every test."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519Signer(Ed25519PrivateKey.from_private_bytes(b"\x01" * 32))


@dataclass
class Rig:
    """One server's kernel on a temporary folder."""

    path: Path
    store: TeamStore
    team: Team
    clock: FakeClock
    ids: CountedIds
    limits: TeamLimits
    durable: bool = False
    dsn: str = ""
    secrets: dict[str, str] = field(default_factory=dict)

    async def reopen(self) -> None:
        """What a restart does: the same file or database, nothing else."""
        await self.store.close()
        self.store = _store(self.path, self.dsn, durable=self.durable)
        self.team = Team(
            self.store, self.clock, self.ids, Ed25519(), OcipFormat(), self.limits, audit=AuditState(a_signer())
        )

    def at(self) -> str:
        return stamp(self.clock.at)

    def caller(self, agent: str = "", kind: KeyKind = KeyKind.AGENT, tenant: str = DEFAULT_TENANT) -> Caller:
        """Who the gate would say this is; `key` makes the key that belongs to it."""
        return Caller(tenant, agent, kind, key_id(agent, kind, tenant))

    async def put(self, record: R) -> R:
        """Commit one record; the one that is kept."""
        committed = await self.store.commit(TeamChanges(record.tenant_id, puts=(record,)))
        kept = committed.puts[0]
        assert isinstance(kept, type(record))
        return kept

    async def tenant(self, tenant_id: str = DEFAULT_TENANT) -> Tenant:
        return await self.put(Tenant(id=tenant_id, tenant_id=NO_TENANT, title=tenant_id, created_at=self.at()))

    async def key(
        self,
        agent: str = "",
        kind: KeyKind = KeyKind.AGENT,
        tenant: str = DEFAULT_TENANT,
        *,
        expires_at: str = "",
    ) -> str:
        """A key's secret; the same one for the same agent and kind."""
        key = key_id(agent, kind, tenant)
        if key not in self.secrets:
            self.secrets[key] = f"secret of {key}"
            await self.put(
                Key(
                    id=key,
                    tenant_id=NO_TENANT,
                    owner=tenant,
                    key_kind=kind,
                    digest=key_digest(self.secrets[key]),
                    agent_id=agent,
                    created_at=self.at(),
                    expires_at=expires_at,
                )
            )
            await self.put(IssuedKey(id=key, tenant_id=tenant))
            names = await self.store.get(KeyNames, tenant, ALL_KEYS)
            await self.put(names or KeyNames(id=ALL_KEYS, tenant_id=tenant))
        return self.secrets[key]

    async def revoke(self, agent: str = "", kind: KeyKind = KeyKind.AGENT, tenant: str = DEFAULT_TENANT) -> None:
        found = await self.store.get(Key, NO_TENANT, key_id(agent, kind, tenant))
        assert found is not None
        await self.put(replace(found, revoked_at=self.at()))

    async def intent(
        self,
        intent_id: str = INTENT,
        created_by: str = "alice",
        *,
        policy: AccessPolicy = AccessPolicy.OPEN,
        agents: tuple[str, ...] = (),
        grants: tuple[Grant, ...] = (),
        assignments: tuple[Assignment, ...] = (),
        status: IntentStatus = IntentStatus.ACTIVE,
        tenant: str = DEFAULT_TENANT,
    ) -> Intent:
        """An intent with its access list. Beside its creator these agents joined it: they take part from the start."""
        at = self.at()
        intent = Intent(
            id=intent_id,
            tenant_id=tenant,
            title=intent_id,
            created_by=created_by,
            status=status,
            created_at=at,
            updated_at=at,
        )
        access = Access(
            id=intent_id,
            tenant_id=tenant,
            created_by=created_by,
            policy=policy,
            grants=grants,
            assignments=assignments,
            reaches_all=False,
        )
        joined = [replace(joining(access, agent), since=0) for agent in agents]
        committed = await self.store.commit(TeamChanges(tenant, puts=(intent, access, *joined)))
        kept = committed.puts[0]
        assert isinstance(kept, Intent)
        return kept

    async def access(self, intent_id: str = INTENT, tenant: str = DEFAULT_TENANT, **changes: Any) -> Access:
        """Change an intent's access list."""
        found = await self.store.get(Access, tenant, intent_id)
        assert found is not None
        return await self.put(replace(found, **changes))

    def grant(self, agent: str, permission: Permission = Permission.WRITE, expires_at: str = "") -> Grant:
        return Grant(
            id=f"grant_{agent}",
            principal_id=agent,
            permission=permission,
            granted_by="alice",
            granted_at=self.at(),
            expires_at=expires_at,
        )

    def assignment(self, agent: str, role: str = "worker") -> Assignment:
        return Assignment(agent_id=agent, role=role, assigned_by="alice", assigned_at=self.at())

    async def channel(
        self,
        channel_id: str = CHANNEL,
        *members: str,
        intent_id: str = INTENT,
        label: str = "",
        created_by: str = "alice",
        policy: MemberPolicy = MemberPolicy.INTENT,
        options: Options = Options(),  # noqa: B008  # frozen
        task_id: str = "",
        tenant: str = DEFAULT_TENANT,
    ) -> Channel:
        """A channel; its creator is a member, as always."""
        agents = dict.fromkeys((created_by, *members))
        channel = Channel(
            id=channel_id,
            tenant_id=tenant,
            intent_id=intent_id,
            label=label or channel_id,
            created_by=created_by,
            created_at=self.at(),
            members=tuple(Member(agent=one) for one in agents),
            policy=policy,
            options=options,
            task_id=task_id,
        )
        return await self.put(replace(channel, expires=lifetime_end(channel, Tally())))

    async def open_channel(self) -> Channel:
        """A channel on an intent of alice, bob and carol."""
        await self.intent(agents=("bob", "carol"))
        return await self.channel()

    async def role(self, role_id: str, *agents: str, tenant: str = DEFAULT_TENANT) -> Role:
        """A role with exactly these holders."""
        found = await self.store.get(Role, tenant, role_id)
        holders = tuple(Holder(agent=agent) for agent in agents)
        role = replace(found, holders=holders) if found else Role(id=role_id, tenant_id=tenant, holders=holders)
        return await self.put(role)

    async def agent(self, agent_id: str, tenant: str = DEFAULT_TENANT, **changes: Any) -> AgentRecord:
        """A registered agent, or the same with changes."""
        found = await self.store.get(AgentRecord, tenant, agent_id)
        record = found or AgentRecord(id=agent_id, tenant_id=tenant, registered_at=self.at())
        return await self.put(replace(record, **changes))

    async def say(
        self,
        sender: str,
        text: str = "hello",
        *,
        to: str = "",
        pattern: Pattern = Pattern.NOTIFY,
        channel_id: str = CHANNEL,
        tenant: str = DEFAULT_TENANT,
        **draft: Any,
    ) -> Post:
        """Post `{"text": text}` by the one way there is."""
        said = PostDraft(pattern, json.dumps({"text": text}).encode(), to, **draft)
        done = await posting.post(self.team, self.caller(sender, tenant=tenant), channel_id, said)
        assert isinstance(done, Post)  # nothing of this waits for a person
        return done


def delivered(said: Post | Held) -> Post:
    """A message that does not wait for a person."""
    assert isinstance(said, Post)
    return said


def key_id(agent: str, kind: KeyKind, tenant: str) -> str:
    return f"key_{tenant}_{kind.value}_{agent or 'nobody'}"


@asynccontextmanager
async def open_rig(
    folder: Path,
    *,
    limits: TeamLimits = TeamLimits(),  # noqa: B008  # frozen
    durable: bool = False,
    first_id: int = 1,
    dsn: str = "",
) -> AsyncIterator[Rig]:
    """A rig with an empty store; on the store of another one when that has the same folder, or on the one named."""
    path, clock, ids = folder / "team.db", FakeClock(), CountedIds(first_id)
    with nullcontext(dsn) if dsn else a_database(folder) as address:
        store = _store(path, address, durable=durable)
        team = Team(store, clock, ids, Ed25519(), OcipFormat(), limits, audit=AuditState(a_signer()))
        rig = Rig(path, store, team, clock, ids, limits, durable, address)
        try:
            yield rig
        finally:
            await rig.store.close()


def _store(path: Path, dsn: str, *, durable: bool) -> TeamStore:
    if not dsn:
        return SqliteTeamStore(str(path), kinds(), durable=durable)
    from tests.postgres.store import a_store  # needs PostgreSQL, which others do without

    return a_store(dsn)


# ---------------------------------------------------------------- tests as coroutines


def in_loop(test: AsyncTest) -> Callable[..., None]:
    """Run a coroutine test in an event loop of its own."""

    @wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE):
                await test(*args, **fixtures)

        asyncio.run(bounded())

    return run


async def refusal(verb: Awaitable[object]) -> type[ParleyError]:
    """How something is refused."""
    with pytest.raises(ParleyError) as refused:
        await verb
    return type(refused.value)


def venue(rig: Rig, agent: str, channel_id: str = CHANNEL) -> Callable[[], Awaitable[venues.Venue]]:
    """The channel that an agent says something in, for who decides without committing."""
    return lambda: venues.venue_of(rig.team, rig.caller(agent), channel_id)


def before_the_commit(rig: Rig, monkeypatch: pytest.MonkeyPatch, change: Callable[[Rig], Awaitable[object]]) -> None:
    """Let something happen between the next decision and its commit."""
    commit = rig.store.commit

    async def late(changes: TeamChanges) -> Committed:
        monkeypatch.setattr(rig.store, "commit", commit)
        await change(rig)
        return await commit(changes)

    monkeypatch.setattr(rig.store, "commit", late)


def with_rig(test: AsyncTest) -> Callable[..., None]:
    """Give a coroutine test its `rig`."""

    async def rigged(*args: Any, tmp_path: Path, **fixtures: Any) -> None:
        async with open_rig(tmp_path) as rig:
            await test(*args, rig=rig, **fixtures)

    return _given(test, "rig", rigged)


def with_server(test: AsyncTest) -> Callable[..., None]:
    """Give a coroutine test its `server`, with an intent and an open channel on it."""

    async def served(*args: Any, tmp_path: Path, **fixtures: Any) -> None:
        async with open_rig(tmp_path) as rig, live_server(rig) as server:
            await rig.intent(agents=CREW)
            await rig.channel()
            await test(*args, server=server, **fixtures)

    return _given(test, "server", served)


def _given(test: AsyncTest, name: str, rigged: AsyncTest) -> Callable[..., None]:
    """`rigged` as a test that asks pytest for everything but `name`, and for a folder."""
    run = in_loop(rigged)
    signature = inspect.signature(test)
    asked = [one for one in signature.parameters.values() if one.name not in (name, "tmp_path")]
    folder = inspect.Parameter("tmp_path", inspect.Parameter.KEYWORD_ONLY, annotation=Path)
    wraps(test)(run)
    del run.__wrapped__  # type: ignore[attr-defined]  # else pytest would read the signature of the test itself
    run.__signature__ = signature.replace(parameters=[*asked, folder])  # type: ignore[attr-defined]
    return run


# ---------------------------------------------------------------- the HTTP server


@dataclass
class LiveServer:
    """The real routes on a loopback port, in the test's own event loop."""

    rig: Rig
    listener: Listener
    clients: list[Client] = field(default_factory=list)

    async def client(
        self, agent: str = "", kind: KeyKind = KeyKind.AGENT, tenant: str = DEFAULT_TENANT, *, speaks_as: str = ""
    ) -> Client:
        """A caller with a key of its own; `speaks_as` names the agent of a service or admin key."""
        return self.with_key(await self.rig.key(agent, kind, tenant), speaks_as)

    def with_key(self, secret: str, agent: str = "") -> Client:
        client = Client(self.listener.port, secret, agent)
        self.clients.append(client)
        return client

    async def restart(self) -> None:
        """End the server, open its store again and listen on another port."""
        await self.stop()
        await self.rig.reopen()
        self.listener = await _listening(self.rig)

    async def stop(self) -> None:
        for client in self.clients:
            await client.close()
        self.clients.clear()
        await self.listener.drain(1.0)


async def _listening(rig: Rig) -> Listener:
    def seconds() -> float:
        return rig.clock.at.timestamp()

    def uptime() -> float:
        return rig.clock.uptime

    return await serve(
        rig.team,
        "127.0.0.1",
        0,
        now=seconds,
        monotonic=uptime,
        reach=Reach(LOCAL_NAMES),
        limited=False,
        pages=load_console,
    )


@asynccontextmanager
async def live_server(rig: Rig) -> AsyncIterator[LiveServer]:
    """Serve a rig."""
    server = LiveServer(rig, await _listening(rig))
    try:
        yield server
    finally:
        await server.stop()


async def soon(condition: Callable[[], bool] | Callable[[], Awaitable[bool]], seconds: float = 30.0) -> None:
    """Let the loop run until something holds."""
    async with asyncio.timeout(seconds):
        for turn in itertools.count():
            held = condition()
            if await held if inspect.isawaitable(held) else held:
                return
            # Who asks without a pause keeps the threads from working that it waits for.
            await asyncio.sleep(0 if turn < _EAGER_TURNS else 0.001)
