"""Rules in Rego: they only tighten, they answer or nothing is sent, and whoever breaks them is told where."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from parley.adapters.outside import rego
from parley.adapters.outside.rego import SAMPLE, RegoAnswer, RegoRules, input_of
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Wishes
from parley.domain.errors.errors import BadConfig
from parley.domain.errors.rules import PolicyUnavailable
from parley.domain.exchange.approval import Cause
from parley.domain.exchange.exchange import Outcome
from parley.domain.rules.judge import Allow, Deny, Hold
from parley.domain.rules.policy import CrossOrg
from parley.domain.rules.ruling import Proposal, Ruling, rule
from tests.rigs.log_records import logged_by
from tests.samples.governed import BOB, a_party, a_proposal, a_rulebook, an_approval, an_exchange

pytest.importorskip("regopy")

HEAD = "package parley\nimport rego.v1\n"
SECRET = HEAD + 'deny contains "restricted stays here" if input.level == "restricted"\n'
# About a second of work on any machine, many times over.
ENDLESS = HEAD + (
    'deny contains "a" if { input.round > 1; count([1 | numbers.range(1, 3000)[_]; numbers.range(1, 3000)[_]]) > 0 }\n'
)
SALES = a_party("mia", org_unit="sales")


class Uptime:
    """Time passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


Started = Callable[..., RegoRules]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """Rules from a text, in a file of their own."""
    made: list[RegoRules] = []

    def start(text: str = SECRET, **more: Any) -> RegoRules:  # noqa: ANN401
        file = tmp_path / "acme.rego"
        file.write_text(text)
        rules = RegoRules(str(file), more.pop("monotonic", Uptime()), **more)
        rules.start()
        made.append(rules)
        return rules

    yield start
    for one in made:
        one.close()


def ruled(**changes: Any) -> tuple[Proposal, Ruling]:  # noqa: ANN401
    proposal = a_proposal(**changes)
    return proposal, rule(proposal, a_rulebook())


def after(rules: RegoRules, proposal: Proposal, ruling: Ruling) -> Ruling:
    return asyncio.run(rules.tighten(proposal, ruling))


def secret(**changes: Any) -> tuple[Proposal, Ruling]:  # noqa: ANN401
    """A restricted message between two who may know it: we allow it."""
    sender, receiver = (a_party(one, max_classification=Classification.RESTRICTED) for one in ("alice", "bob"))
    wishes = Wishes(classification=Classification.RESTRICTED)
    found = ruled(sender=sender, receivers=(receiver,), wishes=wishes, **changes)
    assert isinstance(found[1].verdict, Allow)
    return found


# ---------------------------------------------------------------- only stricter


def test_what_the_rules_do_not_mind_stays_as_it_was_ruled(started: Started) -> None:
    rules = started()
    proposal, ruling = ruled()

    assert after(rules, proposal, ruling) == ruling._replace(rules=rules.label)


def test_what_was_allowed_is_denied_and_its_exchange_with_it(started: Started) -> None:
    proposal, ruling = secret()

    found = after(started(), proposal, ruling)

    assert isinstance(found.verdict, Deny)
    assert (found.verdict.error.code, found.verdict.error.message) == ("policy_denied", "restricted stays here")
    assert (found.exchange.outcome, found.exchange.current_round) == (Outcome.DENIED, 0)
    assert (found.receivers, found.excluded, found.tightened) == ((), (("bob", "policy_denied"),), True)


def test_what_was_allowed_is_held_and_takes_no_round(started: Started) -> None:
    rules = started(HEAD + 'hold contains "a person looks" if input.purpose == "information_query"\n')
    proposal, ruling = ruled()

    found = after(rules, proposal, ruling)

    assert found.verdict == Hold(Cause.RULE, "a person looks")
    assert (found.exchange.outcome, found.exchange.holds) == (Outcome.ESCALATED, ("appr_new",))
    assert (found.exchange.current_round, found.receivers, found.tightened) == (0, (BOB,), True)


