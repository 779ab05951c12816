# Written by tools/gen_client.py from sdk/client/agents.py. Change that, then run: make docs
"""Agents: the registry, roles, and how far each has come on its stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.sdk.blocking.area import Area
from parley.sdk.client.fields import lists_of, without_none
from parley.wire.api.records.directory import AgentInfo, Bookmark, Heartbeat, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Agents(Area):
    """What a client does with agents."""

    def register_agent(  # noqa: PLR0913  # one parameter a field
        self,
        agent_id: str,
        *,
        capabilities: Iterable[str] | None = None,
        role_id: str | None = None,
        name: str | None = None,
        max_concurrent_tasks: int | None = None,
        current_load: int | None = None,
        endpoint: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        drain_timeout_seconds: int | None = None,
        tenant_id: str | None = None,
        org_unit: str | None = None,
        user_id: str | None = None,
        team: str | None = None,
        max_classification: str | None = None,
        can_receive_queries: bool | None = None,
        can_auto_respond: bool | None = None,
        supported_exchange_types: Iterable[str] | None = None,
        max_rounds_accepted: int | None = None,
    ) -> AgentInfo:
        """Register an agent, or say more about one that is registered.

        From `tenant_id` on it takes an admin's key. Whom an agent acts for is its `user_id`.
        """
        capacity = without_none(max_concurrent_tasks=max_concurrent_tasks, current_load=current_load)
        body = without_none(agent_id=agent_id, role_id=role_id, name=name, endpoint=endpoint, metadata=metadata)
        body |= without_none(capacity=capacity or None, max_rounds_accepted=max_rounds_accepted)
        body |= without_none(drain_timeout_seconds=drain_timeout_seconds, tenant_id=tenant_id, org_unit=org_unit)
        body |= without_none(user_id=user_id, team=team, max_classification=max_classification)
        body |= without_none(can_receive_queries=can_receive_queries, can_auto_respond=can_auto_respond)
        body |= lists_of(capabilities=capabilities, supported_exchange_types=supported_exchange_types)
        return self._fetch(AgentInfo, "POST", "agents", "register", body=body)

    def get_agent(self, agent_id: str) -> AgentInfo:
        """What the server knows about an agent."""
        return self._fetch(AgentInfo, "GET", "agents", agent_id, "record")

    def list_agents(
        self, *, status: str | None = None, role_id: str | None = None, capability: str | None = None
    ) -> list[AgentInfo]:
        """The agents that are registered."""
        query = without_none(status=status, role_id=role_id, capability=capability)
        return self._fetch(list[AgentInfo], "GET", "agents", query=query)

    def heartbeat(self, agent_id: str, *, current_load: int = 0, tasks_in_progress: Iterable[str] = ()) -> Heartbeat:
        """Say that an agent is alive, and how busy it is."""
        body = {"current_load": current_load, "tasks_in_progress": list(tasks_in_progress)}
        return self._fetch(Heartbeat, "POST", "agents", agent_id, "heartbeat", body=body)

    def set_agent_status(self, agent_id: str, status: str) -> AgentInfo:
        """Set an agent "active", "draining" or "stopped" (shown as dead until it is back); "deregistered" ends it."""
        body = {"status": status}
        return self._fetch(AgentInfo, "PATCH", "agents", agent_id, "status", body=body)

    def deregister_agent(self, agent_id: str) -> AgentInfo:
        """Take an agent out of the registry; it leaves its channels."""
        return self._fetch(AgentInfo, "DELETE", "agents", agent_id)

    def open_bookmark(
        self,
        agent_id: str,
        name: str,
        *,
        start: str | None = None,
        process: str | None = None,
        unless_active: float | None = None,
        replaces: str | None = None,
    ) -> Bookmark:
        """Claim an agent's bookmark (its read position); the process that held it before can no longer save it.

        `start` says where a new one begins: "unanswered" (before the first request or assignment that waits for the
        agent), "now" or "beginning". `process`, as `PID@HOST`, is shown to the previous holder. With `unless_active`, a
        bookmark that its holder saved within this many seconds is not claimed, and with `replaces` only the one of this
        holder is, else `BookmarkTaken`.
        """
        body = without_none(start=start, process=process, unless_active=unless_active, replaces=replaces)
        return self._fetch(Bookmark, "POST", "agents", agent_id, "bookmarks", name, "open", body=body)

    def save_bookmark(
        self,
        agent_id: str,
        name: str,
        holder: str,
        position: int,
        open: Iterable[int] = (),  # noqa: A002  # as the field is called
        *,
        started: Iterable[int] = (),
        close: bool = False,
    ) -> Bookmark:
        """Keep how far an agent has dealt with its stream.

        Everything up to `position` is dealt with, except what is still `open`. Raises `BookmarkTaken` when somebody
        else has opened it meanwhile. `started` counts that open items are about to be processed, after an interruption;
        what the answer does not have in `open` is a dead letter. `close` when the process stops.
        """
        body: dict[str, Any] = {"holder": holder, "position": position, "open": list(open)}
        body |= {"started": list(started)} if started else {}
        body |= {"close": True} if close else {}
        return self._fetch(Bookmark, "PUT", "agents", agent_id, "bookmarks", name, body=body)

    def get_bookmark(self, agent_id: str, name: str) -> Bookmark:
        """How far an agent has dealt with its stream."""
        return self._fetch(Bookmark, "GET", "agents", agent_id, "bookmarks", name)

    def delete_bookmark(self, agent_id: str, name: str) -> None:
        """Forget how far an agent has dealt with its stream."""
        self._tell("DELETE", "agents", agent_id, "bookmarks", name)

    def list_roles(self) -> list[Role]:
        """The roles and who holds them."""
        return self._fetch(list[Role], "GET", "roles")

    def get_role(self, role_id: str) -> Role:
        """Who holds a role."""
        return self._fetch(Role, "GET", "roles", role_id, "holders")

    def grant_role(self, role_id: str, agent_id: str) -> Role:
        """Give a role to an agent. Needs an admin's key."""
        body = {"agent_id": agent_id}
        return self._fetch(Role, "POST", "roles", role_id, "holders", body=body)

    def revoke_role(self, role_id: str, agent_id: str) -> Role:
        """Take a role from an agent. Needs an admin's key."""
        return self._fetch(Role, "DELETE", "roles", role_id, "holders", agent_id)
