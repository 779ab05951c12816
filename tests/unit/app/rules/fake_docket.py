"""A docket in memory, and a message that is submitted to it."""

from __future__ import annotations

import itertools
from typing import Any

from parley.app.rules.docket import Delivered, Submission
from parley.domain.content.classification import DEFAULT_LEVEL
from parley.domain.exchange.approval import Approval
from parley.domain.exchange.exchange import Exchange
from parley.domain.rules.policy import Policy
from parley.domain.rules.rulebook import Rulebook
from parley.domain.rules.ruling import Proposal, Ruling
from tests.samples.governed import ALICE, AT, BOB, NOW, TENANT, a_held_draft, a_rulebook


class FakeDocket:
    """What a test put into it is on record."""

    def __init__(self, *records: Exchange | Approval, keeps: tuple[str, ...] = (), **policy: Any) -> None:  # noqa: ANN401
        self.tenant = TENANT
        self.now = NOW
        self.at = AT
        self.book: Rulebook = a_rulebook(**policy)
        self.known_sides: tuple[str, ...] = ("alice", "bob")
        self._records = {record.id: record for record in records}
        self._keeps = keeps
        self._count = itertools.count(1)

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._count)}"

    def keeps(self, side: str) -> bool:
        return not self._keeps or side in self._keeps

    async def exchange(self, exchange_id: str) -> Exchange | None:
        record = self._records.get(exchange_id)
        return record if isinstance(record, Exchange) else None

    async def approval(self, approval_id: str) -> Approval | None:
        record = self._records.get(approval_id)
        return record if isinstance(record, Approval) else None

    async def approval_by_key(self, dedup_key: str) -> Approval | None:
        approvals = [record for record in self._records.values() if isinstance(record, Approval)]
        return next((approval for approval in approvals if approval.unique == dedup_key), None)

    async def sides(self, exchange: Exchange) -> tuple[str, ...]:
        del exchange
        return self.known_sides

    async def policy_for(self, approval: Approval) -> Policy:
        del approval
        return Policy()

    async def tighten(self, proposal: Proposal, ruling: Ruling) -> Ruling:
        del proposal
        return ruling


def a_submission(**changes: Any) -> Submission[str]:  # noqa: ANN401
    """Alice asks bob something."""
    submission: Submission[str] = Submission(
        message_id="msg_1",
        sender=ALICE,
        receivers=(BOB,),
        to="bob",
        actor="alice",
        key="key_alice",
        user=ALICE.user,
        annotated=True,
        digest="of what was submitted",
        declared=DEFAULT_LEVEL,
        conversation_id="",
        as_held_draft=lambda _: a_held_draft(),
        deliver=lambda _: Delivered("the message", "of what was sent"),
    )
    return submission._replace(**changes)