def test_what_was_held_is_denied_and_never_held_twice(started: Started) -> None:
    both = HEAD + 'deny contains "no" if input.verdict == "hold"\n' + 'hold contains "look" if input.round == 1\n'
    proposal, ruling = ruled(body={"text": "We promise it."})
    assert isinstance(ruling.verdict, Hold)

    found = after(started(both), proposal, ruling)

    assert isinstance(found.verdict, Deny)
    only = after(started(HEAD + 'hold contains "look" if true\n'), proposal, ruling)
    assert (only.verdict, only.exchange, only.tightened) == (ruling.verdict, ruling.exchange, False)


def test_rules_cannot_loosen_whatever_they_are_called(started: Started) -> None:
    rules = started(HEAD + 'allow := true\nverdict := "allow"\nhold contains "x" if false\n')
    proposal, ruling = ruled(body={"text": "We promise it."})

    assert after(rules, proposal, ruling).verdict == ruling.verdict


def test_what_a_person_approved_is_not_held_again_and_may_still_be_denied(started: Started) -> None:
    approval = an_approval()
    proposal, ruling = secret(approval=approval, exchange=an_exchange(holds=(approval.id,)))

    held = after(started(HEAD + 'hold contains "look" if true\n'), proposal, ruling)
    denied = after(started(), proposal, ruling)

    assert isinstance(held.verdict, Allow)
    assert isinstance(denied.verdict, Deny)


def test_of_several_only_those_pass_whom_the_rules_allow(started: Started) -> None:
    rules = started(HEAD + 'deny contains "not to sales" if input.receiver.org_unit == "sales"\n')
    proposal = a_proposal(receivers=(BOB, a_party("eve"), SALES), to="*")

    found = after(rules, proposal, rule(proposal, a_rulebook(cross_org=CrossOrg.ALLOW)))

    assert isinstance(found.verdict, Allow)
    assert [one.agent for one in found.receivers] == ["bob", "eve"]
    assert (found.excluded, found.tightened) == ((("mia", "policy_denied"),), True)
    assert found.exchange.current_round == 1


def test_a_message_to_many_is_asked_about_in_pieces(started: Started) -> None:
    rules = started(HEAD + 'deny contains "no" if endswith(input.receiver.agent, "7")\n')
    proposal = a_proposal(receivers=tuple(a_party(f"b{number}") for number in range(45)), to="*")

    found = after(rules, proposal, rule(proposal, a_rulebook()))

    assert [one for one, _ in found.excluded] == ["b7", "b17", "b27", "b37"]


def test_a_message_is_one_line_and_there_are_not_too_many(started: Started) -> None:
    many = HEAD + 'hold contains sprintf("%d\\n\\u202e", [n]) if some n in numbers.range(1, 9)\n'

    verdict = after(started(many), *ruled()).verdict

    assert isinstance(verdict, Hold)
    assert verdict.reason == "; ".join(f"{number}\\n\\u202e" for number in range(1, 6))


def test_the_rules_are_told_everything_but_what_is_said(started: Started) -> None:
    proposal, ruling = ruled(body={"text": "A secret word: promise."})

    told = input_of(proposal, ruling, BOB)

    assert told.keys() == SAMPLE.keys()
    assert told["sender"].keys() == SAMPLE["sender"].keys()
    assert (told["keywords"], told["verdict"], told["cause"]) == (["promise"], "hold", "commitment")
    assert "secret word" not in str(told)


# ---------------------------------------------------------------- answers, or nothing


def test_rules_that_fail_are_no_answer(started: Started) -> None:
    rules = started(HEAD + 'deny contains "a" if to_number(input.to) > 3\n')

    with pytest.raises(PolicyUnavailable, match="could not be evaluated"):
        after(rules, *ruled())


def test_rules_that_take_too_long_are_ended_and_the_next_message_is_judged(started: Started) -> None:
    rules = started(ENDLESS, seconds=1.0)  # in which even a busy machine answers the next
    slow = ruled(exchange=an_exchange(current_round=1))

    with pytest.raises(PolicyUnavailable, match="did not answer"):
        after(rules, *slow)

    assert isinstance(after(rules, *ruled()).verdict, Allow)


def test_a_process_that_died_is_started_again(started: Started) -> None:
    rules = started()
    worker = rules._worker
    assert worker is not None
    os.kill(worker._process.pid, 9)

    with pytest.raises(PolicyUnavailable):
        after(rules, *ruled())

    assert isinstance(after(rules, *secret()).verdict, Deny)


