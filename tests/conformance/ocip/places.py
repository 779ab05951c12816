"""Two places in which the same story can be told: a server, and mailboxes. Each says what its audit trail became."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from parley.app.mailbox import sending
from parley.app.mailbox.kernel import drive
from parley.app.mailbox.rules import approvals as mailbox_approvals
from parley.app.mailbox.rules import exchanges as mailbox_exchanges
from parley.app.mailbox.rules.approvals import MailboxDecision as MailboxDeciding
from parley.app.team.channels import posting
from parley.app.team.channels.posting import Held
from parley.app.team.decisions import approvals, exchanges
from parley.app.team.decisions.approvals import ApprovalDecision
from parley.app.team.rules import suspensions
from parley.app.team.work import sweep
from parley.domain.content.classification import Classification, DataItem, OnOver
from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import ParleyError
from parley.domain.errors.rules import MessageHeld
from parley.domain.exchange.approval import Approval, Decision
from parley.domain.exchange.exchange import Exchange
from parley.domain.message.message import Kind, Pattern
from parley.domain.rules.policy import CrossOrg
from parley.domain.rules.suspension import Stopped
from parley.wiring import public_key_of
from tests.rigs import governed as governed_rig
from tests.rigs.team import CHANNEL, open_rig
from tests.rigs.team import Rig as TeamRig
from tests.samples.messages import a_body, a_draft
from tests.unit.app.rig import Rig as MailboxRig
from tests.unit.app.rig import a_rig, drained

# Who is where, and for whom each acts.
CAST = {
    "alice": {"user_id": "ann", "org_unit": "engineering", "max_classification": "confidential"},
    "bob": {"user_id": "ben", "org_unit": "engineering"},
    "carol": {"user_id": "cleo", "org_unit": "sales"},
}
PEOPLE = {"ann": "alice", "ben": "bob", "cleo": "carol"}
REVIEW = a_body(Kind.REVIEW_REQUEST)
ANSWER = "I say it myself."
Trail = dict[str, list[dict[str, Any]]]
Story = Callable[["Place"], Awaitable[list[str]]]


class Place(Protocol):
    """Where a story is told. Every act says what became of it: delivered, held, or the code of its refusal."""

    async def policy(self, **keys: str | int) -> None:
        """Put a policy into force."""
        ...

    async def attribute(self, agent: str, **attributes: str | bool) -> None:
        """Change what the directory says about an agent."""
        ...

    async def suspend(self, agent: str) -> None:
        """Stop an agent."""
        ...

    async def say(self, sender: str, to: str, text: str = "How far is it?", **more: Any) -> str:  # noqa: ANN401  # what a sender may ask for
        """Say something, and have it read at once where it was delivered."""
        ...

    async def decide(self, person: str, decision: str, number: int = 0) -> str:
        """Decide about what waits for a person: the first, or the one of this number."""
        ...

    async def close(self, agent: str) -> None:
        """Close the only exchange that an agent is in."""
        ...

    async def pass_by(self, hours: int) -> None:
        """Let time go by, and let what is over by then end."""
        ...

    async def trail(self) -> Trail:
        """What each side's chain says, in order."""
        ...


class ServerPlace:
    """A server with one channel."""

    def __init__(self, rig: TeamRig) -> None:
        self._rig = rig

    @classmethod
    async def open(cls, rig: TeamRig) -> ServerPlace:
        place = cls(rig)
        await rig.intent()
        await rig.channel()
        for agent in CAST:
            await place.attribute(agent)
        await place.policy()
        return place

    async def policy(self, **keys: str | int) -> None:
        kinds: dict[str, type] = {"cross_org": CrossOrg, "on_over_classified": OnOver}
        await governed_rig.put_policy(self._rig, **{name: kinds.get(name, int)(key) for name, key in keys.items()})

    async def attribute(self, agent: str, **attributes: str | bool) -> None:
        said: dict[str, Any] = {**CAST[agent], **attributes}
        if "max_classification" in said:
            said["max_classification"] = Classification(said["max_classification"])
        await governed_rig.place(self._rig, agent, **said)

    async def suspend(self, agent: str) -> None:
        admin = self._rig.caller(kind=KeyKind.ADMIN)
        await suspensions.suspend(self._rig.team, admin, Stopped.AGENT, agent, "")

    async def say(self, sender: str, to: str, text: str = "How far is it?", **more: Any) -> str:  # noqa: ANN401  # what a sender may ask for
        fields: dict[str, Any] = {"exchange_type": more.pop("purpose", "information_query"), **more}
        note, body = fields.pop("note", False), fields.pop("body", text)
        if fields.pop("plain", note):
            del fields["exchange_type"]
        pattern = Pattern.NOTIFY if note else Pattern.REQUEST
        draft = governed_rig.a_draft(to, body, pattern=pattern, conversation_id="talk", **fields)
        try:
            done = await posting.post(self._rig.team, self._rig.caller(sender), CHANNEL, draft)
        except ParleyError as refusal:
            return refusal.code
        return "held" if isinstance(done, Held) else "delivered"

    async def decide(self, person: str, decision: str, number: int = 0) -> str:
        caller = governed_rig.person(person)
        waiting = await self._rig.store.children(Approval, DEFAULT_TENANT, "pending")
        approval = [one for one in waiting if one.user == person][number]
        deciding = ApprovalDecision(Decision(decision), approval.digest, "", b'{"text":"%b"}' % ANSWER.encode())
        try:
            return (await approvals.decide(self._rig.team, caller, approval.id, deciding)).status.value
        except ParleyError as refusal:
            return refusal.code

    async def close(self, agent: str) -> None:
        (exchange,) = await self._rig.store.every(Exchange, DEFAULT_TENANT)
        person = exchange.outcome == "escalated"
        user = CAST[agent]["user_id"]
        caller = governed_rig.person(user, agent) if person else self._rig.caller(agent)
        await exchanges.close(self._rig.team, caller, exchange.id, "enough")

    async def pass_by(self, hours: int) -> None:
        self._rig.clock.pass_by(hours=hours)
        for _ in range(2):
            await sweep.sweep(self._rig.team)

    async def trail(self) -> Trail:
        return {agent: await governed_rig.entries(self._rig, sides=(agent,)) for agent in CAST}


