"""The rule that decided about a message: a key of a policy or an attribute of an agent, its value and its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from parley.domain.rules.judge import DIRECTORY, POLICY, PURPOSE, Deny, Hold, checks, crosses
from parley.domain.rules.meet import BUILT_IN
from parley.domain.rules.policy import CrossOrg

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.domain.agents.party import Party
    from parley.domain.rules.judge import Case
    from parley.domain.rules.policy import Policy
    from parley.domain.rules.rulebook import Rulebook

# The source of a limit that was fixed when the exchange began.
EXCHANGE = "exchange"
_IN_DOCUMENTS: dict[object, str] = {True: "true", False: "false", CrossOrg.ALLOW: "true", CrossOrg.DENY: "false"}


class DecidingRule(NamedTuple):
    """One line of a policy or of the directory. `source` is the policy document, else `directory` and the like."""

    key: str
    value: str
    source: str

    @classmethod
    def from_facts(cls, facts: Mapping[str, str]) -> Self:
        """The rule as an error or an audit entry names it."""
        return cls(facts["key"], facts["value"], facts["source"])

    def text(self, sender: str, receiver: str) -> str:
        """For people, such as `cross_org: false in enterprise/default`; the names say whose attribute it is."""
        key = self.key.replace("(sender)", f"of {sender}").replace("(receiver)", f"of {receiver}")
        places = {DIRECTORY: "in the directory", BUILT_IN: "by default", EXCHANGE: "in this exchange"}
        places[PURPOSE] = "by the purpose of the message"
        return f"{key}: {self.value} {places.get(self.source, f'in {self.source}')}"


def allowing_rule(book: Rulebook, sender: Party, receiver: Party) -> DecidingRule:
    """The rule by which a message may go from one agent to another: of its org unit, or that it may leave it."""
    policy = book.between(sender.attributes, receiver.attributes)
    if policy is None or not crosses(sender, receiver):
        return DecidingRule("org_unit", sender.attributes.org_unit, DIRECTORY)
    sources = book.sources(sender.attributes, receiver.attributes)
    return DecidingRule("cross_org", _value_text(policy.cross_org), sources["cross_org"])


def stopping_rule(case: Case, policy: Policy, book: Rulebook) -> DecidingRule | None:
    """The rule that denies a message or has it held: as in a judgement, a denial before a hold."""
    stopping = [check for check in checks(case, policy) if check[4] is not None]
    denying = [check for check in stopping if isinstance(check[4], Deny)]
    for name, source, value, _, _ in denying or [check for check in stopping if isinstance(check[4], Hold)]:
        if source != POLICY:
            return DecidingRule(name, _value_text(value), source)
        if name == "max_rounds" and case.max_rounds != policy.max_rounds:
            return DecidingRule(name, _value_text(value), EXCHANGE)
        sources = book.sources(case.sender.attributes, case.receiver.attributes)
        return DecidingRule(name, _value_text(value), sources[name])
    return None


def _value_text(value: object) -> str:
    """A value as policy documents have it."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return _IN_DOCUMENTS.get(value, str(value)) if isinstance(value, bool | CrossOrg) else str(value)
