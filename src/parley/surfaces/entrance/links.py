"""Links to approvals, for a surface that shows pages: a secret is looked up anew with every request."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import ParleyError
from parley.domain.times import from_stamp

if TYPE_CHECKING:
    from datetime import datetime

    from parley.surfaces.entrance.authentication import Authenticator


class OpenLink(NamedTuple):
    """A link that is valid now: to which approval, made for which content, by whom, and until when."""

    approval_id: str
    content_digest: str
    user_id: str
    expires_at: datetime


class Links:
    """Looks up links. Wrong and ended ones count as failed logins of their address."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def open(self, secret: str, peer: str) -> OpenLink:
        """The link with this secret. `Unauthorized` when it has ended or never was; `RateLimited` after many such."""
        link = (await self._authenticator.check_link(secret, peer)).link
        return OpenLink(link.approval_id, link.content_digest, link.user_id, from_stamp(link.expires_at))

    async def is_open(self, secret: str, peer: str) -> bool:
        """Whether a link is valid now."""
        try:
            await self.open(secret, peer)
        except ParleyError:
            return False
        return True