class MailboxPlace:
    """A project whose agents write files to each other; each has a ledger of its own."""

    def __init__(self, rig: MailboxRig) -> None:
        self._rig = rig
        self._policy: Mapping[str, str | int] = {}
        self._attributes: dict[str, dict[str, Any]] = {agent: dict(said) for agent, said in CAST.items()}
        self._suspended: list[str] = []
        self._talk = "talk"
        self._write()

    def _write(self) -> None:
        lines = ["tenant: default", "agents:"]
        for agent, attributes in self._attributes.items():
            spelled = [f"    {name}: {str(value).lower()}" for name, value in attributes.items()]
            lines += [f"  {agent}:", *spelled]
        lines += ["humans:", *[f"  {user}: {public_key_of(_key(user))}" for user in PEOPLE]]
        lines += [f"suspended: [{', '.join(f'agent {agent}' for agent in self._suspended)}]"]
        keys = {"enabled": "true", **self._policy}
        self._rig.govern("\n".join(lines) + "\n", enterprise__default="; ".join(f"{k}: {v}" for k, v in keys.items()))

    async def policy(self, **keys: str | int) -> None:
        self._policy = keys
        self._write()

    async def attribute(self, agent: str, **attributes: str | bool) -> None:
        self._attributes[agent] |= attributes
        self._write()

    async def suspend(self, agent: str) -> None:
        self._suspended.append(agent)
        self._write()

    async def say(self, sender: str, to: str, text: str = "How far is it?", **more: Any) -> str:  # noqa: ANN401  # what a sender may ask for
        note, body = more.pop("note", False), more.pop("body", None)
        plain = more.pop("plain", note)
        purpose = None if plain else Purpose(more.pop("purpose", "information_query"))
        level = Classification(more.pop("classification")) if "classification" in more else None
        data = tuple(
            DataItem(one["source"], tuple(one["fields"]), Classification(one["classification"]), one["description"])
            for one in more.pop("data", ())
        )
        wishes = Wishes(purpose=purpose, classification=level, data=data, **more)
        kind = Kind.NOTIFICATION if note else Kind.REVIEW_REQUEST if body else Kind.QUESTION
        draft = a_draft(kind, sender=sender, to=(to,), body=body or text, conversation_id=self._talk, wishes=wishes)
        try:
            sent = drive(sending.send(self._rig.kernel(sender), draft))
        except MessageHeld as held:
            self._talk = str(held.facts["conversation_id"])
            return "held"
        except ParleyError as refusal:
            return refusal.code
        self._talk = sent.message.conversation_id
        self._read(to)
        return "delivered"

    def _read(self, agent: str) -> None:
        list(drained(self._rig.kernel(agent)))

    async def decide(self, person: str, decision: str, number: int = 0) -> str:
        kernel = self._rig.kernel(PEOPLE[person])
        approval = [one for one in drive(mailbox_approvals.list_all(kernel)) if one.pending][number]
        deciding = MailboxDeciding(Decision(decision), _key(person), approval.digest, "", ANSWER)
        try:
            status = drive(mailbox_approvals.decide(kernel, approval.id, deciding)).status.value
        except ParleyError as refusal:
            return refusal.code
        self._read(approval.to)
        return status

    async def close(self, agent: str) -> None:
        kernel = self._rig.kernel(agent)
        (exchange,) = drive(mailbox_exchanges.list_all(kernel))
        key = _key(CAST[agent]["user_id"]) if exchange.outcome == "escalated" else ""
        drive(mailbox_exchanges.close(kernel, exchange.id, "enough", key))

    async def pass_by(self, hours: int) -> None:
        self._rig.clock.pass_by(hours=hours)
        for agent in CAST:
            drive(mailbox_exchanges.list_all(self._rig.kernel(agent)))

    async def trail(self) -> Trail:
        return {agent: self._rig.audits(agent) if agent in self._rig.stores else [] for agent in CAST}


def _key(user: str) -> str:
    return f"pk_{user}"


async def tell_on_a_server(folder: Path, story: Story) -> tuple[list[str], Trail]:
    """What each act of a story came to, and what was recorded."""
    async with open_rig(folder) as rig:
        place = await ServerPlace.open(rig)
        return await story(place), await place.trail()


async def tell_between_mailboxes(folder: Path, story: Story) -> tuple[list[str], Trail]:
    """What each act of a story came to, and what was recorded."""
    rig = a_rig(folder / "home", CAST)
    try:
        place = MailboxPlace(rig)
        return await story(place), await place.trail()
    finally:
        rig.close()
