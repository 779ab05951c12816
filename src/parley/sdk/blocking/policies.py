# Written by tools/gen_client.py from sdk/client/policies.py. Change that, then run: make docs
"""Policies: what is in force, and what it would make of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from parley.sdk.blocking.area import Area
from parley.sdk.client.fields import timestamp_of, without_none
from parley.wire.api.records.rules import (
    Explanation,
    Policies,
    Policy,
    PolicyDifferences,
    PolicyInForce,
    PolicyRevision,
    Replay,
    Traffic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from parley.sdk.client.fields import Moment


class Rules(Area):
    """What a client does with policies."""

    def list_policies(self, label: str | None = None, *, at: Moment | None = None, texts: bool = False) -> Policies:
        """The policies in force that concern you, and the files that cannot be used; or those of a label or time."""
        query = without_none(label=label, at=timestamp_of(at), texts=texts or None)
        return self._fetch(Policies, "GET", "policies", query=query)

    def get_policy(self, scope: str, name: str) -> Policy:
        """A policy document by its scope ("enterprise", "org", "team" or "user") and name."""
        return self._fetch(Policy, "GET", "policies", scope, name)

    def put_policy(self, scope: str, name: str, text: str) -> Policy:
        """Put a policy document into force: YAML with one key, `agent-to-agent`. Needs an admin's key."""
        return self._fetch(Policy, "PUT", "policies", scope, name, body={"text": text})

    def delete_policy(self, scope: str, name: str) -> Policies:
        """Take a policy document out of force. Needs an admin's key."""
        return self._fetch(Policies, "DELETE", "policies", scope, name)

    def effective_policy(self, agent: str | None = None, *, at: Moment | None = None) -> PolicyInForce:
        """What is in force for an agent, and which document says so; without a name for yourself.

        `at` is a time or the label of a version.
        """
        query = without_none(agent=agent, at=timestamp_of(at))
        return self._fetch(PolicyInForce, "GET", "policies", "effective", query=query)

    def policy_differences(self, old: Moment, new: Moment | None = None) -> PolicyDifferences:
        """What differs between two versions, each by its label or a time. Needs an admin's or auditor's key."""
        query = {"from": timestamp_of(old), "to": timestamp_of(new)}
        return self._fetch(PolicyDifferences, "GET", "policies", "diff", query=query)

    def policy_history(self) -> list[PolicyRevision]:
        """All that was in force, the newest first. Needs an admin's key."""
        return self._fetch(list[PolicyRevision], "GET", "policies", "history")

    def traffic(
        self,
        *,
        by: Literal["agent", "user", "org_unit"] = "agent",
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> Traffic:
        """Who talked to whom in a period, of what you may see: delivered, held and denied messages.

        Without `since`, in the last day.
        """
        query = without_none(by=by, since=timestamp_of(since), until=timestamp_of(until), limit=limit)
        return self._fetch(Traffic, "GET", "traffic", query=query)

    def explain(  # noqa: PLR0913  # one parameter a field
        self,
        sender: str,
        to: str,
        text: str = "",
        *,
        exchange_type: str | None = None,
        classification: str | None = None,
        data: Iterable[str] = (),
        round: int = 1,  # noqa: A002  # as the field is called
        max_rounds: int | None = None,
        replies: bool = False,
        human: bool = False,
    ) -> Explanation:
        """What the rules would make of a message, and why; nothing is sent. Needs an admin's key."""
        body = without_none(sender=sender, to=to, text=text, exchange_type=exchange_type, classification=classification)
        body |= without_none(data=list(data), round=round, max_rounds=max_rounds, replies=replies, human=human)
        return self._fetch(Explanation, "POST", "policies", "explain", body=body)

    def replay(
        self,
        documents: Mapping[str, str | None],
        *,
        since: Moment | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> Replay:
        """Try recorded messages under changed policies; nothing changes. Needs an admin's key.

        `documents` are texts by "scope/name"; None takes one away. `after` is what `next` said before.
        """
        body = without_none(documents=documents, since=timestamp_of(since), after=after, limit=limit)
        return self._fetch(Replay, "POST", "policies", "replay", body=body)
