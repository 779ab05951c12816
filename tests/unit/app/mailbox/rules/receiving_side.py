"""Messages for the receiving side, and what it made of them."""

from __future__ import annotations

import json
import re
from typing import Any

from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.mailbox.listing import Sent
from parley.domain.message.message import Kind
from tests.samples.messages import with_blocks
from tests.unit.app.rig import Rig, drained

ASKS = Wishes(purpose=Purpose.INFORMATION_QUERY)
FILE = "20260313T1431Z_claude_question_9.yaml"


def ask(rig: Rig, **changes: object) -> Sent:
    given: dict[str, Any] = {"body": "How far is it?", "wishes": ASKS, **changes}
    return rig.send(Kind.QUESTION, **given)


def forged(rig: Rig, *edits: tuple[str, str]) -> str:
    """A message as claude's Parley would send it, changed on its way: the text of its file."""
    sent = ask(rig)
    path = rig.path("codex") / sent.file
    text = with_blocks(path.read_text())
    path.unlink()
    for old, new in edits:
        assert re.search(old, text), old
        text = re.sub(old, new, text)
    (rig.path("codex") / FILE).write_text(text)
    return text


def received(rig: Rig, agent: str = "codex") -> list[str]:
    return [one.message.subject for one in drained(rig.kernel(agent))]


def dead(rig: Rig, agent: str = "codex") -> list[str]:
    """Why each dead letter is dead."""
    return [json.loads(one.read_text())["code"] for one in sorted(rig.path(agent, "dead_letter").glob("*.json"))]
