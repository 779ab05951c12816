"""Hostile files: whatever another program puts where Parley looks, every command answers in plain text and goes on.

A command ends with a known exit code, reports no bug, prints nothing that acts on a terminal and only valid JSON with
`--json`. A message file is either handed over or a dead letter, and the next message is handed over after it.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable

import pytest

from parley.cli.exits import INTERNAL, NO_MESSAGE
from parley.wire.yaml.write import quoted
from tests.rigs.settled_files import settle
from tests.surface.stage import PROJECT, Ran, Stage

# Set the title, clear the screen, C1's CSI, reorder, hide, go back, delete, a line separator, a tag.
TRICKS = "\x1b]0;x\x07\x1b[2J\x9b31m\u202e\u200b\r\x7f\u2028\U000e0041"
DANGEROUS = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e01ef]"
)
Q = quoted(TRICKS)
DEEP = base64.urlsafe_b64encode(b"[" * 90_000).decode()

LOOKING = (
    ("inbox", "-a", "codex"),
    ("inbox", "--all", "--json"),
    ("agent", "list"),
    ("agent", "show", "codex", "--json"),
    ("doctor", "--json"),
    ("governance", "show"),
    ("audit", "verify", "codex"),
    ("audit", "reconcile", "claude", "codex"),
    ("approvals", "list", "-a", "codex"),
    ("search", "\x1b", "-a", "codex", "--json"),
    ("read", f"{TRICKS}.yaml", "-a", "codex"),
    ("watch", "--once", "--json", "-a", "codex"),
    ("oacp", "inbox", PROJECT, "--agent", "codex"),
    ("send", "--from", "claude", "--to", "codex", "--type", "question", "--subject", "s", "--body", "b"),
    ("next", "-a", "codex", "--json"),
    ("doctor", "--fix"),
)


def answered(stage: Stage, *words: str) -> Ran:
    """Run a command, and check what holds for every answer."""
    ran = stage.run(*words)
    assert 0 <= ran.code < INTERNAL, (words, ran)
    assert "a bug in Parley" not in ran.err, (words, ran)
    assert not DANGEROUS.search(ran.out + ran.err), (words, ran)
    if "--json" in words and ran.out:
        for document in [ran.out] if ran.out[0] != "{" or "\n " in ran.out else ran.out.splitlines():
            json.loads(document)
    return ran


# ---------------------------------------------------------------- message files


def message(**fields: str) -> bytes:
    """A message file as text; the values are YAML."""
    plain = {"id": "msg-1-abcdef", "from": "claude", "to": "codex", "type": "question", "priority": "P2"}
    rest = {"created_at_utc": '"2026-03-13T14:30:00Z"', "subject": "s", "body": "b"}
    named = {key.rstrip("_"): value for key, value in fields.items()}
    return "".join(f"{key}: {value}\n" for key, value in {**plain, **rest, **named}.items()).encode()


_FIELDS = ("id", "from_", "to", "type", "priority", "created_at_utc", "subject", "body", "channel", "conversation_id")
_MORE = (
    "parent_message_id",
    "related_packet",
    "related_pr",
    "context_keys",
    "expires_at",
    "auth",
    "ocip",
    "disclosure",
)
FILES: dict[str, bytes] = {
    **{f"escapes in {name}": message(**{name: Q}) for name in (*_FIELDS, *_MORE, "disclosure")},
    **{f"a list as {name}": message(**{name: f"[{Q}, [{Q}]]"}) for name in (*_FIELDS[:4], "body", "ocip")},
    **{f"a mapping as {name}": message(**{name: f"{{{Q}: {Q}}}"}) for name in (*_FIELDS[:4], "body", "ocip_ext")},
    **{f"an empty mapping as {name}": message(**{name: "{}"}) for name in (*_FIELDS, *_MORE)},
    "no value": message(to="~"),
    "half a character": message(subject='"\\ud800"'),
    "NUL in an id": message(id='"a\\0b-abcdef"'),
    "NUL in a conversation": message(conversation_id='"\\0"'),
    "UTF-16": message().decode().encode("utf-16"),
    "two marks of byte order": b"\xef\xbb\xbf\xef\xbb\xbf" + message(),
    "zeros": b"\0" * 100,
    "nothing": b"",
    "a version of YAML to come": b"%YAML 9.9\n---\n" + message(),
    "a second document": message() + b"---\n{}\n",
    "a key in another spelling": b'"\\x69d": other\n' + message(),
    "a merge key": message() + b"<<: {subject: z}\n",
    "brackets": b"[" * 20_000,
    "braces": b"{" * 20_000,
    "a leap second": message(created_at_utc='"2026-12-31T23:59:60Z"'),
    "a zone beyond the year 1": message(created_at_utc='"0001-01-01T00:00:00+14:00"'),
    "a zone beyond the year 9999": message(created_at_utc='"9999-12-31T23:59:59-12:00"'),
    "an end beyond the year 9999": message(expires_at='"9999-12-31T23:59:59-12:00"'),
    "an answer to itself": message(parent_message_id="msg-1-abcdef"),
    "a deep signature": message() + f"auth: {DEEP}\n".encode(),
    "a deep signature in parts": message() + f"auth: a.{DEEP}.b\n".encode(),
}


@pytest.mark.requirement("D-READ-TYPES")
def test_a_file_that_names_nobody_by_an_empty_mapping_is_named_and_not_handed_over(stage: Stage) -> None:
    path = stage.inbox("codex") / "nobody.yaml"
    path.write_bytes(message(to="{}"))
    settle(path)

    ran = answered(stage, "next", "-a", "codex")

    assert ran.code == NO_MESSAGE
    assert "nobody.yaml" in ran.err
    assert "to: must be an agent name" in ran.err
    assert (stage.agent("codex") / "dead_letter" / path.name).exists()


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_a_message_file_is_handed_over_or_put_aside_and_the_next_one_follows(stage: Stage, content: bytes) -> None:
    # Given a hostile file that comes first, under a hostile name
    path = stage.inbox("codex") / f"0{TRICKS}.yaml"
    path.write_bytes(content)
    settle(path)
    stage.plant("codex", "1.yaml", id="msg-after-abcdef", priority="P3")

    # When everybody looks at it
    for words in (
        ("inbox", "-a", "codex", "--json"),
        ("read", path.name, "-a", "codex"),
        ("read", path.name, "-a", "codex", "--json"),
        ("thread", path.name, "-a", "codex"),
        ("search", "b", "-a", "codex", "--json"),
        ("validate", str(path)),
        ("oacp", "validate", str(path)),
        ("oacp", "inbox", PROJECT, "--agent", "codex", "--json"),
    ):
        answered(stage, *words)

    # Then it is a message or a dead letter, and blocks nobody
    claimed = []
    while (taken := answered(stage, "next", "-a", "codex", "--json").json) is not None:
        claimed.append(taken["file"])
        assert answered(stage, "done", taken["file"], "-a", "codex").code == 0
    assert "1.yaml" in claimed
    assert (path.name in claimed) is not (stage.agent("codex") / "dead_letter" / path.name).exists()
    answered(stage, "inbox", "-a", "codex")
    answered(stage, "search", "b", "-a", "codex")


# ---------------------------------------------------------------- everything else in a project


def _dead_letter(stage: Stage, reason: bytes, name: str = "a.yaml") -> None:
    folder = stage.agent("codex") / "dead_letter"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(TRICKS, encoding="utf-8")
    (folder / f"{name}.reason.json").write_bytes(reason)


def _governance(stage: Stage, content: bytes) -> None:
    folder = stage.project / ".parley"
    folder.mkdir(exist_ok=True)
    (folder / "governance.yaml").write_bytes(content)


def _policy(stage: Stage, name: str, text: str) -> None:
    stage.run("governance", "init")
    folder = stage.project / ".parley" / "policies" / "enterprise"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def _ledger(stage: Stage, content: bytes) -> None:
    folder = stage.agent("codex") / ".parley"
    folder.mkdir(exist_ok=True)
    (folder / "ledger.db").write_bytes(content)


def _folder(*parts: str) -> Callable[[Stage], None]:
    return lambda stage: stage.project.parents[1].joinpath(*parts).mkdir(parents=True)


def _write(place: str, text: str) -> Callable[[Stage], None]:
    return lambda stage: _no_result((stage.project / place).write_text(text, encoding="utf-8"))


def _no_result(_: object) -> None:
    return None


_CODEX = ("projects", PROJECT, "agents", "codex")
_REASON = json.dumps({"code": TRICKS, "detail": TRICKS, "at": TRICKS}).encode()
PLANTS: dict[str, Callable[[Stage], None]] = {
    "a card": _write("agents/codex/agent_card.yaml", f"name: {Q}\nruntime: {Q}\ndescription: {Q}\nskills: [{Q}]\n"),
    "a card too deep": _write("agents/codex/agent_card.yaml", "a: " + "[" * 5_000),
    "a configuration": _write("agents/codex/config.yaml", f"{Q}: {Q}\n"),
    "a status": _write("agents/codex/status.yaml", f"status: {Q}\ncurrent_task: {Q}\n"),
    "a workspace": _write("workspace.json", json.dumps({"project": TRICKS, "agents": [TRICKS], "version": TRICKS})),
    "a workspace that is no JSON": _write("workspace.json", TRICKS),
    "a workspace too deep": _write("workspace.json", "[" * 100_000),
    "the name of an agent": _folder("projects", PROJECT, "agents", TRICKS),
    "the name of a project": _folder("projects", TRICKS),
    "a folder for a ledger": _folder(*_CODEX, ".parley", "ledger.db"),
    "a ledger that is none": lambda stage: _ledger(stage, TRICKS.encode()),
    "an empty ledger": lambda stage: _ledger(stage, b""),
    "the reason of a dead letter": lambda stage: _dead_letter(stage, _REASON, f"{TRICKS}.yaml"),
    "a reason too deep": lambda stage: _dead_letter(stage, b"[" * 60_000),
    "a reason that is a list": lambda stage: _dead_letter(stage, b"[1]"),
    "a reason that is no text": lambda stage: _dead_letter(stage, b"\xff\xfe\0"),
    "rules with escapes": lambda stage: _governance(stage, f"tenant: {Q}\nagents: {{{Q}: {Q}}}\n".encode()),
    "rules that are no text": lambda stage: _governance(stage, b"\xff\xfe\0"),
    "rules too deep": lambda stage: _governance(stage, b"a: " + b"[" * 5_000),
    "the name of a policy": lambda stage: _policy(stage, f"{TRICKS}.yaml", f"{Q}: {Q}\n"),
    "a policy": lambda stage: _policy(stage, "default.yaml", f"disclosure: {Q}\n{Q}: {Q}\ncommitment_words: [{Q}]\n"),
}


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
def test_whatever_lies_in_a_project_every_command_answers_in_plain_text(
    stage: Stage, plant: Callable[[Stage], None]
) -> None:
    plant(stage)

    for words in LOOKING:
        answered(stage, *words)


def test_a_ledger_is_not_written_through_a_link(stage: Stage) -> None:
    folder = stage.agent("codex") / ".parley"
    folder.mkdir(exist_ok=True)
    (folder / "ledger.db").symlink_to(stage.here / "elsewhere.db")

    for words in LOOKING:
        answered(stage, *words)

    assert os.listdir(stage.here) == []


def test_an_export_that_is_too_deep_is_no_export(stage: Stage) -> None:
    (stage.here / "deep.jsonl").write_bytes(b"[" * 100_000)

    for words in (("audit", "verify", "deep.jsonl"), ("audit", "reconcile", "deep.jsonl", "deep.jsonl")):
        assert answered(stage, *words).code == 2


@pytest.mark.parametrize(
    "words",
    [
        (TRICKS,),
        ("init", "p", "--agents", TRICKS),
        ("agent", "add", PROJECT, TRICKS),
        ("inbox", PROJECT, "--agent", TRICKS),
        ("validate", TRICKS),
        ("watch", "--agent", TRICKS, "--project", PROJECT),
        ("send", PROJECT, "--from", "claude", "--to", TRICKS, "--type", "question", "--subject", "s", "--body", "b"),
        ("send", PROJECT, "--from", "claude", "--to", "codex", "--type", TRICKS, "--subject", "s", "--body", "b"),
        ("send", PROJECT, "--from=claude", "--to=codex", "--type=question", "--subject=s", "--body-file", TRICKS),
    ],
    ids=lambda words: " ".join(words[:2]).replace(TRICKS, "tricks"),
)
def test_the_replacement_of_oacp_repeats_no_escapes_in_its_errors(stage: Stage, words: tuple[str, ...]) -> None:
    assert answered(stage, "oacp", *words).code != 0
