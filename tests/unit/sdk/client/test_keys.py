"""Keys, tenants and identities, on a real server."""

from __future__ import annotations

import base64
import json

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parley.app.team.directory.keys import first_start
from parley.sdk.client.keys import AsyncKeys
from parley.wire.api.identity import spelled_key
from parley.wire.api.records.directory import Key, NewKey
from tests.rigs.team import LiveServer, with_server
from tests.unit.sdk.client.recorded import Recorded, public_methods, recorded

OWNED = {
    "register_identity",
    "answer_challenge",
    "get_identity",
    "verify_signature",
    "rotate_identity",
}


@with_server
async def test_keys_and_tenants_are_made_and_ended(server: LiveServer) -> None:
    await first_start(server.rig.team, "the operator's key")
    async with recorded(server, key="the operator's key") as boss:
        later = server.rig.clock.at.replace(year=2027)
        made = await boss.create_key("agent", agent_id="bob", expires_at=later)
        assert isinstance(made, NewKey)
        assert (made.kind, made.agent_id, made.expires_at) == ("agent", "bob", later)
        assert made.key
        [listed] = [one for one in await boss.list_keys() if one.id == made.id]
        assert type(listed) is Key
        me = await boss.whoami()
        assert (me.kind, me.operator, me.tenant_id, me.agent_id, me.roles) == ("admin", True, "default", None, [])
        new = await boss.rotate_key(made.id)
        assert new.key != made.key
        assert (await boss.revoke_key(new.id)).revoked_at is not None

        tenant = await boss.create_tenant("acme", "Acme Ltd")
        assert tenant in await boss.list_tenants()
        assert boss.called | OWNED >= public_methods(AsyncKeys)


def base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode()


@with_server
async def test_an_agent_proves_its_key_signs_with_it_and_replaces_it(server: LiveServer) -> None:
    old, new = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    async with recorded(server, "bob") as bob:
        await bob.register_agent("bob")
        identity = await proved(bob, old)
        assert await bob.get_identity("bob") == identity

        signed = base64url(old.sign(b'{"a":1}'))
        assert (await bob.verify_signature("bob", {"a": 1}, signed)).valid
        assert not (await bob.verify_signature("bob", {"a": 2}, signed)).valid

        keys = {"new_public_key": spelled(new), "old_public_key": spelled(old)}
        document = json.dumps({"action": "rotate", **keys}, separators=(",", ":"), sort_keys=True).encode()
        rotated = await bob.rotate_identity("bob", *keys.values(), base64url(old.sign(document)))
        assert (rotated.public_key, rotated.previous_keys) == (spelled(new), [spelled(old)])
        assert bob.called >= OWNED


async def proved(bob: Recorded, key: Ed25519PrivateKey) -> object:
    challenge = await bob.register_identity("bob", spelled(key))
    identity = await bob.answer_challenge("bob", challenge.challenge, base64url(key.sign(challenge.challenge.encode())))
    assert identity.did.startswith("did:key:")
    return identity


def spelled(key: Ed25519PrivateKey) -> str:
    return spelled_key(key.public_key().public_bytes_raw())
