"""Agents written for the SDK, unmodified but for one import, as processes against our server."""

from __future__ import annotations

import asyncio
import itertools
import signal
from pathlib import Path

import pytest
from openintent import AsyncOpenIntentClient
from openintent.models import IntentStatus

from tests.interop.openintent.programs import (
    HEAD,
    READY,
    RFC_DATA_AGENT,
    RFC_RESEARCH_AGENT,
    client,
    running_agent,
    running_program,
    until,
)
from tests.rigs.process import ADMIN_KEY, ServerProcess

_numbers = itertools.count(1)

ANSWERING = """
import asyncio
from openintent.agents import Agent, on_message, on_drain

@Agent("answerer-{number}")
class Answerer:
    @on_message(channel="questions")
    async def answer(self, message):
        print("asked", message.payload["n"], flush=True)
        {body}
        return {{"n": message.payload["n"]}}

    @on_drain
    async def drain(self):
        print("draining", flush=True)
"""


def an_answerer(body: str = "pass") -> tuple[str, str]:
    """A name of its own, and the code."""
    number = next(_numbers)
    return f"answerer-{number}", ANSWERING.format(number=number, body=body)


def a_channel(server: ServerProcess, name: str = "questions") -> str:
    with client(server, "boss") as boss:
        intent = boss.create_intent("an intent", "d")
        return str(boss.create_channel(intent.id, name)["id"])


def test_the_two_agents_of_the_rfc_talk_to_each_other(server: ServerProcess, tmp_path: Path) -> None:
    with (
        running_agent(tmp_path, server, RFC_DATA_AGENT, "DataAgent") as data,
        running_agent(tmp_path, server, RFC_RESEARCH_AGENT, "ResearchAgent"),
        client(server, "boss") as boss,
        client(server, "research-agent-01") as research,
    ):
        intent = boss.create_intent("Research Q1 Financials", "d")

        boss.assign_agent(intent.id, "research-agent-01")

        data.until("Got message from research-agent-01: {'question': 'What schema version?'}")
        data.until("Got message from research-agent-01: {'status': 'starting analysis', 'schema': 'v2.3'}")
        (channel,) = boss.list_channels(intent.id)
        until(lambda: len(research.list_messages(channel["id"])) == 4)
        said = [(one["sender"], one["to"], one["message_type"]) for one in research.list_messages(channel["id"])]
        assert said == [
            ("research-agent-01", "data-agent-01", "request"),
            ("data-agent-01", "research-agent-01", "response"),
            ("research-agent-01", "*", "broadcast"),
            ("research-agent-01", "logger-agent", "notify"),
        ]


def test_fifty_requests_at_once_get_an_answer_each(server: ServerProcess, tmp_path: Path) -> None:
    name, code = an_answerer()
    channel = a_channel(server)

    async def ask_all() -> list[int]:
        async with AsyncOpenIntentClient(server.url, ADMIN_KEY, "boss") as boss:
            asking = [boss.ask(channel, "boss", name, {"n": number}, timeout=30) for number in range(50)]
            return [answer["payload"]["n"] for answer in await asyncio.gather(*asking)]

    with running_agent(tmp_path, server, code, "Answerer"):
        assert asyncio.run(ask_all()) == list(range(50))


def test_a_handler_that_raises_answers_with_an_error_and_the_agent_goes_on(
    server: ServerProcess, tmp_path: Path
) -> None:
    name, code = an_answerer("if message.payload['n'] == 1: raise ValueError('no such number')")
    channel = a_channel(server)

    with running_agent(tmp_path, server, code, "Answerer"), client(server, "boss") as boss:
        failed = boss.ask(channel, "boss", name, {"n": 1}, timeout=30)
        answered = boss.ask(channel, "boss", name, {"n": 2}, timeout=30)

    assert failed["payload"]["error"] == {
        "code": "handler_failed",
        "message": "ValueError: no such number",
        "agent": name,
    }
    assert answered["payload"] == {"n": 2}


