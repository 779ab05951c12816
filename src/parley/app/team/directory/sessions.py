"""Sign-ins of browsers: start with a key or a link, look up, list, end. Each is in the audit log.

A session is looked up with every request, and its key as well: when one of them has ended, so has the other's use.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.directory.keys import check_key
from parley.app.team.directory.one_time import OneTimeSecrets
from parley.app.team.retry import committed
from parley.domain.audit.entry import TENANT_SIDE, AuditDraft
from parley.domain.directory.callers import NO_TENANT, Caller, Key, KeyKind, key_digest
from parley.domain.directory.session import SESSION_PREFIX, LoginSession, started
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import Unauthorized
from parley.domain.store.changes import RecordQuery, TeamChanges

if TYPE_CHECKING:
    from parley.app.team.directory.one_time import IssuedSecret
    from parley.app.team.team import Team

LINK_LIFETIME = timedelta(minutes=10)
_LINKS = OneTimeSecrets("login", "pso_", LINK_LIFETIME)
_PURPOSE = "login"
# Sessions of one key: the oldest ends when there would be more.
SESSIONS_OF_A_KEY = 50


class StartedSession(NamedTuple):
    """A session and its secret, which is not stored."""

    session: LoginSession
    secret: str


class SessionHolder(NamedTuple):
    """A session that is valid now, and its key."""

    session: LoginSession
    key: Key


async def start(team: Team, key: Key, via: str = "key") -> StartedSession:
    """Start a session of a key that is valid."""
    if not key.valid(team.at()):
        raise Unauthorized
    secret = SESSION_PREFIX + team.ids.secret()
    session = started(team.new_id("sess"), secret, key, via, team.at())
    caller = _caller_of(key)

    async def decide() -> TeamChanges:
        query = RecordQuery("", (("key_id", key.id),), limit=SESSIONS_OF_A_KEY)
        others = await team.store.find(LoginSession, NO_TENANT, query)
        oldest = others[:1] if len(others) == SESSIONS_OF_A_KEY else ()
        audit = _audit(team, caller, "session_started", session)
        return TeamChanges(key.owner, puts=(session,), drops=oldest, audits=(audit,))

    await committed(team, caller, decide, "list of sessions")
    return StartedSession(session, secret)


async def start_by_link(team: Team, link_secret: str) -> StartedSession:
    """Start a session with the secret of a link, once."""
    holder = await _LINKS.redeem(team, link_secret, _PURPOSE)
    return await start(team, holder.key, via="link")


async def issue_link(team: Team, caller: Caller) -> IssuedSecret:
    """A secret with which a browser signs in as the caller, once, within ten minutes."""
    return await _issue_link(team, caller, await check_key(team, caller))


async def issue_link_of(team: Team, key: Key) -> IssuedSecret:
    """The same for a key that is valid: the server's own, when it starts."""
    return await _issue_link(team, _caller_of(key), key)


async def _issue_link(team: Team, caller: Caller, key: Key) -> IssuedSecret:
    def audit() -> AuditDraft:
        facts = {"key": key.id, **({"user_id": key.user_id} if key.user_id else {})}
        return AuditDraft(team.new_id("aud"), TENANT_SIDE, team.at(), "login_link_created", caller.actor, facts)

    return await _LINKS.issue(team, caller, _PURPOSE, audit)


async def find(team: Team, secret: str) -> SessionHolder:
    """The session of a secret, and its key. `Unauthorized` when one of them has ended."""
    if not secret.startswith(SESSION_PREFIX):
        raise Unauthorized
    await team.store.catch_up(NO_TENANT)
    session = await team.store.find_by_name(LoginSession, NO_TENANT, "", key_digest(secret))
    key = await team.store.get(Key, NO_TENANT, session.key_id) if session is not None else None
    if session is None or key is None or not await is_valid(team, session):
        raise Unauthorized
    await team.store.catch_up(key.owner)
    return SessionHolder(session, key)


async def list_page(team: Team, caller: Caller, *, after: str = "", limit: int = 100) -> tuple[LoginSession, ...]:
    """The sessions of the caller, oldest first: of a person, of a key, or of the tenant for admins."""
    valid: list[LoginSession] = []
    query = RecordQuery("", _fields_of(caller), after=("", after), limit=limit)
    while len(valid) < limit and (page := await team.store.find(LoginSession, NO_TENANT, query)):
        valid += [session for session in page if await is_valid(team, session)]
        query = query._replace(after=("", page[-1].id))
    return tuple(valid[:limit])


async def is_valid(team: Team, session: LoginSession) -> bool:
    """Whether a session and its key have not ended."""
    key = await team.store.get(Key, NO_TENANT, session.key_id)
    return session.expires_at > team.at() and key is not None and key.valid(team.at())


async def end(team: Team, caller: Caller, session_id: str) -> LoginSession:
    """End a session at once; its streams end, too."""
    ended: list[LoginSession] = []

    async def decide() -> TeamChanges:
        session = await team.store.get(LoginSession, NO_TENANT, session_id)
        if session is None or any(getattr(session, name) != value for name, value in _fields_of(caller)):
            raise NotFound.no_such("session")
        ended.append(session)
        return TeamChanges(session.owner, drops=(session,), audits=(_audit(team, caller, "session_ended", session),))

    await committed(team, caller, decide, "session")
    return ended[-1]


async def end_all(team: Team, caller: Caller) -> int:
    """End all sessions of the caller's own person or key; how many there were."""
    fields = (("owner", caller.tenant), _whose(caller))
    count = 0
    while sessions := await team.store.find(LoginSession, NO_TENANT, RecordQuery("", fields, limit=SESSIONS_OF_A_KEY)):
        audits = tuple([_audit(team, caller, "session_ended", session) for session in sessions])
        await team.store.commit(TeamChanges(caller.tenant, drops=sessions, audits=audits))
        count += len(sessions)
    return count


def _fields_of(caller: Caller) -> tuple[tuple[str, str], ...]:
    """What the sessions have in common that a caller may see and end."""
    owner = ("owner", caller.tenant)
    return (owner,) if caller.kind is KeyKind.ADMIN and not caller.agent else (owner, _whose(caller))


def _whose(caller: Caller) -> tuple[str, str]:
    return ("user_id", caller.user) if caller.kind is KeyKind.HUMAN else ("key_id", caller.key_id)


def _caller_of(key: Key) -> Caller:
    return Caller(key.owner, key.agent_id, key.key_kind, key.id, key.user_id, key.operator)


def _audit(team: Team, caller: Caller, action: str, session: LoginSession) -> AuditDraft:
    about = {"session": session.id, "of_key": session.key_id, "user_id": session.user_id, "via": session.via}
    facts = {name: value for name, value in about.items() if value}
    return AuditDraft(team.new_id("aud"), TENANT_SIDE, team.at(), action, caller.actor, {**facts, "key": caller.key_id})
