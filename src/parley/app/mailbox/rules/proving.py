"""Proofs of approval: signed where a person decides, verified where the message arrives.

An agent's word for it is worth nothing: only who has the person's secret can sign, and what was signed is one message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.content.envelope import Origin
from parley.domain.errors.rules import ApprovalUnproven, HumanRequired, MessageTypeForbidden
from parley.domain.exchange.approval import Approval, Cause, deciders_of
from parley.domain.exchange.incoming import Vouched, vouched_id
from parley.domain.exchange.signature import encode_bytes, raw_of, seed_of, statement
from parley.domain.rules import project as mail_directory
from parley.domain.rules.policy import Policy

if TYPE_CHECKING:
    from parley.app.mailbox.kernel import Kernel
    from parley.domain.agents.party import Party
    from parley.domain.content.envelope import Carried, Envelope, Ext
    from parley.domain.mailbox.ledger import StoredMessage
    from parley.domain.message.message import Message
    from parley.domain.rules.project import Directory, Governance


class Proof(NamedTuple):
    """An approval that a message has proved, and the record that this message has used it."""

    approval: Approval
    used: Vouched


def person(kernel: Kernel, directory: Directory, key: str) -> str:
    """The person of a key. Raises `HumanRequired` for a key of no person."""
    if not key:
        raise HumanRequired("only a person decides this", hint="set PARLEY_HUMAN_KEY to that person's own key")
    return mail_directory.person(directory, encode_bytes(kernel.signatures.public_key(seed_of(key))))


def signed(
    kernel: Kernel, governance: Governance, message: Message, envelope: Envelope, ext: Ext, label: str, key: str
) -> Message:
    """The message with the signature of the person who approved exactly this content."""
    stamped = kernel.envelopes.stamped(message, envelope, ext, label)
    # As its reader will see it.
    read = kernel.format.decode(kernel.format.encode(stamped))
    content = statement(governance.tenant, ext.approval_id, ext.approved_by, envelope.exchange_round, read)
    signature = encode_bytes(kernel.signatures.sign(seed_of(key), content))
    return kernel.envelopes.stamped(message, envelope, ext._replace(signature=signature), label)


async def vouched(
    kernel: Kernel, governance: Governance, sender: Party, to: str, carried: Carried | None, stored: StoredMessage
) -> Proof | None:
    """The verified approval that a message claims; None when it claims none.

    Raises `MessageTypeForbidden` where nobody who may decide is named, `ApprovalUnproven` where that one did not sign
    this message, or signed it for another file that was here before.
    """
    if carried is None:
        return None
    ext, envelope = carried.ext, carried.envelope
    claims = ext is not None and (ext.approval_id or ext.approved_by or ext.signature)
    if envelope.message_type is Origin.AGENT and not claims:
        return None
    if ext is None or not ext.approval_id or ext.approved_by not in governance.directory.humans:
        raise MessageTypeForbidden("no person of this project stands behind it")
    approval = Approval(
        id=ext.approval_id,
        tenant_id=governance.tenant,
        cause=Cause.COMMITMENT,
        reason="",
        agent=sender.agent,
        user=sender.user,
        to=to,
        classification=envelope.classification.value,
        digest="",
        policy_version=ext.policy,
        created_at="",
        expires_at="",
        decided_by=ext.approved_by,
    )
    policy = governance.book.of(sender.attributes) or Policy()
    if ext.approved_by not in deciders_of(approval, policy.approvers, self_approval=policy.self_approval):
        raise MessageTypeForbidden(f"{ext.approved_by} does not decide for {sender.agent}")
    _check_signature(kernel, governance, ext, envelope.exchange_round, stored.message)
    name = vouched_id(sender.agent, ext.approval_id)
    used = await kernel.store.record(Vouched, name)
    if used is not None and used.digest != stored.digest:
        raise ApprovalUnproven("its approval was for another message, which was here before")
    return Proof(approval, used or Vouched(id=name, tenant_id=governance.tenant, digest=stored.digest))


def _check_signature(kernel: Kernel, governance: Governance, ext: Ext, number: int, message: Message) -> None:
    if not ext.signature:
        raise ApprovalUnproven(f"it says that {ext.approved_by} approved it, and has no signature")
    content = statement(governance.tenant, ext.approval_id, ext.approved_by, number, message)
    public_key = raw_of(governance.directory.humans[ext.approved_by])
    if not kernel.signatures.verify(public_key, raw_of(ext.signature), content):
        raise ApprovalUnproven(f"it says that {ext.approved_by} approved it, who did not sign this")
