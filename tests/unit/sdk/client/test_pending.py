"""What waits for a person, as that person decides about it in a program."""

from __future__ import annotations

import msgspec
import pytest

from parley.domain.errors.errors import Invalid
from parley.domain.errors.rules import ApprovalDecided, MessageHeld
from parley.testing import Stage, stage


def held(team: Stage, *texts: str) -> None:
    """Two departments, and messages of ann's agent that commit to something."""
    admin = team.admin
    admin.register_agent("sally", user_id="ann", org_unit="sales")
    admin.register_agent("erik", user_id="bob", org_unit="engineering")
    admin.put_policy("enterprise", "default", "agent-to-agent: {cross_org: true}")
    sally = team.connect("sally").channel("Launch", "talk", access=["erik"])
    for text in texts:
        with pytest.raises(MessageHeld):
            sally.notify("erik", text)


def test_a_person_sees_what_waits_for_it_and_approves_exactly_that() -> None:
    with stage() as team:
        held(team, "We promise ten seats.", "We promise twenty.")
        ann = team.connect("ann", kind="human")
        first, second = ann.approvals()

        assert first.preview() == (
            "sally (for ann) to erik, information_query, internal\n"
            "held: Commitment keywords detected: promise. Human approval required.\n"
            "\n"
            "We promise ten seats."
        )
        assert first.approve(note="Ten is fine").status == "approved"
        assert second.reject("Too many").status == "rejected"
        with pytest.raises(ApprovalDecided):
            first.reject()
        assert ann.approvals() == []
        heard = team.connect("erik").channel("Launch", "talk").history()
        assert [message.text for message in heard] == ["We promise ten seats."]


def test_a_person_answers_in_the_place_of_its_agent() -> None:
    with stage() as team:
        held(team, "We promise ten seats.")
        [waiting] = team.connect("ann", kind="human").approvals()

        assert waiting.answer("Five, says Ann.").status == "answered"


def test_nobody_sees_what_another_has_to_decide() -> None:
    with stage() as team:
        held(team, "We promise ten seats.")

        assert team.connect("bob", kind="human").approvals() == []


def test_hidden_characters_are_spelled_out() -> None:
    with stage() as team:
        held(team, "We promise\u200b ten seats.")
        [waiting] = team.connect("ann", kind="human").approvals()

        assert "\u200b" not in waiting.preview()
        assert waiting.preview().endswith("The message has 1 hidden character, spelled out above.")


def test_a_copy_says_what_to_use_instead() -> None:
    with stage() as team:
        held(team, "We promise ten seats.")
        [waiting] = team.connect("ann", kind="human").approvals()

        with pytest.raises(Invalid, match="this is a copy of an approval"):
            msgspec.structs.replace(waiting, note="x").approve()
