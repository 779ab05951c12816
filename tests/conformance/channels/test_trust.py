"""What RFC-0021 needs of its neighbours: webhooks, identity, the verifiable log, tracing."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass, field

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from parley.domain.channel.channel import MemberPolicy, Options
from parley.domain.channel.subscription import Answered, Push
from parley.domain.directory.callers import KeyKind
from parley.wire.api import webhooks as webhook
from parley.wire.proofs.event_log import canonical, event_hash
from tests.conformance.channels.talk import MESSAGES, Document, later, messages_of, send
from tests.rigs.behind_the_server import change
from tests.rigs.team import INTENT, Client, LiveServer, with_server
from tests.rigs.webhooks import push_due

EVENTS = f"/intents/{INTENT}/events"
TRACE = "0af7651916cd43dd8448eb211c80319c"
HOOK = "https://hooks.example.com/in"


def unspelled(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def spelled(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


# ---------------------------------------------------------------- webhooks


@dataclass
class Receiver:
    """A place where webhooks arrive; it answers as it is told, then with 200."""

    answers: list[Answered] = field(default_factory=list)
    pushes: list[Push] = field(default_factory=list)

    async def check(self, url: str, tenant: str) -> None:
        assert url.startswith("https://")

    async def push(self, push: Push) -> Answered:
        self.pushes.append(push)
        return self.answers.pop(0) if self.answers else Answered(200)

    def avoid(self, port: int, names: object = ()) -> None:
        del port, names

    def texts(self) -> list[str]:
        return [json.loads(webhook.body(one.item))["data"]["payload"]["text"] for one in self.pushes]


def receiver(server: LiveServer, *answers: Answered) -> Receiver:
    made = Receiver(list(answers))
    server.rig.team.outbound = made
    return made


@pytest.mark.requirement("CHAN-SUB-CRUD")
@with_server
async def test_webhooks_are_created_listed_and_deleted(server: LiveServer) -> None:
    receiver(server)
    bob, eve = await server.client("bob"), await server.client("eve")
    body: Document = {
        "intent_id": INTENT,
        "portfolio_id": None,
        "subscriber_id": "bob",
        "event_types": [],
        "webhook_url": HOOK,
        "expires_at": None,
    }

    made = await bob.post("/subscriptions", body)
    found = await bob.get("/subscriptions", intent_id=INTENT)
    foreign = [await eve.get("/subscriptions"), await eve.delete(f"/subscriptions/{made.json['id']}")]
    deleted = await bob.delete(f"/subscriptions/{made.json['id']}")

    assert (made.status, made.json["webhook_url"], made.json["active"]) == (201, HOOK, True)
    assert [one["id"] for one in found.json] == [made.json["id"]]
    assert "secret" not in found.json[0]
    assert (foreign[0].json, foreign[1].status) == ([], 404)
    assert deleted.status == 204
    assert (await bob.get("/subscriptions")).json == []


@pytest.mark.requirement("CHAN-SUB-RETRY")
@with_server
async def test_a_webhook_is_tried_again_later_and_later_until_it_is_accepted(server: LiveServer) -> None:
    inbox = receiver(server, Answered(500), Answered(0, "no answer"), Answered(503))
    alice, bob = await server.client("alice"), await server.client("bob")
    await bob.post("/subscriptions", {"intent_id": INTENT, "webhook_url": HOOK})
    await send(alice, "one")
    await send(alice, "two")

    tries = []
    for seconds in (0, 4, 1, 299, 1, 1799, 1):
        server.rig.clock.pass_by(seconds=seconds)
        await push_due(server.rig.team, inbox)
        tries.append(len(inbox.pushes))

    # At once, after 5 s, 5 min and 30 min; then the one that waited behind it.
    assert tries == [1, 1, 2, 2, 3, 3, 5]
    assert inbox.texts() == ["one", "one", "one", "one", "two"]
    assert len({one.id for one in inbox.pushes}) == 2
    await push_due(server.rig.team, inbox)
    assert len(inbox.pushes) == 5


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-SUB-RETRY")
@with_server
async def test_a_webhook_outlives_a_restart(server: LiveServer) -> None:
    receiver(server)
    alice, bob = await server.client("alice"), await server.client("bob")
    await bob.post("/subscriptions", {"intent_id": INTENT, "webhook_url": HOOK})
    await send(alice, "before")

    await server.restart()
    inbox = receiver(server)
    await push_due(server.rig.team, inbox)

    assert inbox.texts() == ["before"]


@pytest.mark.requirement("CHAN-SUB-SIGNED")
@with_server
async def test_a_webhook_is_signed_per_standard_webhooks(server: LiveServer) -> None:
    inbox = receiver(server)
    alice, bob = await server.client("alice"), await server.client("bob")
    made = await bob.post("/subscriptions", {"intent_id": INTENT, "webhook_url": HOOK})
    said = await send(alice, "signed")
    await push_due(server.rig.team, inbox)

    (push,) = inbox.pushes
    content = webhook.body(push.item)
    headers = dict(webhook.headers(push, content))

    secret = base64.b64decode(made.json["secret"].removeprefix("whsec_"))
    to_sign = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + content
    expected = base64.b64encode(hmac.new(secret, to_sign, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert int(headers["webhook-timestamp"]) == int(server.rig.clock.at.timestamp())
    document = json.loads(content)
    assert (document["type"], document["data"]["id"]) == ("channel_message", said["id"])


@pytest.mark.requirement("CHAN-SUB-CRUD")
@with_server
async def test_a_webhook_is_told_only_what_its_subscriber_may_see(server: LiveServer) -> None:
    inbox = receiver(server)
    await server.rig.channel("chan_2", "carol", policy=MemberPolicy.EXPLICIT)
    alice, bob = await server.client("alice"), await server.client("bob")
    await bob.post("/subscriptions", {"intent_id": INTENT, "webhook_url": HOOK})

    await send(alice, "for carol", to="carol")
    await send(alice, "among us", messages_of("chan_2"))
    await send(alice, "for bob", to="bob")
    await push_due(server.rig.team, inbox)

    assert inbox.texts() == ["for bob"]


@pytest.mark.requirement("RFC21-2.4-WEBHOOK")
@with_server
async def test_a_message_is_pushed_to_the_endpoint_its_target_registered(server: LiveServer) -> None:
    inbox = receiver(server)
    alice, bob = await server.client("alice"), await server.client("bob")
    await bob.post("/agents/register", {"agent_id": "bob", "endpoint": HOOK})
    await push_due(server.rig.team, inbox)

    await send(alice, "for carol", to="carol")
    await send(alice, "for bob", to="bob")
    await push_due(server.rig.team, inbox)

    assert inbox.texts() == ["for bob"]
    assert [one.url for one in inbox.pushes] == [HOOK]


# ---------------------------------------------------------------- identity


def key_pair() -> tuple[Ed25519PrivateKey, bytes]:
    private = Ed25519PrivateKey.generate()
    return private, private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


async def challenge(client: Client, public: bytes) -> Document:
    answer = await client.post("/agents/bob/identity", {"public_key": f"ed25519:{spelled(public)}"})
    assert answer.status == 200, answer
    return dict(answer.json)


async def prove(client: Client, private: Ed25519PrivateKey, asked: Document) -> int:
    body = {"challenge": asked["challenge"], "signature": spelled(private.sign(asked["challenge"].encode()))}
    return (await client.post("/agents/bob/identity/challenge", body)).status


@pytest.mark.requirement("CHAN-ID-KEY")
@pytest.mark.parametrize("bad", ["{raw}", "rsa:{raw}", "ed25519:{short}", "ed25519:{long}", "ed25519:", "ed25519:!!"])
@with_server
async def test_a_public_key_is_32_bytes_in_its_spelling(server: LiveServer, bad: str) -> None:
    bob = await server.client("bob")
    _, public = key_pair()
    text = bad.format(raw=spelled(public), short=spelled(public[:31]), long=spelled(public + b"x"))

    refused = await bob.post("/agents/bob/identity", {"public_key": text})
    taken = await bob.post("/agents/bob/identity", {"public_key": f"ed25519:{spelled(public)}"})

    assert (refused.status, taken.status) == (422, 200)


@pytest.mark.requirement("CHAN-ID-DID")
@with_server
async def test_the_did_is_made_of_the_key(server: LiveServer) -> None:
    bob = await server.client("bob")
    private, public = key_pair()
    await prove(bob, private, await challenge(bob, public))

    found = (await bob.get("/agents/bob/identity")).json

    assert found["public_key"] == f"ed25519:{spelled(public)}"
    assert found["did"].startswith("did:key:z6Mk")
    number = 0
    for letter in found["did"].removeprefix("did:key:z"):
        number = number * 58 + "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz".index(letter)
    assert number.to_bytes(34) == b"\xed\x01" + public


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-ID-CHALLENGE")
@with_server
async def test_a_challenge_is_good_once(server: LiveServer) -> None:
    bob, eve = await server.client("bob"), await server.client("eve")
    private, public = key_pair()
    asked = await challenge(bob, public)

    foreign = await prove(eve, private, asked)
    once, twice = await prove(bob, private, asked), await prove(bob, private, asked)

    assert len(unspelled(asked["challenge"])) == 32
    assert asked["challenge_expires_at"] == later(server, minutes=5)
    assert (foreign, once, twice) == (403, 201, 403)


@pytest.mark.requirement("CHAN-ID-CHALLENGE")
@pytest.mark.parametrize(("seconds", "status"), [(299.9, 201), (300, 403)])
@with_server
async def test_a_challenge_is_good_for_five_minutes(server: LiveServer, seconds: float, status: int) -> None:
    bob = await server.client("bob")
    private, public = key_pair()
    asked = await challenge(bob, public)

    server.rig.clock.pass_by(seconds=seconds)

    assert await prove(bob, private, asked) == status


@pytest.mark.requirement("CHAN-ID-CHALLENGE")
@with_server
async def test_a_challenge_signed_by_another_key_proves_nothing(server: LiveServer) -> None:
    bob = await server.client("bob")
    private, public = key_pair()
    other, _ = key_pair()
    asked = await challenge(bob, public)

    assert await prove(bob, other, asked) == 403
    # A wrong try uses it up.
    assert await prove(bob, private, asked) == 403
    assert (await bob.get("/agents/bob/identity")).status == 404


@pytest.mark.requirement("CHAN-ID-ROTATION")
@with_server
async def test_a_rotation_is_signed_by_the_old_key(server: LiveServer) -> None:
    bob = await server.client("bob")
    old, old_public = key_pair()
    new, new_public = key_pair()
    await prove(bob, old, await challenge(bob, old_public))
    body = {
        "action": "rotate",
        "new_public_key": f"ed25519:{spelled(new_public)}",
        "old_public_key": f"ed25519:{spelled(old_public)}",
    }

    by_new = await bob.post("/agents/bob/identity/rotate", {**body, "signature": spelled(new.sign(canonical(body)))})
    by_old = await bob.post("/agents/bob/identity/rotate", {**body, "signature": spelled(old.sign(canonical(body)))})

    assert (by_new.status, by_old.status) == (403, 200)
    assert by_old.json["public_key"] == body["new_public_key"]
    assert by_old.json["previous_keys"] == [body["old_public_key"]]
    payload = {"n": 1}
    checked = [
        (await bob.post("/agents/bob/identity/verify", {"payload": payload, "signature": spelled(signature)})).json
        for signature in (new.sign(canonical(payload)), old.sign(canonical(payload)))
    ]
    assert [one["valid"] for one in checked] == [True, False]


# ---------------------------------------------------------------- the verifiable log


@pytest.mark.requirement("CHAN-LOG-VECTOR", "CHAN-LOG-HASH")
def test_the_published_vector_hashes_to_its_published_value() -> None:
    event = {
        "id": "evt_1",
        "intent_id": "intent_1",
        "event_type": "intent_created",
        "actor": "a",
        "payload": {"title": "t"},
        "created_at": "2026-02-13T10:00:00Z",
        "sequence": 1,
        "previous_event_hash": None,
    }

    assert event_hash(event) == "sha256:m4rnlU2FNaRADt0HzpjpnkKs9izmSyf2XZXnjkLAp4I"
    assert event_hash({**event, "event_hash": "anything"}) == event_hash(event)
    assert event_hash({**event, "sequence": 2}) != event_hash(event)


async def log_of(client: Client, count: int) -> list[Document]:
    for number in range(count):
        answer = await client.post(EVENTS, {"event_type": "comment", "payload": {"n": number, "ü": 1.5}})
        assert answer.status == 201, answer
    return list((await client.get(EVENTS, after=0)).json)


@pytest.mark.requirement("CHAN-LOG-HASH", "CHAN-LOG-LINK")
@with_server
async def test_anybody_can_recompute_the_chain_from_what_is_served(server: LiveServer) -> None:
    await server.rig.intent("intent_2")
    alice = await server.client("alice")
    await alice.post("/intents/intent_2/events", {"event_type": "comment", "payload": {}})
    log = await log_of(alice, 4)

    previous = None
    for number, event in enumerate(log, 1):
        without = {name: value for name, value in event.items() if name != "event_hash"}
        digest = hashlib.sha256(canonical(without)).digest()
        assert event["event_hash"] == "sha256:" + spelled(digest)
        assert (event["sequence"], event["previous_event_hash"]) == (number, previous)
        previous = event["event_hash"]


@pytest.mark.requirement("CHAN-LOG-MERKLE")
@pytest.mark.parametrize("count", [1, 2, 3, 5])
@with_server
async def test_a_checkpoint_is_the_root_of_its_events_and_each_proof_leads_there(
    server: LiveServer, count: int
) -> None:
    admin, alice = await server.client("", KeyKind.ADMIN), await server.client("alice")
    log = await log_of(alice, count)
    leaves = [unspelled(one["event_hash"].removeprefix("sha256:")) for one in log]

    made = await admin.post("/admin/checkpoints", {"intent_id": INTENT})

    level = list(leaves)
    while len(level) & (len(level) - 1):
        level.append(level[-1])
    while len(level) > 1:
        level = [hashlib.sha256(level[at] + level[at + 1]).digest() for at in range(0, len(level), 2)]
    assert made.status == 201
    assert made.json["merkle_root"] == "sha256:" + spelled(level[0])
    assert (made.json["event_count"], made.json["first_sequence"], made.json["last_sequence"]) == (count, 1, count)
    for event, leaf in zip(log, leaves, strict=True):
        proof = (await alice.get(f"/checkpoints/{made.json['checkpoint_id']}/proof/{event['id']}")).json
        current = leaf
        for step in proof["proof_hashes"]:
            sibling = unspelled(step["hash"].removeprefix("sha256:"))
            current = hashlib.sha256(sibling + current if step["position"] == "left" else current + sibling).digest()
        assert "sha256:" + spelled(current) == proof["merkle_root"] == made.json["merkle_root"]


@pytest.mark.requirement("CHAN-LOG-VERIFY", "CHAN-SDK-VERIFY")
@with_server
async def test_the_whole_chain_is_verified_and_a_changed_event_is_found(server: LiveServer) -> None:
    alice, eve = await server.client("alice"), await server.client("eve")
    await log_of(alice, 3)

    sound = (await eve.get(f"{EVENTS}/verify")).json
    stored = await server.rig.store.events("default", INTENT)
    forged = stored[1].document.replace(b'"n":1', b'"n":7')
    await rewrite(server, stored[1].id, forged)
    broken = (await eve.get(f"{EVENTS}/verify")).json

    assert (sound["valid"], sound["chain_valid"], sound["event_count"], sound["breaks"]) == (True, True, 3, [])
    assert (broken["valid"], broken["chain_valid"]) == (False, False)
    assert [one["sequence"] for one in broken["breaks"]] == [2]


async def rewrite(server: LiveServer, event_id: str, document: bytes) -> None:
    """Change an event behind the server's back, as somebody with the store could who takes its guards away."""
    assert change(server.rig, "UPDATE event SET document = ? WHERE id = ?", document, event_id, guards=False) == 1