def test_after_the_end_nothing_is_answered(started: Started) -> None:
    rules = started()
    rules.close()

    with pytest.raises(PolicyUnavailable, match="not asked any more"):
        after(rules, *ruled())


@pytest.mark.parametrize("answer", [[], {}, None, [{}], [{"deny": [], "hold": [1]}], [{"deny": "no", "hold": []}], "x"])
def test_an_answer_of_another_shape_is_none(started: Started, monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
    rules = started()
    monkeypatch.setattr(rego._Worker, "ask", lambda *_: answer)

    with pytest.raises(PolicyUnavailable):
        rules.ask([SAMPLE]).result(10)


@pytest.mark.slow
def test_6000_restricted_messages_from_many_threads_and_none_passes(started: Started) -> None:
    rules = started()
    plain, restricted = SAMPLE, {**SAMPLE, "level": "restricted"}
    together = threading.Barrier(12)

    def sender(_: int) -> list[RegoAnswer]:
        together.wait(30)
        found: list[RegoAnswer] = []
        for _ in range(25):
            found += rules.ask([*[restricted] * 20, plain]).result(60)
        return found

    with ThreadPoolExecutor(12) as threads:
        said = [one for found in threads.map(sender, range(12)) for one in found]

    # Between them are some that may pass, so that an answer to another question would show.
    passed = [number for number, one in enumerate(said) if one == RegoAnswer((), ())]
    assert said.count(RegoAnswer(("restricted stays here",), ())) == 6_000
    assert passed == list(range(20, 6_300, 21))


def test_many_loops_in_many_threads_share_the_rules(started: Started) -> None:
    rules = started()
    case = secret()

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: after(rules, *case).verdict, range(80)))

    assert all(isinstance(one, Deny) for one in found)


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + 'deny contains "a" if {{\n', "acme.rego:3: this is unclosed"),
        (HEAD + "deny := true\n", "acme.rego: there is neither deny nor hold"),
    ],
)
def test_broken_rules_do_not_start_and_say_where(started: Started, text: str, said: str) -> None:
    with pytest.raises(BadConfig, match=said):
        started(text)


def test_without_rules_at_the_place_it_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "acme_test.rego").write_text("package parley\n")

    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BadConfig, match=r"there is no \.rego file"):
            RegoRules(str(path), Uptime()).start()


def test_without_the_library_it_does_not_start(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rego._Worker, "ask", lambda *_: {"missing": True})

    with pytest.raises(BadConfig, match="regopy is not installed"):
        started()


def test_rules_that_end_the_process_do_not_end_ours(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rego, "_WORKER", "-c")

    with pytest.raises(BadConfig, match="end the process that compiles them"):
        started()


def test_rules_that_are_no_text_do_not_start(tmp_path: Path) -> None:
    (tmp_path / "a.rego").write_bytes(b"package parley\n\xff")

    with pytest.raises(BadConfig, match="is not UTF-8 text"):
        RegoRules(str(tmp_path), Uptime()).start()


def test_what_changes_is_in_force_a_second_later_and_what_is_broken_never(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uptime, file = Uptime(), tmp_path / "acme.rego"
    file.write_text(SECRET)
    rules = RegoRules(str(tmp_path), uptime)
    rules.start()
    try:
        (tmp_path / "more.rego").write_text(HEAD + 'hold contains "look" if true\n')
        assert isinstance(after(rules, *ruled()).verdict, Allow)
        uptime.now = 1.5
        first = rules.label
        held = after(rules, *ruled())
        assert (held.verdict, held.rules) == (Hold(Cause.RULE, "look"), rules.label)
        assert rules.label != first

        caplog.clear()  # that they changed is logged, too, where another test has lowered the level
        with caplog.at_level(logging.WARNING, "parley.rego"):
            (tmp_path / "more.rego").write_text(HEAD + "hold contains {\n")
            uptime.now = 3.0
            assert after(rules, *ruled()).verdict == Hold(Cause.RULE, "look")
            assert isinstance(after(rules, *secret()).verdict, Deny)
        assert [one.message for one in logged_by("parley.rego", caplog)] == [
            "the rules in Rego cannot be used; those of before stay in force"
        ]

        for one in (file, tmp_path / "more.rego"):
            one.unlink()
        uptime.now = 5.0
        assert isinstance(after(rules, *secret()).verdict, Deny)
    finally:
        rules.close()
