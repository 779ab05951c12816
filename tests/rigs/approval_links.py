"""A held message, and a link to its approval in the hands of a browser that has not signed in."""

from __future__ import annotations

from typing import NamedTuple

from tests.conformance.ocip.governed import Document, held, pair, person
from tests.rigs.http_client import Client
from tests.rigs.team import LiveServer
from tests.rigs.visitor import Visitor, field_of


class HeldWithLink(NamedTuple):
    """What alice would tell bob, the people and agents around it, and ann's link to it."""

    waits: Document
    path: str
    visitor: Visitor
    alice: Client
    bob: Client
    ann: Client

    @property
    def approval(self) -> str:
        return str(self.waits["approval"])

    @property
    def secret(self) -> str:
        return self.path.rpartition("/")[2]

    async def status(self) -> str:
        """What the approval is now."""
        return str((await self.ann.get(f"/approvals/{self.approval}")).json["status"])

    async def form(self, decision: str = "approve", **fields: str) -> dict[str, str]:
        """The form of the page, filled in."""
        page = await self.visitor.open(self.path)
        return {"decision": decision, "digest": field_of(page, "digest"), **fields}


async def a_link(server: LiveServer, text: str = "We promise it.") -> HeldWithLink:
    """A message of alice that is held, and ann's link to it, on a server that allows links."""
    server.rig.team.approval_links = True
    alice, bob = await pair(server)
    waits = await held(alice, "bob", text)
    ann = await person(server, "ann")
    return HeldWithLink(waits, await link_to(ann, waits["approval"]), Visitor(server), alice, bob, ann)


async def link_to(client: Client, approval: str) -> str:
    """The path of a fresh link."""
    answer = await client.post(f"/approvals/{approval}/link")
    assert answer.status == 201, answer
    return str(answer.json["path"])