# ---------------------------------------------------------------- tracing


@pytest.mark.both_stores
@pytest.mark.requirement("CHAN-TRACE-QUERY")
@with_server
async def test_the_events_of_a_trace_are_found_over_all_intents_one_may_see(server: LiveServer) -> None:
    await server.rig.intent("intent_2", "bob")
    await server.rig.channel("chan_2", options=Options(audit=True))
    await server.rig.channel("chan_3", intent_id="intent_2", created_by="bob", options=Options(audit=True))
    alice, bob = await server.client("alice"), await server.client("bob")
    first = await send(alice, path=messages_of("chan_2"), metadata={"trace_id": TRACE})
    second = await send(alice, path=messages_of("chan_3"), metadata={"trace_id": TRACE})
    await send(alice, path=messages_of("chan_2"), metadata={"trace_id": TRACE[::-1]})

    found = (await alice.get("/events", trace_id=TRACE)).json
    await bob.request("PUT", "/intents/intent_2/acl", {"default_policy": "closed", "entries": []})
    after = (await alice.get("/events", trace_id=TRACE)).json

    assert [one["payload"]["message_id"] for one in found] == [first["id"], second["id"]]
    assert [one["payload"]["message_id"] for one in after] == [first["id"]]
    assert (await alice.get("/events", trace_id="xyz")).status == 422


