"""Where the real tool has a bug, `parley oacp` is right and says so in one clear line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from parley.adapters.files.inbox import FileInbox
from parley.cli.oacp.listing import rows_of
from parley.cli.oacp.policy import SigningPolicy
from parley.settings import load
from tests.interop.oacp.pair import Case, make_workspace, tree
from tests.interop.peer import BIN, Ran, ours, run


def message(*more: str, to: str = "bob", project: str = "p") -> tuple[str, ...]:
    fixed = ("--from", "alice", "--to", to, "--type", "notification", "--subject", "s", "--body", "b")
    return ("send", project, *fixed, *more)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return make_workspace(tmp_path)


NO_SIGNING = "Parley does not sign messages — send it unsigned, or with the OACP tool itself: oacp send"
NAME_RULE = "must start with alphanumeric, contain only [A-Za-z0-9._-], and be 1-64 chars"
REFUSALS = {
    "an unknown project is refused": (
        Case(message(project="nope")),
        "ERROR: project 'nope' not found under h/projects\n",
    ),
    "an unknown recipient is refused": (
        Case(message(to="nobody")),
        "ERROR: agent 'nobody' not found in project 'p'\n",
    ),
    "one unknown recipient stops the whole broadcast": (
        Case(message(to="bob,nobody")),
        "ERROR: agent 'nobody' not found in project 'p'\n",
    ),
    "an unknown sender is refused": (
        Case(message("--from", "nobody")),
        "ERROR: agent 'nobody' not found in project 'p'\n",
    ),
    "a project cannot lead out of the home": (
        Case(message(project="../../elsewhere")),
        "ERROR: project name must not contain path separators or start with '.'\n",
    ),
    "an inbox cannot lead elsewhere": (
        Case(("inbox", "p", "--agent", "../agents/alice")),
        "ERROR: agent '../agents/alice' not found in project 'p'\n",
    ),
    "no recipient at all is refused": (Case(message(to=",")), "ERROR: field 'to' must be non-empty\n"),
    "signing is refused": (
        Case(message("--sign")),
        f"ERROR: {NO_SIGNING}\n",
    ),
    "a policy that asks for signatures is kept": (
        Case(
            message(),
            before=lambda place: (place / "h/projects/p/agents/alice/config.yaml").write_text(
                "signing: {sign_messages: true}\n"
            ),
        ),
        f"ERROR: h/projects/p/agents/alice/config.yaml asks for signed messages: {NO_SIGNING}\n",
    ),
    "a project of another alphabet is refused": (
        Case(("init", "sp ace")),
        f"Error: Invalid project name 'sp ace': {NAME_RULE}\n",
    ),
    "an agent cannot be added to no project": (
        Case(("agent", "add", "", "zoe")),
        "Error: project name must not be empty\n",
    ),
}


@pytest.mark.parametrize(("case", "said"), REFUSALS.values(), ids=REFUSALS.keys())
@pytest.mark.requirement("D-UNKNOWN-RECIPIENT", "D-UNKNOWN-PROJECT")
def test_it_is_refused_in_one_line_and_nothing_is_written(place: Path, case: Case, said: str) -> None:
    if case.before is not None:
        case.before(place)
    before = tree(place)

    ran = ours(place, *case.args)

    assert ran == Ran(1, "", said)
    assert tree(place) == before
    assert sorted(os.listdir(place)) == ["h"]


USAGE = {
    "a time further away than time goes": (
        Case(message("--expires", "999999999999d")),
        "ERROR: invalid duration: '999999999999d' — further away than time goes\n",
    ),
    "standard input that is no text": (
        Case(("send", "p", "--from", "alice", "--to", "bob", "--type", "question", "--subject", "s"), stdin=b"\xff"),
        "ERROR: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte\n",
    ),
    "a command that Parley does not have": (
        Case(("doctor",)),
        "ERROR: Parley has no 'doctor' command — use the OACP tool itself: oacp doctor\n",
    ),
    "a sub-command that Parley does not have": (
        Case(("agent", "sync", "--all")),
        "Error: Parley has no 'agent sync' command — use the OACP tool itself: oacp agent sync\n",
    ),
}


@pytest.mark.parametrize(("case", "said"), USAGE.values(), ids=USAGE.keys())
def test_it_is_a_usage_error(place: Path, case: Case, said: str) -> None:
    assert ours(place, *case.args, stdin=case.stdin) == Ran(2, "", said)


def test_messages_of_the_same_second_all_arrive(place: Path) -> None:
    sent = [ours(place, *message("--json", "--suffix", "same")) for _ in range(4)]

    paths = {json.loads(ran.out)["inbox_path"] for ran in sent}
    assert len(paths) == 4
    assert all((place / path).is_file() and path.endswith("_same.yaml") for path in paths)


def test_a_recipient_named_twice_gets_one_message(place: Path) -> None:
    ran = ours(place, *message("--json", to="bob,bob"))

    assert json.loads(ran.out)["to"] == "bob"
    assert len(list((place / "h/projects/p/agents/bob/inbox").glob("*.yaml"))) == 1


def test_a_sender_is_found_by_the_card_that_the_tool_itself_made(place: Path) -> None:
    words = message()[:2] + message()[4:]

    ran = ours(place, *words, "--json", env={"CODEX_CI": "1"})

    assert json.loads(ran.out)["from"] == "dave"


def test_two_cards_of_one_runtime_are_ambiguous(place: Path) -> None:
    ours(place, "agent", "add", "p", "erin", "--runtime", "codex")

    ran = ours(place, *message()[:2], *message()[4:], env={"OACP_RUNTIME": " Codex "})

    said = "Cannot infer sender — multiple agent cards match current runtime 'codex': dave, erin."
    assert ran == Ran(2, "", f"ERROR: {said} Use --from, OACP_AGENT, or AGENT_NAME.\n")


def test_a_reply_is_threaded_when_its_parent_was_archived_or_has_lists(place: Path) -> None:
    archive = place / "h/projects/p/agents/alice/inbox/archive"
    parent = {
        "id": "m-1",
        "from": "bob",
        "to": "alice",
        "type": "question",
        "priority": "P2",
        "created_at_utc": "2026-01-01T00:00:00Z",
        "conversation_id": "review-pr-42",
        "context_keys": ["a", "b"],
        "subject": "s",
        "body": "b",
    }
    (archive / "x.yaml").write_text(yaml.safe_dump(parent))

    ran = ours(place, *message("--in-reply-to", "m-1", "--json"))

    sent = json.loads(ran.out)
    written = yaml.safe_load((place / sent["inbox_path"]).read_text())
    assert ran.err == ""
    assert (written["parent_message_id"], written["conversation_id"]) == ("m-1", "review-pr-42")


def test_a_linked_inbox_is_not_followed(place: Path) -> None:
    inbox = place / "h/projects/p/agents/bob/inbox"
    inbox.rename(place / "elsewhere")
    inbox.symlink_to(place / "elsewhere")

    ran = ours(place, *message())

    assert (ran.status, ran.out) == (1, "")
    assert "symbolic link" in ran.err
    assert list((place / "elsewhere").glob("*.yaml")) == []


def test_a_linked_message_is_shown_as_unreadable(place: Path) -> None:
    (place / "secret").write_text("subject: secret\n")
    (place / "h/projects/p/agents/bob/inbox/x.yaml").symlink_to(place / "secret")

    listed = json.loads(ours(place, "inbox", "p", "--agent", "bob", "--json").out)["agents"][0]["messages"]

    assert [(row["subject"], "symbolic link" in row["load_error"]) for row in listed] == [("(unreadable)", True)]


HOSTILE = {
    "a bomb of aliases": "a: &a [x, x]\nb: &b [*a, *a]\n",
    "a key given twice": "subject: one\nsubject: two\n",
    "a tag": "subject: !important do it\n",
    "a tower of brackets": "a: " + "[" * 5_000 + "\n",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_is_named_and_does_no_harm(place: Path, text: str) -> None:
    path = place / "h/projects/p/agents/bob/inbox/x.yaml"
    path.write_text(text)

    listed = json.loads(ours(place, "inbox", "p", "--agent", "bob", "--json").out)["agents"][0]["messages"]
    checked = ours(place, "validate", str(path))

    assert [row["subject"] for row in listed] == ["(invalid YAML)"]
    assert (checked.status, checked.err.startswith("ERROR: YAML parse error: ")) == (1, True)


def test_a_table_is_shown_where_only_ascii_can_be(place: Path) -> None:
    ran = ours(place, "inbox", "p", "--agent", "bob", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})

    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("INBOX: bob (p) \\u2014 0 messages")


def test_a_broadcast_that_cannot_reach_everyone_reaches_nobody(place: Path) -> None:
    (place / "h/projects/p/agents/carol/inbox").rename(place / "gone")

    ran = ours(place, *message("--json", to="bob,carol"))

    assert (ran.status, list(json.loads(ran.out)), ran.err) == (1, ["error"], "")
    assert "carol" in json.loads(ran.out)["error"]
    assert list(place.rglob("*_alice_*.yaml")) == []


def test_a_file_that_vanishes_meanwhile_is_passed_over(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def names(_: FileInbox, place: str = "inbox") -> list[tuple[str, int]]:
        return [("gone.yaml", 1), ("here.yaml", 2)] if place == "inbox" else []

    (place / "h/projects/p/agents/bob/inbox/here.yaml").write_text("subject: here\n")
    monkeypatch.setattr(FileInbox, "names", names)

    rows = list(rows_of(str(place / "h"), "p", "bob", load({}, {}), SigningPolicy("")))

    assert [row.file for row in rows] == ["here.yaml"]


@pytest.mark.parametrize(
    "words", [message(), ("inbox", "p", "--all"), ("init", "q", "--agents=zoe"), ("agent", "add", "p", "zoe")]
)
def test_an_everyday_command_imports_nothing_heavy(place: Path, words: tuple[str, ...]) -> None:
    code = (
        "import sys; from parley.cli.oacp.main import main; code = main(sys.argv[1:]);"
        "print({'yaml', 'asyncio', 'dataclasses', 'tomllib', 'shutil', 'uuid'} & set(sys.modules), file=sys.stderr)"
    )

    ran = run([sys.executable, "-c", code], *words, at=place)

    assert ran.err == "set()\n"


class TestWatch:
    LOOK = ("oacp", "watch", "--agent", "bob", "--project", "p", "--since", "epoch", "--json")

    @pytest.fixture(autouse=True)
    def news(self, place: Path) -> None:
        assert ours(place, *message()).status == 0

    def look(self, place: Path, out: int) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [str(BIN / "parley"), *self.LOOK],
            cwd=place,
            env={"PATH": os.defpath, "HOME": str(place), "LANG": "C.UTF-8", "OACP_HOME": "h"},
            stdout=out,
            stderr=subprocess.PIPE,
            check=False,
        )

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    def test_an_event_that_could_not_be_written_comes_again(self, place: Path) -> None:
        with open("/dev/full", "wb") as full:
            failed = self.look(place, full.fileno())

        again = ours(place, *self.LOOK[1:])

        assert failed.returncode == 1
        assert b"ERROR: cannot write events: [Errno 28]" in failed.stderr
        assert json.loads(again.out)["event"] == "new_message"

    def test_an_event_nobody_read_comes_again(self, place: Path) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        failed = self.look(place, writer)
        os.close(writer)

        again = ours(place, *self.LOOK[1:])

        assert failed.returncode == 1
        assert json.loads(again.out)["event"] == "new_message"

    def test_an_event_that_was_written_does_not_come_again(self, place: Path) -> None:
        first, second = (ours(place, *self.LOOK[1:]) for _ in range(2))

        assert (json.loads(first.out)["event"], second.out) == ("new_message", "")

    def test_a_state_that_cannot_be_written_is_told(self, place: Path) -> None:
        (place / "h/projects/p/state").rmdir()
        (place / "h/projects/p/state").write_text("in the way")

        ran = ours(place, *self.LOOK[1:])

        assert ran.status == 1
        assert "ERROR: h/projects/p/state/watch/bob.json: " in ran.err
