"""Mailboxes under rules, broken at any moment: what was delivered is what is on record, on both sides."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from parley.cli.audit import ledger as mailbox_audit
from parley.wire.oacp.format import OacpFormat
from parley.wire.proofs.reconcile import reconcile
from tests.fault.crowd import READER, Crowd, chance, pass_time
from tests.fault.history import look
from tests.fault.stage import RULES, Stage, agent_folder, until
from tests.fault.test_boundaries import (
    HOUR,
    READERS,
    SENDER,
    Ensemble,
    Trial,
    ensemble,
    errors,
    kills,
    lived_in_home,
    traced,
)

pytestmark = pytest.mark.fault

__all__ = ["ensemble"]  # a fixture

CODEX = READERS[0]


def ledger(home: Path, agent: str) -> Path:
    return agent_folder(home, agent) / ".parley" / "ledger.db"


def audited(home: Path, agent: str, role: str) -> Counter[str]:
    """How often a message is on an agent's record as delivered, as its sender or its receiver."""
    with closing(sqlite3.connect(ledger(home, agent))) as db:
        documents = [json.loads(row[0]) for row in db.execute("SELECT document FROM audit ORDER BY seq")]
    return Counter(
        one["message_id"] for one in documents if (one.get("outcome"), one.get("role")) == ("delivered", role)
    )


def governed_in(folder: Path) -> Counter[str]:
    """The messages under rules in a folder, by their ids."""
    found = [OacpFormat().decode(path.read_bytes()) for path in sorted(folder.glob("*.yaml"))]
    return Counter(one.id for one in found if "ocip" in one.extras)


def disagreements(home: Path, senders: list[str], reader: str) -> list[str]:
    """Everything in which files and records of a home at rest differ."""
    wrong = []
    got = governed_in(agent_folder(home, reader) / "inbox" / "archive")
    if audited(home, reader, "receiver") != got:
        wrong.append(f"{reader} has {got} and says {audited(home, reader, 'receiver')}")
    told: Counter[str] = Counter()
    for sender in senders:
        said, copies = audited(home, sender, "sender"), governed_in(agent_folder(home, sender) / "outbox")
        told += said
        if said != copies:
            wrong.append(f"{sender} sent {copies} and says {said}")
        _, found = reconcile(*(mailbox_audit.read_log(str(ledger(home, agent))) for agent in (sender, reader)))
        wrong += [str(one) for one in found]
    if told != got:
        wrong.append(f"{told} was sent, {got} was received")
    for agent in (*senders, reader):
        bad = mailbox_audit.check_ledger_file(str(ledger(home, agent))).bad
        wrong += [f"{agent}: {bad}"] if bad else []
    return wrong


def send_trial() -> Trial:
    """A governed send that is interrupted; the sender's next command recovers; then the reader reads."""

    def trial(stage: Stage, home: Path, injection: str) -> list[str]:
        options = {"to": [CODEX], "governed": True}
        outcome = stage.perform("send", home, SENDER, {**options, "tags": ["victim"]}, inject=injection)
        stage.perform("send", home, SENDER, {**options, "tags": ["next"]})
        read = stage.act("drain", home, CODEX).acknowledged
        wrong = disagreements(home, [SENDER], CODEX)
        if sorted(read) not in (["next", "victim"], ["next"]) or (outcome.acknowledged and "victim" not in read):
            wrong.append(f"{outcome.said}, and {CODEX} was handed {read}")
        return wrong

    return trial


def claim_trial() -> Trial:
    """A `next` of a governed message that is interrupted; then another reader comes."""

    def trial(stage: Stage, home: Path, injection: str) -> list[str]:
        stage.act("claim", home, CODEX, inject=injection)
        read = stage.act("drain", home, CODEX, later=HOUR).acknowledged
        mail = look(agent_folder(home, CODEX))
        wrong = disagreements(home, [SENDER], CODEX)
        if sorted(read) != ["first", "second"] or mail.dead or mail.inbox:
            wrong.append(f"handed out: {read}; left with {mail}")
        return wrong

    return trial


def inbox_with_two(tmp_path: Path, stage: Stage) -> Path:
    home = lived_in_home(tmp_path, stage)
    sent = stage.act("send", home, SENDER, tags=["second", "first"], urgent="first", to=[CODEX], governed=True)
    assert len(sent.acknowledged) == 2
    return home


