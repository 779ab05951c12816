"""Participants: who joined an intent that it has access to, by speaking there or by being written to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.channel.participation import Participant, joining, participant_id
from parley.domain.directory.callers import EVERYONE, ROLE_PREFIXES
from parley.domain.record import Expect

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.channel.post import Post
    from parley.domain.directory.access import Access
    from parley.domain.directory.callers import Role


async def participation(team: Team, access: Access, agent: str) -> Participant | None:
    """When the agent joined the intent; None when it did not."""
    return await team.store.get(Participant, access.tenant_id, participant_id(access.id, agent))


async def find_joined(
    team: Team, access: Access, role: Role, now: str, expects: list[Expect] | None = None
) -> frozenset[str]:
    """The holders of a role that joined the intent. That the others did not is added to `expects`."""
    joined = set()
    for holder in () if access.reaches_all else role.holders:
        if access.lists(holder.agent, now):
            continue
        if await participation(team, access, holder.agent) is not None:
            joined.add(holder.agent)
        elif expects is not None:
            expects.append(Expect(Participant.kind, participant_id(access.id, holder.agent), 0))
    return frozenset(joined)


async def find_newcomers(team: Team, access: Access, post: Post) -> dict[str, Participant]:
    """The agents that join the intent by this message: its sender, and the agent that it names, by their names."""
    if access.reaches_all:
        return {}
    newcomers = {}
    # What is said to several is no invitation: it reaches those who take part already.
    named = post.to if post.to not in ("", EVERYONE) and not post.to.startswith(ROLE_PREFIXES) else ""
    for agent in (post.sender, named):
        if agent and not access.lists(agent, post.created_at) and await participation(team, access, agent) is None:
            newcomers[agent] = joining(access, agent)
    return newcomers
