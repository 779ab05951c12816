"""The same story leaves the same audit trail on a server and between mailboxes: entry by entry, on each side."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conformance.ocip.places import REVIEW, Place, Story, Trail, tell_between_mailboxes, tell_on_a_server
from tests.rigs.team import PATIENCE

PROMISE = "We promise it."

# ---------------------------------------------------------------- the stories


async def approved(place: Place) -> list[str]:
    return [await place.say("alice", "bob", PROMISE), await place.decide("ann", "approve")]


async def too_secret(place: Place) -> list[str]:
    return [await place.say("alice", "bob", classification="restricted")]


async def notification(place: Place) -> list[str]:
    return [await place.say("alice", "bob", "It is done.", note=True, classification="internal")]


async def cross_org_denied(place: Place) -> list[str]:
    return [await place.say("alice", "carol", plain=True)]


async def cross_org_by_approval(place: Place) -> list[str]:
    await place.policy(cross_org="approval")
    return [await place.say("alice", "carol"), await place.decide("ann", "approve")]


async def cross_tenant(place: Place) -> list[str]:
    return [await place.say("alice", "bob@globex")]


async def meeting(place: Place) -> list[str]:
    return [
        await place.say("alice", "bob", purpose="meeting_scheduling"),
        await place.decide("ann", "approve"),
        await place.say("bob", "alice", "On Friday.", plain=True),
        await place.decide("ben", "approve"),
    ]


async def commitment_request(place: Place) -> list[str]:
    return [
        await place.say("alice", "bob", purpose="commitment_request"),
        await place.decide("ann", "approve"),
        await place.say("bob", "alice", "It is yours.", plain=True),
        await place.decide("ben", "approve"),
    ]


async def changed_policy(place: Place) -> list[str]:
    held = await place.say("alice", "bob", PROMISE)
    await place.policy(max_rounds=7)
    return [held, await place.decide("ann", "approve"), await place.decide("ann", "approve")]


async def suspended(place: Place) -> list[str]:
    await place.suspend("bob")
    return [await place.say("alice", "bob")]


async def no_auto_respond(place: Place) -> list[str]:
    await place.attribute("bob", can_auto_respond=False)
    asked = await place.say("alice", "bob")
    return [asked, await place.say("bob", "alice", "Half.", plain=True), await place.decide("ben", "approve")]


async def max_rounds_fixed(place: Place) -> list[str]:
    return [await place.say("alice", "bob", max_rounds=2), await place.say("alice", "bob", max_rounds=3)]


async def closed_by_one_side(place: Place) -> list[str]:
    asked = await place.say("alice", "bob")
    await place.close("alice")
    return [asked, await place.say("alice", "bob")]


async def commitment_rejected(place: Place) -> list[str]:
    asked = await place.say("alice", "bob")
    return [asked, await place.say("alice", "bob", PROMISE), await place.decide("ann", "reject")]


async def limit_rejected(place: Place) -> list[str]:
    asked = await place.say("alice", "bob", max_rounds=1)
    return [asked, await place.say("alice", "bob", plain=True), await place.decide("ann", "reject")]


async def two_held_the_first_rejected(place: Place) -> list[str]:
    held = [await place.say("alice", "bob", f"{PROMISE} {number}") for number in range(2)]
    return [*held, await place.decide("ann", "reject")]


async def held_and_sent_again(place: Place) -> list[str]:
    held = [await place.say("alice", "bob", PROMISE) for _ in range(3)]
    return [*held, await place.decide("ann", "approve")]


async def two_held_the_first_approved_then_closed(place: Place) -> list[str]:
    held = [await place.say("alice", "bob", f"{PROMISE} {number}") for number in range(2)]
    approval = await place.decide("ann", "approve")
    await place.close("alice")
    return [*held, approval]


async def denied_while_something_is_held(place: Place) -> list[str]:
    held = await place.say("alice", "bob", PROMISE)
    return [held, await place.say("alice", "bob", classification="restricted")]


async def expired_while_something_is_held(place: Place) -> list[str]:
    asked = [await place.say("alice", "bob"), await place.say("alice", "bob", PROMISE)]
    await place.pass_by(hours=24)
    return [*asked, await place.say("alice", "bob")]


async def answered_by_a_person(place: Place) -> list[str]:
    return [
        await place.say("alice", "bob", PROMISE),
        await place.decide("ann", "answer"),
        await place.say("bob", "alice", plain=True),
    ]


async def limit_answered_after_both_sides_tried(place: Place) -> list[str]:
    return [
        await place.say("alice", "bob", max_rounds=1),
        await place.say("alice", "bob", plain=True),
        await place.say("bob", "alice", plain=True),
        await place.decide("ann", "answer"),
    ]


async def data_withheld(place: Place) -> list[str]:
    await place.policy(on_over_classified="withhold")
    items = [
        {"source": "review", "fields": ["diff_summary"], "classification": "restricted", "description": "the change"},
        {"source": "tracker", "fields": ["repo"], "classification": "internal", "description": "where it is"},
    ]
    return [await place.say("alice", "bob", body=REVIEW, data=items)]


# ---------------------------------------------------------------- what differs by nature


class Differs(NamedTuple):
    """Something that two ledgers cannot say as one server does."""

    side: str
    why: str
    # A fact that is not compared in the entries of this side and action.
    fact: str = ""
    action: str = "agent_exchange"
    # An entry that only this place has.
    only_in: str = ""
    outcome: str = ""


NATURE: dict[str, tuple[Differs, ...]] = {
    "closed_by_one_side": (
        Differs(
            "bob",
            "closing sends no file: the other mailbox learns of the end when the exchange expires",
            action="agent_exchange_ended",
            only_in="server",
            outcome="resolved",
        ),
    ),
    "commitment_rejected": (
        Differs(
            "bob",
            "a rejection sends no file: the other mailbox learns of the end when the exchange expires",
            action="agent_exchange_ended",
            only_in="server",
            outcome="denied",
        ),
    ),
    "limit_rejected": (
        Differs(
            "bob",
            "a rejection sends no file: the other mailbox learns of the end when the exchange expires",
            action="agent_exchange_ended",
            only_in="server",
            outcome="denied",
        ),
    ),
    "two_held_the_first_approved_then_closed": (
        Differs(
            "bob",
            "closing sends no file: the other mailbox learns of the end when the exchange expires",
            action="agent_exchange_ended",
            only_in="server",
            outcome="resolved",
        ),
    ),
    "limit_answered_after_both_sides_tried": (
        Differs("alice", "on a server the other side's try belongs to the same escalation", fact="approval"),
        Differs("bob", "each ledger has an escalation of its own", fact="approval"),
        Differs(
            "bob",
            "each ledger has an escalation of its own, which is closed when the answer arrives",
            action="approval_decided",
            only_in="mailboxes",
            outcome="closed",
        ),
    ),
}
# What a server tells people at once; nobody watches over a mailbox, so nobody is told there.
ONLY_ON_A_SERVER = {"approval_told"}
# The receiver's own judgement: it sees the level that was stamped, and not why.
RECEIVERS_OWN = {"declared", "annotated"}
# Ids and digests are of a place; that they are there is compared.
IDS = {"exchange_id", "conversation_id", "approval", "policy"}
OF_A_PLACE = {"id", "tenant", "seq", "prev_hash", "at", "channel_id", "to_tenant"}
PRESENT = {"message_id", "content_digest", "digest", "key"}

STORIES: dict[str, Story] = {
    story.__name__: story
    for story in (
        approved,
        too_secret,
        notification,
        cross_org_denied,
        cross_org_by_approval,
        cross_tenant,
        meeting,
        commitment_request,
        changed_policy,
        suspended,
        no_auto_respond,
        max_rounds_fixed,
        closed_by_one_side,
        commitment_rejected,
        limit_rejected,
        two_held_the_first_rejected,
        held_and_sent_again,
        two_held_the_first_approved_then_closed,
        denied_while_something_is_held,
        expired_while_something_is_held,
        answered_by_a_person,
        limit_answered_after_both_sides_tried,
        data_withheld,
    )
}


# ---------------------------------------------------------------- the comparison


def comparable(place: str, trail: Trail, differences: tuple[Differs, ...]) -> dict[str, list[dict[str, Any]]]:
    """The trail without what is of a place, ids by their order."""
    numbers: dict[tuple[str, str], str] = {}
    sides: dict[str, list[dict[str, Any]]] = {}
    for side, entries in trail.items():
        own = [one for one in differences if one.side == side]
        sides[side] = []
        for entry in entries:
            if entry["action"] in ONLY_ON_A_SERVER or any(_is_extra(entry, one, place) for one in own):
                continue
            skipped = {one.fact for one in own if one.action == entry["action"]} | OF_A_PLACE
            skipped |= RECEIVERS_OWN if entry.get("role") == "receiver" else set()
            facts = {name: value for name, value in entry.items() if name not in skipped}
            for name in IDS & facts.keys():
                facts[name] = numbers.setdefault((name, facts[name]), f"{name} {len(numbers)}") if facts[name] else ""
            for name in PRESENT & facts.keys():
                facts[name] = "there"
            sides[side].append(facts)
    return sides


def _is_extra(entry: dict[str, Any], one: Differs, place: str) -> bool:
    word = entry.get("outcome") or entry.get("decision")
    return one.only_in == place and entry["action"] == one.action and word == one.outcome


@pytest.mark.requirement("OCIP-9-FULL")
@pytest.mark.parametrize("name", STORIES)
def test_the_same_story_leaves_the_same_trail_in_both_places(name: str, tmp_path: Path) -> None:
    differences = NATURE.get(name, ())

    async def told() -> None:
        (tmp_path / "server").mkdir()
        (tmp_path / "mailboxes").mkdir()
        there, on_server = await tell_on_a_server(tmp_path / "server", STORIES[name])
        here, in_mailboxes = await tell_between_mailboxes(tmp_path / "mailboxes", STORIES[name])

        assert here == there
        expected = comparable("server", on_server, differences)
        compared = comparable("mailboxes", in_mailboxes, differences)
        for side, entries in expected.items():
            assert _words(compared[side]) == _words(entries)
            assert compared[side] == entries
        # What is listed as different is: otherwise the list would say too much.
        for one in differences:
            if one.only_in:
                trail = on_server if one.only_in == "server" else in_mailboxes
                assert any(_is_extra(entry, one, one.only_in) for entry in trail[one.side])

    asyncio.run(asyncio.wait_for(told(), PATIENCE))


def _words(entries: list[dict[str, Any]]) -> list[tuple[str, str, str, str]]:
    """What a person reads first."""
    return [
        (one["action"], one["actor"], one.get("outcome") or one.get("decision", ""), one.get("code", ""))
        for one in entries
    ]


def test_there_are_as_many_stories_as_were_compared_before() -> None:
    assert len(STORIES) == 23
    assert NATURE.keys() <= STORIES.keys()