@pytest.mark.both_stores
def test_a_restart_neither_misses_nor_repeats(server: ServerProcess, tmp_path: Path) -> None:
    name, code = an_answerer()
    channel = a_channel(server)
    with client(server, "boss") as boss:
        with running_agent(tmp_path, server, code, "Answerer") as first:
            boss.ask(channel, "boss", name, {"n": 1}, timeout=30)
            assert first.told() == 0
        for number in (2, 3):
            boss.send_message(channel, "boss", name, "request", {"n": number})

        with running_agent(tmp_path, server, code, "Answerer") as second:
            boss.ask(channel, "boss", name, {"n": 4}, timeout=30)
            second.told()

        asked = [line for line in second.said if line.startswith("asked")]
        assert sorted(asked) == ["asked 2", "asked 3", "asked 4"]
        answers = [one["payload"]["n"] for one in boss.list_messages(channel) if one["message_type"] == "response"]
        assert sorted(answers) == [1, 2, 3, 4]


def test_what_a_killed_agent_had_begun_comes_again(server: ServerProcess, tmp_path: Path) -> None:
    name, code = an_answerer("await asyncio.sleep(0 if len(sys.argv) == 3 else 600)")
    channel = a_channel(server)
    with client(server, "boss") as boss:
        stuck = code.replace("len(sys.argv) == 3", "False")
        with running_agent(tmp_path, server, stuck, "Answerer") as first:
            boss.send_message(channel, "boss", name, "request", {"n": 1})
            first.until("asked 1")
            first.told(signal.SIGKILL)

        with running_agent(tmp_path, server, code, "Answerer") as second:
            second.until("asked 1")
            until(lambda: len(boss.list_messages(channel)) == 2)

        assert boss.list_messages(channel)[1]["payload"] == {"n": 1}


def test_it_outlives_its_server(tmp_path: Path) -> None:
    name, code = an_answerer()
    server = ServerProcess(tmp_path / "data", environment={"PARLEY_NEW_INTENTS": "open"})
    server.start()
    try:
        channel = a_channel(server)
        with running_agent(tmp_path, server, code, "Answerer") as agent:
            with client(server, "boss") as boss:
                boss.ask(channel, "boss", name, {"n": 1}, timeout=30)
            server.kill()
            server.start()
            with client(server, "boss") as boss:
                answer = boss.ask(channel, "boss", name, {"n": 2}, timeout=30)
            assert agent.told() == 0
    finally:
        if server.process is not None:
            server.kill()

    assert answer["payload"] == {"n": 2}
    assert [line for line in agent.said if line.startswith("asked")] == ["asked 1", "asked 2"]


def test_a_signal_lets_it_finish_what_it_began_and_says_so(server: ServerProcess, tmp_path: Path) -> None:
    body = """
        while not self.told:
            await asyncio.sleep(0.01)
"""
    name, code = an_answerer(body.strip())
    code = code.replace('print("draining", flush=True)', 'print("draining", flush=True); self.told = True')
    code = code.replace(
        '    @on_message(channel="questions")', '    told = False\n\n    @on_message(channel="questions")'
    )
    channel = a_channel(server)

    with running_agent(tmp_path, server, code, "Answerer") as agent, client(server, "boss") as boss:
        boss.send_message(channel, "boss", name, "request", {"n": 7})
        agent.until("asked 7")
        code_at_end = agent.told()

        assert code_at_end == 0
        assert "draining" in agent.said
        assert [one["payload"] for one in boss.list_messages(channel)] == [{"n": 7}, {"n": 7}]
        assert boss.get_agent_record(name).status.value == "dead"


def test_a_second_signal_ends_it_at_once(server: ServerProcess, tmp_path: Path) -> None:
    name, code = an_answerer("await asyncio.sleep(600)")
    channel = a_channel(server)

    with running_agent(tmp_path, server, code, "Answerer") as agent, client(server, "boss") as boss:
        boss.send_message(channel, "boss", name, "request", {"n": 7})
        agent.until("asked 7")
        agent.process.send_signal(signal.SIGINT)
        agent.until("draining")

        assert agent.told() == 0


def test_it_registers_with_what_it_can_do_and_beats(server: ServerProcess, tmp_path: Path) -> None:
    name, code = an_answerer()
    code = code.replace(f'@Agent("{name}")', f'@Agent("{name}", capabilities=["sql"])')

    with running_agent(tmp_path, server, code, "Answerer"), client(server, "boss") as boss:
        until(lambda: boss.get_agent_record(name).last_heartbeat_at)
        record = boss.get_agent_record(name)

    assert (record.status.value, record.capabilities) == ("active", ["sql"])


