"""OCIP: an agent commits nobody before a human has looked."""

from __future__ import annotations

import pytest

from parley.domain.content.commitment import KEYWORDS, CommitmentDetection, Match, detect, keywords_in
from tests.conformance.ocip.governed import (
    MESSAGES,
    audit_of,
    decide,
    envelope_of,
    exchange_of,
    held,
    inbox,
    pair,
    person,
    put_policy,
    refused,
    reply,
    said,
    tell,
)
from tests.rigs.team import LiveServer, with_server

WORDS = [
    pytest.param("schedule", marks=pytest.mark.requirement("OCIP-6-WORD-SCHEDULE")),
    pytest.param("meeting", marks=pytest.mark.requirement("OCIP-6-WORD-MEETING")),
    pytest.param("agree", marks=pytest.mark.requirement("OCIP-6-WORD-AGREE")),
    pytest.param("approve", marks=pytest.mark.requirement("OCIP-6-WORD-APPROVE")),
    pytest.param("allocate", marks=pytest.mark.requirement("OCIP-6-WORD-ALLOCATE")),
    pytest.param("assign", marks=pytest.mark.requirement("OCIP-6-WORD-ASSIGN")),
    pytest.param("reserve", marks=pytest.mark.requirement("OCIP-6-WORD-RESERVE")),
    pytest.param("commit", marks=pytest.mark.requirement("OCIP-6-WORD-COMMIT")),
    pytest.param("confirm", marks=pytest.mark.requirement("OCIP-6-WORD-CONFIRM")),
    pytest.param("book", marks=pytest.mark.requirement("OCIP-6-WORD-BOOK")),
    pytest.param("deadline", marks=pytest.mark.requirement("OCIP-6-WORD-DEADLINE")),
    pytest.param("promise", marks=pytest.mark.requirement("OCIP-6-WORD-PROMISE")),
    pytest.param("guarantee", marks=pytest.mark.requirement("OCIP-6-WORD-GUARANTEE")),
]


@pytest.mark.requirement("OCIP-6-KEYWORDS")
def test_there_are_thirteen_words_in_the_order_of_the_text() -> None:
    assert list(KEYWORDS) == [one.values[0] for one in WORDS]


@pytest.mark.parametrize("word", WORDS)
@with_server
async def test_a_message_with_one_of_the_words_is_held(server: LiveServer, word: str) -> None:
    alice, bob = await pair(server)

    waiting = await held(alice, "bob", f"Then we {word} it.")

    assert waiting["detectedKeywords"] == [word]
    assert (waiting["status"], waiting["requiresHuman"], waiting["cause"]) == ("held", True, "commitment")
    assert waiting["reason"] == f"Commitment keywords detected: {word}. Human approval required."
    assert await inbox(bob) == []


@pytest.mark.requirement("OCIP-6-SIGNALS", "OCIP-6-ESCALATED", "OCIP-1-COMMITMENT")
@pytest.mark.parametrize(
    ("purpose", "text"),
    [("commitment_request", "hello"), ("meeting_scheduling", "hello"), ("information_query", "I agree.")],
)
@with_server
async def test_any_signal_of_either_kind_escalates_the_exchange_to_a_human(
    server: LiveServer, purpose: str, text: str
) -> None:
    alice, _ = await pair(server)

    waiting = await held(alice, "bob", text, exchange_type=purpose)

    ann = await person(server, "ann")
    assert (await exchange_of(alice, waiting))["outcome"] == "escalated"
    assert [one["id"] for one in (await ann.get("/approvals", status="pending")).json] == [waiting["approval"]]


@pytest.mark.requirement("OCIP-6-APPROVAL")
@with_server
async def test_only_the_explicit_approval_of_a_human_lets_a_commitment_out(server: LiveServer) -> None:
    alice, bob = await pair(server)
    waiting = await held(alice, "bob", "We will meet the deadline.")
    assert refused(await decide(alice, waiting, "approve")) == (403, "human_required")
    assert refused(await decide(bob, waiting, "approve")) == (403, "human_required")
    assert await inbox(bob) == []

    await decide(await person(server, "ann"), waiting, "approve")

    assert [one["payload"]["text"] for one in await inbox(bob)] == ["We will meet the deadline."]


