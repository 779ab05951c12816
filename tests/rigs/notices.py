"""Messages that wait for a person, made in the kernel; and a notifier who goes nowhere."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from parley.app.team.channels import posting
from parley.app.team.channels.posting import Held
from parley.app.team.decisions import approvals
from parley.app.team.decisions.approvals import ApprovalDecision
from parley.app.team.work import sweep
from parley.domain.agents.party import Attributes
from parley.domain.channel.post import Post, PostDraft
from parley.domain.content.envelope import Purpose
from parley.domain.directory.callers import DEFAULT_TENANT, NO_TENANT, Caller, Key, KeyKind, key_digest
from parley.domain.errors.errors import ParleyError
from parley.domain.exchange.approval import Approval, Decision
from parley.domain.exchange.notice import Letter
from parley.domain.message.message import Pattern
from tests.rigs.team import CHANNEL, Rig

SECRET_WORDS = "I commit to the plan of the blue elephant."


async def peopled(rig: Rig) -> None:
    """alice acts for ann, bob for ben; both may talk in one channel."""
    await rig.intent()
    await rig.channel()
    for agent, user in (("alice", "ann"), ("bob", "ben")):
        await rig.agent(agent, attributes=Attributes(user_id=user))
        await rig.key(agent)


def person(user: str, tenant: str = DEFAULT_TENANT) -> Caller:
    return Caller(tenant, user, KeyKind.HUMAN, f"key_{tenant}_human_{user}", user)


async def key_of(rig: Rig, user: str) -> str:
    """A person's key, for subscriptions, which look whether it still holds."""
    found = f"secret of {user}"
    key = Key(
        id=person(user).key_id,
        tenant_id=NO_TENANT,
        owner=DEFAULT_TENANT,
        key_kind=KeyKind.HUMAN,
        digest=key_digest(found),
        user_id=user,
        created_at=rig.at(),
    )
    await rig.put(key)
    return found


async def told(
    rig: Rig, text: str, sender: str = "alice", to: str = "bob", metadata: dict[str, str] | None = None
) -> Post | Held:
    """Say something under the rules: an information query, unless `metadata` has other ideas."""
    given = json.dumps(metadata or {"exchange_type": Purpose.INFORMATION_QUERY.value}).encode()
    draft = PostDraft(Pattern.REQUEST, json.dumps({"text": text}).encode(), to, metadata=given)
    draft = draft._replace(wishes=rig.team.envelopes.wishes(given))
    return await posting.post(rig.team, rig.caller(sender), CHANNEL, draft)


async def waiting(rig: Rig, sender: str = "alice", to: str = "bob") -> Approval:
    """A message that waits for the sender's person."""
    said = await told(rig, SECRET_WORDS, sender, to)
    assert isinstance(said, Held)
    return said.approval


async def now(rig: Rig, approval: Approval) -> Approval:
    found = await rig.store.get(Approval, approval.tenant_id, approval.id)
    assert found is not None
    return found


async def decide(rig: Rig, approval: Approval, decision: Decision, user: str = "ann") -> Approval:
    shown = await now(rig, approval)
    return await approvals.decide(rig.team, person(user), approval.id, ApprovalDecision(decision, shown.digest))


async def sweep_at(rig: Rig, **span: float) -> None:
    """Let time go by, and do what is due then."""
    rig.clock.pass_by(**span)
    await sweep.sweep(rig.team)


@dataclass
class FakeNotifier:
    """Keeps what it was given. People in `broken` cannot be reached, others have a mailbox only if they are named."""

    people: tuple[str, ...] = ("ann", "ben")
    broken: dict[str, ParleyError] = field(default_factory=dict)
    carried: list[tuple[str, Letter]] = field(default_factory=list)

    async def notify(self, user: str, letter: Letter) -> bool:
        if user in self.broken:
            raise self.broken[user]
        if user not in self.people:
            return False
        self.carried.append((user, letter))
        return True

    @property
    def subjects(self) -> list[tuple[str, bool]]:
        """To whom, and whether it was a reminder."""
        return [(user, letter.subject.startswith("Reminder")) for user, letter in self.carried]
