"""Agents and workflows: decorated methods keep their types, and `BaseAgent` says what there is."""

from __future__ import annotations

from typing import Any, assert_type

import parley
from parley import Agent, BaseAgent, on_approval, on_assignment, on_message


@Agent("data-agent-01", capabilities=["sql"], concurrency=5)
class DataAgent(BaseAgent):
    def __init__(self, version: str = "v2.3") -> None:
        self.version = version

    @on_message(channel="data-clarification")
    async def clarify(self, message: parley.ChannelMessage) -> dict[str, Any] | None:
        if message.message_type == "request":
            return {"answer": self.version, "confidence": 0.95}
        return None

    @on_message()
    async def listen(self, message: parley.ChannelMessage) -> None:
        self.log.info("a message", extra={"sender": message.sender})

    @on_message(kind="question", from_=("alice", "bob"), timeout=5)
    def wait_for_each(self, message: parley.ChannelMessage) -> dict[str, object]:
        return {"asked": message.payload["question"]}

    @on_assignment
    async def work(self, intent: parley.Intent) -> None:
        channel = await self.channels.open("data-clarification", intent_id=intent.id)
        answer = await channel.ask("research-agent-01", {"question": "Which quarter?"}, timeout=30)
        assert_type(answer, parley.AsyncReceivedMessage)
        for one in await channel.ask_all("role:reviewer", {"question": "Good?"}):
            assert_type(one.error, str)
        await channel.notify("logger", {"phase": "begun"})
        await channel.broadcast({"answer": answer.payload["answer"]})
        await self.client.update_state(intent.id, {"quarter": answer.payload["answer"]})

    @on_approval
    async def decided(self, approval: parley.Approval) -> None:
        assert_type(self.name, str)
        self.log.info("decided", extra={"status": approval.status})


def main() -> None:
    agent = DataAgent("v3")
    assert_type(agent, DataAgent)
    assert_type(agent.version, str)
    agent.run("http://127.0.0.1:8420", key="secret")
    result = parley.Workflow.load("report.yaml").run()
    assert_type(result, parley.WorkflowResult)
