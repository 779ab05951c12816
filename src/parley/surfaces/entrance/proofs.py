"""The proof in a message's metadata, checked before the message is posted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.app.team.channels import channels
from parley.app.team.directory.identity import addressee_of
from parley.app.team.directory.identity import check_proof as check_senders_proof
from parley.app.team.directory.permissions import intent_access
from parley.domain.channel.channel import Channel
from parley.domain.directory.access import Permission
from parley.domain.errors.errors import Invalid, Problem
from parley.wire.api import identity

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.channel.post import PostDraft
    from parley.domain.directory.callers import Caller
    from parley.wire.api.channels import MessageIn


async def check_proof(team: Team, caller: Caller, channel_id: str, message: MessageIn, draft: PostDraft) -> None:
    """Refuse a proof that does not match. `NotFound` when the caller may not know of the channel."""
    if not message.metadata or "proof" not in message.metadata:
        return
    await channels.find_channel(team, caller, channel_id)
    to = await addressee_of(team, caller, draft)
    contents = identity.message_contents(channel_id, caller.agent, to, draft, message)
    await check_senders_proof(team, caller, identity.proof_of(message.metadata["proof"]), contents, identity.raw_key)


async def check_named_proof(
    team: Team, caller: Caller, intent_id: str, name: str, message: MessageIn, draft: PostDraft
) -> None:
    """The same for a channel by its name; one that does not exist yet has no id that could have been signed."""
    if not message.metadata or "proof" not in message.metadata:
        return
    await intent_access(team, caller, intent_id, Permission.WRITE)
    channel = await team.store.find_by_name(Channel, caller.tenant, intent_id, name)
    if channel is None:
        detail = "the channel does not exist yet: create it, and sign its id"
        raise Invalid.because([Problem("invalid", "metadata.proof", detail)])
    await check_proof(team, caller, channel.id, message, draft)
