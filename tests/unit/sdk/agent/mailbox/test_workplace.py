"""An agent at a file mailbox: nothing is missed, nothing is answered twice, whatever happens to its process."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from parley import Mailbox
from parley.domain.errors.errors import Conflict, Invalid, NotFound, UnknownAgent
from parley.domain.errors.rules import MessageHeld
from parley.domain.message.message import Message
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.sdk.agent.mailbox import workplace as mailbox_workplace
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.mailbox import Boxes, emptied, received
from tests.rigs.settled_files import settle
from tests.rigs.team import in_loop, soon
from tests.samples.messages import a_file

ROOT = Path(__file__).resolve().parents[5]


@pytest.fixture
def boxes(tmp_path: Path) -> Boxes:
    return Boxes(tmp_path, "codex", "claude")


def ask(boxes: Boxes, subject: str = "Which schema?", body: Any = "See subject.", **fields: Any) -> Message:
    with boxes.mailbox("claude") as claude:
        return claude.send("codex", fields.pop("kind", "question"), subject, body, **fields)


def answers(boxes: Boxes) -> list[Message]:
    with boxes.mailbox("claude") as claude:
        return [claude.read(one.id) for one in claude.inbox()]


@Agent("codex")
class Echo(BaseAgent):
    """Answers with what it was asked."""

    @on_message(kind="request")
    async def echo(self, message: ChannelMessage) -> dict[str, Any]:
        return {"echo": message.payload}


# ---------------------------------------------------------------- arriving and being done


@in_loop
async def test_what_waits_and_what_comes_arrives_in_processing_order(boxes: Boxes) -> None:
    ask(boxes, "later", priority="P2")
    ask(boxes, "first", priority="P0")
    async with boxes.workplace("codex") as codex:
        seen = [(await codex.next()).message for _ in range(2)]
        ask(boxes, "new")
        seen.append((await codex.next()).message)

    assert [one.metadata["subject"] for one in seen if one is not None] == ["first", "later", "new"]


@in_loop
async def test_what_is_done_is_archived_and_never_comes_again(boxes: Boxes) -> None:
    ask(boxes)
    async with boxes.workplace("codex") as codex:
        arrival = await codex.next()
        await codex.workplace.finish(arrival)
        await codex.workplace.finish(arrival)
    async with boxes.workplace("codex") as again:
        ask(boxes, "another")

        assert (await again.next()).message.metadata["subject"] == "another"  # type: ignore[union-attr]


@in_loop
async def test_what_was_not_done_when_the_process_died_comes_again_at_once(boxes: Boxes) -> None:
    asked = ask(boxes)
    for _ in range(2):
        async with boxes.workplace("codex") as codex:
            assert (await codex.next()).id == asked.id


@in_loop
async def test_a_process_that_lives_gets_what_another_left_when_it_died(
    boxes: Boxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A lock that is gone changes nothing that one could see.
    monkeypatch.setattr(mailbox_workplace, "_CLOCK_GRAIN_SECONDS", 0.0)
    monkeypatch.setattr(mailbox_workplace, "_FULL_POLL_SECONDS", 0.1)
    asked = ask(boxes)
    async with boxes.workplace("codex") as dying:
        await dying.next()
        async with boxes.workplace("codex") as living:
            await soon(living.workplace._wake.is_set)
            dying.thread.close()

            assert (await living.next()).id == asked.id


@in_loop
async def test_who_stops_in_good_order_has_not_tried(boxes: Boxes) -> None:
    asked = ask(boxes)
    for _ in range(7):  # more often than a message that kills its reader is tried
        async with boxes.workplace("codex") as codex:
            assert (await codex.next()).id == asked.id
            await codex.workplace.announce_stopping()
            await codex.workplace.close()


@in_loop
async def test_an_answer_that_was_got_is_done_also_when_the_agent_stops_at_once(boxes: Boxes) -> None:
    async with boxes.workplace("codex", reads=False, watches=False) as codex:
        with boxes.mailbox("codex") as mine, boxes.mailbox("claude") as claude:
            question = mine.send("claude", "question", "?", "?")
            claude.reply(question.id, "here")
        ask(boxes, "not done", priority="P3")
        with codex.workplace.questions.subscribe([question]):
            for _ in range(2):
                claimed = await codex.thread.run(codex.workplace._claim)
                assert claimed is not None
                await codex.workplace.questions.deliver_answer(claimed.message)

        await codex.workplace.close()

    with boxes.mailbox("codex") as mine:
        assert [one.subject for one in mine.inbox()] == ["not done"]


@in_loop
async def test_an_agent_without_a_mailbox_cannot_start(tmp_path: Path) -> None:
    boxes = Boxes(tmp_path, "claude")

    with pytest.raises(UnknownAgent):
        async with boxes.working(Echo()):
            pass


# ---------------------------------------------------------------- answering


@in_loop
async def test_an_answer_is_a_reply_in_the_same_conversation(boxes: Boxes) -> None:
    asked = ask(boxes, tag="questions", body='{"question": "Which?"}')
    async with boxes.working(Echo()):
        with boxes.mailbox("claude") as claude:
            reply = claude.read((await received(claude))[0])

    assert (reply.in_reply_to, reply.conversation_id, reply.tag) == (asked.id, asked.conversation_id, "questions")
    assert (reply.kind, json.loads(str(reply.body))) == ("notification", {"echo": {"question": "Which?"}})
    assert boxes.folder("codex").joinpath("inbox").is_dir()
    with boxes.mailbox("codex") as codex:
        assert codex.inbox() == []


@in_loop
async def test_an_answer_with_the_fields_of_a_kind_is_of_that_kind(boxes: Boxes) -> None:
    @Agent("codex")
    class Reviewer(BaseAgent):
        @on_message(kind="review_request")
        async def review(self, message: ChannelMessage) -> dict[str, Any]:
            return {"quality_gate_result": "pass", "merge_ready": message.payload["branch"] == "main"}

    ask(boxes, kind="review_request", body={"pr": "1", "branch": "main", "diff_summary": "small"})
    async with boxes.working(Reviewer()):
        with boxes.mailbox("claude") as claude:
            reply = claude.read((await received(claude))[0])

    assert (reply.kind, reply.body) == ("review_lgtm", {"quality_gate_result": "pass", "merge_ready": True})


@in_loop
async def test_a_handler_that_fails_is_an_answer_that_says_why(boxes: Boxes) -> None:
    @Agent("codex")
    class Failing(BaseAgent):
        @on_message()
        async def fail(self, message: ChannelMessage) -> None:
            raise LookupError("no such schema")

    ask(boxes)
    async with boxes.working(Failing()):
        with boxes.mailbox("claude") as claude:
            reply = claude.read((await received(claude))[0])

    assert json.loads(str(reply.body))["error"]["message"] == "LookupError: no such schema"


@in_loop
async def test_an_answer_over_the_limit_is_told_to_the_asker_instead(boxes: Boxes) -> None:
    @Agent("codex")
    class Talker(BaseAgent):
        @on_message()
        async def talk(self, message: ChannelMessage) -> dict[str, Any]:
            return {"long": "x" * 30_000}

    ask(boxes)
    async with boxes.working(Talker()):
        with boxes.mailbox("claude") as claude:
            reply = claude.read((await received(claude))[0])

    assert "the answer was refused" in json.loads(str(reply.body))["error"]["message"]


@in_loop
@pytest.mark.parametrize(
    "line", ["channel: deploy prod", "related_pr: PR 42", "related_pr: https://forge.example/o/r/pull/42/files"]
)
async def test_a_question_with_free_text_beside_it_is_answered(boxes: Boxes, line: str) -> None:
    (boxes.folder("codex") / "inbox" / "c1.yaml").write_text(a_file(from_="claude", to="codex").decode() + line + "\n")

    async with boxes.working(Echo()):
        with boxes.mailbox("claude") as claude:
            reply = claude.read((await received(claude))[0])

    assert line.partition(": ")[2] in (reply.tag, reply.related_pr)


@in_loop
async def test_a_request_whose_answer_and_error_are_refused_is_not_finished(
    boxes: Boxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Message:
        raise Invalid("no reply is possible")

    asked = ask(boxes)
    dead = boxes.folder("codex") / "dead_letter"
    monkeypatch.setattr(Mailbox, "reply", refuse)

    async with boxes.working(Echo()):
        await soon(lambda: len(list(dead.glob("*.yaml.reason.json"))) == 1)
        await soon(lambda: not list((boxes.folder("codex") / "inbox").glob("*.yaml")))

    (reason,) = [json.loads(path.read_text()) for path in dead.glob("*.reason.json")]
    assert (reason["code"], "no reply is possible" in reason["detail"]) == ("unanswerable", True)
    assert not list((boxes.folder("codex") / "inbox" / "archive").glob("*.yaml"))
    # Moved back, it is asked again.
    monkeypatch.undo()
    (letter,) = dead.glob("*.yaml")
    letter.rename(boxes.folder("codex") / "inbox" / letter.name)
    async with boxes.working(Echo()):
        with boxes.mailbox("claude") as claude:
            assert claude.read((await received(claude))[0]).in_reply_to == asked.id


@in_loop
async def test_an_answer_is_given_once_although_it_is_given_again_after_the_process_died(boxes: Boxes) -> None:
    ask(boxes)
    for number in range(3):
        async with boxes.workplace("codex") as codex:
            arrival = await codex.next()
            assert arrival.message is not None
            await codex.workplace.answer(arrival.message, {"try": number})
            await codex.workplace.answer(arrival.message, {"try": "again"})

    assert [json.loads(str(one.body)) for one in answers(boxes)] == [{"try": 0}]


@in_loop
async def test_whose_inbox_is_full_cannot_be_told_and_the_agent_goes_on(
    boxes: Boxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_INBOX_MESSAGES", "1")
    ask(boxes)
    with boxes.mailbox("codex") as mailbox:
        mailbox.send("claude", "notification", "fills it", "up")
    async with boxes.workplace("codex") as codex:
        arrival = await codex.next()
        assert arrival.message is not None

        with pytest.raises(Conflict, match="the answer to claude was not delivered"):
            await codex.workplace.answer(arrival.message, {})
        await codex.workplace.finish(arrival)

        with pytest.raises(Conflict, match="not claimed any more"):
            await codex.workplace.answer(arrival.message, {})


# ---------------------------------------------------------------- what must not stop it


@in_loop
async def test_a_file_that_is_no_message_is_put_aside_and_the_others_are_dealt_with(boxes: Boxes) -> None:
    inbox = boxes.folder("codex") / "inbox"
    (inbox / "20260101T0000Z-x-question.yaml").write_bytes(b"\xff not: [yaml")
    (inbox / "20260101T0001Z-x-question.yaml").write_text("a: &a [*a]\n")
    settle(*inbox.glob("*.yaml"))
    ask(boxes)

    async with boxes.working(Echo()):
        with boxes.mailbox("claude") as claude:
            await received(claude)

    assert len(list((boxes.folder("codex") / "dead_letter").glob("*.yaml"))) == 2
    assert list(inbox.glob("*.yaml")) == []


@in_loop
async def test_a_handler_that_blocks_stops_no_other(boxes: Boxes) -> None:
    go_on = threading.Event()

    @Agent("codex")
    class Blocking(BaseAgent):
        @on_message(kind="question")
        def answer(self, message: ChannelMessage) -> dict[str, Any]:
            if message.payload == {"text": "block"}:
                go_on.wait()
            return {}

    blocked = ask(boxes, body="block")
    async with boxes.working(Blocking()):
        free = ask(boxes, body="go")
        with boxes.mailbox("claude") as claude:
            first = claude.read((await received(claude))[0])
            go_on.set()
            await received(claude, 2)

    assert first.in_reply_to == free.id
    assert {one.in_reply_to for one in answers(boxes)} == {blocked.id, free.id}


@in_loop
async def test_what_runs_when_it_is_told_to_stop_is_finished(boxes: Boxes) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @Agent("codex")
    class Slow(BaseAgent):
        @on_message()
        async def answer(self, message: ChannelMessage) -> dict[str, Any]:
            begun.set()
            await go_on.wait()
            return {"done": True}

    ask(boxes)
    async with boxes.working(Slow()):
        await begun.wait()
        asyncio.get_running_loop().call_soon(go_on.set)

    assert [json.loads(str(one.body)) for one in answers(boxes)] == [{"done": True}]
    with boxes.mailbox("codex") as codex:
        assert codex.inbox() == []


@in_loop
async def test_a_mailbox_that_is_removed_ends_the_agent_with_an_error(boxes: Boxes) -> None:
    async with boxes.workplace("codex", reads=False, watches=False) as codex:
        keeping = asyncio.ensure_future(codex.workplace.run_upkeep())
        await soon(codex.workplace._wake.is_set)
        boxes.folder("codex").rename(boxes.folder("codex").with_name("gone"))

        with pytest.raises(NotFound):
            await keeping


# ---------------------------------------------------------------- a real process, killed

_AGENT = """
import sys
import time
from pathlib import Path
from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from tests.rigs.settled_files import settle

