"""What one message costs a model, from the notice to its end, without a tokenizer.

Words, numbers of up to three digits, signs and line ends are counted, plus a tenth: an estimate. A real tokenizer
(o200k) counts the list of tools only, in `tests/harness/test_tools.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from parley.domain.message.message import Kind, Pattern
from parley.surfaces.mcp.protocol import ToolResult
from parley.surfaces.mcp.server_tools import ServerTools
from parley.surfaces.mcp.tools import INSTRUCTIONS, TOOLS
from parley.wire.model_text import notice_text
from tests.rigs.team import Rig as TeamRig
from tests.rigs.team import with_rig
from tests.unit.app.rig import Rig
from tests.unit.surfaces.mcp.test_mailbox_tools import text_of, tools_of

BODY = (
    "The deploy failed twice on the same migration. Which schema version is current, and may I run the downgrade on"
    " staging before I try it again today?"
)
MOST = 170


def estimate(text: str) -> float:
    return 1.1 * len(re.findall(r"[A-Za-z]+|\d{1,3}|[^\w\s]+|\n", text))


def call(name: str, **arguments: object) -> str:
    return json.dumps({"name": name, "arguments": arguments}, separators=(",", ":"))


def overhead(texts: Sequence[str]) -> float:
    """What is paid beside the body."""
    return sum(map(estimate, texts)) - estimate(BODY)


def ref_of(taken: str) -> str:
    return taken[1 : taken.index("]")]


def notice() -> str:
    from parley.domain.mailbox.listing import Item

    item = Item("msg-20260313T1431Z-claude-k4k4", "claude", (), "question", "P2", "", "", "", "", "", "k4k4.yaml")
    return notice_text("codex", [item], [item])


def test_a_body_of_33_tokens_is_what_the_figures_say() -> None:
    assert round(estimate(BODY)) == 33


def test_a_handled_message_of_a_mailbox_costs_at_most_170_tokens_beside_its_body(rig: Rig) -> None:
    rig.send(Kind.QUESTION, subject="The deploy failed twice on the same migration.", body=BODY)
    tools = tools_of(rig)
    taken = text_of(tools, "next")
    replied = text_of(tools, "reply", id=ref_of(taken), text="Yes.")

    texts = [notice(), call("next"), taken, call("reply", id=ref_of(taken), text=""), replied]
    assert BODY in taken
    assert overhead(texts) <= MOST


@with_rig
async def test_a_handled_message_of_a_server_costs_at_most_170_tokens_beside_its_body(rig: TeamRig) -> None:
    await rig.open_channel()
    await rig.say("alice", BODY, to="bob", pattern=Pattern.REQUEST)
    tools = ServerTools(rig.team, rig.caller("bob"))
    taken = await tools.call("next", {})
    replied = await tools.call("reply", {"id": ref_of(taken.text), "text": "Yes."})

    texts = [notice(), call("next"), taken.text, call("reply", id=ref_of(taken.text), text=""), replied.text]
    assert (taken.is_error, replied) == (False, ToolResult("Sent to alice as notification, and finished the message."))
    assert BODY in taken.text
    assert overhead(texts) <= MOST


def test_the_tools_with_their_instructions_cost_at_most_700_tokens() -> None:
    listed = json.dumps([*TOOLS], separators=(",", ":"))

    assert estimate(listed) + estimate(INSTRUCTIONS) <= 700