@pytest.mark.requirement("OCIP-6-ACTIVE")
@with_server
async def test_where_enforcement_is_not_active_a_signal_is_only_on_record(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await put_policy(server, "commitments: report")

    await said(alice, "bob", "I promise.")

    assert len(await inbox(bob)) == 1
    assert [one["keywords"] for one in await audit_of(alice)] == [["promise"]]


@pytest.mark.requirement("OCIP-6-RESULT")
def test_the_result_has_the_three_fields_of_the_text() -> None:
    nothing = detect(["hello"], requires_commitment=False, human_only=False)
    something = detect(["I promise to book it"], requires_commitment=False, human_only=False)

    assert CommitmentDetection._fields == ("requires_human", "reason", "detected_keywords")
    assert nothing == (False, None, ())
    assert something.requires_human is True
    assert isinstance(something.reason, str)
    assert something.detected_keywords == ("book", "promise")


@pytest.mark.requirement("OCIP-6-RESULT", "GOV-COMMIT-ALL-SIGNALS")
@with_server
async def test_whoever_is_held_is_told_the_result_with_all_signals(server: LiveServer) -> None:
    alice, _ = await pair(server)
    texts = "I promise to book it, and confirm."

    by_type = await held(alice, "bob", texts, exchange_type="commitment_request")
    by_meeting = await held(alice, "bob", texts, exchange_type="meeting_scheduling")
    by_words = await held(alice, "bob", texts)

    for one in (by_type, by_meeting, by_words):
        assert one["requiresHuman"] is True
        assert one["detectedKeywords"] == ["confirm", "book", "promise"]
    # The reason is the first signal in the order of the text: flags before words.
    assert by_type["reason"] == by_meeting["reason"] == "The exchange requires a commitment. Human approval required."
    assert by_words["reason"].startswith("Commitment keywords detected: confirm, book, promise.")


@pytest.mark.requirement("OCIP-6-CAN-COMMIT", "GOV-CAN-COMMIT-REFUSED", "GOV-CAN-COMMIT-APPROVED")
@with_server
async def test_an_agent_that_says_it_may_commit_is_refused_and_an_approval_says_it_for_it(server: LiveServer) -> None:
    alice, bob = await pair(server)
    envelope = {**envelope_of(await said(alice, "bob")), "conversation_id": "another"}
    envelope["capabilities"] = {**envelope["capabilities"], "can_commit": True}

    assert refused(await tell(alice, "bob", ocip=envelope)) == (403, "commit_forbidden")
    waiting = await held(alice, "bob", "I promise.")
    await decide(await person(server, "ann"), waiting, "approve")

    first, second = await inbox(bob)
    assert envelope_of(first)["capabilities"]["can_commit"] is False
    assert (envelope_of(second)["message_type"], envelope_of(second)["capabilities"]["can_commit"]) == (
        "agent-assisted",
        True,
    )


# ---------------------------------------------------------------- where the text is open


@pytest.mark.requirement("GOV-COMMIT-ANY-TYPE", "GOV-COMMIT-BOTH-WAYS")
@with_server
async def test_words_are_looked_for_in_every_exchange_and_on_both_ways(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = await said(alice, "bob", "How is it?", exchange_type="information_query")

    back = await reply(bob, asked, "I guarantee that it works.")

    assert (back.status, back.json["detectedKeywords"]) == (202, ["guarantee"])
    (approval,) = (await (await person(server, "ben")).get("/approvals")).json
    assert (approval["agent"], approval["to"]) == ("bob", "alice")
    notice = await alice.post(
        MESSAGES,
        {
            "to": "bob",
            "payload": {"text": "I promise."},
            "message_type": "notify",
            "metadata": {"classification": "public"},
        },
    )
    assert notice.status == 202


@pytest.mark.requirement("GOV-COMMIT-HUMAN")
@with_server
async def test_a_human_with_a_key_of_its_own_may_promise(server: LiveServer) -> None:
    _, bob = await pair(server)
    ann = await person(server, "ann")
    body = {
        "sender": "alice",
        "to": "bob",
        "message_type": "request",
        "payload": {"text": "I promise to book the meeting."},
        "metadata": {"exchange_type": "meeting_scheduling"},
    }

    answer = await ann.post(MESSAGES, body)

    assert answer.status == 201, answer
    assert [envelope_of(one)["message_type"] for one in await inbox(bob)] == ["human"]


@pytest.mark.requirement("GOV-WORD-INFLECTED")
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("scheduling", "schedule"),
        ("approval", "approve"),
        ("allocated", "allocate"),
        ("commitments", "commit"),
        ("agreed", "agree"),
        ("assignment", "assign"),
        ("reservations", "reserve"),
        ("confirming", "confirm"),
        ("booked", "book"),
        ("guaranteed", "guarantee"),
        ("promised", "promise"),
        ("meetings", "meeting"),
        ("deadlines", "deadline"),
    ],
)
@with_server
async def test_a_word_is_known_in_its_inflections(server: LiveServer, text: str, word: str) -> None:
    alice, _ = await pair(server)

    assert (await held(alice, "bob", f"It is {text} now."))["detectedKeywords"] == [word]


