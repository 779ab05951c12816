"""A rig in which agents talk under the rules: who they are, what is in force, and what was written about it."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Any

from parley.app.team.channels import posting
from parley.app.team.channels.posting import Held
from parley.app.team.decisions import approvals
from parley.app.team.decisions.approvals import ApprovalDecision
from parley.domain.agents.org_units import ALL, OrgUnits, with_unit
from parley.domain.agents.party import Attributes
from parley.domain.channel.post import Post, PostDraft
from parley.domain.directory.callers import DEFAULT_TENANT, Caller, KeyKind
from parley.domain.errors.errors import ParleyError
from parley.domain.exchange.approval import Approval, Decision
from parley.domain.exchange.exchange import Exchange
from parley.domain.message.message import Pattern
from parley.domain.rules.policy import CURRENT, Fragment, PolicySnapshot, first_snapshot, with_document
from parley.domain.store.changes import AuditQuery
from parley.wire.ocip import wishes_of
from parley.wire.parts import partial_of
from tests.rigs.team import CHANNEL, Rig

QUERY = {"exchange_type": "information_query"}


async def two_agents(rig: Rig, **attributes: Any) -> None:
    """alice, who acts for ann, and bob, who acts for ben, in engineering, and a channel that both may write to."""
    await rig.intent(agents=("bob",))
    await rig.channel()
    await place(rig, "alice", user_id="ann", **attributes)
    await place(rig, "bob", user_id="ben", **attributes)


async def place(rig: Rig, agent: str, **attributes: Any) -> None:
    """What an admin says about an agent."""
    said = Attributes(**{"org_unit": "engineering", **attributes})
    await rig.agent(agent, attributes=said)
    known = await rig.store.get(OrgUnits, DEFAULT_TENANT, ALL) or OrgUnits(id=ALL, tenant_id=DEFAULT_TENANT)
    units = with_unit(known, said.org_unit)
    if units is not known:
        await rig.put(units)


async def put_policy(rig: Rig, document: str = "enterprise/default", **said: Any) -> str:
    """Put one document into force; the label of what is in force then."""
    known = await rig.store.get(PolicySnapshot, DEFAULT_TENANT, CURRENT)
    before = known or first_snapshot(DEFAULT_TENANT, rig.team.policies.default)
    fragment = Fragment(**{"enabled": True, **said} if document.startswith("enterprise/") else said)
    return (await rig.put(with_document(before, document, f"{before.number}{said}", fragment))).label


def person(user: str, seat: str = "") -> Caller:
    """A person with its own key, in the place of its agent or in none."""
    return Caller(DEFAULT_TENANT, seat or user, KeyKind.HUMAN, f"key_{user}", user)


async def send(
    rig: Rig,
    sender: str | Caller,
    to: str,
    text: str | dict[str, Any] = "hello",
    *,
    pattern: Pattern = Pattern.REQUEST,
    **metadata: Any,
) -> Post | Held:
    """Say something under the rules: a query unless something else is said."""
    caller = rig.caller(sender) if isinstance(sender, str) else sender
    said = metadata if {"exchange_type", "ocip"} & metadata.keys() else {**QUERY, **metadata}
    return await posting.post(rig.team, caller, CHANNEL, a_draft(to, text, pattern=pattern, **said))


def a_draft(
    to: str,
    text: str | dict[str, Any] = "hello",
    *,
    pattern: Pattern = Pattern.REQUEST,
    in_reply_to: str = "",
    **metadata: Any,
) -> PostDraft:
    payload = {"text": text} if isinstance(text, str) else text
    spelled = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
    return PostDraft(
        pattern,
        spelled,
        to,
        in_reply_to,
        json.dumps(metadata).encode() if metadata else b"{}",
        wishes=wishes_of(metadata),
        partial=partial_of(pattern, metadata),
    )


async def said(rig: Rig, sender: str | Caller, to: str, text: str | dict[str, Any] = "hello", **more: Any) -> Post:
    """The same, delivered."""
    done = await send(rig, sender, to, text, **more)
    assert isinstance(done, Post)
    return done


async def held(
    rig: Rig, sender: str | Caller, to: str, text: str | dict[str, Any] = "We promise it.", **more: Any
) -> Approval:
    """The same, held."""
    done = await send(rig, sender, to, text, **more)
    assert isinstance(done, Held)
    return done.approval


async def answer(rig: Rig, sender: str | Caller, request: Post, text: str = "fine", **metadata: Any) -> Post | Held:
    caller = rig.caller(sender) if isinstance(sender, str) else sender
    draft = a_draft("", text, pattern=Pattern.RESPONSE, **metadata)
    return await posting.reply(rig.team, caller, CHANNEL, request.id, draft)


async def decide(
    rig: Rig, user: str | Caller, approval: Approval, decision: Decision = Decision.APPROVE, **more: Any
) -> Approval:
    """What a person says about what waits."""
    caller = person(user) if isinstance(user, str) else user
    given = {"digest": approval.digest, "answer": b'{"text":"I say it myself."}', **more}
    return await approvals.decide(rig.team, caller, approval.id, ApprovalDecision(decision, **given))


async def exchange_of(rig: Rig, what: Post | Approval) -> Exchange:
    found = await rig.store.get(Exchange, DEFAULT_TENANT, what.exchange_id)
    assert found is not None
    return found


async def waiting(rig: Rig, approval: Approval) -> Approval:
    """An approval as it is now."""
    found = await rig.store.get(Approval, DEFAULT_TENANT, approval.id)
    assert found is not None
    return found


async def entries(rig: Rig, **query: Any) -> list[dict[str, Any]]:
    """What the audit log says, in order."""
    found = await rig.store.audits(DEFAULT_TENANT, AuditQuery(**query))
    return [json.loads(one.document) for one in found]


def metadata_of(post: Post) -> dict[str, Any]:
    found = json.loads(post.metadata)
    assert isinstance(found, dict)
    return found


async def refusal(doing: Awaitable[object]) -> ParleyError:
    """Why something is refused; the test fails when it is not."""
    try:
        done = await doing
    except ParleyError as error:
        return error
    raise AssertionError(f"not refused: {done}")
