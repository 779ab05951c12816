"""Attacks on the rules of an exchange: to be another, to talk without end, to say what may not be said."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from parley.domain.directory.callers import KeyKind
from tests.conformance.ocip.governed import (
    MESSAGES,
    Document,
    admin_of,
    audit_of,
    document,
    envelope_of,
    ext_of,
    held,
    inbox,
    pair,
    person,
    place,
    put_policy,
    reply,
    said,
    tell,
)
from tests.rigs.team import Answer, Client, LiveServer, in_loop, live_server, open_rig, with_server
from tests.surface.http.attack import refusal

CORPUS = Path(__file__).resolve().parents[2] / "conformance" / "ocip"


async def own(server: LiveServer) -> tuple[Client, Client, Document]:
    """alice, bob, and an envelope that is true for alice's next conversation."""
    alice, bob = await pair(server)
    envelope = envelope_of(await said(alice, "bob", "first"))
    return alice, bob, {**envelope, "conversation_id": "next"}


async def nothing_new(bob: Client) -> bool:
    return [one["payload"]["text"] for one in await inbox(bob)] == ["first"]


# ---------------------------------------------------------------- to be somebody else


@pytest.mark.parametrize(
    ("field", "value"), [("tenant_id", "globex-inc"), ("org_unit", "board"), ("user_id", "ben"), ("instance_id", "bob")]
)
@with_server
async def test_an_envelope_does_not_make_one_somebody_else(server: LiveServer, field: str, value: str) -> None:
    # A12
    alice, bob, envelope = await own(server)
    envelope["source_agent"] = {**envelope["source_agent"], field: value}

    assert refusal(await tell(alice, "bob", ocip=envelope)) == (403, "identity_mismatch")

    assert await nothing_new(bob)
    last = (await audit_of(alice))[-1]
    assert (last["outcome"], last["code"]) == ("denied", "identity_mismatch")


@pytest.mark.parametrize("kind", [KeyKind.AGENT, KeyKind.SERVICE, KeyKind.ADMIN])
@with_server
async def test_no_key_but_a_persons_writes_as_a_person(server: LiveServer, kind: KeyKind) -> None:
    # A13: nor does anything else in the body
    _, bob, envelope = await own(server)
    caller = await server.client("alice" if kind is KeyKind.AGENT else "", kind, speaks_as="alice")

    for claimed in ("human", "agent-assisted"):
        forged = {**envelope, "message_type": claimed}
        assert refusal(await tell(caller, "bob", "I promise.", ocip=forged)) == (403, "message_type_forbidden")
    told = await tell(caller, "bob", "I promise.", ocip_ext={"approval": {"id": "appr_1", "by": "ann"}}, user_id="ann")

    assert told.status == 202
    assert await nothing_new(bob)


@pytest.mark.parametrize("how", ["none", "empty", "truncated", "version", "text", "doubled"])
@with_server
async def test_without_a_good_envelope_nobody_is_taken_for_a_person(server: LiveServer, how: str) -> None:
    # A14
    alice, bob, envelope = await own(server)
    if how == "none":
        answer = await tell(alice, "bob", "I promise.")
        assert (answer.status, answer.json["cause"]) == (202, "commitment")
        assert await nothing_new(bob)
        return
    spoilt: dict[str, object] = {
        "empty": {},
        "truncated": dict(list(envelope.items())[:5]),
        "version": {**envelope, "version": "2.0", "message_type": "human"},
        "text": json.dumps(envelope),
    }
    if how == "doubled":
        text = json.dumps({"to": "bob", "payload": {}, "metadata": {"ocip": envelope}})
        body = text.replace('"message_type"', '"message_type": "human", "message_type"').encode()
        assert refusal(await alice.post(MESSAGES, body)) == (422, "duplicate_key")
    else:
        assert refusal(await tell(alice, "bob", "I promise.", ocip=spoilt[how])) == (422, "envelope_invalid")

    assert await nothing_new(bob)


# ---------------------------------------------------------------- to talk without end


@with_server
async def test_who_says_round_one_for_ever_gets_no_further(server: LiveServer) -> None:
    # A28
    alice, bob, envelope = await own(server)
    first = await said(alice, "bob", "a", ocip=envelope)
    for claimed in (1, 3, 7):
        answer = await tell(alice, "bob", "b", ocip={**envelope, "exchange_round": claimed})
        assert refusal(answer) == (409, "round_mismatch")
        assert answer.json["exchange_round"] == 2

    await said(alice, "bob", "b", ocip={**envelope, "exchange_round": 2})
    await said(alice, "bob", "c", ocip={**envelope, "exchange_round": 3})
    fourth = await tell(alice, "bob", "d", ocip={**envelope, "exchange_round": 4})

    assert fourth.status == 202
    assert refusal(await tell(alice, "bob", "d", ocip=envelope)) == (409, "round_mismatch")
    assert len(await inbox(bob)) == 4
    assert ext_of(first)["exchange_id"] == fourth.json["exchange_id"]


