"""A trial: the verdict on a message that is not sent, and the reasons. For `explain`, `test` and `replay`."""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from typing import NamedTuple

from parley.domain.agents.party import UNKNOWN_ATTRIBUTES, Party
from parley.domain.content.classification import DEFAULT_LEVEL, Classification, OnOver, highest, lowest
from parley.domain.content.commitment import Detector
from parley.domain.content.detectors import findings, level_with
from parley.domain.content.envelope import SEMANTICS, Origin, Purpose, ReplyPolicy
from parley.domain.errors.rules import PolicyUnavailable
from parley.domain.rules.judge import (
    ALLOW,
    DIRECTORY,
    POLICY,
    Allow,
    Case,
    Deny,
    Hold,
    Verdict,
    ceiling_of,
    checks,
    judge,
    rounds_of,
    route_of,
)
from parley.domain.rules.meet import both
from parley.domain.rules.policy import Policy
from parley.domain.rules.rulebook import Rulebook, concerns
from parley.domain.rules.ruling import commitment_keywords

# The source of a round limit that the message itself asks for.
MESSAGE = "message"


class Trial(NamedTuple):
    """A message to be tried. What is None follows from the rest."""

    sender: Party
    receiver: Party
    purpose: Purpose | None = None
    reply_policy: ReplyPolicy | None = None
    requires_commitment: bool | None = None
    # What its sender declares.
    classification: Classification | None = None
    texts: tuple[str, ...] = ()
    # Where the texts are no longer there: what was found in them, and how secret that made it.
    keywords: tuple[str, ...] | None = None
    level: Classification | None = None
    origin: Origin = Origin.AGENT
    round: int = 1
    max_rounds: int | None = None
    initiates: bool = True
    hops: int = 1
    # The levels of the data that it declares, and of those of them that name no field which could be taken out.
    data: tuple[Classification, ...] = ()
    fixed: tuple[Classification, ...] = ()
    # Whether it asks for the rules itself.
    annotated: bool | None = None

    @property
    def asks_for_rules(self) -> bool:
        """Whether it is governed whatever `applies_to` says: by what it names, or by what it goes on with."""
        named = self.purpose is not None or self.classification is not None or self.max_rounds is not None or self.data
        annotated = bool(named) if self.annotated is None else self.annotated
        return annotated or not self.initiates or self.round > 1 or self.origin is Origin.ASSISTED


class ExplainStep(NamedTuple):
    """One check as `explain` shows it: its name, its value, where that comes from, and what it was compared with."""

    check: str
    value: str
    source: str
    result: str


class TrialResult(NamedTuple):
    """The result of a trial. A message that is not governed passes as it is."""

    verdict: Verdict
    governed: bool
    policy: Policy | None
    steps: tuple[ExplainStep, ...]
    keywords: tuple[str, ...] = ()
    level: Classification = DEFAULT_LEVEL

    @property
    def word(self) -> str:
        return verdict_name(self.verdict)

    @property
    def why(self) -> str:
        if isinstance(self.verdict, Deny):
            return self.verdict.error.message
        return self.verdict.reason if isinstance(self.verdict, Hold) else ""

    @property
    def code(self) -> str:
        if isinstance(self.verdict, Deny):
            return self.verdict.error.code
        return self.verdict.cause.value if isinstance(self.verdict, Hold) else ""


def verdict_name(verdict: Verdict) -> str:
    if isinstance(verdict, Allow):
        return "allow"
    return "hold" if isinstance(verdict, Hold) else "deny"


def run_trial(trial: Trial, book: Rulebook, detectors: tuple[Detector, ...] = ()) -> TrialResult:
    """The verdict on a message, with every check."""
    case, policy, keywords = _cases(trial, (trial.receiver,), book, detectors)[0]
    if policy is None or case is None:
        return _NOTHING_IN_FORCE
    governed = _governed(trial, (trial.receiver,), book)
    verdict = judge(case, policy) if governed else ALLOW
    return TrialResult(verdict, governed, policy, _steps(trial, case, policy, book), keywords, case.level)


def run_trial_for_each(
    trial: Trial, receivers: tuple[Party, ...], book: Rulebook, detectors: tuple[Detector, ...] = ()
) -> list[TrialResult]:
    """The results for several receivers, without steps. The content is inspected once, under the meet of policies."""
    if not _governed(trial, receivers, book):
        return [
            TrialResult(
                ALLOW, governed=False, policy=book.between(trial.sender.attributes, receiver.attributes), steps=()
            )
            for receiver in receivers
        ]
    return [
        TrialResult(judge(case, policy), governed=True, policy=policy, steps=(), keywords=keywords, level=case.level)
        if policy is not None and case is not None
        else _NOTHING_IN_FORCE
        for case, policy, keywords in _cases(trial, receivers, book, detectors)
    ]


