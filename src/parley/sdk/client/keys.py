"""Keys and tenants, and the keys by which agents sign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.sdk.client.area import AsyncArea
from parley.sdk.client.fields import timestamp_of, without_none
from parley.wire.api.records.directory import Challenge, Identity, Key, KeyHolder, NewKey, SignatureCheck, Tenant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.sdk.client.fields import Moment


class AsyncKeys(AsyncArea):
    """What a client does with keys. All but `whoami` and an agent's own identity needs an admin's key."""

    async def create_key(
        self,
        kind: str,
        *,
        agent_id: str | None = None,
        user_id: str | None = None,
        tenant_id: str | None = None,
        expires_at: Moment | None = None,
    ) -> NewKey:
        """Create a key, whose secret is shown this once.

        `kind` is "agent" (with `agent_id`), "human" (with `user_id`), "service" (speaks for any agent) or "admin".
        """
        body = without_none(kind=kind, agent_id=agent_id, user_id=user_id, tenant_id=tenant_id)
        body |= without_none(expires_at=timestamp_of(expires_at))
        return await self._fetch(NewKey, "POST", "keys", body=body)

    async def list_keys(self) -> list[Key]:
        """The tenant's keys, without their secrets."""
        return await self._fetch(list[Key], "GET", "keys")

    async def whoami(self) -> KeyHolder:
        """Whose key this client has: its kind, tenant, agent or person, and the roles of the agent."""
        return await self._fetch(KeyHolder, "GET", "whoami")

    async def revoke_key(self, key_id: str) -> Key:
        """End a key."""
        return await self._fetch(Key, "DELETE", "keys", key_id)

    async def rotate_key(self, key_id: str) -> NewKey:
        """Replace a key by a new one; the old one ends at once."""
        return await self._fetch(NewKey, "POST", "keys", key_id, "rotate")

    async def create_tenant(self, tenant_id: str, name: str = "") -> Tenant:
        """Create a tenant. Needs the operator's key."""
        return await self._fetch(Tenant, "POST", "tenants", body={"id": tenant_id, "name": name})

    async def list_tenants(self) -> list[Tenant]:
        """The tenants."""
        return await self._fetch(list[Tenant], "GET", "tenants")

    async def register_identity(
        self, agent_id: str, public_key: str, *, key_expires_at: Moment | None = None
    ) -> Challenge:
        """Name the public key by which an agent signs; it counts once the challenge is answered.

        A public key is `ed25519:` and its 32 bytes in base64url.
        """
        body = without_none(public_key=public_key, key_expires_at=timestamp_of(key_expires_at))
        return await self._fetch(Challenge, "POST", "agents", agent_id, "identity", body=body)

    async def answer_challenge(self, agent_id: str, challenge: str, signature: str) -> Identity:
        """Prove that an agent holds its key, by the signature of the challenge in base64url."""
        body = {"challenge": challenge, "signature": signature}
        path = ("agents", agent_id, "identity", "challenge")
        return await self._fetch(Identity, "POST", *path, body=body)

    async def get_identity(self, agent_id: str) -> Identity:
        """The key that an agent has proved to hold."""
        return await self._fetch(Identity, "GET", "agents", agent_id, "identity")

    async def verify_signature(self, agent_id: str, payload: Mapping[str, Any], signature: str) -> SignatureCheck:
        """Whether an agent signed a document: its canonical JSON, the signature in base64url."""
        body = {"payload": payload, "signature": signature}
        path = ("agents", agent_id, "identity", "verify")
        return await self._fetch(SignatureCheck, "POST", *path, body=body)

    async def rotate_identity(
        self, agent_id: str, new_public_key: str, old_public_key: str, signature: str
    ) -> Identity:
        """Replace an agent's key.

        The signature is by the old key, over the canonical JSON of the two keys and `"action": "rotate"`.
        """
        body = {"new_public_key": new_public_key, "old_public_key": old_public_key, "signature": signature}
        path = ("agents", agent_id, "identity", "rotate")
        return await self._fetch(Identity, "POST", *path, body=body)
