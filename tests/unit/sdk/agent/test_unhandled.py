"""What no handler is for: whoever asks the agent itself is told at once, and nobody else is disturbed."""

from __future__ import annotations

from parley.sdk.agent.agent import Agent, BaseAgent
from parley.sdk.agent.decorators import on_message
from parley.wire.api.records.channels import ChannelMessage
from tests.rigs.team import CHANNEL, LiveServer, soon, with_server
from tests.unit.sdk.agent.at_work import Ear, answered, at_work


@Agent("bob")
class Bob(BaseAgent):
    @on_message(channel="questions", kind="request")
    async def answer(self, message: ChannelMessage) -> dict[str, str]:
        return {"by": "bob"}


@with_server
async def test_a_request_to_the_agent_that_no_handler_is_for_is_answered_with_an_error(
    server: LiveServer, ear: Ear
) -> None:
    async with at_work(server, Bob()) as alice:
        said = await alice.ask(CHANNEL, None, "bob", {"question": "?"}, 10, check=False)

    assert said.metadata["error"] == "no_handler"
    assert said.error == f"has no handler for this request in {said.channel or CHANNEL!r} (it has some for questions)"
    assert ear.actions.count("agent_request_unhandled") == 1


@with_server
async def test_a_request_to_a_role_is_left_to_the_others_who_hold_it(server: LiveServer) -> None:
    await server.rig.role("data", "bob")
    bob = Bob()
    async with at_work(server, bob) as alice:
        asked = await alice.send_message(CHANNEL, None, "role:data", "request", {})
        await soon(lambda: bob.counts["done"] == 1)

        assert await answered(server, asked.id) == []


@with_server
async def test_a_notice_that_no_handler_is_for_is_passed_over(server: LiveServer, ear: Ear) -> None:
    bob = Bob()
    async with at_work(server, bob) as alice:
        await alice.send_message(CHANNEL, None, "bob", "notify", {})
        await soon(lambda: bob.counts["done"] == 1)

    assert "agent_request_unhandled" not in ear.actions
