"""`injected` is never claimed unless the model answered a request that contained the notice.

The model below is a coding agent that does everything which could mislead: it is killed, interrupted and resumed, its
model fails, its tools run beside each other, its hooks run twice or die half way, its subagents work on their own, and
what wakes it arrives late or never. The events that it fires are all that the rule sees; what its model has answered is
the truth that the rule is compared with.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.mailbox.hook_events import HookEvent, Moment
from parley.domain.mailbox.offers import (
    Offer,
    OfferVerdict,
    decode_offer,
    encode_offer,
    judge_offer,
    make_offer,
    make_wake_offer,
)
from parley.domain.times import stamp
from parley.surfaces.hook.events import read_event
from tests.samples.recorded_agents import load

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
AT = stamp(NOW)
HARNESSES = ("claude", "codex", "gemini")
Rule = Callable[[Offer, HookEvent, datetime], OfferVerdict]


class Ended(Exception):
    """The turn ended without its last event: interrupted, or the process was killed."""


@dataclass
class CodingAgent:
    """One session of a coding agent, with the hooks of Parley in it."""

    dice: random.Random
    harness: str
    rule: Rule = judge_offer
    hears_subagents: bool = False
    calm: bool = False
    pending: dict[int, Offer] = field(default_factory=dict)
    # Notices in the conversation, and those that stand before the next prompt.
    context: set[int] = field(default_factory=set)
    before_prompt: set[int] = field(default_factory=set)
    answered: set[int] = field(default_factory=set)
    claimed: set[int] = field(default_factory=set)
    offered: set[int] = field(default_factory=set)
    turn: str = ""
    numbers: count[int] = field(default_factory=lambda: count(1))

    def chance(self, part: float) -> bool:
        return not self.calm and self.dice.random() < part

    def fire(
        self, moment: Moment, *, offer: bool = True, carried: set[int] | None = None, **fields: object
    ) -> set[int]:
        """An event: each hook judges what was offered before, and may offer anew. What was accepted is returned."""
        turn = "" if self.harness == "gemini" or moment is Moment.START else self.turn
        event = HookEvent(self.harness, moment, "s", turn, fingerprint=f"e{next(self.numbers)}", **fields)  # type: ignore[arg-type]
        accepted: set[int] = set()
        for _ in range(2 if self.chance(0.2) else 1):
            self.judge(event, carried or set())
            if offer and (self.calm or self.dice.random() < 0.6):
                accepted |= self.offer(make_offer(event, "m", AT))
        return accepted

    def judge(self, event: HookEvent, carried: Collection[int] = ()) -> None:
        now = NOW + timedelta(minutes=self.dice.choice([1, 11]) if not self.calm else 1)
        for number, offer in list(self.pending.items()):
            verdict = self.rule(offer, event._replace(carries_notice=number in carried), now)
            if verdict is OfferVerdict.BELONGS:
                self.pending[number] = offer._replace(turn=event.turn)
            elif verdict is not OfferVerdict.WAITS:
                del self.pending[number]
                if verdict is OfferVerdict.SEEN:
                    self.claimed.add(number)

    def offer(self, offer: Offer) -> set[int]:
        """Record, print, confirm; the hook may be killed before each step. A notice that is not whole is dropped."""
        number = next(self.numbers)
        self.pending[number] = offer
        self.offered.add(number)
        if self.chance(0.15):
            return set()
        if self.chance(0.15):
            return {number} if self.chance(0.5) else set()
        self.pending[number] = offer._replace(whole=True)
        return {number}

    def request(self) -> None:
        """Ask the model. What it answers, it answers to everything in the conversation."""
        if self.chance(0.15):
            raise Ended
        self.answered |= self.context

    def maybe_interrupt(self) -> None:
        if self.chance(0.15):
            raise Ended

    def run_tools(self) -> None:
        calls = 1 if self.harness == "claude" else self.dice.randint(1, 3)
        accepted: set[int] = set()
        for _ in range(calls):
            self.maybe_interrupt()
            accepted |= self.fire(Moment.TOOL)
        self.context |= accepted
        if self.chance(0.3):  # a subagent asks the model about something else, and has events of its own
            event = HookEvent(self.harness, self.dice.choice([Moment.TOOL, Moment.STOP]), "s", self.turn)
            if self.hears_subagents:
                self.judge(event)

    def take_turn(self, carried: set[int] | None = None) -> None:
        self.turn = f"t{next(self.numbers)}"
        self.context |= self.before_prompt
        self.before_prompt = set()
        fired = self.fire(Moment.PROMPT, carried=carried)
        self.context |= fired | (carried or set())
        while True:
            self.maybe_interrupt()
            self.request()
            while self.dice.random() < 0.4:
                self.run_tools()
                self.request()
            self.maybe_interrupt()
            accepted = self.fire(Moment.STOP, offer=self.dice.random() < 0.5)
            if not accepted or self.chance(0.3):
                return
            self.maybe_interrupt()
            if self.harness == "gemini":
                accepted |= self.fire(Moment.PROMPT, carried=accepted)
            self.context |= accepted

    def live(self, turns: int) -> None:
        """Start, take turns, be woken, be killed and resumed."""
        self.before_prompt = self.fire(Moment.START)
        if self.chance(0.2):  # cleared or resumed before any prompt
            self.before_prompt = self.fire(Moment.START)
        for _ in range(turns):
            woken: set[int] | None = None
            if self.dice.random() < 0.4:
                woken = self.offer(make_wake_offer("m", AT))
                if self.chance(0.4) or not woken:  # the wake is lost, or comes too late
                    woken = None
            try:
                if woken is not None and self.chance(0.3):
                    self.take_turn()  # the person was faster
                self.take_turn(woken)
            except Ended:
                if self.chance(0.3):  # what was said in the turn is not kept
                    self.context.clear()
                if self.harness == "gemini" and self.chance(0.5):
                    self.fire(Moment.STOP, offer=False, answered=False)
                if self.chance(0.3):
                    self.context.clear()
                    self.before_prompt = self.fire(Moment.START)


@pytest.mark.requirement("D-RECEIPT-TRUTH")
@given(st.randoms(use_true_random=False), st.sampled_from(HARNESSES))
def test_nothing_counts_as_seen_that_no_model_has_answered(dice: random.Random, harness: str) -> None:
    agent = CodingAgent(dice, harness)

    agent.live(turns=4)

    assert agent.claimed <= agent.answered


@pytest.mark.parametrize("harness", HARNESSES)
def test_without_troubles_everything_that_was_answered_counts_as_seen(harness: str) -> None:
    agent = CodingAgent(random.Random(7), harness, calm=True)

    agent.live(turns=6)
    agent.take_turn()

    assert agent.claimed
    assert agent.offered - agent.claimed <= set(agent.pending)
    assert agent.answered - agent.claimed <= set(agent.pending)


def _by_any_tool(offer: Offer, event: HookEvent, now: datetime) -> OfferVerdict:
    return judge_offer(offer, event._replace(harness="claude"), now)


def _half_a_notice(offer: Offer, event: HookEvent, now: datetime) -> OfferVerdict:
    return judge_offer(offer._replace(whole=True), event, now)


def _by_its_own_event(offer: Offer, event: HookEvent, now: datetime) -> OfferVerdict:
    return judge_offer(offer._replace(event=""), event, now)


def _by_any_turn(offer: Offer, event: HookEvent, now: datetime) -> OfferVerdict:
    verdict = judge_offer(offer, event, now)
    belongs = event.moment is Moment.PROMPT and verdict is OfferVerdict.LOST
    return OfferVerdict.BELONGS if belongs else verdict


def _by_any_prompt(offer: Offer, event: HookEvent, now: datetime) -> OfferVerdict:
    return judge_offer(offer, event._replace(carries_notice=True), now)


def _over_a_start(offer: Offer, event: HookEvent, now: datetime) -> OfferVerdict:
    return OfferVerdict.WAITS if event.moment is Moment.START else judge_offer(offer, event, now)


def _by_a_stop_before_its_prompt(offer: Offer, event: HookEvent, now: datetime) -> OfferVerdict:
    return judge_offer(offer._replace(turn=event.turn) if offer.turn == "?" else offer, event, now)


def _by_an_empty_stop(offer: Offer, event: HookEvent, now: datetime) -> OfferVerdict:
    return judge_offer(offer, event._replace(answered=True), now)


@pytest.mark.parametrize(
    "mutant",
    [
        _by_any_tool,
        _half_a_notice,
        _by_its_own_event,
        _by_any_turn,
        _by_any_prompt,
        _over_a_start,
        _by_a_stop_before_its_prompt,
        _by_an_empty_stop,
    ],
)
def test_a_rule_that_takes_less_for_a_proof_is_caught(mutant: Rule) -> None:
    assert any(_is_ahead(seed, mutant) for seed in range(3_000))


def test_a_rule_that_hears_subagents_is_caught() -> None:
    assert any(_is_ahead(seed, judge_offer, hears_subagents=True) for seed in range(3_000))


def _is_ahead(seed: int, rule: Rule, *, hears_subagents: bool = False) -> bool:
    agent = CodingAgent(random.Random(seed), HARNESSES[seed % 3], rule, hears_subagents)
    agent.live(turns=4)
    return not agent.claimed <= agent.answered


@given(
    st.builds(
        Offer,
        file=st.text(),
        moment=st.sampled_from(["start", "wake", "stop"]),
        turn=st.text(st.characters(exclude_characters="\t")),
        event=st.text("abcdef0123456789"),
        at=st.just(AT),
        whole=st.booleans(),
        named=st.booleans(),
    )
)
def test_an_offer_is_read_back_from_its_mark(offer: Offer) -> None:
    assert decode_offer(encode_offer(offer)) == offer


@given(st.text())
def test_what_is_no_mark_is_no_offer(text: str) -> None:
    decode_offer(text)


@pytest.mark.parametrize("harness", HARNESSES)
def test_in_the_recorded_events_of_each_coding_agent_the_notice_at_its_start_is_proved_once(harness: str) -> None:
    documents = load(harness)["hook_events"]
    events = [read_event(json.dumps(document).encode(), harness) for document in documents]
    start, *later = [event for event in events if event is not None]
    offer = make_offer(start, "m", AT)._replace(whole=True)
    proofs = []
    for event in later:
        verdict = judge_offer(offer, event, NOW)
        if verdict is OfferVerdict.BELONGS:
            offer = offer._replace(turn=event.turn)
        elif verdict is not OfferVerdict.WAITS:
            proofs.append((verdict, event.moment))
            break

    # In Claude Code the tools of the first answer prove it, in the others the end of the turn.
    assert proofs == [(OfferVerdict.SEEN, Moment.TOOL if harness == "claude" else Moment.STOP)]