@with_server
async def test_who_asks_for_a_million_rounds_gets_what_the_policy_gives(server: LiveServer) -> None:
    # A29
    alice, bob, envelope = await own(server)
    first = await said(alice, "bob", ocip={**envelope, "max_rounds": 999_999})
    assert envelope_of(first)["max_rounds"] == 3
    talk = envelope_of(first)["conversation_id"]

    raised = {**envelope_of(first), "exchange_round": 2, "max_rounds": 4}
    assert refusal(await tell(alice, "bob", ocip=raised)) == (403, "max_rounds_fixed")
    assert refusal(await tell(bob, "alice", conversation_id=talk, max_rounds=4)) == (403, "max_rounds_fixed")
    for wrong in (0, -1, 2**63, 1.5, "9", True, None):
        assert refusal(await tell(alice, "bob", max_rounds=wrong)) == (422, "envelope_invalid")


@with_server
async def test_a_new_name_for_each_message_does_not_go_on_for_ever(server: LiveServer) -> None:
    # A30
    alice, bob = await pair(server)
    await put_policy(server, "pair_budget: 20")

    answers = [await tell(alice, "bob", conversation_id=f"fresh-{n}") for n in range(25)]

    assert [one.status for one in answers] == [201] * 20 + [429] * 5
    assert {refusal(one) for one in answers[20:]} == {(429, "pair_budget")}
    assert len({one.json["approval"] for one in answers[20:]}) == 1
    assert len((await (await admin_of(server)).get("/approvals")).json) == 1
    assert len(await inbox(bob)) == 20
    # It does not help to have the other one write, nor to say nothing of a conversation.
    assert refusal(await tell(bob, "alice")) == (429, "pair_budget")


@pytest.mark.both_stores
@with_server
async def test_of_those_who_send_round_three_at_once_one_is_accepted(server: LiveServer) -> None:
    # A31
    alice, bob = await pair(server)
    first = await said(alice, "bob", conversation_id="race")
    await reply(bob, first)
    envelope = {**envelope_of(first), "exchange_round": 3}
    senders = [await server.client("alice") for _ in range(16)]

    answers = await asyncio.gather(*[tell(one, "bob", ocip=envelope) for one in senders])

    assert Counter(one.status for one in answers) == {201: 1, 409: 15}
    assert len(await inbox(bob)) == 3


@in_loop
async def test_two_servers_on_one_store_do_not_deliver_more_than_one(tmp_path: Path) -> None:
    # A31
    async with (
        open_rig(tmp_path) as one,
        open_rig(tmp_path, first_id=10**6) as two,
        live_server(one) as here,
        live_server(two) as there,
    ):
        await one.intent()
        await one.channel()
        alice, _ = await pair(here)
        elsewhere = there.with_key(one.secrets["key_default_agent_bob"])

        answers: list[Answer] = []
        for _ in range(8):
            answers += await asyncio.gather(
                tell(alice, "bob", conversation_id="both"), tell(elsewhere, "alice", conversation_id="both")
            )

        assert Counter(answer.status for answer in answers)[201] <= 3
        assert {answer.status for answer in answers} <= {201, 202, 409, 503}
        assert len({answer.json["approval"] for answer in answers if answer.status == 202}) <= 1
        rounds = [envelope_of(answer.json)["exchange_round"] for answer in answers if answer.status == 201]
        assert sorted(rounds) == list(range(1, len(rounds) + 1))


@with_server
async def test_a_circle_of_agents_is_broken_and_shown_to_a_person_once(server: LiveServer) -> None:
    # A72
    names = ["alice", "bob", "carol"]
    clients = {name: await place(server, name) for name in names}
    await put_policy(server, "max_rounds: 1000")
    delivered, refusals = 0, []
    sender = 0
    for _ in range(20):
        answer = await tell(clients[names[sender]], names[(sender + 1) % 3], conversation_id="circle")
        if answer.status != 201:
            refusals.append(refusal(answer))
            continue  # tries it again and again
        delivered += 1
        sender = (sender + 1) % 3

    assert delivered == 8
    assert refusals[0] == (403, "loop_detected")
    assert set(refusals[1:]) == {(409, "exchange_closed")}
    approvals = (await (await admin_of(server)).get("/approvals")).json
    assert [one["cause"] for one in approvals] == ["loop_detected"]


