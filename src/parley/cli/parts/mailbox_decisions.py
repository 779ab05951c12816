"""Approvals and exchanges of a mailbox."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

from parley.app.mailbox.rules import approvals, exchanges
from parley.app.mailbox.rules.approvals import MailboxDecision
from parley.cli.command import kernel_of, settings_of
from parley.domain.errors.errors import Invalid
from parley.domain.errors.rules import HumanRequired
from parley.domain.exchange.approval import ApprovalStatus, Decision
from parley.domain.lookup import Candidate, pick
from parley.sdk.protocol.lookup import CONVERSATIONS
from parley.wire.api.approvals import approval_of, exchange_of
from parley.wiring import drive

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from parley.cli.parts.decisions import ApprovalFilter, Document, ExchangeFilter
    from parley.domain.exchange.approval import Approval
    from parley.domain.exchange.exchange import Exchange

# How many fields of the filter a mailbox knows: outcome, agent and conversation.
_MAILBOX_FILTERS = 3
R = TypeVar("R", "Approval", "Exchange")


class MailboxDecisions:
    """Approvals and exchanges of one mailbox, from its ledger."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._kernel = kernel_of(args)

    def list_approvals(self, wanted: ApprovalFilter, *, after: str, limit: int) -> list[Document]:
        status = ApprovalStatus(wanted.status) if wanted.status else None
        matches = [
            approval
            for approval in drive(approvals.list_all(self._kernel, status))
            if wanted.cause in ("", approval.cause.value)
        ]
        if wanted.order == "oldest":
            return [self._document(approval) for approval in _page(matches, after, limit)]
        by_expiry = wanted.order == "expiring"
        matches.sort(key=lambda approval: (by_expiry and approval.expires_at, approval.id), reverse=not by_expiry)
        ids = [approval.id for approval in matches]
        first = ids.index(drive(approvals.get(self._kernel, after)).id) + 1 if after else 0
        return [self._document(approval) for approval in _page(matches[first:], "", limit)]

    def get_approval(self, approval_id: str) -> Document:
        return self._document(drive(approvals.get(self._kernel, approval_id)))

    def decide(self, approval_id: str, decision: str, *, digest: str, note: str, answer: str | None = None) -> Document:
        deciding = MailboxDecision(Decision(decision), self._key(), digest, note, answer or "")
        return self._document(drive(approvals.decide(self._kernel, approval_id, deciding)))

    def list_exchanges(self, wanted: ExchangeFilter, *, after: str, limit: int) -> list[Document]:
        if any(wanted[_MAILBOX_FILTERS:]):
            raise Invalid(
                "a mailbox filters exchanges only by --outcome and --conversation", hint="leave out the others"
            )
        all_exchanges = drive(exchanges.list_all(self._kernel))
        if wanted.conversation_id:
            conversations = [Candidate(exchange.conversation_id) for exchange in all_exchanges]
            chosen = pick(CONVERSATIONS.noun, wanted.conversation_id, list(dict.fromkeys(conversations)))
            wanted = wanted._replace(conversation_id=chosen.id)
        matches = [exchange for exchange in all_exchanges if _matches(exchange, wanted)]
        after = drive(exchanges.get(self._kernel, after)).id if after else ""
        return [exchange_of(exchange).to_dict() for exchange in _page(matches, after, limit)]

    def get_exchange(self, exchange_id: str) -> Document:
        return exchange_of(drive(exchanges.get(self._kernel, exchange_id))).to_dict()

    def close_exchange(self, exchange_id: str, reason: str) -> Document:
        exchange = drive(exchanges.close(self._kernel, exchange_id, reason, self._known_key()))
        return exchange_of(exchange).to_dict()

    def _document(self, approval: Approval) -> Document:
        standing = drive(approvals.standing(self._kernel, approval, self._known_key()))
        return approval_of(approval, standing, drive(approvals.closed_with(self._kernel, approval))).to_dict()

    def _known_key(self) -> str:
        """The person's key from --key or the environment; empty if there is none."""
        return str(self._args.key or settings_of(self._args).human_key)

    def _key(self) -> str:
        """The person's key; read from the terminal if it is not set."""
        key = self._known_key()
        if key:
            return key
        if sys.stdin is None or not sys.stdin.isatty():
            raise HumanRequired("only a person can decide this", hint="set PARLEY_HUMAN_KEY to that person's key")
        from getpass import getpass

        key = getpass("Your key (it is not shown): ").strip()
        if not key:
            raise Invalid("no key given, no decision was made")
        return key


def _matches(exchange: Exchange, wanted: ExchangeFilter) -> bool:
    """Whether it is to be listed; the agent of the filter names the mailbox here."""
    outcome, conversation = wanted.outcome, wanted.conversation_id
    return outcome in ("", exchange.outcome.value) and conversation in ("", exchange.conversation_id)


def _page(records: Sequence[R], after: str, limit: int) -> list[R]:
    """Return a page as a server does: the records after an id, up to a limit."""
    if limit < 1:
        raise Invalid("--limit must be at least 1")
    return [record for record in records if record.id > after][:limit]
