"""A held message that waits for a person, who can decide about it: `approval.approve(note="ok")`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parley.domain.content.invisible_characters import made_visible
from parley.domain.errors.errors import Invalid
from parley.wire.api.records.rules import Approval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.sdk.client.approvals import AsyncApprovals

_CLIENT = "client"


class AsyncPendingApproval(Approval, frozen=True, kw_only=True, dict=True):
    """A held message, as it is shown here. What is decided is exactly this: if it has changed, nothing is sent."""

    __module__ = "parley"

    def preview(self) -> str:
        """The message as it would be sent, why it is held, and who waits for it, as text for a person.

        Invisible characters are spelled out.
        """
        payload: dict[str, Any] = self.payload or {}
        content = payload.get("text") if set(payload) == {"text"} else None
        text = content if isinstance(content, str) else json.dumps(payload, ensure_ascii=False, indent=2)
        lines = [
            f"{self.agent} (for {self.user}) to {self.to}, {self.exchange_type}, {self.classification}",
            f"held: {made_visible(self.reason)}",
            "",
            made_visible(text),
        ]
        hidden = len(self.hidden_characters)
        if hidden:
            lines += ["", f"The message has {hidden} hidden character{'' if hidden == 1 else 's'}, spelled out above."]
        return "\n".join(lines)

    async def approve(self, note: str = "") -> Approval:
        """Have the message sent, as it is shown here. `ApprovalStale` when it has changed meanwhile."""
        return await self._client.approve(self, note)

    async def reject(self, note: str = "") -> Approval:
        """Have the message not sent."""
        return await self._client.reject(self, note)

    async def answer(self, answer: Mapping[str, Any] | str, note: str = "") -> Approval:
        """Say something yourself instead of what the agent wanted to say."""
        return await self._client.answer(self, answer, note)

    @property
    def _client(self) -> AsyncApprovals:
        client: AsyncApprovals | None = self.__dict__.get(_CLIENT)
        if client is None:
            raise Invalid("this is a copy of an approval, without its server", hint="use client.approve(approval)")
        return client


def pending(approval: Approval, client: AsyncApprovals) -> AsyncPendingApproval:
    """An approval, with the client of the person who decides."""
    bound = AsyncPendingApproval(**{name: getattr(approval, name) for name in Approval.__struct_fields__})
    bound.__dict__[_CLIENT] = client
    return bound