_NOTHING_IN_FORCE = TrialResult(
    Deny(PolicyUnavailable("no enterprise policy: nothing is allowed"), ends=False),
    governed=True,
    policy=None,
    steps=(),
)


def _governed(trial: Trial, receivers: tuple[Party, ...], book: Rulebook) -> bool:
    sender = trial.sender
    return trial.asks_for_rules or any(
        concerns(book.between(sender.attributes, receiver.attributes), sender, receiver) for receiver in receivers
    )


def _cases(
    trial: Trial, receivers: tuple[Party, ...], book: Rulebook, detectors: tuple[Detector, ...]
) -> list[tuple[Case | None, Policy | None, tuple[str, ...]]]:
    """For each receiver the case, the policy, and the detected keywords."""
    policies = [book.between(trial.sender.attributes, receiver.attributes) for receiver in receivers]
    pairs = [(receiver, policy) for receiver, policy in zip(receivers, policies, strict=True) if policy is not None]
    if len(pairs) < len(receivers):
        return [(None, None, ())] * len(receivers)
    policy = pairs[0][1]
    for _, other in pairs[1:]:
        policy = both(policy, other)
    purpose = trial.purpose or Purpose.INFORMATION_QUERY
    semantics = SEMANTICS[purpose]
    commits = trial.requires_commitment
    declared = trial.classification or DEFAULT_LEVEL
    detections = findings(trial.texts, policy.patterns)
    level = level_with(declared, detections)
    ceiling = lowest(*[ceiling_of(pair_policy, trial.sender, receiver, declared) for receiver, pair_policy in pairs])
    over = [level for level in trial.data if level.rank > ceiling.rank]
    stuck = any(level.rank > ceiling.rank for level in trial.fixed)
    keywords = _keywords(trial, policy, detectors)
    case = Case(
        sender=trial.sender,
        receiver=trial.receiver,
        purpose=purpose,
        reply_policy=trial.reply_policy or semantics.reply_policy,
        requires_commitment=semantics.requires_commitment if commits is None else commits,
        origin=trial.origin,
        level=highest(level, trial.level) if trial.level is not None else level,
        round=trial.round,
        max_rounds=min(
            rounds_of(pair_policy, trial.sender, receiver, trial.max_rounds) for receiver, pair_policy in pairs
        ),
        initiates=trial.initiates,
        hops=trial.hops,
        over=stuck or (bool(over) and policy.on_over_classified is OnOver.BLOCK),
        keywords=keywords,
        approved=trial.origin is Origin.ASSISTED,
        detections=detections,
    )
    return [(case._replace(receiver=receiver), pair_policy, keywords) for receiver, pair_policy in pairs]


def _keywords(trial: Trial, policy: Policy, detectors: tuple[Detector, ...]) -> tuple[str, ...]:
    if trial.origin is Origin.HUMAN:
        return ()
    if trial.keywords is not None:
        return trial.keywords
    return commitment_keywords(trial.texts, policy, detectors)


def _steps(trial: Trial, case: Case, policy: Policy, book: Rulebook) -> tuple[ExplainStep, ...]:
    """Every check, in its order, with the document that its value comes from."""
    sources = dict(book.sources(case.sender.attributes, case.receiver.attributes))
    if case.max_rounds < policy.max_rounds:
        sources["max_rounds"] = MESSAGE if case.max_rounds == trial.max_rounds else DIRECTORY
    reason = "asks" if trial.asks_for_rules else route_of(case.sender, case.receiver)
    return (
        _party_step("sender", case.sender),
        _party_step("receiver", case.receiver),
        ExplainStep("applies_to", policy.applies_to.value, sources["applies_to"], reason),
        *[
            ExplainStep(name, _rendered(value), sources[name] if source == POLICY else source, _rendered(compared))
            for name, source, value, compared, _ in checks(case, policy)
        ],
    )


def _rendered(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _party_step(side: str, party: Party) -> ExplainStep:
    attributes = party.attributes
    registered = attributes is not UNKNOWN_ATTRIBUTES
    place = "/".join(filter(None, (attributes.org_unit, attributes.team, attributes.user_id)))
    return ExplainStep(
        side, party.agent, DIRECTORY, place if registered else f"not registered, so of {attributes.org_unit}"
    )