HOOKED = """
import threading
from openintent.agents import (
    Agent, on_access_requested, on_assignment, on_complete, on_event, on_message, on_state_change, on_task,
)
from openintent.models import EventType

def say(*words):
    print("hook", *words, flush=True)

@Agent("hooked")
class Hooked:
    @on_assignment
    def assigned(self, intent):
        say("assignment", intent.title, threading.current_thread() is threading.main_thread())
        return {"plan": "made"}

    @on_state_change(["progress"])
    async def progressed(self, intent, old_state, new_state):
        say("state", new_state["progress"])

    @on_event(EventType.COMMENT)
    async def commented(self, intent, event):
        say("comment", event.type, event.data["payload"]["message"])

    @on_task(status="completed")
    async def task_done(self, intent, task):
        say("task", task.name, task.status.value)

    @on_access_requested
    async def policy(self, intent, request):
        say("access", request.principal_id)
        return "approve"

    @on_complete
    async def completed(self, intent):
        say("complete", intent.status.value)
        self.stop()
"""


def test_its_other_hooks_are_called_each_for_its_own(server: ServerProcess, tmp_path: Path) -> None:
    from openintent.models import AccessPolicy, EventType, Permission

    with running_agent(tmp_path, server, HOOKED, "Hooked") as hooked, client(server, "boss") as boss:
        intent = boss.create_intent("a goal", "d")
        boss.set_acl(intent.id, AccessPolicy.CLOSED, [])
        boss.grant_access(intent.id, "boss", permission=Permission.ADMIN)
        boss.grant_access(intent.id, "hooked", permission=Permission.ADMIN)
        boss.assign_agent(intent.id, "hooked")
        until(lambda: boss.get_intent(intent.id).state.get("plan") == "made")
        boss.assign_agent(intent.id, "somebody-else")
        boss.log_event(intent.id, EventType.COMMENT, {"message": "well done"})
        hooked.until("comment")
        boss.update_state(intent.id, boss.get_intent(intent.id).version, {"progress": 7})
        hooked.until("state")
        task = boss.create_task(intent.id, "count")
        boss.update_task(task.id, task.version, status="completed")
        hooked.until("task")
        with client(server, "newcomer") as newcomer:
            newcomer.request_access(intent.id, "newcomer", permission=Permission.READ)
        hooked.until("access")
        until(lambda: any(one.principal_id == "newcomer" for one in boss.get_acl(intent.id).entries))
        active = boss.set_status(intent.id, boss.get_intent(intent.id).version, IntentStatus.ACTIVE)
        boss.set_status(intent.id, active.version, IntentStatus.COMPLETED)

        assert hooked.ended() == 0

    assert [line for line in hooked.said if line.startswith("hook")] == [
        "hook assignment a goal False",
        "hook comment comment well done",
        "hook state 7",
        "hook task count completed",
        "hook access newcomer",
        "hook complete completed",
    ]


LACKING = """
from openintent.agents import Agent, on_message

@Agent("lacking")
class Lacking:
    @on_message(channel="questions")
    async def answer(self, message):
        try:
            await getattr(self, message.payload["call"])(message.intent_id)
        except Exception as error:
            return {"raised": type(error).__name__}

    async def with_lease(self, intent_id):
        with self.lease(intent_id, "all"):
            pass

    async def with_memory(self, intent_id):
        await self.memory.recall(key="x")

    async def with_people(self, intent_id):
        await self.escalate(intent_id, "help")
"""


@pytest.mark.parametrize(
    ("call", "raised"),
    [("with_lease", "NotFoundError"), ("with_memory", "AttributeError"), ("with_people", "NotFoundError")],
)
def test_what_the_server_does_not_have_fails_where_it_is_called(
    server: ServerProcess, tmp_path: Path, call: str, raised: str
) -> None:
    channel = a_channel(server)

    with running_agent(tmp_path, server, LACKING, "Lacking"), client(server, "boss") as boss:
        answer = boss.ask(channel, "boss", "lacking", {"call": call}, timeout=30)

    assert answer["payload"] == {"raised": raised}


def test_without_a_server_it_says_so_and_waits_for_one(tmp_path: Path) -> None:
    text = HEAD + "import parley.compat.openintent\n" + RFC_DATA_AGENT + 'DataAgent.run("http://127.0.0.1:9", "k")\n'

    with running_program(tmp_path, text) as program:
        program.until("waits for its server (no server answers at http://127.0.0.1:9")

    assert READY not in "\n".join(program.said)
