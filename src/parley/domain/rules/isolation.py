"""Isolation of org units: which text of others an agent reads, and what it may write where others read it.

Messages are judged one by one (`judge`). All other text is written on an intent or into the registry:

    intent of a unit      agents of a unit that the policies keep apart from it do not know that it exists
    intent of the tenant  (made by a key of the whole tenant) an agent writes only where every reader may be told
    registry              of an agent of such a unit one sees what an admin has set, and nothing that it says of itself
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from parley.domain.agents.agent import DEFAULT_HEARTBEATS, DEFAULT_TASKS
from parley.domain.agents.party import Attributes
from parley.domain.directory.access import Permission
from parley.domain.rules.policy import AppliesTo, CrossOrg

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.domain.agents.agent import AgentRecord
    from parley.domain.directory.access import Standing
    from parley.domain.rules.policy import Policy
    from parley.domain.rules.rulebook import Rulebook


def keeps_apart(policy: Policy | None) -> bool:
    """Whether a policy lets no agent talk to another org unit. Without a policy nothing is allowed."""
    return policy is None or (policy.cross_org is CrossOrg.DENY and policy.applies_to is not AppliesTo.ANNOTATED)


def are_apart(book: Rulebook, one: Attributes, other: Attributes) -> bool:
    """Whether the policies keep two parties from talking because of their org units."""
    return one.org_unit != other.org_unit and keeps_apart(book.between(one, other))


def bounded(
    book: Rulebook, stands: Standing, agent: Attributes, owner: str, readers: Iterable[Attributes] | None
) -> Standing | None:
    """The standing of an agent on an intent of the unit `owner`; "" for one of the tenant.

    `readers` are those who can read an intent of the tenant, None for everyone.
    """
    if owner:
        return None if are_apart(book, agent, Attributes(org_unit=owner)) else stands
    if not keeps_apart(book.of(agent)):
        return stands
    told_all = readers is None or any(are_apart(book, agent, reader) for reader in readers)
    # Who may read an intent of the tenant is for the tenant to say.
    return stands.at_most(Permission.READ if told_all else Permission.WRITE)


def public_part(record: AgentRecord) -> AgentRecord:
    """An agent as the units that are kept apart from it see it: its name, its state, and what an admin has set.

    Numbers that it chose are words as well, to whoever knows how to read them. Its state does not follow from this
    part: how long an agent may be silent is among them.
    """
    return replace(
        record,
        title="",
        capabilities=(),
        endpoint="",
        metadata={},
        max_concurrent_tasks=DEFAULT_TASKS,
        current_load=0,
        heartbeats=DEFAULT_HEARTBEATS,
        drain_timeout_seconds=None,
    )
