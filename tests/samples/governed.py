"""Parties, cases, proposals and records of governed exchange, as tests want them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from parley.domain.agents.party import Attributes, Party
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Envelope, Origin, Purpose, ReplyPolicy, Source, Wishes
from parley.domain.exchange.approval import Approval, Cause, HeldDraft, content_digest
from parley.domain.exchange.exchange import Exchange
from parley.domain.rules.judge import Case
from parley.domain.rules.policy import CURRENT, Fragment, PolicySnapshot, with_document
from parley.domain.rules.rulebook import Rulebook
from parley.domain.rules.ruling import Fresh, Proposal

TENANT = "default"
AT = "2026-03-13T14:30:00.000000+00:00"
NOW = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)
END = "2026-03-14T14:30:00.000000+00:00"


def a_party(agent: str = "alice", *, human: bool = False, **attributes: Any) -> Party:
    """An agent of engineering that acts for the person of its name; anything else is said."""
    said = {"org_unit": "engineering", "user_id": f"{agent}.h", **attributes}
    return Party(agent, Attributes(**said), human)


ALICE, BOB = a_party("alice"), a_party("bob")


def a_case(**changes: Any) -> Case:
    """A case that nothing speaks against."""
    made = Case(
        ALICE,
        BOB,
        Purpose.INFORMATION_QUERY,
        ReplyPolicy.AGENT_OK,
        requires_commitment=False,
        origin=Origin.AGENT,
        level=Classification.INTERNAL,
        round=1,
        max_rounds=3,
        initiates=True,
    )
    return made._replace(**changes)


def an_exchange(**changes: Any) -> Exchange:
    made = Exchange(
        id="exch_1",
        tenant_id=TENANT,
        conversation_id="conv-1",
        initiator="alice",
        responder="bob",
        purpose=Purpose.INFORMATION_QUERY,
        reply_policy=ReplyPolicy.AGENT_OK,
        requires_commitment=False,
        max_rounds=3,
        started_at=AT,
        expires_at=END,
    )
    return replace(made, **changes)


def an_envelope(**changes: Any) -> Envelope:
    """What alice's agent would truthfully claim in the first round."""
    made = Envelope(
        message_type=Origin.AGENT,
        source_agent=Source("alice", "alice.h", "engineering", TENANT),
        classification=Classification.INTERNAL,
        conversation_id="conv-1",
        exchange_round=1,
        max_rounds=3,
        can_commit=False,
        can_share=(Classification.PUBLIC, Classification.INTERNAL),
        reply_policy=ReplyPolicy.AGENT_OK,
        requires_commitment=False,
        expires_at="2026-03-14T14:30:00.000Z",
    )
    return made._replace(**changes)


def a_snapshot(**said: Any) -> PolicySnapshot:
    """What is in force where the enterprise says this."""
    fragment = Fragment(enabled=True, **said)
    return with_document(PolicySnapshot(id=CURRENT, tenant_id=TENANT), "enterprise/default", repr(said), fragment)


def a_rulebook(**said: Any) -> Rulebook:
    return Rulebook(a_snapshot(**said))


NOTHING_IN_FORCE = Rulebook(PolicySnapshot(id=CURRENT, tenant_id=TENANT))


def a_proposal(**changes: Any) -> Proposal:
    """Alice asks bob something harmless."""
    made = Proposal(
        tenant=TENANT,
        sender=ALICE,
        receivers=(BOB,),
        to="bob",
        asks=True,
        wishes=Wishes(purpose=Purpose.INFORMATION_QUERY),
        body={"text": "What is the status?"},
        exchange=None,
        others=(),
        approval=None,
        now=NOW,
        fresh=Fresh("exch_new", "conv_new", "appr_new"),
    )
    return made._replace(**changes)


def a_held_draft(**changes: Any) -> HeldDraft:
    made = HeldDraft(
        pattern="request", to="bob", in_reply_to="", payload='{"text":"We promise it."}', metadata='{"k":"v"}'
    )
    return replace(made, **changes)


def an_approval(**changes: Any) -> Approval:
    draft = changes.pop("draft", a_held_draft())
    made = Approval(
        id="appr_1",
        tenant_id=TENANT,
        cause=Cause.COMMITMENT,
        reason="why",
        exchange_id="exch_1",
        conversation_id="conv-1",
        channel_id="chan_1",
        agent="alice",
        user="alice.h",
        to="bob",
        classification="internal",
        draft=draft,
        digest=content_digest(draft, "alice", "internal", "1-x") if draft else "",
        policy_version="1-x",
        created_at=AT,
        expires_at=END,
    )
    return replace(made, **changes)
