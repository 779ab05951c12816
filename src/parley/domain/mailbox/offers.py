"""Offers: notices that were handed to a coding agent, and what proves that its model has seen one.

A notice that was printed may never reach a model: the coding agent may be killed, interrupted or fail to reach it.
So an offer counts as seen only by an event that can follow nothing but an answer of the model to a request with it:

- the end of the turn that the notice belongs to (Stop, AfterAgent), if the model had something to say;
- in Claude Code also the next batch of tools of that turn. Not in the others: calls that run beside each other end one
  after the other, without a request between them.

A notice at the start of a session belongs to the turn of the next prompt; one that wakes an idle agent to that of the
prompt that carries it, and other turns may end before. A new start or a new prompt takes back what was not proved.

A notice names at most three messages. Nothing proves that a model has seen one of the others: their offers only serve
to mention them again when the notice was lost.
"""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from datetime import datetime
from enum import Enum
from typing import NamedTuple

from parley.domain.mailbox.hook_events import HookEvent, Moment
from parley.domain.receipts import OFFER_LASTS
from parley.domain.times import from_stamp

# Between the parts of a mark; no name of a file or of an event has it.
_MARK = "\t"
# The first part of a mark, by whether the message is named, and whether the notice is whole.
_FLAGS = {(True, False): "0", (True, True): "1", (False, False): "2", (False, True): "3"}
# The turn of an offer that no prompt has carried yet.
_NO_TURN = "?"
# The moment of a notice that wakes an idle agent: no event of the coding agent.
WAKE = "wake"
# The coding agent that runs one hook for all the tools of an answer.
_BATCHES = "claude"


class Offer(NamedTuple):
    """A message that was mentioned to a session at an event. Whole when all of the notice was printed, and named when
    it has the id of this message.
    """

    file: str
    moment: str
    # "?" until the prompt that it belongs to; "" where turns have no names.
    turn: str
    event: str
    at: str
    whole: bool = False
    named: bool = True


class OfferVerdict(Enum):
    """What an event says about an offer."""

    WAITS = "waits"
    BELONGS = "belongs"
    SEEN = "seen"
    LOST = "lost"


def make_offer(event: HookEvent, file: str, at: str, *, named: bool = True) -> Offer:
    """The offer of a message at an event."""
    turn = _NO_TURN if event.moment is Moment.START else event.turn
    return Offer(file, event.moment.value, turn, event.fingerprint, at, named=named)


def make_wake_offer(file: str, at: str, *, named: bool = True) -> Offer:
    """The offer of a message to an idle agent, which a prompt is to carry."""
    return Offer(file, WAKE, _NO_TURN, "", at, named=named)


def judge_offer(offer: Offer, event: HookEvent, now: datetime) -> OfferVerdict:
    """What a later event of the same session says about an offer; its prompt carries a notice only if that names the
    message of this offer.
    """
    if event.fingerprint and event.fingerprint == offer.event:
        return OfferVerdict.WAITS  # another hook of the same event
    if event.moment in (Moment.START, Moment.END):
        return OfferVerdict.LOST
    if event.moment is Moment.PROMPT:
        return _judge_prompt(offer, event)
    if _proves(offer, event):
        return OfferVerdict.SEEN
    return OfferVerdict.LOST if now - from_stamp(offer.at) >= OFFER_LASTS else OfferVerdict.WAITS


def _judge_prompt(offer: Offer, event: HookEvent) -> OfferVerdict:
    """A prompt begins a turn: it takes up what was said before it, and ends what belonged to the turn before."""
    if offer.turn == _NO_TURN:
        carries = event.carries_notice if offer.moment == WAKE else True
        return OfferVerdict.BELONGS if carries else OfferVerdict.WAITS
    if event.turn and event.turn == offer.turn:
        return OfferVerdict.WAITS
    # Gemini CLI goes on at a stop with a prompt of its own.
    goes_on = offer.moment == Moment.STOP and event.carries_notice
    return OfferVerdict.BELONGS if goes_on else OfferVerdict.LOST


def _proves(offer: Offer, event: HookEvent) -> bool:
    """Whether the model has answered a request with the notice before this event."""
    if not offer.whole or offer.turn != event.turn:
        return False
    if event.moment is Moment.TOOL:
        return event.harness == _BATCHES
    return event.moment is Moment.STOP and event.answered


def encode_offer(offer: Offer) -> str:
    """An offer as the mark that the ledger keeps."""
    fields = (_FLAGS[offer.named, offer.whole], offer.at, offer.event, offer.moment, offer.turn, offer.file)
    return _MARK.join(fields)


def decode_offer(mark: str) -> Offer | None:
    """The offer of a mark; None for what is none."""
    parts = mark.split(_MARK, 5)
    if len(parts) != 6:
        return None
    flag, at, event, moment, turn, file = parts
    try:
        from_stamp(at)
    except ValueError:
        return None
    return Offer(file, moment, turn, event, at, whole=flag in ("1", "3"), named=flag in ("0", "1"))
