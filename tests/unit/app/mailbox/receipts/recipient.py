"""A recipient whose hooks run, and its sender."""

from __future__ import annotations

from pathlib import Path

from parley.app.mailbox.attention import InboxNotice, notice
from parley.app.mailbox.kernel import drive
from parley.app.mailbox.receipts import offers
from parley.app.mailbox.receipts.status import status
from parley.domain.mailbox.hook_events import AttentionLimits, HookEvent, Moment
from parley.domain.receipts import MessageStatus
from tests.unit.app.rig import PROJECT, Rig


def receipts_of(rig: Rig, agent: str = "codex") -> Path:
    return rig.folder / "projects" / PROJECT / "agents" / agent / "receipts"


def hook(rig: Rig, moment: Moment, turn: str = "t1", *, printed: bool = True) -> InboxNotice | None:
    """An event of a session of codex. Without `printed` its hook dies before its notice is out."""
    kernel = rig.kernel("codex")
    event = HookEvent("claude", moment, "s1", turn, fingerprint=rig.ids.token()[:16])
    said = drive(notice(kernel, event, AttentionLimits(), 720))
    if said is not None and printed:
        drive(offers.confirm(kernel, said.marks))
    return said


def seen_by_sender(rig: Rig, message_id: str) -> MessageStatus:
    return drive(status(rig.kernel("claude"), message_id))