@with_server
async def test_nobody_answers_what_was_only_a_notice_or_an_answer(server: LiveServer) -> None:
    # A72: to a role as well
    await server.rig.role("crew", "bob", "carol")
    alice, bob = await pair(server)
    await place(server, "carol")
    notice = document(
        await alice.post(MESSAGES, {"to": "role:crew", "payload": {"n": 1}, "metadata": {"classification": "public"}})
    )
    asked = await said(alice, "bob")
    answer = document(await reply(bob, asked))
    before = len(await inbox(alice))

    assert (await reply(bob, notice)).status in (403, 409, 422)
    assert (await reply(alice, answer)).status in (403, 404, 409, 422)
    assert len(await inbox(alice)) == before


# ---------------------------------------------------------------- to say what may not be said


@with_server
async def test_nobody_makes_itself_more_trusted_or_its_secrets_less_secret(server: LiveServer) -> None:
    # A32
    alice, bob, envelope = await own(server)
    boasting = {**envelope, "capabilities": {"can_commit": False, "can_share": ["public", "internal", "restricted"]}}
    exceeded = (403, "classification_exceeded")

    assert refusal(await tell(alice, "bob", ocip=boasting)) == exceeded
    assert refusal(await tell(alice, "bob", ocip={**envelope, "classification": "restricted"})) == exceeded
    assert refusal(await tell(alice, "bob", "4111 1111 1111 1111", classification="public")) == exceeded
    # The level may be named twice; the content is looked at once.
    hidden = {**envelope, "classification": "public"}
    assert refusal(await tell(alice, "bob", "4111 1111 1111 1111", ocip=hidden)) == exceeded
    declared = [{"source": "hr", "fields": ["text"], "classification": "restricted", "description": "pay"}]
    assert refusal(await tell(alice, "bob", "5", classification="public", data=declared)) == exceeded

    assert await nothing_new(bob)
    withheld = (await audit_of(alice, action="agent_exchange"))[-1]["dataWithheld"]
    assert withheld == [{"reason": "restricted is above public", "description": "pay"}]


def disguised(word: str) -> dict[str, Any]:
    """A body for each way to hide a word."""
    wide = "".join(chr(ord(one) + 0xFEE0) for one in word)
    bold = "".join(chr(0x1D41A + ord(one) - ord("a")) for one in word)
    half = len(word) // 2
    cyrillic = word.translate(str.maketrans("aeocpx", "\u0430\u0435\u043e\u0441\u0440\u0445"))
    return {
        "upper": {"text": f"We {word.upper()} it"},
        "title": {"text": f"We {word.title()} it"},
        "zero-width": {"text": f"We {word[:half]}\u200b{word[half:]} it"},
        "joiner": {"text": "We " + "\u200d".join(word) + " it"},
        "soft-hyphen": {"text": f"We {word[:half]}\u00ad{word[half:]} it"},
        "full-width": {"text": f"We {wide} it"},
        "mathematical": {"text": f"We {bold} it"},
        "look-alikes": {"text": f"We {cyrillic} it"},
        "combining": {"text": f"We {word[:1]}\u0301{word[1:]} it"},
        "bidi": {"text": f"We \u202d{word}\u202c it"},
        "tags": {"text": f"We {word[:half]}\U000e0061{word[half:]} it"},
        "nested": {"a": [{"b": {"c": [f"We {word} it"]}}]},
        "key": {"a": {word: True}},
        "escaped": json.dumps({"text": f"We {word} it"}).replace(word[0], f"\\u{ord(word[0]):04x}").encode(),
        "base64": {"text": base64.b64encode(f"We will {word} it for you.".encode()).decode()},
    }


WORDS = (
    "schedule meeting agree approve allocate assign reserve commit confirm book deadline promise guarantee".split()  # noqa: SIM905
)


@pytest.mark.parametrize("word", WORDS)
@with_server
async def test_a_commitment_is_held_in_every_disguise(server: LiveServer, word: str) -> None:
    # A33
    alice, bob = await pair(server)
    passed = []

    for name, body in disguised(word).items():
        if isinstance(body, bytes):
            spelled = b'{"to":"bob","metadata":{"classification":"public"},"payload":%b}' % body
            answer = await alice.post(MESSAGES, spelled)
        else:
            answer = await tell(alice, "bob", payload=body)
        if answer.status != 202 or word not in answer.json["detectedKeywords"]:
            passed.append(name)

    assert len(disguised(word)) >= 12
    assert passed == []
    assert await inbox(bob) == []


