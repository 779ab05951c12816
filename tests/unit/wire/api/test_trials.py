"""Trials as JSON."""

from __future__ import annotations

import pytest
from msgspec import ValidationError, json

from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Origin, Purpose
from parley.domain.rules.replay import Change
from parley.domain.rules.trial import Trial, run_trial
from parley.wire.api import trials
from parley.wire.api.trials import ExplainIn, ReplayIn
from tests.samples.governed import ALICE, AT, BOB, NOTHING_IN_FORCE, a_rulebook


def test_a_message_is_read_with_everything_that_it_could_say() -> None:
    given = json.decode(
        b'{"sender":"alice","to":"bob","exchange_type":"meeting_scheduling","classification":"public",'
        b'"text":"When?","round":2,"max_rounds":4,"replies":true,"human":true,"data":["restricted"]}',
        type=ExplainIn,
    )

    trial = trials.trial_of(given)

    assert (trial.sender.agent, trial.receiver.agent) == ("alice", "bob")
    assert (trial.purpose, trial.classification) == (Purpose.MEETING_SCHEDULING, Classification.PUBLIC)
    assert (trial.texts, trial.round, trial.max_rounds) == (("When?",), 2, 4)
    assert (trial.initiates, trial.origin, trial.data) == (False, Origin.HUMAN, (Classification.RESTRICTED,))


def test_what_is_left_out_is_not_asked_for() -> None:
    trial = trials.trial_of(ExplainIn("alice", "bob"))

    assert trial == Trial(trial.sender, trial.receiver)
    assert not trial.asks_for_rules


@pytest.mark.parametrize(
    "wrong",
    [
        b'{"sender":"alice"}',
        b'{"sender":"alice","to":"bob","round":0}',
        b'{"sender":"alice","to":"bob","exchange_type":"chat"}',
        b'{"sender":"alice","to":"bob","purpose":"information_query"}',
        b'{"sender":"a/b","to":"bob"}',
    ],
)
def test_a_message_that_could_not_be_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValidationError):
        json.decode(wrong, type=ExplainIn)


@pytest.mark.parametrize("wrong", [b"{}", b'{"documents":{},"limit":10001}', b'{"documents":{},"after":-1}'])
def test_a_replay_is_bounded(wrong: bytes) -> None:
    with pytest.raises(ValidationError):
        json.decode(wrong, type=ReplayIn)


def test_an_explanation_has_the_verdict_and_every_step() -> None:
    found = run_trial(Trial(ALICE, BOB, texts=("We promise it.",), max_rounds=2), a_rulebook())

    shown = trials.explanation_of(found)

    assert (shown["verdict"], shown["code"], shown["detectedKeywords"]) == ("hold", "commitment", ["promise"])
    assert shown["policy_version"] == a_rulebook().label
    assert shown["steps"][0].to_dict() == {
        "check": "sender",
        "value": "alice",
        "source": "directory",
        "found": "engineering/alice.h",
    }
    nothing = trials.explanation_of(run_trial(Trial(ALICE, BOB), NOTHING_IN_FORCE))
    assert (nothing["policy_version"], nothing["code"], nothing["steps"]) == (None, "policy_unavailable", [])


def test_what_a_replay_found_is_counted_by_what_would_be_now() -> None:
    changes = [
        Change("aud_1", AT, "msg_1", "exch_1", "alice", "bob", was, now, "why")
        for was, now in (("allow", "deny"), ("hold", "deny"), ("allow", "hold"), ("deny", "allow"))
    ]

    shown = trials.replay_of(9, 5, "2-x", changes, 17)

    assert (shown["denied"], shown["held"], shown["released"]) == (2, 1, 1)
    assert (shown["messages"], shown["with_content"], shown["next"]) == (9, 5, 17)
    assert shown["changes"][0]["reason"] == "why"
