"""Approvals and exchanges of a mailbox, answered as a server would: so the commands need not know which it is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from parley.app.mailbox.rules.approvals import Deciding
from parley.cli.command import kernel_of, settings_of
from parley.domain.errors.errors import Invalid, NotFound
from parley.domain.errors.rules import HumanRequired
from parley.domain.exchange.approval import ApprovalStatus, Decision
from parley.wire.api.approvals import approval_of, exchange_of
from parley.wiring import drive

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from parley.domain.exchange.approval import Approval
    from parley.domain.exchange.exchange import Exchange


class MailboxAnswers:
    """The ledger of one mailbox behind the paths of a server."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._kernel = kernel_of(args)

    def get(self, *path: str, query: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401  # as a server's
        asked = query or {}
        if path == ("approvals",):
            status = ApprovalStatus(asked["status"]) if asked.get("status") else None
            found = drive(self._kernel.approvals(status))
            return [self._shown(one) for one in _page(found, asked)]
        if path[0] == "approvals":
            return self._shown(drive(self._kernel.approval(path[1])))
        if path == ("exchanges",):
            exchanges = [one for one in drive(self._kernel.exchanges()) if _fits(one, asked)]
            return [exchange_of(exchange).to_dict() for exchange in _page(exchanges, asked)]
        if path[0] == "exchanges":
            return exchange_of(drive(self._kernel.exchange(path[1]))).to_dict()
        raise NotFound("/".join(path))

    def post(self, *path: str, body: Any = None) -> Any:  # noqa: ANN401  # as a server's
        if path[0] == "approvals":
            deciding = Deciding(
                Decision(body["decision"]), self._key(), body["digest"], body["note"], body.get("answer", "")
            )
            return self._shown(drive(self._kernel.decide(path[1], deciding)))
        if path[0] == "exchanges":
            key = self._known_key()
            return exchange_of(drive(self._kernel.close_exchange(path[1], body["reason"], key))).to_dict()
        raise NotFound("/".join(path))

    def _shown(self, found: Approval) -> dict[str, Any]:
        return approval_of(found, drive(self._kernel.standing(found, self._known_key()))).to_dict()

    def _known_key(self) -> str:
        """The person's key, where one is given: as an option, or in the environment."""
        return str(self._args.key or settings_of(self._args).human_key)

    def _key(self) -> str:
        """The person's key; asked for on a terminal when none is given."""
        known = self._known_key()
        if known:
            return known
        if sys.stdin is None or not sys.stdin.isatty():
            raise HumanRequired("only a person decides this", hint="set PARLEY_HUMAN_KEY to that person's own key")
        from getpass import getpass

        given = getpass("Your key (it is not shown): ").strip()
        if not given:
            raise Invalid("nothing was decided: there is no key")
        return given


def _fits(one: Exchange, asked: Mapping[str, Any]) -> bool:
    outcome, conversation = asked.get("outcome"), asked.get("conversation_id")
    return (not outcome or one.outcome.value == outcome) and (not conversation or one.conversation_id == conversation)


def _page(found: list[Any], asked: Mapping[str, Any]) -> list[Any]:
    """As a server pages: what comes after one, and no more than asked for."""
    after, limit = str(asked.get("after") or ""), int(asked.get("limit") or 100)
    if limit < 1:
        raise Invalid("--limit is at least 1")
    shown: list[Approval | Exchange] = [one for one in found if one.id > after]
    return shown[:limit]
