"""How far a message has come at a recipient, as its sender may know it.

queued ──offer──> offered ──evidence──> injected ──next, read──> acknowledged ──reply, done──> acted
  ^                  │ no evidence                                    │ lease over, released
  └──────────────────┴────────────────────────────────────────────────┘    beside it: dead, refused, expired

A state is never ahead of the truth: what is not proved has not happened. A step that a crash swallowed leaves the
state behind the truth until a later step says more.
"""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable

# An offer that nothing has followed by then is taken for lost.
OFFER_LASTS = timedelta(minutes=10)
# Why an offer is taken back.
SESSION_ENDED = "session ended"
NOT_ANSWERED = "no answer of the model"


class ReceiptState(StrEnum):
    """Where a message stands at one recipient."""

    QUEUED = "queued"
    OFFERED = "offered"
    INJECTED = "injected"
    ACKNOWLEDGED = "acknowledged"
    ACTED = "acted"
    # The recipient put it aside: it cannot be read, or was claimed too often.
    DEAD = "dead"
    # It never reached the recipient.
    REFUSED = "refused"
    EXPIRED = "expired"


# The states that follow each other, and how far each is.
_ORDER = (
    ReceiptState.QUEUED,
    ReceiptState.OFFERED,
    ReceiptState.INJECTED,
    ReceiptState.ACKNOWLEDGED,
    ReceiptState.ACTED,
)
# After these nothing more is to be expected.
ENDED = frozenset({ReceiptState.ACTED, ReceiptState.DEAD, ReceiptState.REFUSED, ReceiptState.EXPIRED})
_SHOWN_FIRST = (
    ReceiptState.REFUSED,
    ReceiptState.DEAD,
    ReceiptState.EXPIRED,
    ReceiptState.QUEUED,
    ReceiptState.OFFERED,
    ReceiptState.INJECTED,
    ReceiptState.ACKNOWLEDGED,
    ReceiptState.ACTED,
)
_TAKES_BACK_OFFERS = frozenset({SESSION_ENDED, NOT_ANSWERED})


class ReceiptStep(NamedTuple):
    """One transition: when, in which session, and what it is known by. `until` is the end of a claim."""

    state: ReceiptState
    at: str
    session: str = ""
    evidence: str = ""
    until: str = ""


class DeliveryReceipt(NamedTuple):
    """How far a message has come at one recipient, with the steps that led there, oldest first."""

    recipient: str
    state: ReceiptState
    steps: tuple[ReceiptStep, ...] = ()
    note: str = ""

    @property
    def last(self) -> ReceiptStep | None:
        """The step that the state rests on; None while nothing is known."""
        return next((step for step in reversed(self.steps) if step.state is self.state), None)

    def has_reached(self, state: ReceiptState) -> bool:
        """Whether the message has come as far as a state at some time, even if it was given back since."""
        reached = [self.state, *(step.state for step in self.steps)]
        return any(_is_as_far_as(own_state, state) for own_state in reached)


class MessageStatus(NamedTuple):
    """How far a message has come at each of its recipients."""

    id: str
    receipts: tuple[DeliveryReceipt, ...]

    @property
    def state(self) -> ReceiptState:
        """The state of the recipient that is least far; one that has ended early comes first."""
        return least(receipt.state for receipt in self.receipts)

    def has_reached(self, state: ReceiptState) -> bool:
        """Whether every recipient has come as far as a state."""
        return all(receipt.has_reached(state) for receipt in self.receipts)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is to be expected of any recipient."""
        return all(receipt.state in ENDED for receipt in self.receipts)


MessageStatus.__module__ = "parley"
DeliveryReceipt.__module__ = "parley"
ReceiptStep.__module__ = "parley"
ReceiptState.__module__ = "parley"


def least(states: "Iterable[ReceiptState]") -> ReceiptState:
    """The state to show for several recipients: what went wrong first, else the one that is least far."""
    return min(states, key=_SHOWN_FIRST.index, default=ReceiptState.QUEUED)


def _is_as_far_as(state: ReceiptState, wanted: ReceiptState) -> bool:
    return state in _ORDER and wanted in _ORDER and _ORDER.index(state) >= _ORDER.index(wanted)


def state_after(steps: "Iterable[ReceiptStep]", now: datetime) -> ReceiptState:
    """The state that steps lead to, oldest first, at this moment.

    Sessions are told apart: an offer that is taken back in one takes nothing back in another. What a model has seen it
    has seen; what it claimed and gave back waits again.
    """
    offers: dict[str, ReceiptStep] = {}
    claim: ReceiptStep | None = None
    end: ReceiptState | None = None
    for step in steps:
        if step.state in (ReceiptState.ACTED, ReceiptState.DEAD):
            end = step.state
        elif step.state is ReceiptState.ACKNOWLEDGED:
            claim, end = step, None
            offers.clear()
        elif step.state is ReceiptState.INJECTED or (
            step.state is ReceiptState.OFFERED and not _is_injected(offers.get(step.session))
        ):
            offers[step.session] = step
        elif step.state is ReceiptState.QUEUED and step.evidence in _TAKES_BACK_OFFERS:
            if not _is_injected(offers.get(step.session)):
                offers.pop(step.session, None)
        elif step.state is ReceiptState.QUEUED:
            claim, end = None, None
    if end is not None:
        return end
    if claim is not None and (not claim.until or stamp(now) < claim.until):
        return ReceiptState.ACKNOWLEDGED
    if any(_is_injected(offer) for offer in offers.values()):
        return ReceiptState.INJECTED
    is_offered = any(now - from_stamp(offer.at) < OFFER_LASTS for offer in offers.values())
    return ReceiptState.OFFERED if is_offered else ReceiptState.QUEUED


def _is_injected(step: ReceiptStep | None) -> bool:
    return step is not None and step.state is ReceiptState.INJECTED
