"""Links to approvals: create, look up, and check before a decision. Each is in the audit log.

    person's key ──> create ──> secret, shown once ──> mail or chat ──> browser
                                                                          │ GET shows, POST decides
    link ──> key, approval, digest of the content  <── looked up ─────────┘

A link is looked up with every request, and its key and approval as well: when one of them has ended, so has the link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.app.rules import approvals as rules
from parley.app.team.directory.keys import check_key
from parley.app.team.retry import committed
from parley.app.team.rules.docket import TeamDocket
from parley.domain.audit.entry import TENANT_SIDE, AuditDraft
from parley.domain.channel.channel import Channel
from parley.domain.directory.callers import NO_TENANT, Key, KeyKind, key_digest
from parley.domain.errors.errors import NotFound
from parley.domain.errors.rules import ApprovalLinksOff, ApprovalStale, HumanRequired
from parley.domain.errors.team import Unauthorized
from parley.domain.exchange.approval import Approval, check_waits, is_outdated
from parley.domain.exchange.link import LINK_PREFIX, ApprovalLink, check_linked, linked
from parley.domain.store.changes import RecordQuery, TeamChanges

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller

# Links of one key to one approval: the oldest ends when there would be more.
LINKS_OF_AN_APPROVAL = 10
_LOOKED_AT = 100


class CreatedLink(NamedTuple):
    """A link, its secret, which is not stored, and when it ends: with the approval, at the latest."""

    link: ApprovalLink
    secret: str
    ends_at: str


class LinkHolder(NamedTuple):
    """A link that is valid now, its key, and the channel and intent that its message goes to."""

    link: ApprovalLink
    key: Key
    channel_id: str = ""
    intent_id: str = ""


async def create(team: Team, caller: Caller, approval_id: str) -> CreatedLink:
    """A link by which the caller, a person, decides about what waits now in a browser that has not signed in."""
    if caller.kind is not KeyKind.HUMAN:
        raise HumanRequired("only a person decides this, with a key of their own")
    if not team.approval_links:
        raise ApprovalLinksOff(
            "this server has links to approvals switched off",
            hint='the operator sets approval_links = "decide"; until then: parley console',
        )
    key = await check_key(team, caller)
    created: list[CreatedLink] = []

    async def decide() -> TeamChanges:
        docket = await TeamDocket.open(team, caller.tenant)
        approval = await docket.approval(approval_id)
        if approval is None or not await rules.is_seen_by(docket, approval, caller.user):
            raise NotFound.no_such("approval")
        await rules.check_right(docket, approval, caller)
        check_waits(approval, docket.at)
        if is_outdated(approval, docket.book.label):
            # Approving would ask for another look at it, which ends the link.
            raise ApprovalStale(
                "the policies have changed since this message was held",
                hint=f"look at it again first: parley approvals approve {approval.id}",
            )
        secret = LINK_PREFIX + team.ids.secret()
        link = linked(team.new_id("link"), secret, key, approval, docket.at)
        created.append(CreatedLink(link, secret, min(link.expires_at, approval.expires_at)))
        fields = (("key_id", key.id), ("approval_id", approval.id))
        others = await team.store.find(ApprovalLink, NO_TENANT, RecordQuery("", fields, limit=_LOOKED_AT))
        # More than one where several were created at once, on several nodes.
        oldest = tuple(others[: max(0, len(others) + 1 - LINKS_OF_AN_APPROVAL)])
        return TeamChanges(caller.tenant, puts=(link,), drops=oldest, audits=(_audit(team, caller, link),))

    # One after the other: each counts the links before it.
    async with team.governance.lock(caller.tenant, approval_id):
        await committed(team, caller, decide, "list of links")
    return created[-1]


async def find(team: Team, secret: str) -> LinkHolder:
    """The link of a secret, and its key. `Unauthorized` when one of them has ended, or links are switched off."""
    if not team.approval_links or not secret.startswith(LINK_PREFIX):
        raise Unauthorized
    await team.store.catch_up(NO_TENANT)
    link = await team.store.find_by_name(ApprovalLink, NO_TENANT, "", key_digest(secret))
    if link is None:
        raise Unauthorized
    key = await _valid_key(team, link)
    await team.store.catch_up(key.owner)
    approval = await team.store.get(Approval, link.owner, link.approval_id)
    channel_id = approval.channel_id if approval is not None else ""
    channel = await team.store.get(Channel, link.owner, channel_id) if channel_id else None
    return LinkHolder(link, key, channel_id, channel.intent_id if channel is not None else "")


async def check_decision(team: Team, caller: Caller, approval: Approval) -> None:
    """Refuse a caller by a link that has ended, or that was made for something else than this, as it is now."""
    link = await team.store.get(ApprovalLink, NO_TENANT, caller.link)
    if link is None or link.key_id != caller.key_id:
        raise Unauthorized
    await _valid_key(team, link)
    check_linked(link, approval)


async def _valid_key(team: Team, link: ApprovalLink) -> Key:
    """The key of a link, if neither has ended."""
    key = await team.store.get(Key, NO_TENANT, link.key_id)
    if link.expires_at <= team.at() or key is None or not key.valid(team.at()):
        raise Unauthorized
    return key


def _audit(team: Team, caller: Caller, link: ApprovalLink) -> AuditDraft:
    facts = {
        "link": link.id,
        "approval": link.approval_id,
        "digest": link.content_digest,
        "user_id": link.user_id,
        "expires_at": link.expires_at,
        "key": link.key_id,
    }
    return AuditDraft(team.new_id("aud"), TENANT_SIDE, team.at(), "approval_link_created", caller.actor, facts)
