"""The page at a link to an approval: its address, and the operations that it may use. It may use no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.surfaces.http.route import operation_name

if TYPE_CHECKING:
    from parley.app.team.decisions.links import LinkHolder

# Below /console: short, because a link stands in mails and chats.
STEP = "a"


def path_of(secret: str) -> str:
    """The path of the page at a link."""
    return f"/console/{STEP}/{secret}"


def operations_of(holder: LinkHolder) -> frozenset[str]:
    """What the page at a link may do: show its approval, where the message goes, and decide about it."""
    approval = {"approval_id": holder.link.approval_id}
    operations = {
        operation_name("GET", "/approvals/{approval_id}", approval),
        operation_name("POST", "/approvals/{approval_id}/decision", approval),
    }
    if holder.channel_id:
        operations.add(operation_name("GET", "/channels/{channel_id}", {"channel_id": holder.channel_id}))
    if holder.intent_id:
        operations.add(operation_name("GET", "/intents/{intent_id}", {"intent_id": holder.intent_id}))
    return frozenset(operations)
