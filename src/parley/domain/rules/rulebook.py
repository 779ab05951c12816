"""The policies in force in a tenant, each computed once and then looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.rules.meet import both, effective
from parley.domain.rules.policy import AppliesTo

if TYPE_CHECKING:
    from parley.domain.agents.party import Attributes, Party
    from parley.domain.rules.policy import Policy, PolicySnapshot

_CACHE_SIZE = 10_000
# Org unit, team and user: what the policy of a party depends on.
PartyKey = tuple[str, str, str]


class Rulebook:
    """One snapshot, and everything that follows from it. A new snapshot has a new rulebook."""

    def __init__(self, snapshot: PolicySnapshot) -> None:
        self.snapshot = snapshot
        self._of: dict[PartyKey, Policy | None] = {}
        self._between: dict[tuple[PartyKey, PartyKey], Policy | None] = {}

    @property
    def label(self) -> str:
        return self.snapshot.label

    def of(self, attributes: Attributes) -> Policy | None:
        """The policy in force for one party; None without a policy, so that nothing is allowed."""
        key = _party_key(attributes)
        if key not in self._of:
            if len(self._of) >= _CACHE_SIZE:
                self._of.clear()
            self._of[key] = effective(self.snapshot, *key)
        return self._of[key]

    def between(self, sender: Attributes, receiver: Attributes) -> Policy | None:
        """The meet of two parties' policies."""
        pair = (_party_key(sender), _party_key(receiver))
        policy = self._between.get(pair)
        if policy is None:
            first, second = self.of(sender), self.of(receiver)
            policy = both(first, second) if first is not None and second is not None else None
            if len(self._between) >= _CACHE_SIZE:
                self._between.clear()
            self._between[pair] = policy
        return policy


def _party_key(attributes: Attributes) -> PartyKey:
    return attributes.org_unit, attributes.team, attributes.user_id


def concerns(policy: Policy | None, sender: Party, receiver: Party) -> bool:
    """Whether a message that names neither purpose nor level is governed. Without a policy, everything is."""
    if policy is None or policy.applies_to is AppliesTo.ALL:
        return True
    if policy.applies_to is AppliesTo.ANNOTATED:
        return False
    return sender.attributes.org_unit != receiver.attributes.org_unit
