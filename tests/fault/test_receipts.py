"""`kill -9` of hooks, `next` and `reply` at any moment: no receipt is ahead of the truth, and every one gets there."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import parley
from parley.adapters.files import layout
from parley.domain.mailbox.delivery import Status
from parley.wiring import drive
from tests.fault.crowd import chance, pass_time
from tests.fault.stage import environment
from tests.samples.messages import NOW

pytestmark = pytest.mark.fault

RUN = "import sys; from tests.fault.mutants import break_like; sys.argv[1] and break_like(sys.argv[1]); "
RUN += "from parley.cli.main import main; sys.exit(main(sys.argv[2:]))"


@dataclass
class Truth:
    """What has really happened to a message."""

    notice_is_out: bool = False
    answered: bool = False
    handed_over: bool = False


@dataclass
class Agent:
    """A coding agent, codex, whose hooks and commands are processes that may be killed."""

    home: Path
    dice: random.Random
    mutant: str = ""
    # The longest time until a kill: a little more than a command takes.
    longest: float = 0.2
    kills: int = 0
    truth: dict[str, Truth] = field(default_factory=dict)
    ahead: list[str] = field(default_factory=list)

    def run(self, *arguments: str, document: object = None, may_die: bool = False) -> str:
        """What a command has printed before it ended, or was killed."""
        home = {"HOME": str(self.home), "PARLEY_HOME": str(self.home), "PARLEY_PROJECT": "demo"}
        with subprocess.Popen(
            [sys.executable, "-c", RUN, self.mutant, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**environment(), **home, "PARLEY_AGENT": "codex"},
        ) as process:
            assert process.stdin is not None
            process.stdin.write(json.dumps(document) if document else "")
            process.stdin.close()
            process.stdin = None
            if may_die and self.dice.random() < 0.7:
                pass_time(self.dice.uniform(0.0, self.longest))
                process.kill()
                self.kills += 1
            out, _ = process.communicate(timeout=120)
        return out

    def hook(self, name: str, turn: str, message_id: str, **fields: object) -> None:
        """An event. Its notice belongs to the conversation when all of it came out."""
        document = {"hook_event_name": name, "session_id": "s1", "turn_id": turn, **fields}
        out = self.run("hook", "--for", "codex", document=document, may_die=True)
        self.truth[message_id].notice_is_out |= out.endswith("\n") and f"[{message_id[-4:]}]" in out

    def compare(self, message_id: str) -> None:
        """Note where the receipts say more than has happened."""
        truth = self.truth[message_id]
        with (
            parley.Mailbox("demo", agent="claude", home=self.home) as claude,
            parley.Mailbox("demo", agent="codex", home=self.home) as codex,
        ):
            states = {step.state for step in claude.status(message_id).receipts[0].steps}
            deliveries = drive(codex.kernel.store.find_deliveries("codex", message_id))
        is_done = any(delivery.status is Status.DONE for delivery in deliveries)
        facts = {"injected": truth.answered, "acknowledged": truth.handed_over, "acted": is_done}
        self.ahead += [f"{message_id}: {state}" for state, is_true in facts.items() if state in states and not is_true]

    def handle(self, number: int) -> str:
        """One message, from its notice to its answer, with kills on the way."""
        with parley.Mailbox("demo", agent="claude", home=self.home) as claude:
            message_id = claude.send("codex", "question", f"Question {number}", "BODY-OF-THE-MESSAGE").id
        truth = self.truth.setdefault(message_id, Truth())
        for attempt in range(2):
            turn = f"{number}.{attempt}"
            truth.notice_is_out = False
            self.hook("UserPromptSubmit", turn, message_id, prompt="go")
            if self.dice.random() < 0.8:  # else the model does not answer
                truth.answered |= truth.notice_is_out
                self.hook("Stop", turn, message_id, last_assistant_message="Done.")
            self.compare(message_id)
        truth.handed_over |= "BODY-OF-THE-MESSAGE" in self.run("next", "--lease", "1s", may_die=True)
        self.compare(message_id)
        self.run("reply", message_id, "An answer.", may_die=True)
        self.compare(message_id)
        return message_id

    def finish(self, message_id: str) -> str:
        """Go on without kills; the state that the sender sees in the end."""
        out = self.run("next", "--wait", "10s", "--lease", "5m") if not self.is_done(message_id) else ""
        self.truth[message_id].handed_over |= "BODY-OF-THE-MESSAGE" in out
        if not self.is_done(message_id):
            self.run("reply", message_id, "An answer.")
        self.run("next")  # the next command of the agent says what a killed one could not
        self.compare(message_id)
        with parley.Mailbox("demo", agent="claude", home=self.home) as claude:
            return claude.status(message_id).state

    def is_done(self, message_id: str) -> bool:
        with parley.Mailbox("demo", agent="codex", home=self.home) as codex:
            deliveries = drive(codex.kernel.store.find_deliveries("codex", message_id))
            return any(delivery.status is Status.DONE for delivery in deliveries)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    layout.create_project(str(tmp_path), "demo", ("claude", "codex"), at=NOW)
    return tmp_path


def test_killed_hooks_and_commands_leave_no_receipt_ahead_of_the_truth(
    home: Path, full: bool, request: pytest.FixtureRequest
) -> None:
    agent = Agent(home, chance(request.config.getoption("randomly_seed", 0)))

    ends = [agent.finish(agent.handle(number)) for number in range(100 if full else 5)]

    print(f"{agent.kills} kills, {len(ends)} messages")
    assert agent.ahead == []
    assert ends == ["acted"] * len(ends)
    assert agent.kills


@pytest.mark.parametrize("mutant", ["notice_counts_before_it_is_out", "acknowledge_before_it_is_shown"])
def test_a_build_that_writes_receipts_too_early_is_caught(tmp_path: Path, mutant: str) -> None:
    dice = random.Random(os.getpid())

    # Given a build that says so first, and takes its time; then some kill shows it
    for number in range(40):
        # An empty inbox each time: a notice names only the first of the messages that wait.
        home = tmp_path / str(number)
        layout.create_project(str(home), "demo", ("claude", "codex"), at=NOW)
        agent = Agent(home, dice, mutant, longest=1.5)
        agent.handle(number)
        if agent.ahead:
            return
    pytest.fail("no kill of 40 runs showed it")
