"""Attacks on a review: nobody approves a change by joining it to another, by an odd packet or by an odd path."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.cli.exits import FOUND_PROBLEMS
from tests.rigs.settled_files import settle
from tests.surface.stage import Ran, Stage

REQUEST = ("--type", "review_request", "--set", "pr=#55", "--set", "branch=x", "--set", "diff_summary=A limiter.")
APPROVES = "  quality_gate_result: pass\n  merge_ready: true\n"
ASKS = "  pr: '#1'\n  branch: b\n  diff_summary: d\n"
LONG_AGO, LATER = "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"


def drop(stage: Stage, sender: str, kind: str, body: str, *, to: str = "claude", at: str = LATER, **fields: str) -> str:
    """A file that another tool wrote into an inbox; its id."""
    name = f"{kind}-{len(stage.files(to))}"
    lines = {"id": f"msg-{name}", "from": sender, "to": to, "type": kind, "priority": "P2", **fields}
    text = "".join(f"{key}: {value}\n" for key, value in lines.items())
    path = stage.inbox(to) / f"{name}.yaml"
    path.write_text(f"{text}created_at_utc: '{at}'\nsubject: s\nbody:\n{body}", encoding="utf-8")
    settle(path)
    return lines["id"]


def ask(stage: Stage, sender: str = "claude", to: str = "codex") -> dict[str, Any]:
    return stage.send(*REQUEST, sender=sender, to=to)


def gate(stage: Stage, ref: str, agent: str = "claude") -> Ran:
    return stage.run("review", "gate", ref, "-a", agent)


def an_approved_review(stage: Stage) -> str:
    """gemini asked claude long ago, and claude approved; the id of the request."""
    request = drop(stage, "gemini", "review_request", ASKS, at=LONG_AGO, conversation_id="conv-old")
    said = ("--set", "quality_gate_result=pass", "--set", "merge_ready=true")
    assert stage.run("reply", request, "-a", "claude", "--type", "review_lgtm", *said).code == 0
    assert gate(stage, "conv-old").code == 0
    return request


@pytest.mark.parametrize("ref", ["conversation_id", "id", "file"])
@pytest.mark.parametrize("joined_from", ["old", "new"])
def test_a_message_that_joins_two_conversations_does_not_carry_an_approval_over(
    stage: Stage, ref: str, joined_from: str
) -> None:
    # Given a review that is approved, and one that nobody has looked at
    old = an_approved_review(stage)
    new = ask(stage)

    # When a message of one conversation answers a message of the other
    conversation, parent = ("conv-old", new["id"]) if joined_from == "old" else (new["conversation_id"], old)
    drop(stage, "gemini", "notification", "  text: hi\n", conversation_id=conversation, parent_message_id=parent)

    # Then each keeps its own state
    assert gate(stage, new[ref]).code == FOUND_PROBLEMS
    assert gate(stage, "conv-old").code == 0


def test_a_reviewer_sees_the_review_that_it_names_and_not_the_one_that_was_joined_to_it(stage: Stage) -> None:
    # Given two requests to codex, of which it has approved the older
    old = drop(stage, "gemini", "review_request", ASKS, to="codex", at=LONG_AGO, conversation_id="conv-old")
    said = ("--set", "quality_gate_result=pass", "--set", "merge_ready=true")
    stage.run("reply", old, "-a", "codex", "--type", "review_lgtm", *said)
    new = ask(stage)

    # When a message joins them
    link = {"conversation_id": new["conversation_id"], "parent_message_id": old}
    drop(stage, "gemini", "notification", "  text: hi\n", to="codex", **link)

    # Then
    assert gate(stage, new["id"], "codex").code == FOUND_PROBLEMS
    assert gate(stage, old, "codex").code == 0


def test_a_request_dated_before_mine_does_not_make_its_sender_the_author(stage: Stage) -> None:
    # Given my request, and an older one of another agent in the same conversation
    mine = ask(stage)
    older = drop(
        stage, "gemini", "review_request", ASKS, at=LONG_AGO, conversation_id=mine["conversation_id"]
    )  # fmt: skip

    # When I approve what that agent asked me
    said = ("--set", "quality_gate_result=pass", "--set", "merge_ready=true")
    stage.run("reply", older, "-a", "claude", "--type", "review_lgtm", *said)

    # Then my own change is not approved
    ran = gate(stage, mine["conversation_id"])
    assert (ran.code, "codex has not approved" in ran.out) == (FOUND_PROBLEMS, True)
    shown = stage.run("review", "status", mine["id"], "-a", "claude").out
    assert "ignored: only the author, claude, asks for reviews" in shown


FINDING = "findings: [{{id: F, summary: a, {}}}]\n"
PACKETS = {
    "an item without a name twice": "findings:\n- {severity: P0, summary: a}\n- {severity: P3, summary: b}\n",
    "an id twice, then harmless": "findings:\n- {id: F, severity: P0}\n- {id: F, severity: P3}\n",
    "an id twice, then fixed": "findings:\n- {id: F, severity: P0}\n- {id: F, severity: P0, status: fixed}\n",
    "a P0 that says it does not block": FINDING.format("severity: P0, blocking: false"),
    "a P1 that says it does not block": FINDING.format("severity: P1, blocking: 'no'"),
    "a severity in a list": FINDING.format("severity: [P3]"),
    "a severity in a mapping": FINDING.format("severity: {a: P3}"),
    "a severity with spaces": FINDING.format("severity: ' p0 '"),
    "a severity in look-alikes": FINDING.format("severity: \N{GREEK CAPITAL LETTER RHO}3"),
    "a severity as a number": FINDING.format("severity: 3"),
    "a status that says not fixed": FINDING.format("severity: P0, status: not fixed"),
    "a status with a question mark": FINDING.format("severity: P0, status: fixed?"),
    "a status in a list": FINDING.format("severity: P0, status: [fixed]"),
    "findings in a list of a list": "findings:\n- - {id: F, severity: P0, summary: a}\n",
    "findings as lines": "findings: ['P0: a hole']\n",
    "findings as lines in brackets": "findings: ['[critical]: a hole']\n",
    "findings as a mapping": "findings: {F: {severity: P0}}\n",
    "findings as text": "findings: none\n",
    "findings without a value": "findings:\n",
    "no findings": "summary: fine\n",
    "no YAML": "{{{",
    "nothing": "",
    "an alias": "findings: &a []\nothers: *a\n",
    "findings twice": "findings: [{severity: P0}]\nfindings: []\n",
    "a list": "- {severity: P0}\n",
    "two documents": "findings: [{severity: P0}]\n---\nfindings: []\n",
    "escape sequences": 'findings: [{id: "\\e[2J", severity: "\\e]0;x\\a", summary: "\\u202e\\x9b"}]\n',
    "too many": "findings:\n" + "- {severity: P3, summary: a}\n" * 20_000,
}


def feedback_then_approval(stage: Stage, packet: str) -> dict[str, Any]:
    """A request, feedback that names a packet and counts nothing as blocking, and an approval."""
    asked = ask(stage)
    names = {"conversation_id": asked["conversation_id"]}
    body = f'  findings_packet: "{packet}"\n  round: 1\n  blocking_count: 0\n'
    given = drop(stage, "codex", "review_feedback", body, parent_message_id=asked["id"], **names)
    drop(stage, "codex", "review_lgtm", APPROVES, parent_message_id=given, **names)
    return asked


def shown_on_every_screen(stage: Stage, asked: dict[str, Any]) -> list[str]:
    """The output of status and gate, after checking that the gate holds and that nothing acts on a terminal."""
    shown = []
    for words in (["gate"], ["gate", "--json"], ["status"], ["status", "--json"]):
        ran = stage.run("review", *words, asked["id"], "-a", "claude")
        assert (ran.code, ran.err) == (FOUND_PROBLEMS if words[0] == "gate" else 0, "")
        assert ran.out.replace("\n", "").isprintable()
        shown.append(ran.out)
        if "--json" in words:
            assert ran.json["approved"] is False
    return shown


@pytest.mark.parametrize("packet", PACKETS.values(), ids=PACKETS)
def test_an_odd_packet_never_opens_the_gate(stage: Stage, packet: str) -> None:
    (stage.project / "packets" / "review" / "p.yaml").write_text(packet, encoding="utf-8")

    shown_on_every_screen(stage, feedback_then_approval(stage, "packets/review/p.yaml"))


def plant_link(folder: Path, outside: Path) -> None:
    (folder / "odd.yaml").symlink_to(outside / "clean.yaml")


def plant_linked_folder(folder: Path, outside: Path) -> None:
    (folder / "odd").symlink_to(outside)


def plant_fifo(folder: Path, outside: Path) -> None:
    os.mkfifo(folder / "odd.yaml")


def plant_folder(folder: Path, outside: Path) -> None:
    (folder / "odd.yaml").mkdir()


def plant_huge(folder: Path, outside: Path) -> None:
    with (folder / "odd.yaml").open("wb") as file:
        file.write(b"findings: []\n#")
        file.truncate(1 << 33)


def plant_nothing(folder: Path, outside: Path) -> None:
    pass


PATHS: list[tuple[str, Callable[[Path, Path], None]]] = [
    ("packets/odd.yaml", plant_link),
    ("packets/odd/clean.yaml", plant_linked_folder),
    ("packets/odd.yaml", plant_fifo),
    ("packets/odd.yaml", plant_folder),
    ("packets/odd.yaml", plant_huge),
    ("../../../here/clean.yaml", plant_nothing),
    ("packets/../../../../here/clean.yaml", plant_nothing),
    ("/etc/clean.yaml", plant_nothing),
    ("packets//clean.yaml", plant_nothing),
    ("./packets/clean.yaml", plant_nothing),
    ("packets/clean.yaml\\0", plant_nothing),
    ("packets/clean\\0.yaml", plant_nothing),
    ("\\0", plant_nothing),
    ("packets/" + "a" * 300 + ".yaml", plant_nothing),
    ("packets/" + "a/" * 200 + "p.yaml", plant_nothing),
]


@pytest.mark.parametrize(("path", "plant"), PATHS)
def test_a_packet_is_a_plain_file_of_the_project_or_unread(
    stage: Stage, path: str, plant: Callable[[Path, Path], None]
) -> None:
    # Given packets without findings, where no path may lead
    folder = stage.project / "packets"
    for clean in (stage.here / "clean.yaml", folder / "clean.yaml"):
        clean.write_text("findings: []\n")
    plant(folder, stage.here)

    # When feedback names one, and its reviewer approves
    asked = feedback_then_approval(stage, path)

    # Then
    shown_on_every_screen(stage, asked)
