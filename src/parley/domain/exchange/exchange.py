"""An exchange: a conversation of two parties under rules. It counts rounds, remembers what was said, and ends.

                 a message is held                 the person approves, and nothing else is held
    in_progress ──────────────────> escalated ─────────────────────────────────────> in_progress
        │                              │ ▲ │
        │        the round limit ──────┼─┘ ├──> denied      rejected, or nobody decided in time
        │                              │   └──> resolved    answered or closed by a person
        ├──> resolved   closed, or no reply is needed
        ├──> denied     by policy or classification
        └──> expired    at its `expires_at`, also from escalated

`resolved`, `denied` and `expired` are final. A round is taken by what is accepted, and by nothing else. A person may
reply where no reply is needed: that takes a round, and the exchange stays resolved.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from parley.domain.agents.party import pair_name
from parley.domain.content.envelope import Purpose, ReplyPolicy
from parley.domain.directory.callers import EVERYONE, ROLE_PREFIXES
from parley.domain.errors.rules import ExchangeClosed, ExchangeExpired, NoReplyNeeded
from parley.domain.record import Record, changed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from parley.domain.content.classification import DataItem, Withheld

SUMMARY_CHARS = 200


class Outcome(StrEnum):
    IN_PROGRESS = "in_progress"
    RESOLVED = "resolved"
    ESCALATED = "escalated"
    DENIED = "denied"
    EXPIRED = "expired"


FINAL = frozenset({Outcome.RESOLVED, Outcome.DENIED, Outcome.EXPIRED})


@dataclass(frozen=True, slots=True)
class DataShared:
    """Data that a message contained."""

    source: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DataWithheld:
    """Data that was kept out of a message, and why; never what it says."""

    reason: str
    description: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One round of the transcript."""

    round: int
    sender: str
    summary: str
    shared: tuple[DataShared, ...] = ()
    withheld: tuple[DataWithheld, ...] = ()
    # The person who wrote it in place of the sender; empty when the sender did.
    person: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange(Record):
    """One conversation between an initiator and whom it addressed, under rules that were fixed when it began."""

    kind: ClassVar[str] = "exchange"

    conversation_id: str
    initiator: str
    # An agent, role:x, or * for everyone.
    responder: str
    channel_id: str = ""
    purpose: Purpose
    reply_policy: ReplyPolicy
    requires_commitment: bool
    max_rounds: int
    current_round: int = 0
    transcript: tuple[Turn, ...] = ()
    outcome: Outcome = Outcome.IN_PROGRESS
    # Held messages that nobody has decided about yet.
    holds: tuple[str, ...] = ()
    # The one escalation of its round limit.
    limit_approval: str = ""
    # How many exchanges the last message is away from where it all began.
    hops: int = 1
    started_at: str
    expires_at: str
    ended_at: str = ""
    ended_by: str = ""
    reason: str = ""
    # What whoever closed it wrote down. It is for its own side: to the other one it would be one more message.
    note: str = ""
    policy_version: str = ""
    # Data for which a message was denied: that message is no turn, and only its sender's side knows of it.
    denied_by: str = ""
    denied_data: tuple[DataWithheld, ...] = ()
    # One that was denied before anything was said leaves its conversation free.
    reserved: bool = True

    @property
    def parent(self) -> str:
        return self.conversation_id

    @property
    def name(self) -> str:
        return pair_name(self.initiator, self.responder) if self.reserved else ""

    @property
    def due(self) -> str:
        return "" if self.outcome in FINAL else self.expires_at

    @property
    def over(self) -> bool:
        return self.outcome in FINAL

    @property
    def data_shared(self) -> tuple[DataShared, ...]:
        return tuple([data for turn in self.transcript for data in turn.shared])

    @property
    def data_withheld(self) -> tuple[DataWithheld, ...]:
        return (*[data for turn in self.transcript for data in turn.withheld], *self.denied_data)

    def includes(self, agent: str) -> bool:
        return agent in (self.initiator, self.responder)


def conversation_of(exchange_id: str) -> str:
    """The name of the conversation of an exchange whose initiator gave it none."""
    return f"conv{exchange_id.removeprefix('exch')}"


def chain_length(mine: Exchange | None, others: Collection[Exchange], sender: str) -> int:
    """How many exchanges a message is away from where its conversation began.

    Going to and fro between two is counted by rounds. Here counts what one of them carries on to a third: it follows
    from what was said to the sender by somebody else, whatever the sender replied, so a circle of agents counts on.
    """
    hops = mine.hops if mine is not None else 1
    if not others:
        return hops
    heard = [exchange.hops + 1 for exchange in others if any(turn.sender != sender for turn in exchange.transcript)]
    return max([hops, *heard])