@pytest.mark.requirement("GOV-WORD-NORMALISED")
@pytest.mark.parametrize(
    "disguise",
    [
        "PROMISE",
        "pro\u200bmise",
        "pro\u00admise",
        "\uff50\uff52\uff4f\uff4d\uff49\uff53\uff45",
        "pr\u043emise",
        "p\u200dr\u200co\u2060mise",
        "\U0001d429\U0001d42b\U0001d428\U0001d426\U0001d422\U0001d42c\U0001d41e",
    ],
    ids=["case", "zero-width", "soft-hyphen", "full-width", "look-alike", "joiners", "mathematical"],
)
@with_server
async def test_a_word_is_known_in_disguise(server: LiveServer, disguise: str) -> None:
    alice, _ = await pair(server)

    assert (await held(alice, "bob", f"I {disguise} it."))["detectedKeywords"] == ["promise"]


@pytest.mark.requirement("GOV-WORD-LEAVES")
@pytest.mark.parametrize(
    "body",
    [
        {"a": {"b": [{"c": "I promise."}]}},
        {"promise": 1},
        {"a": [{"promise": None}]},
        {"a": ["fine", ["fine", "promise"]]},
    ],
)
@with_server
async def test_a_word_is_found_wherever_it_stands_in_a_body(server: LiveServer, body: object) -> None:
    alice, _ = await pair(server)

    answer = await tell(alice, "bob", payload=body)

    assert (answer.status, answer.json["detectedKeywords"]) == (202, ["promise"])


@pytest.mark.requirement("GOV-WORD-OTHERS")
@pytest.mark.parametrize("word", ["disagree", "committee", "facebook", "notebook", "preserve", "compromise"])
@with_server
async def test_a_word_that_only_contains_one_is_another(server: LiveServer, word: str) -> None:
    alice, _ = await pair(server)

    await said(alice, "bob", f"The {word} is here.")


@pytest.mark.requirement("GOV-WORD-SUBSTRING")
@with_server
async def test_as_substrings_words_are_found_inside_of_others(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await put_policy(server, "match: substring")

    assert (await held(alice, "bob", "The notebook is here."))["detectedKeywords"] == ["book"]
    # It never finds less than words do.
    assert keywords_in(["approval"], match=Match.SUBSTRING) == ("approve",)


@pytest.mark.requirement("GOV-WORD-ADDED")
@with_server
async def test_a_policy_adds_words_and_removes_none(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await put_policy(server, "commitment_words: [ship, sign off]")

    assert (await held(alice, "bob", "We ship it."))["detectedKeywords"] == ["ship"]
    assert (await held(alice, "bob", "I sign off and promise."))["detectedKeywords"] == ["promise", "sign off"]
    await put_policy(server, "commitment_words: []")
    assert (await held(alice, "bob", "I promise."))["detectedKeywords"] == ["promise"]
