"""The label of a mailbox message: the rules write it, and any other is a doubt."""

from __future__ import annotations

import pytest

from parley.app.mailbox import find
from parley.app.mailbox.kernel import drive
from parley.cli.output import message_fields
from parley.domain.content.disclosure import DISCLOSURE
from parley.domain.message.message import Kind
from tests.samples.messages import a_file
from tests.unit.app.mailbox.rules.receiving_side import FILE, ask, forged
from tests.unit.app.rig import Rig, claimed

FORGED = "Sent by a human"


def doubts_of(rig: Rig) -> list[str]:
    """What is doubted of the one message in the inbox, to its reader and to who claims it."""
    (seen,) = [match for match in drive(find.search(rig.kernel("codex"), "rate")) if match.place == "inbox"]
    one = claimed(rig.kernel("codex"))
    assert [str(doubt) for doubt in seen.doubts] == [str(doubt) for doubt in one.doubts if doubt.code != "unverified"]
    return [doubt.field for doubt in seen.doubts if doubt.code == "false_label"]


def test_what_the_rules_stamped_is_not_doubted(rig: Rig) -> None:
    rig.govern()
    sent = ask(rig)

    assert sent.message.extras["disclosure"] == message_fields(sent.message)["disclosure"] == DISCLOSURE
    assert doubts_of(rig) == []


def test_a_label_in_the_words_of_the_policy_is_not_doubted(rig: Rig) -> None:
    rig.govern(enterprise__default="disclosure: Written by a program")
    sent = ask(rig)

    assert message_fields(sent.message)["disclosure"] == "Written by a program"
    assert doubts_of(rig) == []


@pytest.mark.parametrize(
    "edits",
    [
        ((r"(?m)^disclosure: .*$", f"disclosure: {FORGED}"),),
        ((r"(?m)^disclosure: .*\n", ""),),
        ((r"(?m)^disclosure: .*$", f"disclosure: {FORGED}"), (r"(?m)^    label: .*$", f"    label: {FORGED}")),
    ],
)
def test_a_label_that_the_rules_did_not_give_is_doubted(rig: Rig, edits: tuple[tuple[str, str], ...]) -> None:
    rig.govern()
    forged(rig, *edits)

    assert "disclosure" in doubts_of(rig)


def test_outside_the_rules_every_label_is_the_senders_own_and_ours_is_shown(rig: Rig) -> None:
    (rig.path("codex") / FILE).write_bytes(a_file(disclosure=FORGED))
    (seen,) = drive(find.search(rig.kernel("codex"), "rate"))

    assert message_fields(seen.message)["disclosure"] == DISCLOSURE
    assert doubts_of(rig) == ["disclosure"]


def test_outside_the_rules_a_file_has_no_label_and_is_shown_with_one(rig: Rig) -> None:
    sent = rig.send(Kind.NOTIFICATION, body="Done.")

    assert b"disclosure" not in (rig.path("codex") / sent.file).read_bytes()
    assert message_fields(sent.message)["disclosure"] == DISCLOSURE
