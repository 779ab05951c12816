# Written by tools/gen_client.py from sdk/client/sessions.py. Change that, then run: make docs
"""Sign-ins of browsers."""

from __future__ import annotations

from parley.sdk.blocking.area import Area
from parley.sdk.client.fields import without_none
from parley.wire.api.records.directory import EndedSessions, LoginLink, LoginSession


class Sessions(Area):
    """What a client does with sign-ins of browsers."""

    def list_sessions(self, *, after: str | None = None, limit: int | None = None) -> list[LoginSession]:
        """Your sign-ins, oldest first; with an admin's key those of the tenant. `after` is the id of one."""
        return self._fetch(list[LoginSession], "GET", "sessions", query=without_none(after=after, limit=limit))

    def end_session(self, session_id: str) -> LoginSession:
        """End a sign-in at once."""
        return self._fetch(LoginSession, "DELETE", "sessions", session_id)

    def end_sessions(self) -> int:
        """End all your own sign-ins; how many there were."""
        return (self._fetch(EndedSessions, "DELETE", "sessions")).ended

    def create_login_link(self) -> LoginLink:
        """A secret with which a browser signs in with your key, once, within ten minutes."""
        return self._fetch(LoginLink, "POST", "sessions", "once", body={})