def heard_by(exchange: Exchange, agents: Iterable[str]) -> Exchange:
    """The exchange as these parties may know it. What the holders of a role answer is for the one who asked alone."""
    mine = frozenset(agents)
    if exchange.denied_data and exchange.denied_by not in mine:
        exchange = replace(exchange, denied_data=())
    if not is_group(exchange.responder) or exchange.initiator in mine:
        return exchange
    return replace(exchange, transcript=tuple([turn for turn in exchange.transcript if turn.sender in mine]))


def with_note(exchange: Exchange) -> Exchange:
    """For the side that closed it: in its own words."""
    return replace(exchange, reason=exchange.note) if exchange.note else exchange


def is_group(address: str) -> bool:
    """Whether this is not one agent: what is said to a role or to everyone reaches several."""
    return address == EVERYONE or address.startswith(ROLE_PREFIXES)


def overlaps(mine: Exchange, other: Exchange) -> bool:
    """Whether two exchanges of a conversation may reach the same two agents, so that one goes on with the other."""
    same = mine.conversation_id == other.conversation_id and mine.id != other.id
    return same and (is_group(mine.responder) or is_group(other.responder))


def caught_up(mine: Exchange, others: Collection[Exchange]) -> Exchange:
    """The exchange with the rounds that were taken by another address: by a role, or everyone, nobody gets more."""
    if not others:
        return mine
    used = max([other.current_round for other in others if overlaps(mine, other)], default=0)
    return mine if used <= mine.current_round else replace(mine, current_round=used)


# What differs between two exchanges whose next messages are decided alike: their names, their times and what was said.
_OWN_FIELDS = {"id", "tenant_id", "version", "conversation_id", "transcript", "started_at", "expires_at"}


@cache
def _shape() -> Callable[[Exchange], tuple[Any, ...]]:
    return attrgetter(*[field.name for field in fields(Exchange) if field.name not in _OWN_FIELDS])


def shape_of(exchange: Exchange) -> tuple[Any, ...]:
    """All that a decision about the next message depends on, beside whether the exchange has expired.

    Of its messages that is who took which round, and never what they say.
    """
    turns = [(turn.round, turn.sender, turn.shared, turn.withheld, turn.person) for turn in exchange.transcript]
    return (*_shape()(exchange), *turns)


def check_open(exchange: Exchange, sender: str, now: str, *, human: bool = False) -> None:
    """Refuse a message in an exchange that is over. A person may still reply where no reply was needed."""
    replies = _needs_no_reply(exchange) and any(turn.sender != sender for turn in exchange.transcript)
    goes_on = not exchange.over or (replies and human)
    if exchange.outcome is Outcome.EXPIRED or (goes_on and exchange.expires_at <= now):
        raise ExchangeExpired(f"the exchange expired at {exchange.expires_at}", facts=_where(exchange))
    if goes_on:
        return
    if replies and sender != exchange.initiator:
        raise NoReplyNeeded("no reply is needed to this message", facts=_where(exchange))
    raise ExchangeClosed(f"the exchange is {exchange.outcome.value}", facts=_where(exchange))


def _needs_no_reply(exchange: Exchange) -> bool:
    """Whether it was over with its first delivery."""
    return exchange.reply_policy is ReplyPolicy.NO_REPLY and exchange.outcome is Outcome.RESOLVED


def accepted(exchange: Exchange, sender: str, summary: str, at: str, hops: int) -> Exchange:
    """The exchange with one more message in it."""
    number = exchange.current_round + 1
    updated = changed(
        exchange, current_round=number, transcript=_with_turn(exchange, number, sender, summary), hops=hops
    )
    if updated.reply_policy is ReplyPolicy.NO_REPLY and not updated.over:
        return ended(updated, Outcome.RESOLVED, at, sender, "no reply is needed")
    return updated


def accepted_part(exchange: Exchange, sender: str, summary: str, hops: int) -> Exchange:
    """The exchange with a partial answer in it: it belongs to the round of the answer, which only the answer takes."""
    return changed(exchange, transcript=_with_turn(exchange, exchange.current_round + 1, sender, summary), hops=hops)


def _with_turn(exchange: Exchange, number: int, sender: str, summary: str) -> tuple[Turn, ...]:
    """The transcript with one more message. The last message of a round stands for its partial answers, too."""
    last = exchange.transcript[-1] if exchange.transcript else None
    if last is None or (last.round, last.sender) != (number, sender):
        return (*exchange.transcript, Turn(number, sender, summary))
    return (*exchange.transcript[:-1], replace(last, summary=summary))


def with_data(exchange: Exchange, shared: tuple[DataItem, ...], withheld: tuple[Withheld, ...]) -> Exchange:
    """The exchange with the data of its last message."""
    if not exchange.transcript or not (shared or withheld):
        return exchange
    last = exchange.transcript[-1]
    last = replace(
        last,
        # What partial answers of the same round shared stays.
        shared=tuple(dict.fromkeys((*last.shared, *_shared(shared)))),
        withheld=tuple(dict.fromkeys((*last.withheld, *_withheld(withheld)))),
    )
    return replace(exchange, transcript=(*exchange.transcript[:-1], last))


