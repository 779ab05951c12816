# Written by tools/gen_client.py from sdk/client/intents.py. Change that, then run: make docs
"""Intents: create, look, change their state and status, put agents to work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.sdk.blocking.area import Area
from parley.sdk.client.fields import if_match, lists_of, without_none
from parley.wire.api.records.intents import Assignment, Intent, IntentList

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Intents(Area):
    """What a client does with intents. Where an intent is named, its title or the end of its id will do."""

    def create_intent(  # noqa: PLR0913  # one parameter a field
        self,
        title: str,
        description: str | None = None,
        *,
        state: Mapping[str, Any] | None = None,
        constraints: Mapping[str, Any] | Sequence[Any] | None = None,
        status: str | None = None,
        confidence: float | None = None,
        parent_intent_id: str | None = None,
        depends_on: Iterable[str] | None = None,
        created_by: str | None = None,
        access: str | Iterable[str] | None = None,
    ) -> Intent:
        """Create an intent, as "draft" unless `status` is "active".

        `access` says who else may see it and write there: "open" (every agent), "closed" (nobody), or the names of
        agents, who then take part in it. The default is a setting of the server, "closed" unless it was changed. Later
        you let agents in with `assign_agent` or `grant_access`.
        """
        body = without_none(title=title, description=description, state=state, constraints=constraints, status=status)
        body |= without_none(confidence=confidence, parent_intent_id=parent_intent_id, created_by=created_by)
        body |= lists_of(depends_on=depends_on)
        body |= without_none(access=access) if isinstance(access, str) else lists_of(access=access)
        return self._fetch(Intent, "POST", "intents", body=body)

    def get_intent(self, intent_id: str) -> Intent:
        """An intent, by its id, its title or the end of its id."""
        return self._fetch(Intent, "GET", "intents", self._intent_id(intent_id))

    def list_intents(
        self, status: str | None = None, *, limit: int | None = None, offset: int | None = None
    ) -> list[Intent]:
        """The intents that you may see."""
        query = without_none(status=status, limit=limit, offset=offset)
        page = self._fetch(IntentList, "GET", "intents", query=query)
        return page.intents

    def update_state(self, intent_id: str, state: Mapping[str, Any], *, version: int | None = None) -> Intent:
        """Set fields of an intent's state; the others stay.

        With a `version` only if it is still the current one, else `VersionMismatch`.
        """
        return self._change(intent_id, "state", {"state": state}, version)

    def patch_state(
        self, intent_id: str, patches: Iterable[Mapping[str, Any]], *, version: int | None = None
    ) -> Intent:
        """Change an intent's state by patches, in order: all of them or none.

        Each has `op` ("set", "append" or "remove"), `path` (`a/b` is the field b of the field a) and `value`. With a
        `version` only if it is still the current one, else `VersionMismatch`.
        """
        body = {"patches": [dict(patch) for patch in patches]}
        return self._change(intent_id, "state", body, version)

    def set_status(
        self, intent_id: str, status: str, *, reason: str | None = None, version: int | None = None
    ) -> Intent:
        """Move an intent on: "draft", "active", "blocked", "completed" or "abandoned".

        With a `version` only if it is still the current one, else `VersionMismatch`.
        """
        return self._change(intent_id, "status", without_none(status=status, reason=reason), version)

    def complete_intent(self, intent_id: str, *, reason: str | None = None, version: int | None = None) -> Intent:
        """Say that an intent has been reached; its channels are closed."""
        return self.set_status(intent_id, "completed", reason=reason, version=version)

    def assign_agent(self, intent_id: str, agent_id: str | None = None, role: str = "worker") -> Assignment:
        """Put an agent to work on an intent, as "worker" or "coordinator"; without a name yourself."""
        body = without_none(agent_id=agent_id, role=role)
        return self._fetch(Assignment, "POST", "intents", self._intent_id(intent_id), "agents", body=body)

    def unassign_agent(self, intent_id: str, agent_id: str) -> None:
        """Take an agent off an intent."""
        self._tell("DELETE", "intents", self._intent_id(intent_id), "agents", agent_id)

    def list_assignments(self, intent_id: str) -> list[Assignment]:
        """The agents that work on an intent."""
        return self._fetch(list[Assignment], "GET", "intents", self._intent_id(intent_id), "agents")

    def _change(self, intent_id: str, what: str, body: dict[str, Any], version: int | None) -> Intent:
        return self._fetch(
            Intent, "POST", "intents", self._intent_id(intent_id), what, body=body, headers=if_match(version)
        )
