"""That a person stands behind a message is proved by its signature alone: for one message, once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from parley.app.mailbox.kernel import Kernel, drive
from parley.app.mailbox.rules import approvals
from parley.app.mailbox.rules.approvals import MailboxDecision
from parley.app.mailbox.rules.proving import person
from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.errors.rules import HumanRequired, MessageHeld, PolicyUnavailable
from parley.domain.exchange.approval import Decision
from parley.domain.exchange.incoming import Vouched
from parley.domain.message.message import Kind
from parley.wiring import public_key_of
from tests.samples.messages import with_blocks
from tests.unit.app.rig import ANN, BEN, GOVERNANCE, Rig, drained

ASKS = Wishes(purpose=Purpose.INFORMATION_QUERY)
PROMISE = "I promise it for Friday."


def released(rig: Rig, body: str = PROMISE, decision: Decision = Decision.APPROVE, **changes: object) -> Path:
    """A message of claude's that ann let go out, or wrote: its file, as codex finds it."""
    before = set(rig.files("codex"))
    given: dict[str, Any] = {"body": body, "wishes": ASKS, **changes}
    with pytest.raises(MessageHeld) as held:
        rig.send(Kind.QUESTION, **given)
    kernel = rig.kernel("claude")
    approval = drive(approvals.get(kernel, str(held.value.facts["approval"])))
    answer = "I promise it myself." if decision is Decision.ANSWER else ""
    drive(approvals.decide(kernel, approval.id, MailboxDecision(decision, ANN, approval.digest, answer=answer)))
    (file,) = set(rig.files("codex")) - before
    return rig.path("codex") / file


def changed(path: Path, old: str, new: str) -> None:
    """The file, changed by somebody who can write as its sender."""
    text = with_blocks(path.read_text())
    assert re.search(old, text), old
    path.write_text(re.sub(old, new, text))


def received(rig: Rig) -> list[object]:
    return [one.message.body for one in drained(rig.kernel("codex"))]


def dead(rig: Rig) -> list[str]:
    return [json.loads(one.read_text())["code"] for one in sorted(rig.path("codex", "dead_letter").glob("*.json"))]


def signature_in(path: Path) -> str:
    found = re.search(r'signature: "([^"]*)"', with_blocks(path.read_text()))
    assert found is not None
    return found[1]


@pytest.mark.parametrize(("decision", "body"), [(Decision.APPROVE, PROMISE), (Decision.ANSWER, "I promise it myself.")])
def test_what_a_person_signed_passes_and_is_on_record_with_its_name(rig: Rig, decision: Decision, body: str) -> None:
    rig.govern()
    released(rig, decision=decision)

    assert received(rig) == [body]

    (entry,) = rig.audits("codex")
    assert (entry["outcome"], entry["approved_by"]) == ("delivered", "ann")


def test_another_way_to_write_the_same_message_is_the_same_message(rig: Rig) -> None:
    rig.govern()
    path = released(rig)
    path.write_text(with_blocks(path.read_text()))

    assert received(rig) == [PROMISE]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (PROMISE, "I promise it for Monday.", "approval_unproven"),
        ('"agent-assisted"', '"human"', "approval_unproven"),
        ('"agent-assisted"', '"agent-generated"', "approval_unproven"),
        ('priority: "P2"', 'priority: "P0"', "approval_unproven"),
        (r'id: "appr_[^"]*"', 'id: "appr_9"', "approval_unproven"),
        (r'\n    signature: "[^"]*"', "", "approval_unproven"),
        (r'signature: "[^"]*"', 'signature: "yes"', "approval_unproven"),
        (r'signature: "[^"]*"', f'signature: "ed25519:{"0" * 128}"', "approval_unproven"),
        ("exchange_round: 1", "exchange_round: 2", "approval_unproven"),
        ('by: "ann"', 'by: "ben"', "message_type_forbidden"),
        ('by: "ann"', 'by: "mallory"', "message_type_forbidden"),
    ],
)
def test_what_nobody_signed_is_never_handed_over(rig: Rig, old: str, new: str, code: str) -> None:
    rig.govern()
    changed(released(rig), old, new)

    assert received(rig) == []

    assert dead(rig) == [code]
    assert rig.outcomes("codex") == [f"denied {code}"]


def test_the_signature_of_another_message_is_refused(rig: Rig) -> None:
    rig.govern()
    first, second = released(rig), released(rig, "I promise it for Monday.")
    changed(second, r'signature: "[^"]*"', f'signature: "{signature_in(first)}"')
    first.unlink()

    assert received(rig) == []
    assert dead(rig) == ["approval_unproven"]


def test_an_approval_with_all_that_belongs_to_it_is_refused_under_another_message(rig: Rig) -> None:
    rig.govern()
    first = with_blocks(released(rig).read_text())
    approval = re.search(r"(?s)  approval:\n(?:    [^\n]*\n)+", first)
    assert approval is not None
    assert received(rig) == [PROMISE]

    changed(released(rig, "I promise it for Monday."), r"(?s)  approval:\n(?:    [^\n]*\n)+", approval[0])

    assert received(rig) == []
    assert dead(rig) == ["approval_unproven"]


def test_an_approval_is_used_up_by_one_file_however_the_same_is_written(rig: Rig) -> None:
    rig.govern()
    path = released(rig)
    text = path.read_text()
    assert received(rig) == [PROMISE]

    path.write_text(with_blocks(text))

    assert received(rig) == []
    assert dead(rig) == ["approval_unproven"]
    assert len(drive(rig.stores["codex"].records(Vouched))) == 1


def test_a_signature_of_a_person_who_does_not_decide_for_the_sender_is_refused(rig: Rig) -> None:
    rig.govern()
    path = released(rig)
    # claude acts for somebody else by now; ann is still one of the project, and signed.
    rig.govern(GOVERNANCE.replace("user_id: ann", "user_id: ben"))
    changed(path, 'user_id: "ann"', 'user_id: "ben"')

    assert received(rig) == []
    assert dead(rig) == ["message_type_forbidden"]


def test_where_two_people_are_wanted_the_senders_own_does_not_do(rig: Rig) -> None:
    rig.govern()
    released(rig)
    rig.govern(enterprise__default="self_approval: false; approvers: [ben]")

    assert received(rig) == []
    assert dead(rig) == ["message_type_forbidden"]


def test_what_the_old_key_signed_ends_with_it(rig: Rig) -> None:
    rig.govern()
    released(rig)
    rig.govern(GOVERNANCE.replace(public_key_of(ANN), public_key_of("pk_new")))

    assert received(rig) == []
    assert dead(rig) == ["approval_unproven"]


def test_a_person_is_known_by_its_secret_and_not_by_what_the_file_has(rig: Rig) -> None:
    rig.govern()
    kernel = rig.kernel("claude")
    directory = kernel.governance.load().directory

    assert [person(kernel, directory, key) for key in (ANN, BEN)] == ["ann", "ben"]
    for key in ("", "pk_nobody", public_key_of(ANN)):
        with pytest.raises(HumanRequired):
            person(kernel, directory, key)


def test_where_nobody_can_check_a_signature_nothing_passes(rig: Rig) -> None:
    kernel: Kernel = rig.kernel("codex")
    kernel._open_signatures = None

    with pytest.raises(PolicyUnavailable):
        _ = kernel.signatures
