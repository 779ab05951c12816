"""Exchanges, approvals and suspensions as JSON; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct

from parley.domain.content.commitment import places_of
from parley.domain.content.invisible_characters import hidden_in, made_visible
from parley.domain.content.mixed_scripts import mixed_words_in
from parley.domain.content.text_places import placed_texts
from parley.domain.exchange.approval import NOT_WAITING, Decision, decisions_of
from parley.domain.exchange.exchange import summary_of
from parley.domain.rules.suspension import Stopped
from parley.wire.api.channels import Time
from parley.wire.api.records.record import fill_record
from parley.wire.api.records.rules import (
    Approval,
    ConfusableWord,
    DataShared,
    DataWithheld,
    DetectedKeyword,
    Exchange,
    ExchangeMessage,
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
    # When it is lifted by itself.
    until: Time | None = None


# ---------------------------------------------------------------- what goes out


# ---------------------------------------------------------------- from domain


def exchange_of(stored: StoredExchange, messages: Iterable[object] | None = None) -> Exchange:
    """An exchange; with its messages, also those that were not delivered, where the audit log was asked for them."""
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
        messages=None if messages is None else [fill_record(ExchangeMessage, message) for message in messages],
    )


# What a list without content leaves out.
_CONTENT = (
    *("payload", "metadata", "visible_text", "hidden_characters", "confusable", "detected", "escalation"),
    "closes",
)


def approval_of(
    stored: StoredApproval, standing: DecisionRight = NOT_WAITING, closes: Iterable[str] = (), *, stale: bool = False
) -> Approval:
    """An approval as its approver sees it: nothing that would be sent is hidden from a reader."""
    return _filled(stored, standing, closes, stale=stale, is_summary=False)


def approval_document(approval: Approval, exchange: StoredExchange | None = None) -> dict[str, Any]:
    """An approval as JSON; with its exchange, if there is one."""
    document = approval.to_dict()
    del document["exchange"]
    return document if exchange is None else document | {"exchange": exchange_of(exchange)}


def approval_summary(stored: StoredApproval, standing: DecisionRight, *, stale: bool = False) -> dict[str, Any]:
    """An approval as JSON for lists: what it is about, without the content."""
    document = approval_document(_filled(stored, standing, (), stale=stale, is_summary=True))
    for name in _CONTENT:
        del document[name]
    return document


def _filled(
    stored: StoredApproval, standing: DecisionRight, closes: Iterable[str], *, stale: bool, is_summary: bool
) -> Approval:
    held = stored.draft
    payload, metadata = (held.payload, held.metadata) if held is not None else ("", "")
    content = {
        "payload": msgspec.json.decode(payload) if held is not None else None,
        "metadata": msgspec.json.decode(metadata) if held is not None else None,
    }
    hidden = [*_hidden("payload", payload), *_hidden("metadata", metadata)]
    texts = [] if is_summary else [*placed_texts(content["payload"], "/payload")]
    texts += [] if is_summary else [*placed_texts(content["metadata"], "/metadata")]
    return fill_record(
        Approval,
        stored,
        deciders=standing.deciders,
        barred=standing.barred,
        decisions=() if standing.barred else decisions_of(stored),
        stale=stale,
        closes=[*closes],
        exchange_type=stored.purpose,
        **content,
        message_type=held.pattern if held is not None else None,
        correlation_id=(held.in_reply_to or None) if held is not None else None,
        summary=made_visible(summary_of(content["payload"]) if held is not None else ""),
        bytes=len(payload.encode()),
        hidden=len(hidden),
        visible_text="" if is_summary else made_visible(payload),
        hidden_characters=hidden,
        confusable=[
            fill_record(ConfusableWord, word, where=where) for where, text in texts for word in mixed_words_in(text)
        ],
        detected=[
            fill_record(DetectedKeyword, place, where=where)
            for where, text in texts
            for place in places_of(text, stored.detected_keywords)
        ],
        exchange=None,
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
