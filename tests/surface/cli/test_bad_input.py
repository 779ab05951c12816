"""Bad input: a clear error with its code, nothing lost, and nothing written where it says so."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import stat
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.rigs.settled_files import settle
from tests.samples.messages import a_file
from tests.surface.stage import Stage

SEND = ("send", "--from", "claude", "--type", "notification", "--subject", "Hi", "--body", "x", "--to")
LETTERS = "abcdefghijklmnopqrst"
BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in pairwise(LETTERS))
LOOK_ALIKE = "c\N{CYRILLIC SMALL LETTER O}dex"
NAMES = ["", ".", "..", "../codex", "../../etc", "a/b", "/etc", "codex\n", "a" * 65, "con", "NUL.txt", LOOK_ALIKE, "-x"]


@pytest.mark.parametrize("name", NAMES)
def test_a_recipient_that_is_no_name_is_refused_and_nothing_is_made(stage: Stage, name: str) -> None:
    before = stage.everything()

    ran = stage.run(*SEND[:-1], f"--to={name}")

    assert (ran.code, ran.error) == (2, "bad_agent_name")
    assert stage.everything() == before


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_sender_that_is_no_name_is_refused(stage: Stage, name: str) -> None:
    before = stage.everything()

    ran = stage.run("inbox", f"--agent={name}")

    assert (ran.code, ran.error) == (2, "bad_agent_name")
    assert stage.everything() == before


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_project_that_is_no_name_is_refused(stage: Stage, name: str) -> None:
    ran = stage.run(*SEND, "codex", f"--project={name}")

    assert (ran.code, ran.error) == (2, "bad_project_name")


def test_an_unknown_recipient_is_an_error_and_nothing_is_written(stage: Stage) -> None:
    before = stage.everything()

    ran = stage.run(*SEND, "codex,nobody")

    assert (ran.code, ran.error, ran.out) == (3, "unknown_agent", "")
    assert "no agent 'nobody' in project 'demo' [unknown_agent]\nhint: add it with: parley agent add nobody" in ran.err
    assert stage.everything() == before
    assert not stage.agent("nobody").exists()


def test_an_unknown_project_is_an_error_and_nothing_is_written(stage: Stage) -> None:
    before = stage.everything()

    ran = stage.run(*SEND, "codex", "--project", "nowhere")

    assert (ran.code, ran.error) == (3, "unknown_project")
    assert "create it with: parley init nowhere" in ran.err
    assert stage.everything() == before


def test_an_unknown_sender_is_an_error_and_nothing_is_written(stage: Stage) -> None:
    ran = stage.run("send", "--from", "nobody", *SEND[3:], "codex")

    assert (ran.code, ran.error) == (3, "unknown_agent")
    assert stage.files("codex") == []


def test_an_inbox_that_is_a_symbolic_link_is_neither_written_nor_read_through(stage: Stage) -> None:
    outside = stage.here / "outside"
    stage.inbox("codex").rename(outside)
    stage.inbox("codex").symlink_to(outside)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}

    sent = stage.run(*SEND, "gemini,codex")
    read = stage.run("inbox", "-a", "codex")

    assert [(ran.code, ran.error) for ran in (sent, read)] == [(2, "not_regular")] * 2
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before
    assert stage.files("gemini") == stage.files("claude", "outbox") == []


@pytest.mark.parametrize("part", ["agents/codex", "agents"])
def test_a_symbolic_link_anywhere_on_the_way_is_refused(stage: Stage, part: str) -> None:
    (stage.project / part).rename(stage.here / "moved")
    (stage.project / part).symlink_to(stage.here / "moved")

    ran = stage.run("inbox", "-a", "codex")

    assert (ran.code, ran.error) == (2, "not_regular")


def secret_link(path: Path) -> None:
    secret = path.parent.parent / "secret"
    secret.write_bytes(a_file(subject='"top secret"'))
    path.symlink_to(secret)


def hard_link(path: Path) -> None:
    victim = path.parent.parent / "victim"
    victim.write_bytes(a_file())
    os.link(victim, path)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1024**3)


def a_socket(path: Path) -> None:
    # Socket names are short, so it is made here and moved.
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("s.sock")
        os.rename("s.sock", path.name)
    finally:
        os.chdir(here)


def content(text: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(text)

    return write


HOSTILE: dict[str, tuple[str, Callable[[Path], None]]] = {
    "symbolic link": ("not_regular", secret_link),
    "dangling link": ("not_regular", lambda path: path.symlink_to("nowhere")),
    "FIFO": ("not_regular", os.mkfifo),
    "folder": ("not_regular", lambda path: path.mkdir()),
    "socket": ("not_regular", a_socket),
    "hard link": ("not_regular", hard_link),
    "5 MB": ("too_large", content(b"x" * (5 * 1024 * 1024))),
    "one byte too many": ("too_large", content(a_file().ljust(256 * 1024 + 1, b"\n"))),
    "sparse gigabyte": ("too_large", sparse),
    "alias bomb": ("alias_forbidden", content(BOMB.encode())),
    "merge key": ("alias_forbidden", content(b"base: &b {a: 1}\nx:\n  <<: *b\n")),
    "python tag": ("tag_forbidden", content(a_file(subject="!!python/object/apply:os.system [touch pwned]"))),
    "own tag": ("tag_forbidden", content(a_file(subject="!important x"))),
    "duplicate key": ("duplicate_key", content(a_file() + b'from: "bob"\n')),
    "two documents": ("multi_document", content(a_file() + b"---\n" + a_file())),
    "deep nesting": ("too_deep", content(a_file(body="[" * 3_000 + "]" * 3_000))),
    "many nodes": ("too_many_nodes", content(a_file(body="[" + "a," * 6_000 + "]"))),
    "not UTF-8": ("not_text", content(a_file() + b"x: \xff\n")),
    "UTF-16": ("not_text", content("id: x\n".encode("utf-16"))),
    "NUL": ("not_text", content(a_file() + b"x: a\0b\n")),
    "half a surrogate": ("not_yaml", content(a_file(subject=r'"\ud800"'))),
    "empty": ("not_a_mapping", content(b"")),
    "a list": ("not_a_mapping", content(b"- a\n")),
    "no YAML": ("not_yaml", content(b'id: "never closed\n')),
    "no fields": ("invalid", content(b"hello: world\n")),
    "unknown kind": ("invalid", content(a_file(type="shout"))),
    "no time": ("invalid", content(a_file(created_at_utc="yesterday"))),
    "sender with a path": ("invalid", content(a_file(from_='"../../etc"'))),
    "long id": ("invalid", content(a_file(id=f'"{"x" * 201}"'))),
    "body of a list": ("invalid", content(a_file(body="[a, b]"))),
    "respelled trailer": ("signature_invalid", content(a_file() + b'auth: "e30="\n')),
    "trailer in the middle": ("signature_invalid", content(b'auth: "e30"\n' + a_file())),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_shown_with_its_reason_put_aside_and_passed_over(stage: Stage, name: str) -> None:
    code, make = HOSTILE[name]
    path = stage.inbox("codex") / "hostile.yaml"
    make(path)
    settle(path)
    good = stage.send("--priority", "P3")
    started = time.monotonic()

    listed = stage.run("inbox", "-a", "codex", "--json").json
    first = stage.run("next", "-a", "codex", "--json").json
    second = stage.run("next", "-a", "codex", "--json").json

    assert time.monotonic() - started < 60  # nothing blocks and nothing explodes
    assert listed[-1] == {"file": "hostile.yaml", "status": "unreadable", "problem": listed[-1]["problem"]}
    assert listed[-1]["problem"].startswith(f"{code}: ")
    assert (first["id"], second) == (good["id"], None)
    dead = stage.agent("codex") / "dead_letter"
    assert os.path.lexists(dead / "hostile.yaml")
    assert not os.path.lexists(path)
    reason = json.loads((dead / "hostile.yaml.reason.json").read_text())
    assert (reason["file"], reason["code"]) == ("hostile.yaml", code)
    assert not (stage.here / "pwned").exists()


def test_a_device_in_an_inbox_is_put_aside_unopened(stage: Stage) -> None:
    path = stage.inbox("codex") / "hostile.yaml"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # zero: an endless file
    except PermissionError:
        pytest.skip("this user may not make devices")

    listed = stage.run("inbox", "-a", "codex", "--json").json
    handed = stage.run("next", "-a", "codex", "--json").json

    assert (listed[0]["problem"].partition(":")[0], handed) == ("not_regular", None)
    assert (stage.agent("codex") / "dead_letter" / "hostile.yaml.reason.json").exists()


@pytest.mark.parametrize("name", ["symbolic link", "FIFO", "hard link"])
def test_naming_a_hostile_file_says_why_it_cannot_be_read(stage: Stage, name: str) -> None:
    code, make = HOSTILE[name]
    make(stage.inbox("codex") / "hostile.yaml")

    ran = stage.run("read", "hostile.yaml", "-a", "codex")

    assert (ran.code, ran.error, ran.out) == (2, code, "")


@pytest.mark.requirement("D-READ-SEEN")
@pytest.mark.parametrize("name", ["alias bomb", "not UTF-8", "no fields"])
@pytest.mark.parametrize("place", ["inbox", "dead_letter"])
def test_a_file_that_is_no_message_is_shown_with_its_reason(stage: Stage, name: str, place: str) -> None:
    code, make = HOSTILE[name]
    path = stage.inbox("codex") / "hostile.yaml"
    make(path)
    settle(path)
    content = path.read_bytes()
    if place == "dead_letter":
        stage.run("next", "-a", "codex")

    shown = stage.run("read", "hostile.yaml", "-a", "codex")
    as_json = stage.run("read", f"{place}/hostile.yaml", "-a", "codex", "--json")

    assert shown.code == as_json.code == 1
    assert f"note: this is no message: {code}: " in shown.out
    assert f"place: {place}\n" in shown.out
    assert (as_json.json["file"], as_json.json["place"]) == ("hostile.yaml", place)
    assert as_json.json["content"] == content.decode("utf-8", "replace")


def test_a_hundred_hostile_files_do_not_hide_one_good_message(stage: Stage) -> None:
    for number in range(100):
        (stage.inbox("codex") / f"{number:03d}.yaml").write_bytes(BOMB.encode())
    good = stage.send("--priority", "P3")

    assert stage.run("next", "-a", "codex", "--json").json["id"] == good["id"]


def test_words_that_other_readers_take_for_values_are_names(stage: Stage) -> None:
    stage.run("agent", "add", "no")
    stage.plant("no", to="no", id="12_3", subject="12:30:45")

    (item,) = stage.run("inbox", "-a", "no", "--json").json

    assert (item["to"], item["id"], item["subject"]) == ("no", "12_3", "12:30:45")


def test_a_name_that_is_taken_keeps_its_first_file(stage: Stage) -> None:
    sent = [stage.send(subject=f"number {n}") for n in range(3)]

    assert len({one["file"] for one in sent}) == 3
    texts = {(stage.inbox("codex") / one["file"]).read_text().partition("number ")[2][0] for one in sent}
    assert texts == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--to", ",".join(f"a{n}" for n in range(11))], "to: 11 recipients, at most 10 are allowed"),
        (["--to", "codex,claude"], "to: a broadcast cannot include its sender, claude"),
        (["--to", "codex", "--subject", "x" * 201], "subject: 201 characters, at most 200 are allowed"),
        (["--to", "codex", "--channel", "c" * 65], "channel: 65 characters, at most 64 are allowed"),
        (["--to", "codex", "--conversation", "c" * 201], "conversation_id: 201 characters, at most 200"),
        (["--to", "codex", "--body", "x" * 20_001], "body: 20001 characters, at most 20000 are allowed"),
        (["--to", "codex,gemini", "--type", "handoff"], "to: handoff goes to exactly one agent"),
        (["--to", "codex,gemini", "--type", "handoff_complete"], "to: handoff_complete goes to exactly one agent"),
        (["--to", "codex", "--type", "handoff", "--body", "x: y"], "body.intent: required by handoff"),
        (["--to", "codex", "--expires", "2020-01-01T00:00:00Z"], "expires_at: lies in the past"),
    ],
)
def test_a_limit_that_is_passed_is_named_and_nothing_is_written(stage: Stage, words: list[str], problem: str) -> None:
    before = stage.everything()

    ran = stage.run(*SEND[:-1], *words)

    assert (ran.code, ran.error) == (2, "invalid")
    assert problem in ran.err
    assert stage.everything() == before


def test_a_clock_that_was_set_back_loses_and_reorders_nothing_that_is_leased(stage: Stage) -> None:
    stage.plant("codex", "future.yaml", id="future", created_at_utc='"2199-01-01T00:00:00Z"')
    sent = stage.send("--priority", "P2", "--type", "task_request")

    listing = stage.run("inbox", "-a", "codex")
    handed = [stage.run("next", "-a", "codex", "--json").json["id"] for _ in range(2)]

    assert listing.code == 0
    assert handed == [sent["id"], "future"]


def test_a_ledger_of_a_newer_parley_is_refused_with_advice(stage: Stage) -> None:
    stage.send()
    db = sqlite3.connect(stage.agent("claude") / ".parley" / "ledger.db")
    db.execute("PRAGMA user_version=99")
    db.close()

    ran = stage.run(*SEND, "codex")

    assert (ran.code, ran.error) == (7, "newer_schema")
    assert "upgrade Parley" in ran.err


def test_a_missing_inbox_of_my_own_is_a_clear_error(stage: Stage) -> None:
    for path in sorted(stage.inbox("codex").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    stage.inbox("codex").rmdir()

    for words in (["inbox"], ["next"], ["watch", "--once"]):
        ran = stage.run(*words, "-a", "codex")
        assert (ran.code, ran.error) == (3, "not_found")
    assert stage.run(*SEND, "codex").error == "unknown_agent"


@pytest.mark.parametrize(
    "words",
    [
        ("read",),
        ("reply", "--body", "x"),
        ("done",),
        ("extend",),
        ("release",),
        ("thread",),
        ("search",),
        ("review", "status"),
        ("review", "gate"),
        ("approvals", "show"),
    ],
    ids=" ".join,
)
def test_a_name_that_is_no_text_is_an_error_and_no_bug(stage: Stage, words: tuple[str, ...]) -> None:
    sent = stage.send()
    stage.send(to="claude", sender="codex")  # codex has a ledger, which is asked
    # So Python gives a program the bytes of its arguments that are not UTF-8.
    not_text = os.fsdecode(b"msg-\xed\xa0\x80")

    ran = stage.run(*words, "-a", "codex", not_text)

    assert (ran.code, ran.error) == (2, "not_text")
    assert stage.files("codex") == [sent["file"]]


def test_a_file_whose_name_is_no_text_is_named_in_the_error(stage: Stage) -> None:
    stage.send(to="claude", sender="codex")  # codex has a ledger
    path = os.fsencode(stage.inbox("codex")) + b"/bad\xff.yaml"
    with open(path, "wb") as file:
        file.write(b"no message")

    ran = stage.run("read", os.fsdecode(b"bad\xff.yaml"), "-a", "codex")

    assert (ran.code, ran.error) == (2, "not_text")
