"""The policies in force in a tenant, each computed once and then looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.domain.rules.meet import both, effective, origins
from parley.domain.rules.policy import AppliesTo

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        self._sources: dict[tuple[PartyKey, PartyKey], dict[str, str]] = {}

    @property
    def label(self) -> str:
        return self.snapshot.label

    def names_approver(self, user: str) -> bool:
        """Whether a policy names this person as an approver."""
        return any(user in (fragment.approvers or ()) for fragment in self.snapshot.fragments.values())

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

    def sources(self, sender: Attributes, receiver: Attributes) -> Mapping[str, str]:
        """Which document gives each key its value between two parties: of the side whose value counts, else of both."""
        pair = (_party_key(sender), _party_key(receiver))
        if pair not in self._sources:
            if len(self._sources) >= _CACHE_SIZE:
                self._sources.clear()
            self._sources[pair] = self._sources_of(sender, receiver)
        return self._sources[pair]

    def _sources_of(self, sender: Attributes, receiver: Attributes) -> dict[str, str]:
        sender_sources, receiver_sources = (origins(self.snapshot, *_party_key(side)) for side in (sender, receiver))
        first, second, together = self.of(sender), self.of(receiver), self.between(sender, receiver)
        sources = {}
        for key in sender_sources:
            value = getattr(together, key)
            if getattr(first, key) == value:
                sources[key] = sender_sources[key]
            elif getattr(second, key) == value:
                sources[key] = receiver_sources[key]
            else:
                sources[key] = ", ".join(dict.fromkeys((sender_sources[key], receiver_sources[key])))
        return sources


def _party_key(attributes: Attributes) -> PartyKey:
    return attributes.org_unit, attributes.team, attributes.user_id


def concerns(policy: Policy | None, sender: Party, receiver: Party) -> bool:
    """Whether a message that names neither purpose nor level is governed. Without a policy, everything is."""
    if policy is None or policy.applies_to is AppliesTo.ALL:
        return True
    if policy.applies_to is AppliesTo.ANNOTATED:
        return False
    return sender.attributes.org_unit != receiver.attributes.org_unit