calls = Path(sys.argv[2])

@Agent("codex")
class Codex(BaseAgent):
    @on_message()
    def answer(self, message):
        with calls.open("a") as file:
            file.write(message.id + "\\n")
        while sys.argv[3] == "hang":
            time.sleep(1)
        return {"answered": message.metadata["subject"]}

Codex().run(sys.argv[1])
"""


class Process:
    """An agent in a process of its own."""

    def __init__(self, boxes: Boxes, calls: Path, how: str) -> None:
        command = [sys.executable, "-c", _AGENT, boxes.address, str(calls), how]
        self.process = subprocess.Popen(command, cwd=ROOT)

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait()


@in_loop
async def test_a_process_that_is_killed_in_the_middle_of_a_handler_loses_nothing_and_answers_once(
    boxes: Boxes, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    calls.touch()
    asked = [ask(boxes, subject) for subject in ("one", "two")]

    killed = Process(boxes, calls, "hang")
    await soon(lambda: len(calls.read_text().split()) == 2, 20)
    assert killed.end(signal.SIGKILL) == -signal.SIGKILL
    again = Process(boxes, calls, "answer")
    with boxes.mailbox("claude") as claude:
        await received(claude, 2)
        with boxes.mailbox("codex") as codex:
            await emptied(codex)
    assert again.end(signal.SIGTERM) == 0

    assert {one.in_reply_to for one in answers(boxes)} == {one.id for one in asked}
    assert len(answers(boxes)) == 2
    assert sorted(calls.read_text().split()) == sorted([one.id for one in asked] * 2)


# ---------------------------------------------------------------- under rules


@in_loop
async def test_an_answer_that_waits_for_a_person_does_not_stop_the_agent(boxes: Boxes) -> None:
    @Agent("codex")
    class Promising(BaseAgent):
        @on_message(kind="question")
        async def promise(self, message: ChannelMessage) -> dict[str, Any]:
            return {"text": "I promise it."}

    agent = Promising()
    with boxes.mailbox("claude") as claude, boxes.mailbox("codex") as codex:
        under = {"exchange_type": "information_query", "classification": "public"}
        claude.send("codex", "question", "Friday?", "When is it ready?", rules=under)
        plain = claude.send("codex", "question", "No rules", "When is it ready?")
        async with boxes.working(agent):
            await emptied(codex)

        assert len(codex.approvals()) == 1
    assert [one.in_reply_to for one in answers(boxes)] == [plain.id]
    assert agent.counts["done"] == 2


@in_loop
async def test_a_person_is_asked_once_about_an_answer_although_it_is_given_again_after_the_process_died(
    boxes: Boxes,
) -> None:
    ask(boxes, rules={"exchange_type": "information_query", "classification": "public"})
    async with boxes.workplace("codex") as codex:
        arrival = await codex.next()
        assert arrival.message is not None
        with pytest.raises(MessageHeld):
            await codex.workplace.answer(arrival.message, {"text": "I promise it."})
    async with boxes.workplace("codex") as again:
        arrival = await again.next()
        assert arrival.message is not None
        await again.workplace.answer(arrival.message, {"text": "I promise it."})

    with boxes.mailbox("codex") as mailbox:
        assert len(mailbox.approvals()) == 1
