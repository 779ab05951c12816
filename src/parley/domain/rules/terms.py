"""The terms between a sender and its receivers: what follows from who they are and from the policies alone."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from parley.domain.agents.party import source_of
from parley.domain.content.classification import can_share, lowest
from parley.domain.content.envelope import VERSION
from parley.domain.errors.rules import PolicyUnavailable
from parley.domain.rules.deciding import allowing_rule
from parley.domain.rules.judge import ceiling_of, rounds_of
from parley.domain.rules.meet import both

if TYPE_CHECKING:
    from parley.domain.agents.party import Party
    from parley.domain.audit.repeated import FactsTemplate
    from parley.domain.content.classification import Classification
    from parley.domain.rules.deciding import DecidingRule
    from parley.domain.rules.policy import Policy
    from parley.domain.rules.rulebook import Rulebook

_ALLOWED_LIMIT = 256


class Terms:
    """The policies of each pair, and what follows from them alone.

    They hold for every message of this sender to these receivers, so a server remembers them with the records that they
    rest on. What a message says, its exchange and its budgets are no part of them.
    """

    __slots__ = (
        "_allowed",
        "_allowing",
        "_ceilings",
        "book",
        "can_share",
        "entry_templates",
        "longest",
        "pairs",
        "policy",
        "receivers",
        "rounds",
        "sender",
        "source",
        "stamps",
    )

    def __init__(self, tenant: str, sender: Party, receivers: tuple[Party, ...], book: Rulebook) -> None:
        self.sender = sender
        self.receivers = receivers
        self.book = book
        self.source = source_of(sender, tenant)
        self.can_share = can_share(sender.attributes.max_classification)
        self.pairs = tuple([(receiver, _policy_between(sender, receiver, book)) for receiver in receivers])
        self.policy = self.pairs[0][1]
        for _, policy in self.pairs[1:]:
            self.policy = both(self.policy, policy)
        # What every message under these terms is stamped with.
        self.stamps = frozenset({*self.source, self.source, self.can_share, VERSION, self.policy.version, "", ()})
        # How many rounds an exchange has at most, and how long it may take.
        self.rounds = min([rounds_of(policy, sender, receiver, None) for receiver, policy in self.pairs])
        self.longest = timedelta(hours=self.policy.exchange_hours)
        # The facts that audit entries about messages under these terms repeat, by what else they depend on.
        self.entry_templates: dict[tuple[Any, ...], tuple[FactsTemplate, ...]] = {}
        self._ceilings: dict[Classification, Classification] = {}
        self._allowed: set[tuple[Any, ...]] = set()
        self._allowing: dict[str, DecidingRule] = {}

    def ceiling(self, declared: Classification) -> Classification:
        """The most secret data item that may be in a message of this level."""
        ceiling = self._ceilings.get(declared)
        if ceiling is None:
            levels = [ceiling_of(policy, self.sender, receiver, declared) for receiver, policy in self.pairs]
            ceiling = self._ceilings[declared] = lowest(*levels)
        return ceiling

    def allowing_rule(self, receiver: Party) -> DecidingRule:
        """The rule by which a receiver may have messages of this sender."""
        rule = self._allowing.get(receiver.agent)
        if rule is None:
            rule = self._allowing[receiver.agent] = allowing_rule(self.book, self.sender, receiver)
        return rule

    def is_allowed(self, facts: tuple[Any, ...]) -> bool:
        """Whether a message with these facts was judged before, and every receiver may have it."""
        return facts in self._allowed

    def note_allowed(self, facts: tuple[Any, ...]) -> None:
        """Every receiver may have a message with these facts: a judgement depends on nothing else."""
        if len(self._allowed) >= _ALLOWED_LIMIT:
            self._allowed.clear()
        self._allowed.add(facts)


def _policy_between(sender: Party, receiver: Party, book: Rulebook) -> Policy:
    policy = book.between(sender.attributes, receiver.attributes)
    if policy is None:
        raise PolicyUnavailable(
            "no enterprise policy: nothing is allowed",
            hint="an admin puts one into force: parley policy put enterprise/default FILE",
        )
    return policy
