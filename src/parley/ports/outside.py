"""What a server needs beside its store: signing, policy files, an organisation's own rules, and ways out.

Small protocols, the contract in their docstrings. Adapters may suspend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from parley.domain.audit.checkpoint import AuditCheckpoint
    from parley.domain.channel.subscription import Answered, Push
    from parley.domain.content.classification import DataItem
    from parley.domain.content.envelope import Envelope, Ext, Wishes
    from parley.domain.exchange.notice import Letter
    from parley.domain.message.message import Pattern
    from parley.domain.rules.policy import PolicyLook
    from parley.domain.rules.ruling import Proposal, Ruling


class Signatures(Protocol):
    """Checks what somebody signed."""

    def verify(self, public_key: bytes, signature: bytes, content: bytes) -> bool:
        """Whether the owner of this raw Ed25519 key signed exactly this content."""
        ...


class Signer(Protocol):
    """Signs for this server with a key that never leaves it."""

    @property
    def public_key(self) -> bytes:
        """The raw Ed25519 key by which everybody can check what was signed."""
        ...

    def sign(self, content: bytes) -> bytes:
        """The signature of exactly this content."""
        ...


class CheckpointArchive(Protocol):
    """Keeps the signed checkpoints of the audit logs outside of the store, so that nobody can change both at once."""

    async def covered(self, tenant: str) -> int:
        """How many entries the last checkpoint covers that was kept for this tenant; 0 when there is none."""
        ...

    async def append(self, checkpoints: Sequence[AuditCheckpoint]) -> None:
        """Keep more of one tenant's, durably, behind those that are there; none is ever changed."""
        ...


class PolicyFolder(Protocol):
    """The policies in force as files that people may edit: a folder for each tenant, in it `scope/name.yaml`.

    What is in force is in the store; this is its mirror, and a way in. It knows, over restarts too, what it wrote
    itself: whatever is different was written by somebody else.
    """

    async def look(self, tenants: Sequence[str]) -> Mapping[str, PolicyLook]:
        """For each tenant: which files somebody has edited and nobody has taken over yet, which of them cannot be
        read, and whether any are gone. A file that has not changed is not read again.
        """
        ...

    async def mirror(self, tenant: str, texts: Mapping[str, str]) -> tuple[str, ...]:
        """Write what is in force, and take away what no longer is. A file that somebody has edited stays, as long as
        the document in force is the one that was there before. The names of files that were gone, and are back.
        """
        ...


class Envelopes(Protocol):
    """Spells what a governed message carries: bodies and metadata are JSON."""

    def body(self, payload: bytes) -> dict[str, Any]:
        """A payload as a mapping."""
        ...

    def payload(self, body: dict[str, Any]) -> bytes:
        """A mapping as a payload."""
        ...

    def wishes(self, metadata: bytes) -> Wishes | None:
        """What the sender of a message asked for."""
        ...

    def written_text(self, metadata: bytes) -> str:
        """All texts of the metadata that receivers get as the sender wrote them."""
        ...

    def is_partial(self, pattern: Pattern, metadata: bytes) -> bool:
        """Whether a request accepts partial answers, or a response is one."""
        ...

    def is_question(self, metadata: bytes) -> bool:
        """Whether an answer asks something back."""
        ...

    def forwarded(self, metadata: bytes) -> tuple[str, str]:
        """The request that a request stands for, and who sent that first; empty when it was not handed on."""
        ...

    def with_parts(self, metadata: bytes) -> bytes:
        """The metadata of a request that accepts partial answers."""
        ...

    def with_forwarded(self, metadata: bytes, request_id: str, asker: str, by: tuple[str, ...]) -> bytes:
        """The metadata with who handed a request on."""
        ...

    def with_sender_kind(self, metadata: bytes, *, by_person: bool) -> bytes:
        """The metadata marked as those of a person's message, or without that mark, whatever the sender wrote."""
        ...

    def stamped(self, metadata: bytes, envelope: Envelope, ext: Ext, label: str, data: tuple[DataItem, ...]) -> bytes:
        """The metadata with the envelope, what travels beside it and the disclosure, and with only this data declared.

        Whatever the sender wrote in their place is gone.
        """
        ...

    def stamp_template(
        self, metadata: bytes, envelope: Envelope, ext: Ext, label: str, conversation_id: str = ""
    ) -> bytes:
        """The same, with a %b for the conversation, the expiry and the exchange, in this order.

        With `conversation_id`, the name that its sender gave the conversation, it has one more for that, before the
        others. Empty when it cannot be told what is the sender's and what is ours.
        """
        ...

    def without_conversation(self, metadata: bytes, conversation_id: str) -> bytes:
        """A sender's metadata without the name of the conversation; empty when it cannot be told where that is."""
        ...


class RuleExtension(Protocol):
    """An organisation's own rules, asked after ours. They can only tighten: an Allow may become a Hold or a Deny."""

    async def tighten(self, proposal: Proposal, ruling: Ruling) -> Ruling:
        """The ruling, or a stricter one. Whatever goes wrong in the rules is a `PolicyUnavailable`."""
        ...


class Notifier(Protocol):
    """Notifies people in their own mailboxes."""

    async def notify(self, user: str, letter: Letter) -> bool:
        """Put a letter into a person's mailbox, durably; False when it has none.

        Any `ParleyError` says that it could not be done now; then it may have been done all the same.
        """
        ...


class Outbound(Protocol):
    """Carries webhooks out: to public addresses over https, unless it was made for a laptop."""

    async def check(self, url: str, tenant: str) -> None:
        """Refuse with `TargetForbidden` a URL that no webhook may have, by its spelling or by where it leads now.

        `Unavailable` when that cannot be looked up in time. Only a few lookups of a tenant run at once, so that slow
        names of one do not hold up the others.
        """
        ...

    async def push(self, push: Push) -> Answered:
        """Try once to hand something over, and say what came of it. Where the address leads is looked up and judged
        anew; no redirect is followed; it ends within 15 seconds. What the other side does wrong is an answer, no error.
        """
        ...

    def avoid(self, port: int, names: Iterable[str] = ()) -> None:
        """From now on refuse this server itself: this port of this machine, and these names."""
        ...
