"""An idle session of Codex is rung for each message that comes, however fast it worked before."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parley.app.mailbox import attention, claims
from parley.app.mailbox.kernel import Kernel, drive
from parley.app.mailbox.wake import sessions
from parley.domain.mailbox.attention import AgentSession, SessionState
from parley.domain.mailbox.hook_events import AttentionLimits
from parley.domain.message.message import Kind
from parley.surfaces.hook.events import read_event
from parley.surfaces.mcp.ringer import Ringer, RingerAccess
from tests.samples.recorded_agents import load
from tests.unit.app.rig import HALF_AN_HOUR, Rig, a_rig

PATIENCE_SECONDS = 30.0
LIMITS = AttentionLimits()
Step = Callable[[], object]


class SteppedWatch:
    """A watch whose every pause is one step of a test, after which a second has passed."""

    def __init__(self, rig: Rig, steps: list[Step], end: Step) -> None:
        self._rig, self._steps, self._end = rig, iter(steps), end

    def pause(self, seconds: float) -> bool:
        self._rig.clock.pass_by(seconds=seconds)
        next(self._steps, self._end)()
        return True

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class RungCodex:
    """A thread of Codex with its hooks and its server, whose ringer looks after every step."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.events = {event["hook_event_name"]: event for event in load("codex")["hook_events"]}
        self.thread = self.events["Stop"]["session_id"]
        self.rings: list[str] = []
        self.troubles: list[str] = []
        self.ringer: Ringer

    def kernel(self) -> Kernel:
        return self.rig.kernel("codex")

    def live(self, *steps: Step) -> None:
        """Take the steps, one in each pause of the ringer."""
        ended = threading.Event()

        def end() -> None:
            self.ringer.stop()
            ended.set()

        access = RingerAccess(
            clock=self.rig.clock,
            open=self.kernel,
            inbox=lambda: str(self.rig.path("codex")),
            watch=lambda _: SteppedWatch(self.rig, [*steps], end),
            limits=lambda: LIMITS,
            local_minute=lambda _: 720,
            ring=self._ring,
            log=self._log,
        )
        self.ringer = Ringer(access)
        self.ringer.start()
        assert ended.wait(PATIENCE_SECONDS), self.troubles
        assert self.troubles == []

    def _log(self, trouble: str) -> None:
        self.troubles.append(trouble)

    def _ring(self, session: str, text: str) -> str:
        del text
        self.rings.append(session)
        return ""

    def fire(self, name: str) -> None:
        """Run the hook of an event that was recorded."""
        event = read_event(json.dumps({**self.events[name], "session_id": self.thread}).encode(), "codex")
        assert event is not None
        kernel = self.kernel()
        if drive(attention.notice(kernel, event, LIMITS, 720)) is None:
            drive(sessions.record_event(kernel, event))

    def answer(self) -> None:
        """Take and finish the next message with tools of the server."""
        self.ringer.note_use(self.thread)
        taken = drive(claims.claim_next(self.kernel(), HALF_AN_HOUR))
        assert taken is not None
        self.ringer.note_use(self.thread)
        drive(claims.done(self.kernel(), taken.message.id))

    def take_turn(self) -> None:
        """A whole turn between two looks of the ringer, as a fast model takes it."""
        self.fire("UserPromptSubmit")
        self.rig.clock.pass_by(seconds=0.1)
        self.answer()
        self.rig.clock.pass_by(seconds=0.1)
        self.fire("Stop")

    def session(self) -> AgentSession:
        (session,) = drive(sessions.load_recent(self.kernel()))
        return session


@pytest.fixture
def codex(tmp_path: Path) -> Iterator[RungCodex]:
    rig = a_rig(tmp_path / "home")
    yield RungCodex(rig)
    rig.close()
    shutil.rmtree(tmp_path / "home")


def test_an_idle_codex_is_rung_for_every_message(codex: RungCodex) -> None:
    def send() -> None:
        codex.rig.send(Kind.QUESTION)

    rounds = [step for _ in range(5) for step in (send, codex.take_turn)]
    codex.live(lambda: codex.fire("SessionStart"), *rounds)

    assert codex.rings == [codex.thread] * 5


def test_a_use_that_is_recorded_after_the_end_of_its_turn_leaves_the_session_idle(codex: RungCodex) -> None:
    def wait() -> None:
        codex.rig.clock.pass_by(seconds=29)

    for _ in range(2):
        codex.rig.send(Kind.QUESTION)
    # The use of the first turn is recorded at once, that of the second half a minute later.
    codex.live(lambda: codex.fire("SessionStart"), codex.take_turn, codex.take_turn, wait, wait)

    assert codex.session().state is SessionState.IDLE


def test_the_use_of_a_tool_in_a_turn_that_goes_on_says_that_the_session_works(codex: RungCodex) -> None:
    def use() -> None:
        codex.ringer.note_use(codex.thread)

    codex.live(lambda: codex.fire("SessionStart"), use, lambda: codex.rig.send(Kind.QUESTION))

    assert codex.session().state is SessionState.WORKING
    assert codex.rings == []
