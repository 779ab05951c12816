"""The code of RFC-0021, sections SDK Integration and YAML Workflow Integration, letter by letter.

Only what cannot be imported from here is adapted: `from openintent.agents import` is `from parley import`.
"""

from __future__ import annotations

import logging
from typing import Any

CLIENT_METHODS = """\
# Channel management
client.create_channel(intent_id, name, members=None, member_policy="intent", options=None)
client.list_channels(intent_id)
client.get_channel(channel_id)
client.close_channel(channel_id)

# Messaging
client.send_message(channel_id, sender, to=None, message_type="notify", payload={}, expires_at=None)
client.reply_to(channel_id, message_id, sender, payload={})
client.list_messages(channel_id, since=None, to=None)
client.get_message(channel_id, message_id)
client.mark_read(channel_id, message_id)

# Convenience
client.ask(channel_id, sender, to, payload, timeout=30)  # Send request + await response
client.ask_all(channel_id, sender, to, payload, timeout=30)  # Collect multiple responses
"""

AGENT_DECORATORS = '''\
from openintent.agents import Agent, on_message, on_assignment

@Agent("data-agent-01")
class DataAgent:
    @on_assignment
    async def handle(self, intent):
        # Normal work...
        pass

    @on_message(channel="data-clarification")
    async def handle_clarification(self, message):
        """Called when a message arrives on the named channel."""
        if message.message_type == "request":
            # Return value is auto-sent as a response
            return {"answer": "v2.3", "confidence": 0.95}

    @on_message()  # No channel filter — receives all messages
    async def handle_any(self, message):
        """Called for messages on any channel."""
        logger.info(f"Got message from {message.sender}: {message.payload}")
'''

CHANNEL_PROXY = """\
@Agent("research-agent-01")
class ResearchAgent:
    @on_assignment
    async def handle(self, intent):
        # Open/get a channel (created implicitly if it doesn't exist)
        channel = await self.channels.open("data-clarification", intent_id=intent.id)

        # Ask a question and wait for the answer
        response = await channel.ask("data-agent-01", {
            "question": "What schema version?"
        }, timeout=30)

        schema_version = response.payload["answer"]

        # Notify everyone
        await channel.broadcast({"status": "starting analysis", "schema": schema_version})

        # Fire-and-forget
        await channel.notify("logger-agent", {"phase": "research", "started": True})
"""

WORKFLOW = """\
version: "1.0"
intent:
  title: "Research Q1 Financials"

channels:
  data-clarification:
    members: [research-agent, data-agent]
    member_policy: explicit
    audit: true

  progress:
    member_policy: intent
    audit: false

agents:
  research-agent:
    on_message:
      - channel: progress
        handler: log_progress

  data-agent:
    on_message:
      - channel: data-clarification
        handler: answer_questions
"""


class Agents:
    """The two classes of the text, and what they logged."""

    def __init__(self) -> None:
        self.logged: list[str] = []
        logger = logging.Logger("the text's own")  # noqa: LOG001  # nobody else is to hear it
        logger.addHandler(_Keeps(self.logged))
        names: dict[str, Any] = {"__name__": "rfc_0021", "logger": logger}
        adapted = AGENT_DECORATORS.replace("from openintent.agents import", "from parley import")
        exec(compile(adapted + "\n\n" + CHANNEL_PROXY, "RFC-0021", "exec"), names)
        self.data, self.research = names["DataAgent"](), names["ResearchAgent"]()


class _Keeps(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())
