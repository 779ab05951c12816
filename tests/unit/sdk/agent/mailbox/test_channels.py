"""Channels at a file mailbox: asking, telling, and who gets the answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from parley.domain.errors.errors import Invalid, UnknownAgent
from parley.domain.errors.team import AskTimeout
from parley.sdk.agent.mailbox.channels import MailboxQuestions, is_tag
from tests.rigs.mailbox import Boxes, emptied, received
from tests.rigs.team import in_loop


@pytest.fixture
def boxes(tmp_path: Path) -> Boxes:
    return Boxes(tmp_path, "codex", "claude", "gemini")


@in_loop
async def test_a_question_is_asked_and_its_answer_comes_back_to_whoever_asked(boxes: Boxes) -> None:
    async with boxes.workplace("codex") as codex:
        channel = await codex.workplace.channels.open("questions")
        with boxes.mailbox("claude") as claude:
            asking = asyncio.ensure_future(channel.ask("claude", {"question": "Which schema?", "versions": [1, 2]}))
            question = claude.read((await received(claude))[0])
            claude.reply(question, '{"answer": 2}')
            answer = await asking
        # It is dealt with: no handler sees it, and it comes to nobody else.
        with boxes.mailbox("codex") as mailbox:
            await emptied(mailbox)
        assert codex.arrived.empty()

    assert (question.kind, question.tag, question.subject) == ("question", "questions", "Which schema?")
    assert question.expires_at is not None
    assert (answer.payload, answer.sender, answer.message_type) == ({"answer": 2}, "claude", "response")
    assert (answer.channel, answer.correlation_id) == ("questions", question.id)


@in_loop
async def test_who_does_not_answer_in_time_is_not_waited_for_and_its_late_answer_is_a_message_like_others(
    boxes: Boxes,
) -> None:
    async with boxes.workplace("codex") as codex:
        channel = await codex.workplace.channels.open("questions")

        with pytest.raises(AskTimeout, match=r"claude did not answer within 0.02 seconds"):
            await channel.ask("claude", {"question": "Now?"}, timeout=0.02)
        with boxes.mailbox("claude") as claude:
            claude.reply((await received(claude))[0], "sorry, late")
        late = (await codex.arrived.get()).message

    assert late is not None
    assert (late.message_type, late.payload) == ("response", {"text": "sorry, late"})


@in_loop
async def test_a_question_to_all_ends_as_soon_as_everyone_has_answered(boxes: Boxes) -> None:
    async with boxes.workplace("codex") as codex:
        channel = await codex.workplace.channels.open("votes")
        asking = asyncio.ensure_future(channel.ask_all("*", {"question": "Merge?"}, timeout=1000))
        for name in ("claude", "gemini"):
            with boxes.mailbox(name) as mailbox:
                mailbox.reply((await received(mailbox))[0], name)

        answers = await asking

    assert {one.sender: one.payload["text"] for one in answers} == {"claude": "claude", "gemini": "gemini"}


@pytest.mark.slow
@in_loop
async def test_a_question_to_several_gives_what_came_in_time(boxes: Boxes) -> None:
    async with boxes.workplace("codex") as codex:
        channel = await codex.workplace.channels.open("votes")
        asking = asyncio.ensure_future(channel.ask_all("claude, gemini", {"question": "Merge?"}, timeout=5.0))
        with boxes.mailbox("claude") as mailbox:
            mailbox.reply((await received(mailbox))[0], "yes")

        answers = await asking

    assert [one.sender for one in answers] == ["claude"]


@in_loop
async def test_an_answer_comes_although_nobody_takes_what_lies_before_it(boxes: Boxes) -> None:
    async with boxes.workplace("codex", reads=False) as codex:
        channel = await codex.workplace.channels.open("questions")
        with boxes.mailbox("claude") as claude:
            for number in range(3):
                claude.send("codex", "task_request", f"work {number}", "do it", priority="P0")
            asking = asyncio.ensure_future(channel.ask("claude", {"question": "?"}, timeout=1000))
            claude.reply((await received(claude))[0], "here")

            assert (await asking).payload == {"text": "here"}

        # What lay before it is still there, in its order.
        arrivals = codex.workplace.arrivals()
        subjects = [(await anext(arrivals)).message for _ in range(3)]
        await arrivals.aclose()

    assert [one.metadata["subject"] for one in subjects if one is not None] == ["work 0", "work 1", "work 2"]


@in_loop
async def test_an_answer_that_another_process_of_the_agent_has_got_is_found(boxes: Boxes) -> None:
    async with boxes.workplace("codex", reads=False, watches=False) as codex:
        channel = await codex.workplace.channels.open("questions")
        asking = asyncio.ensure_future(channel.ask("claude", {"question": "?"}, timeout=1000))
        with boxes.mailbox("claude") as claude, boxes.mailbox("codex") as other:
            claude.reply((await received(claude))[0], "here")
            taken = other.next()
            assert taken is not None
            other.done(taken)

        watching = asyncio.ensure_future(codex.workplace.run_upkeep())

        assert (await asking).payload == {"text": "here"}
        watching.cancel()
        await asyncio.wait({watching})


@in_loop
async def test_an_answer_that_is_faster_than_the_question_was_sent_waits_for_it(boxes: Boxes) -> None:
    questions = MailboxQuestions()
    with boxes.mailbox("codex") as codex, boxes.mailbox("claude") as claude:
        with questions.block_while_sending():
            question = codex.send("claude", "question", "?", "?")
            reply = claude.reply(question.id, "here")
            taking = asyncio.ensure_future(questions.deliver_answer(reply))
            await asyncio.sleep(0)
            waiting = questions.subscribe([question])
            answers = waiting.__enter__()

        assert await taking
        assert await questions.deliver_answer(reply)  # it has been taken
        assert [answers.get_nowait(), answers.empty()] == [reply, True]
        waiting.__exit__(None, None, None)
        assert not await questions.deliver_answer(question)


@in_loop
async def test_telling_one_and_telling_all(boxes: Boxes) -> None:
    async with boxes.workplace("codex") as codex:
        channel = await codex.workplace.channels.open("news")

        told = await channel.notify("claude", {"text": "psst"}, metadata={"priority": "P1", "subject": "A secret"})
        everyone = await channel.broadcast({"text": "hear"})

    with boxes.mailbox("claude") as claude, boxes.mailbox("gemini") as gemini:
        items = {one.subject: one for one in claude.inbox()}
        assert (items["A secret"].kind, items["A secret"].priority) == ("notification", "P1")
        assert [one.subject for one in gemini.inbox()] == ["news"]
    assert (told.to, told.message_type, everyone.message_type) == ("claude", "notify", "broadcast")


@in_loop
async def test_a_project_of_many_hears_a_broadcast_in_several_messages(tmp_path: Path) -> None:
    names = [f"agent-{number}" for number in range(23)]
    boxes = Boxes(tmp_path, "codex", *names)
    async with boxes.workplace("codex") as codex:
        channel = await codex.workplace.channels.open("news")

        await channel.broadcast({"text": "hear"})

    assert all(len(list((boxes.folder(name) / "inbox").glob("*.yaml"))) == 1 for name in names)


@in_loop
async def test_another_kind_is_sent_when_metadata_names_it(boxes: Boxes) -> None:
    review = {"pr": "42", "branch": "main", "diff_summary": "small"}
    async with boxes.workplace("codex") as codex:
        channel = await codex.workplace.channels.open("reviews")

        sent = await channel.notify("claude", review, metadata={"kind": "review_request"})

    with boxes.mailbox("claude") as claude:
        message = claude.read(sent.id)
    assert (message.kind, message.body) == ("review_request", review)


@in_loop
async def test_what_a_mailbox_does_not_know_is_refused(boxes: Boxes) -> None:
    async with boxes.workplace("codex") as codex:
        channel = await codex.workplace.channels.open("questions")

        with pytest.raises(Invalid, match="no roles at a mailbox"):
            await channel.ask("role:reviewer", {})
        with pytest.raises(Invalid, match="no trace"):
            await channel.notify("claude", {}, metadata={"trace": "x"})
        with pytest.raises(UnknownAgent):
            await channel.ask("nobody", {})
        with pytest.raises(Invalid, match="cannot be the name"):
            await codex.workplace.channels.open("a b")


def test_a_tag_is_a_short_word() -> None:
    assert is_tag("questions-2_b")
    assert not any(is_tag(name) for name in ("", "a b", "ä", "x" * 65, "role:x", "--"))


@in_loop
async def test_alone_in_a_project_there_is_nobody_to_tell(tmp_path: Path) -> None:
    async with Boxes(tmp_path, "codex").workplace("codex") as codex:
        channel = await codex.workplace.channels.open("news")

        with pytest.raises(Invalid, match="no other agent"):
            await channel.broadcast({})
