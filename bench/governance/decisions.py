"""A decision under the rules, in this process: the policy that two parties share, and the judgement of one message."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from bench.channels.posts import TEXT
from bench.figures import Figure, Goal
from bench.governance.sends import POLICY
from bench.measure import Sample
from bench.workspace import Bench
from parley.domain.agents.party import Attributes, Party
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Origin, Purpose, ReplyPolicy, Wishes
from parley.domain.rules.judge import ALLOW, Case, judge
from parley.domain.rules.policy import Document, first_snapshot
from parley.domain.rules.rulebook import Rulebook
from parley.domain.rules.ruling import Fresh, Proposal, rule
from parley.wire.files.policy import read_policy

_GOAL = Goal("<=", 20, "us")
_CALLS = 500


def run(bench: Bench) -> list[Figure]:
    book = Rulebook(first_snapshot("default", Document(POLICY, read_policy(POLICY, "enterprise/default.yaml"))))
    sender = Party("asker", Attributes(org_unit="engineering", user_id="asker@example.com"))
    receiver = Party("answerer", Attributes(org_unit="engineering", user_id="answerer@example.com"))
    case = Case(
        sender,
        receiver,
        Purpose.INFORMATION_QUERY,
        ReplyPolicy.AGENT_OK,
        requires_commitment=False,
        origin=Origin.AGENT,
        level=Classification.INTERNAL,
        round=1,
        max_rounds=3,
        initiates=True,
    )

    def decide() -> object:
        policy = book.between(sender.attributes, receiver.attributes)
        return policy is not None and judge(case, policy)

    proposal = Proposal(
        tenant="default",
        sender=sender,
        receivers=(receiver,),
        to=receiver.agent,
        asks=False,
        wishes=Wishes(purpose=Purpose.INFORMATION_QUERY),
        body={"text": TEXT},
        exchange=None,
        others=(),
        approval=None,
        now=datetime(2026, 3, 13, 8, 0, tzinfo=UTC),
        fresh=Fresh("exch_1", "conv_1", "appr_1"),
        texts=lambda _: (f'{{"text":"{TEXT}"}}',),
    )
    if decide() != ALLOW or rule(proposal, book).verdict != ALLOW:
        raise RuntimeError("this should be allowed")
    blocks = bench.repeat(100)
    return [
        Figure("decisions", "a policy decision: policy of both, judgement", "us", each(decide, blocks), goal=_GOAL),
        Figure(
            "decisions", "a whole ruling, with what is in the content", "us", each(lambda: rule(proposal, book), blocks)
        ),
    ]


def each(call: Callable[[], object], blocks: int, calls: int = _CALLS) -> Sample:
    """How long one call takes: the mean of each block of calls."""
    call()
    means = []
    for _ in range(blocks):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        means.append((time.perf_counter() - began) / calls)
    return Sample(tuple(means))