@pytest.mark.usefixtures("strace")
def test_a_send_that_dies_at_any_system_call_is_on_record_exactly_when_it_is_delivered(
    tmp_path: Path, ensemble: Ensemble, full: bool
) -> None:
    home = lived_in_home(tmp_path, ensemble.one)
    boundaries = traced(ensemble, home, "send", SENDER, tags=["victim"], to=[CODEX], governed=True)

    wrong = ensemble.try_all(send_trial(), home, kills(boundaries, 1 if full else 6))

    assert wrong == {}


@pytest.mark.usefixtures("strace")
def test_a_claim_that_dies_at_any_system_call_is_on_record_once(tmp_path: Path, ensemble: Ensemble, full: bool) -> None:
    home = inbox_with_two(tmp_path, ensemble.one)
    boundaries = traced(ensemble, home, "claim", CODEX)

    wrong = ensemble.try_all(claim_trial(), home, kills(boundaries, 1 if full else 6))

    assert wrong == {}


@pytest.mark.usefixtures("strace")
def test_a_record_that_cannot_be_written_sends_nothing_and_hands_nothing_over(
    tmp_path: Path, ensemble: Ensemble, full: bool
) -> None:
    home = inbox_with_two(tmp_path, ensemble.one)
    boundaries = traced(ensemble, home, "claim", CODEX)

    wrong = ensemble.try_all(claim_trial(), home, errors(boundaries)[:: 1 if full else 3])

    assert wrong == {}


@pytest.mark.usefixtures("strace")
def test_the_mutant_that_records_after_the_commit_is_caught(tmp_path: Path) -> None:
    """It dies between the two, and a message is out of which nobody has a record."""
    with Ensemble(tmp_path, "record_after_commit") as mutants:
        home = lived_in_home(tmp_path, mutants.one)
        boundaries = traced(mutants, home, "send", SENDER, tags=["victim"], to=[CODEX], governed=True)
        syncs = [one for one in boundaries if one.call == "fdatasync"]

        wrong = mutants.try_all(send_trial(), home, kills(syncs))

    assert wrong != {}


def test_kill_9_of_senders_and_readers_leaves_nothing_delivered_without_its_record(
    tmp_path: Path, stage: Stage, full: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given senders that put everything under rules, and rival readers
    monkeypatch.setenv(RULES, "1")
    policies = tmp_path / "home" / "projects" / "demo" / ".parley" / "policies" / "enterprise"
    policies.mkdir(parents=True)
    (policies / "default.yaml").write_text("agent-to-agent:\n  pair_budget: 1000000\n")
    (policies / "default.yaml").chmod(0o640)
    crowd = Crowd(tmp_path, 2)
    dice = chance(request.config.getoption("randomly_seed", 0))
    try:
        clients = [crowd.add_sender(agent) for agent in crowd.agents] + [crowd.add_reader() for _ in range(2)]
        agent_of = dict(zip(clients, crowd.agents, strict=False))
        for client in clients:
            crowd.wait_ready(client)

        # When one after the other is killed at a random moment and replaced
        for _ in range(100 if full else 12):
            pass_time(dice.uniform(0.0, 0.1))
            victim = dice.choice(crowd.clients("s", "r"))
            crowd.kill(victim)
            fresh = crowd.add_sender(agent_of[victim]) if victim in agent_of else crowd.add_reader()
            if victim in agent_of:
                agent_of[fresh] = agent_of[victim]
            crowd.wait_ready(fresh)
        until(lambda: crowd.count("send") > 0)
        crowd.finish("s")
        for agent in crowd.agents:
            assert stage.act("drain", crowd.home, agent).errors == []
        crowd.finish("r")
    finally:
        crowd.abandon()

    # Then nothing is lost, and both sides have on record exactly what was delivered
    print(f"{crowd.count('send')} governed sends acknowledged, {crowd.count('done')} done")
    assert audited(crowd.home, READER, "receiver").total() >= crowd.count("send") > 0
    assert crowd.violations() == []
    assert disagreements(crowd.home, crowd.agents, READER) == []
