"""Exchanges, approvals and suspensions as JSON; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct

from parley.domain.content.invisible_characters import hidden_in, made_visible
from parley.domain.exchange.approval import NOT_WAITING, Decision
from parley.domain.rules.suspension import Stopped
from parley.wire.api.records.record import fill_record
from parley.wire.api.records.rules import (
    Approval,
    DataShared,
    DataWithheld,
    Exchange,
    HeldMessage,
    HiddenCharacter,
    Suspension,
    Turn,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parley.domain.exchange.approval import Approval as StoredApproval
    from parley.domain.exchange.approval import DecisionRight
    from parley.domain.exchange.exchange import Exchange as StoredExchange
    from parley.domain.rules.suspension import Suspension as StoredSuspension

Note = Annotated[str, Meta(max_length=2000)]


# ---------------------------------------------------------------- what comes in


class CloseIn(Struct, forbid_unknown_fields=True):
    """The reason for closing an exchange."""

    reason: Note = ""


class DecisionIn(Struct, forbid_unknown_fields=True):
    """A person's decision. `digest` is that of the reviewed content; `answer` is sent in place of the held message."""

    decision: Decision
    digest: Annotated[str, Meta(max_length=128)] = ""
    note: Note = ""
    answer: dict[str, Any] | Annotated[str, Meta(max_length=64 * 1024)] | None = None


class SuspensionIn(Struct, forbid_unknown_fields=True):
    """What to suspend: an agent, a pair (two names separated by a comma), an org unit, or the tenant."""

    what: Stopped
    name: Annotated[str, Meta(max_length=160)] = ""
    reason: Note = ""


# ---------------------------------------------------------------- what goes out


# ---------------------------------------------------------------- from domain


def exchange_of(stored: StoredExchange) -> Exchange:
    waits_for_limit = bool(stored.limit_approval) and not stored.over
    return fill_record(
        Exchange,
        stored,
        exchange_id=stored.id,
        transcript=[fill_record(Turn, turn) for turn in stored.transcript],
        exchange_type=stored.purpose,
        pending_approvals=[*stored.holds, *([stored.limit_approval] if waits_for_limit else [])],
        data_shared=[fill_record(DataShared, data) for data in stored.data_shared],
        data_withheld=[fill_record(DataWithheld, data) for data in stored.data_withheld],
    )


def approval_of(stored: StoredApproval, standing: DecisionRight = NOT_WAITING, closes: Iterable[str] = ()) -> Approval:
    """An approval as its approver sees it: nothing that would be sent is hidden from a reader."""
    held = stored.draft
    payload, metadata = (held.payload, held.metadata) if held is not None else ("", "")
    return fill_record(
        Approval,
        stored,
        deciders=standing.deciders,
        barred=standing.barred,
        closes=[*closes],
        exchange_type=stored.purpose,
        payload=msgspec.json.decode(payload) if held is not None else None,
        metadata=msgspec.json.decode(metadata) if held is not None else None,
        message_type=held.pattern if held is not None else None,
        correlation_id=(held.in_reply_to or None) if held is not None else None,
        visible_text=made_visible(payload),
        hidden_characters=[*_hidden("payload", payload), *_hidden("metadata", metadata)],
    )


def _hidden(where: str, text: str) -> list[HiddenCharacter]:
    return [fill_record(HiddenCharacter, hidden, where=where) for hidden in hidden_in(text)]


def held_of(approval: StoredApproval, deciders: tuple[str, ...]) -> HeldMessage:
    """The answer to a message that is held, with who may decide about it."""
    escalation = UNSET if approval.escalation is None else approval.escalation
    return fill_record(
        HeldMessage,
        approval,
        status="held",
        approval=approval.id,
        requires_human=True,
        deciders=deciders,
        escalation=escalation,
    )


def suspension_of(stored: StoredSuspension) -> Suspension:
    return fill_record(Suspension, stored)


def answer_payload(answer: dict[str, Any] | str | None) -> bytes:
    """What a person says, as a payload; empty when it says nothing."""
    if not answer:
        return b""
    return msgspec.json.encode({"text": answer} if isinstance(answer, str) else answer)
