"""Sign-ins of browsers, for a surface that shows pages: a key or a link becomes a session, which is looked up anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.directory import sessions
from parley.domain.directory.callers import Caller
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import Unauthorized
from parley.domain.times import from_stamp

if TYPE_CHECKING:
    from parley.app.team.directory.sessions import StartedSession
    from parley.app.team.team import Team
    from parley.surfaces.entrance.authentication import Authenticator


class SignIn(NamedTuple):
    """A sign-in that began: its secret for the browser, and for how many seconds it is valid."""

    secret: str
    seconds: int


class Sessions:
    """Signs browsers in and out. Wrong keys and links count as failed logins of their address."""

    def __init__(self, team: Team, authenticator: Authenticator) -> None:
        self._team = team
        self._authenticator = authenticator

    async def sign_in(self, secret: str, peer: str) -> SignIn:
        """Start a session with a key."""
        return self._sign_in(await sessions.start(self._team, await self._authenticator.check(secret, peer)))

    async def sign_in_by_link(self, once: str, peer: str) -> SignIn:
        """Start a session with the secret of a link, which is used up."""
        try:
            return self._sign_in(await sessions.start_by_link(self._team, once))
        except Unauthorized:
            await self._authenticator.refuse_login(peer)

    async def is_signed_in(self, secret: str) -> bool:
        """Whether a session and its key have not ended."""
        try:
            await sessions.find(self._team, secret)
        except Unauthorized:
            return False
        return True

    async def id_of(self, secret: str) -> str:
        """The id of a session that has not ended."""
        return (await sessions.find(self._team, secret)).session.id

    async def sign_out(self, secret: str) -> None:
        """End a session; one that has ended already stays ended."""
        try:
            session, key = await sessions.find(self._team, secret)
            caller = Caller(key.owner, key.agent_id, key.key_kind, key.id, key.user_id, key.operator)
            await sessions.end(self._team, caller, session.id)
        except (Unauthorized, NotFound):
            return

    def _sign_in(self, started: StartedSession) -> SignIn:
        left = from_stamp(started.session.expires_at) - self._team.now()
        return SignIn(started.secret, int(left.total_seconds()))