def with_person(exchange: Exchange, number: int, sender: str, person: str) -> Exchange:
    """The exchange whose message of this round and sender was written by a person in the sender's place."""
    turns = [
        replace(turn, person=person) if (turn.round, turn.sender) == (number, sender) else turn
        for turn in exchange.transcript
    ]
    return replace(exchange, transcript=tuple(turns))


def with_denied_data(exchange: Exchange, sender: str, withheld: tuple[Withheld, ...]) -> Exchange:
    """The exchange with the data for which a message of this sender was denied."""
    return replace(exchange, denied_by=sender, denied_data=_withheld(withheld)) if withheld else exchange


def _shared(items: Iterable[DataItem]) -> tuple[DataShared, ...]:
    return tuple([DataShared(item.source, item.fields) for item in items])


def _withheld(items: Iterable[Withheld]) -> tuple[DataWithheld, ...]:
    return tuple([DataWithheld(*item) for item in items])


def seen_by_side(exchange: Exchange, holds: Iterable[str]) -> Exchange:
    """The exchange and its outcome as one side may see them: `holds` are the approvals of that side."""
    if exchange.outcome is not Outcome.ESCALATED:
        return exchange
    mine = frozenset(holds)
    own = tuple([hold for hold in exchange.holds if hold in mine])
    limit = exchange.limit_approval if exchange.limit_approval in mine else ""
    outcome = Outcome.ESCALATED if own or limit else Outcome.IN_PROGRESS
    return replace(exchange, holds=own, limit_approval=limit, outcome=outcome)


def escalated(exchange: Exchange, approval_id: str, *, limit: bool = False) -> Exchange:
    """The exchange waits for a person: about one message, or about its limit. One that is over stays so."""
    outcome = exchange.outcome if exchange.over else Outcome.ESCALATED
    if limit:
        return replace(exchange, outcome=outcome, limit_approval=approval_id)
    return replace(exchange, outcome=outcome, holds=(*exchange.holds, approval_id))


def released(exchange: Exchange, approval_id: str) -> Exchange:
    """A held message was decided about; the exchange goes on when nothing else waits."""
    holds = tuple(hold for hold in exchange.holds if hold != approval_id)
    waits = holds or exchange.limit_approval
    back = exchange.outcome is Outcome.ESCALATED and not waits
    return replace(exchange, holds=holds, outcome=Outcome.IN_PROGRESS if back else exchange.outcome)


def ended(exchange: Exchange, outcome: Outcome, at: str, by: str, reason: str) -> Exchange:
    """The exchange with its final outcome; there is only one."""
    if exchange.over:
        raise ExchangeClosed(f"the exchange is {exchange.outcome.value}", facts=_where(exchange))
    return replace(exchange, outcome=outcome, holds=(), ended_at=at, ended_by=by, reason=reason)


def escalation(exchange: Exchange, sender: str, summary: str) -> dict[str, Any]:
    """The payload for the person who has to look at an exchange that reached its limit; exactly these six keys."""
    number = exchange.current_round + 1
    turns = (*heard_by(exchange, (sender,)).transcript, Turn(number, sender, summary))
    return {
        "exchangeId": exchange.id,
        "conversationId": exchange.conversation_id,
        "currentRound": number,
        "maxRounds": exchange.max_rounds,
        "conversationSummary": "\n".join(f"Round {turn.round} ({turn.sender}): {turn.summary}" for turn in turns),
        "reason": f"Exchange reached maximum round limit ({exchange.max_rounds}). Human review required.",
    }


# What a body most likely says in one line, first come first.
_TELLING = ("summary", "text", "message", "question", "answer", "subject", "title", "content", "body")


# People read a message as the JSON that it is, not as Python.
_JSON_WORDS = {None: "null", True: "true", False: "false"}


def summary_of(body: object) -> str:
    """A body in one line of at most 200 characters; what would break the line, or hide, is spelled out."""
    text = body if isinstance(body, str) else ""
    if isinstance(body, dict):
        text = _telling_text(body) or ", ".join(f"{key}: {_brief(value)}" for key, value in body.items())
    line = text[: SUMMARY_CHARS * 2] if text.isascii() and text.isprintable() else _visible(text[: SUMMARY_CHARS * 2])
    return line if len(line) <= SUMMARY_CHARS else line[: SUMMARY_CHARS - 1] + "…"


def _telling_text(body: dict[str, Any]) -> str:
    for key in _TELLING:
        text = body.get(key)
        if isinstance(text, str) and text:
            return text
    return ""


def _brief(value: object) -> str:
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    if isinstance(value, list):
        return f"[{len(value)}]"
    if value is None or isinstance(value, bool):
        return _JSON_WORDS[value]
    return str(value)


def _visible(text: str) -> str:
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def _where(exchange: Exchange) -> dict[str, object]:
    return {"exchange_id": exchange.id, "conversation_id": exchange.conversation_id, "outcome": exchange.outcome.value}
