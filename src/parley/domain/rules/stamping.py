"""Check the claims of a sender: an envelope is stamped from the credential, never trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from parley.domain.content.envelope import Origin
from parley.domain.errors.errors import Problem
from parley.domain.errors.rules import (
    ClassificationExceeded,
    CommitForbidden,
    EnvelopeInvalid,
    ExpiryFixed,
    IdentityMismatch,
    MaxRoundsFixed,
    MessageTypeForbidden,
    RoundMismatch,
)
from parley.domain.times import parse_time, stamp

if TYPE_CHECKING:
    from parley.domain.agents.party import Attributes
    from parley.domain.content.envelope import Envelope, Source, Wishes
    from parley.domain.exchange.exchange import Exchange

_MILLISECONDS = 23


def check_claims(
    claims: Envelope, source: Source, origin: Origin, attributes: Attributes, exchange: Exchange | None
) -> None:
    """Refuse an envelope that differs from the credential, the directory or the exchange."""
    for field, claimed, actual in zip(source._fields, claims.source_agent, source, strict=True):
        if claimed != actual:
            raise IdentityMismatch(f"source_agent.{field} is not that of this key", facts={"field": field})
    if claims.message_type is not origin:
        raise MessageTypeForbidden(f"this key sends {origin.value} messages, not {claims.message_type.value}")
    if claims.can_commit and origin is Origin.AGENT:
        raise CommitForbidden("capabilities.can_commit is always false in an agent's message")
    most = attributes.max_classification
    if any(level.rank > most.rank for level in claims.can_share):
        raise ClassificationExceeded(f"capabilities.can_share goes beyond {most.value}", facts={"maximum": most.value})
    expected = exchange.current_round + 1 if exchange else 1
    if claims.exchange_round != expected:
        raise RoundMismatch(f"the round that comes next is {expected}", facts={"exchange_round": expected})


def check_fixed(wishes: Wishes, exchange: Exchange) -> None:
    """Refuse to change what was fixed when the exchange began."""
    claims = wishes.envelope
    for rounds in (wishes.max_rounds, claims.max_rounds if claims else None):
        if rounds is not None and rounds != exchange.max_rounds:
            raise MaxRoundsFixed(
                f"max_rounds is {exchange.max_rounds} since the exchange began",
                facts={"max_rounds": exchange.max_rounds},
            )
    for end in (wishes.expires_at, stamp(parse_time(claims.expires_at)) if claims else ""):
        if end and end[:_MILLISECONDS] != exchange.expires_at[:_MILLISECONDS]:
            raise ExpiryFixed(f"expires_at is {exchange.expires_at} since the exchange began")
    for conversation in (wishes.conversation_id, claims.conversation_id if claims else ""):
        if conversation and conversation != exchange.conversation_id:
            _wrong("conversation_id", f"what it answers belongs to {exchange.conversation_id}")
    if wishes.purpose is not None and wishes.purpose is not exchange.purpose:
        _wrong("exchange_type", f"the exchange is a {exchange.purpose.value}")
    if claims is not None and claims.reply_policy is not exchange.reply_policy:
        _wrong("reply_policy", f"the exchange is {exchange.reply_policy.value}")
    if claims is not None and claims.requires_commitment is not exchange.requires_commitment:
        _wrong("requires_commitment", "is not that of the exchange")


def _wrong(field: str, detail: str) -> NoReturn:
    raise EnvelopeInvalid.because([Problem("invalid", field, detail)])