@pytest.mark.requirement("CHAN-TRACE-PARENT")
@with_server
async def test_a_traceparent_goes_to_the_events_of_its_request(server: LiveServer) -> None:
    await server.rig.channel("chan_2", options=Options(audit=True))
    alice = await server.client("alice")
    parent = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}

    logged = await alice.post(EVENTS, {"event_type": "comment", "payload": {}}, parent)
    said = await alice.post(messages_of("chan_2"), {"payload": {}}, parent)
    own = {"payload": {}, "metadata": {"trace_id": TRACE[::-1]}}
    explicit = await alice.post(messages_of("chan_2"), own, parent)
    odd = await alice.post(messages_of("chan_2"), {"payload": {}}, {"traceparent": "nonsense"})

    assert [one.status for one in (logged, said, explicit, odd)] == [201] * 4
    assert logged.json["trace_id"] == TRACE
    copies = (await alice.get(EVENTS, event_type="channel_message")).json
    assert [one.get("trace_id") for one in copies] == [TRACE, TRACE[::-1], None]


@pytest.mark.requirement("CHAN-TRACE-EVENT")
@with_server
async def test_a_trace_stays_on_a_channel_without_audit(server: LiveServer) -> None:
    alice = await server.client("alice")

    await send(alice, metadata={"trace_id": TRACE})

    assert (await alice.get("/events", trace_id=TRACE)).json == []
    assert (await alice.get(MESSAGES)).json[0]["metadata"] == {"trace_id": TRACE}