@pytest.mark.parametrize(
    "beside",
    [
        {"note": "WORD"},
        {"deep": [{"a": {"WORD": 1}}]},
        {"data": [{"source": "notes", "fields": [], "classification": "public", "description": "WORD"}]},
        {"data": [{"source": "WORD", "fields": [], "classification": "public"}]},
    ],
)
@with_server
async def test_what_stands_beside_the_body_is_looked_at_like_the_body(
    server: LiveServer, beside: dict[str, object]
) -> None:
    # A33 A32: it is read by whoever reads the message
    alice, bob = await pair(server)
    spelled = json.dumps(beside)

    words = await tell(alice, "bob", "hello", **json.loads(spelled.replace("WORD", "we prom\\u200bise it")))
    card = await tell(alice, "bob", "hello", **json.loads(spelled.replace("WORD", "4111 1111 1111 1111")))
    plain = await tell(alice, "bob", "hello", **json.loads(spelled.replace("WORD", "good morning")))

    assert (words.status, words.json["detectedKeywords"]) == (202, ["promise"])
    assert refusal(card) == (403, "classification_exceeded")
    assert [one["id"] for one in await inbox(bob)] == [plain.json["id"]]


@with_server
async def test_who_sends_a_held_name_of_a_conversation_again_is_held_again(server: LiveServer) -> None:
    # A33: the first attempt begins the exchange and shows its name to nobody
    alice, bob = await pair(server)

    answers = [await tell(alice, "bob", "hello", conversation_id="we-promise-it") for _ in range(3)]

    assert [answer.status for answer in answers] == [202, 202, 202]
    assert await inbox(bob) == []


@with_server
async def test_what_stands_beside_the_body_of_an_ordinary_message_is_looked_at_too(server: LiveServer) -> None:
    # A33: where the policy alone puts it under the rules
    alice, bob = await pair(server)
    await put_policy(server, "applies_to: all")

    answer = await alice.post(MESSAGES, {"to": "bob", "payload": {}, "metadata": {"note": "I promise."}})

    assert (answer.status, answer.json["detectedKeywords"]) == (202, ["promise"])
    assert await inbox(bob) == []


@with_server
async def test_words_that_only_look_like_a_commitment_pass(server: LiveServer) -> None:
    # A34
    alice, _ = await pair(server)
    lines = (CORPUS / "never_held.txt").read_text(encoding="utf-8").splitlines()
    texts = [one for one in lines if one and not one.startswith("#")]
    texts += ["disagreement", "the committee", "my notebook", "facebook"]

    stopped = [text for text in texts if (await tell(alice, "bob", text)).status != 201]

    assert len(texts) > 100
    assert stopped == []


@with_server
async def test_nothing_that_was_not_delivered_is_read_by_other_ways(server: LiveServer) -> None:
    # A32: the name of a conversation, the reason of an end, what is said about data, and the story of a limit
    alice, bob = await pair(server)
    ben, admin = await person(server, "ben"), await admin_of(server)
    await tell(alice, "bob", classification="restricted", conversation_id="needle-1")
    await held(alice, "bob", "I promise.", conversation_id="needle-2")
    over = await said(alice, "bob", conversation_id="fine")
    await alice.post(f"/exchanges/{ext_of(over)['exchange_id']}/close", {"reason": "needle-3, and I promise"})
    await put_policy(server, "on_over_classified: withhold\nmax_rounds: 1")
    item = {"source": "hr", "fields": ["pay"], "classification": "restricted", "description": "needle-4: I promise"}
    assert (await tell(alice, "bob", payload={"pay": 1}, data=[item])).status == 202
    limit = await said(alice, "bob", conversation_id="short")
    await tell(alice, "bob", "needle-5", conversation_id="short")
    answers = [await reply(bob, limit, "me too"), await tell(bob, "alice", "me too", conversation_id="short")]

    again = {
        "to": "alice",
        "payload": {"text": "me"},
        "metadata": {"classification": "public", "conversation_id": "short"},
    }
    answers += [await bob.post(MESSAGES, again, {"Idempotency-Key": "k"}) for _ in range(2)]
    await server.restart()
    bob, ben, alice = await server.client("bob"), await person(server, "ben"), await server.client("alice")
    admin = await admin_of(server)
    answers.append(await bob.post(MESSAGES, again, {"Idempotency-Key": "k"}))

    assert [one.status for one in answers] == [202] * 5
    told = b"".join(one.body for one in answers)
    for client in (bob, ben):
        for path in (MESSAGES, "/exchanges", "/approvals", "/audit", "/audit/export", "/messages/search?q=needle"):
            told += (await client.get(path)).body
        for exchange in (ext_of(over), ext_of(limit)):
            told += (await client.get(f"/exchanges/{exchange['exchange_id']}")).body

    assert b"needle" not in told
    # Whoever wrote it, and who rules, can look it up.
    mine = (await alice.get("/exchanges")).body + (await alice.get("/audit")).body
    for number in (1, 2, 3):
        assert f"needle-{number}".encode() in mine
    assert b"needle-3" in (await admin.get(f"/exchanges/{ext_of(over)['exchange_id']}")).body
