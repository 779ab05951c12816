"""`parley audit`, `backup` and `restore`: what happened stays what happened, and can be taken along."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from parley.cli.audit.event_logs import spreadsheet_safe
from tests.surface.cli.team_stage import Server, Team

# ---------------------------------------------------------------- verify and export, asking the server


def test_a_log_that_nobody_touched_is_whole(team: Team) -> None:
    channel = team.channel("said", "--audit")
    for number in range(3):
        team.post(channel, "--field", f"n:={number}")

    ran = team.run("audit", "verify", team.intent)
    said = team.said("audit", "verify", team.intent)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == "1 log with 5 entries verified: intact."
    (chain,) = said["chains"]
    assert (said["valid"], chain["log"], chain["length"], chain["bad"]) == (True, team.intent, 5, None)


def test_a_log_longer_than_a_page_is_checked_to_its_end(team: Team) -> None:
    team.stage.patch.setattr("parley.cli.audit.event_logs._PAGE", 2)
    channel = team.channel("said", "--audit")
    for number in range(4):
        team.post(channel, "--field", f"n:={number}")

    assert team.said("audit", "verify", team.intent)["chains"][0]["length"] == 6
    assert len(team.run("audit", "export", team.intent).out.splitlines()) == 6


def test_every_intents_log_is_checked(team: Team) -> None:
    other = team.said("intent", "create", "Another", "--access", "open")["id"]

    checked = {one["log"] for one in team.said("audit", "verify")["chains"]}

    assert {team.intent, other} <= checked


def test_events_are_exported_as_json_lines_in_their_order(team: Team) -> None:
    team.post(team.channel("said", "--audit"), "--field", "a=b")

    events = [json.loads(line) for line in team.run("audit", "export", team.intent).out.splitlines()]

    assert [one["sequence"] for one in events] == [1, 2, 3]
    assert [one["event_type"] for one in events][-1] == "channel_message"
    assert [one["previous_event_hash"] for one in events[1:]] == [one["event_hash"] for one in events[:-1]]


def test_no_cell_of_the_csv_is_a_formula(team: Team) -> None:
    evil = '=HYPERLINK("http://evil","click")'
    intent = team.said("intent", "create", evil, "--access", "open")["id"]

    ran = team.run("audit", "export", intent, "--format", "csv")

    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [row["sequence"] for row in rows] == ["1", "2"]
    assert json.loads(rows[0]["payload"])["title"] == evil
    assert [cell for row in rows for cell in row.values() if cell[:1] in ("=", "+", "-", "@")] == []


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201"]
)
def test_what_a_spreadsheet_would_compute_is_made_text(text: str) -> None:
    assert spreadsheet_safe(text) == f"'{text}"


@pytest.mark.parametrize(
    ("value", "cell"), [("a=b", "a=b"), ("", ""), (None, ""), ({"a": "=1"}, '{"a": "=1"}'), (5, "5")]
)
def test_other_cells_stay_as_they_are(value: object, cell: str) -> None:
    assert spreadsheet_safe(value) == cell


@pytest.mark.parametrize("log", [(), ("--log", "events")])
def test_an_export_that_is_refused_writes_no_header(team: Team, log: tuple[str, ...]) -> None:
    ran = team.run("audit", "export", "--format", "csv", *log, "--key", "pk_wrong")

    assert (ran.code, ran.out) == (6, "")


def test_json_lines_or_csv_but_not_both(team: Team) -> None:
    ran = team.run("audit", "export", team.intent, "--format", "csv", "--json")

    assert ran.code == 2


# ---------------------------------------------------------------- tampered with


CHANGE = "UPDATE event SET document = CAST(replace(CAST(document AS TEXT)"


def tampered(data: Path, *statements: str) -> None:
    """Change the file behind the server's back, past its triggers."""
    with closing(sqlite3.connect(data / "parley.db", isolation_level=None)) as db:
        for (trigger,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {trigger}")
        for statement in statements:
            assert db.execute(statement).rowcount > 0, statement


def with_a_log(team: Team) -> None:
    channel = team.channel("said", "--audit")
    for number in range(4):
        team.post(channel, "--field", f"n:={number}")


@pytest.mark.sqlite_only
@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "bad"),
    [
        (f"{CHANGE}, '\"n\":1', '\"n\":7') AS BLOB) WHERE sequence = 4", 4),
        (f'{CHANGE}, \'"actor":"claude"\', \'"actor":"codex"\') AS BLOB) WHERE sequence > 4', 5),
        ("DELETE FROM event WHERE sequence = 4", 5),
    ],
    ids=["a payload changed", "actors changed", "one removed"],
)
def test_a_log_that_was_changed_is_exit_code_13_and_names_the_first_bad_number(
    lone_team: Team, statement: str, bad: int
) -> None:
    team = lone_team
    with_a_log(team)
    team.server.kill()
    tampered(team.server.data, statement)

    offline = team.run("audit", "verify", "--data", str(team.server.data), "--json")
    team.server.start()
    online = team.run("audit", "verify")

    assert (offline.code, online.code, online.error) == (13, 13, "log_changed")
    assert f"{team.intent}: number {bad}: " in online.err
    assert [(one["log"], one["bad"]) for one in offline.json["chains"] if one["bad"]] == [(team.intent, bad)]
    assert json.loads(offline.err)["error"]["problems"][0]["code"] == "chain_broken"


@pytest.mark.sqlite_only
@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "bad"),
    [
        ("UPDATE entry SET document = replace(document, 'key_created', 'key_created2') WHERE position = 2", 2),
        ("DELETE FROM entry WHERE position = 1", 1),
    ],
    ids=["one changed", "one removed"],
)
def test_a_ledger_that_was_changed_is_found_in_the_files(lone_team: Team, statement: str, bad: int) -> None:
    team = lone_team
    team.said("key", "create", "--agent", "codex")
    team.server.kill()
    tampered(team.server.data, statement)

    ran = team.run("audit", "verify", "--data", str(team.server.data))

    assert (ran.code, ran.error) == (13, "log_changed")
    assert f"ledger of default: number {bad}: " in ran.err


@pytest.mark.sqlite_only
@pytest.mark.slow
def test_files_are_checked_while_the_server_runs(lone_team: Team) -> None:
    with_a_log(lone_team)

    said = lone_team.said("audit", "verify", "--data", str(lone_team.server.data))

    kinds = {one["kind"]: one["length"] for one in said["chains"]}
    assert (said["valid"], kinds["events"]) == (True, 6)
    assert kinds["ledger"] > 0


def test_a_folder_without_a_store_is_said(team: Team, tmp_path: Path) -> None:
    ran = team.run("audit", "verify", "--data", str(tmp_path))

    assert (ran.code, ran.error) == (3, "not_found")


# ---------------------------------------------------------------- backup and restore


@pytest.mark.sqlite_only
@pytest.mark.slow
def test_a_backup_of_a_running_server_comes_back_in_another_place(lone_team: Team, tmp_path: Path) -> None:
    team = lone_team
    channel = team.channel()
    kept = team.post(channel, "--field", "n:=1")
    file, elsewhere = tmp_path / "team.db", tmp_path / "elsewhere"

    made = team.said("backup", str(file), "--data", str(team.server.data))
    team.post(channel, "--field", "n:=2")
    restored = team.said("restore", str(file), "--data", str(elsewhere))

    assert (made["bytes"], file.stat().st_mode & 0o777) == (file.stat().st_size, 0o600)
    assert restored == {"file": str(file), "data": str(elsewhere)}
    second = Server(elsewhere, key=team.server.key).start()
    try:
        read = team.said("messages", channel, "--url", second.url)
    finally:
        second.stop()
    assert [one["id"] for one in read] == [kept]


@pytest.mark.sqlite_only
@pytest.mark.slow
def test_a_restore_never_goes_under_a_running_server(lone_team: Team, tmp_path: Path) -> None:
    file = tmp_path / "team.db"
    lone_team.said("backup", str(file), "--data", str(lone_team.server.data))

    ran = lone_team.run("restore", str(file), "--data", str(lone_team.server.data), "--force")

    assert (ran.code, ran.error) == (4, "conflict")
    assert "a server is running" in ran.err
    assert lone_team.run("intent", "show", lone_team.intent).code == 0


@pytest.mark.sqlite_only
@pytest.mark.slow
def test_what_is_there_is_replaced_only_by_force(lone_team: Team, tmp_path: Path) -> None:
    team, file = lone_team, tmp_path / "team.db"
    team.said("backup", str(file), "--data", str(team.server.data))
    later = team.said("intent", "create", "After the backup", "--access", "open")["id"]
    team.server.kill()  # with a log beside the store that must not be read into the restored one

    refused = team.run("restore", str(file), "--data", str(team.server.data))
    forced = team.run("restore", str(file), "--data", str(team.server.data), "--force")

    assert (refused.code, refused.error) == (4, "conflict")
    assert "--force" in refused.err
    assert (forced.code, forced.err) == (0, "")
    team.server.start()
    assert team.run("intent", "show", team.intent).code == 0
    assert team.run("intent", "show", later).error == "not_found"


def test_a_backup_never_replaces_a_file(team: Team, tmp_path: Path) -> None:
    file = tmp_path / "precious"
    file.write_text("precious")

    ran = team.run("backup", str(file), "--data", str(team.server.data))

    assert (ran.code, ran.error) == (4, "conflict")
    assert file.read_text() == "precious"


@pytest.mark.parametrize("words", [["--data", "nowhere"], ["--data", "."]])
def test_where_nothing_is_nothing_is_backed_up(team: Team, tmp_path: Path, words: list[str]) -> None:
    file = tmp_path / "team.db"

    ran = team.run("backup", str(file), *words)

    assert (ran.code, ran.error) == (3, "not_found")
    assert not file.exists()


def test_a_folder_that_is_not_there_is_said(team: Team, tmp_path: Path) -> None:
    ran = team.run("backup", str(tmp_path / "no" / "team.db"), "--data", str(team.server.data))

    assert (ran.code, ran.error) == (2, "invalid")


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to look like a header" * 20])
def test_what_is_no_backup_is_not_restored(team: Team, tmp_path: Path, content: bytes) -> None:
    file, data = tmp_path / "file", tmp_path / "data"
    file.write_bytes(content)

    ran = team.run("restore", str(file), "--data", str(data))

    assert ran.code in (2, 7)
    assert ran.err.count("\n") == 1
    assert "parley.db" not in os.listdir(data)


def test_the_store_of_another_program_is_no_backup(team: Team, tmp_path: Path) -> None:
    file = tmp_path / "file"
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE post (x)")

    ran = team.run("restore", str(file), "--data", str(tmp_path / "data"))

    assert (ran.code, ran.error) == (2, "invalid")
    assert "is no backup" in ran.err


@pytest.mark.sqlite_only
def test_a_backup_of_a_newer_parley_is_refused(team: Team, tmp_path: Path) -> None:
    file = tmp_path / "team.db"
    team.said("backup", str(file), "--data", str(team.server.data))
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 999")

    ran = team.run("restore", str(file), "--data", str(tmp_path / "data"))

    assert (ran.code, ran.error) == (7, "newer_schema")
    assert "upgrade Parley" in ran.err


@pytest.mark.sqlite_only
def test_on_a_terminal_a_backup_shows_how_far_it_is(team: Team, tmp_path: Path) -> None:
    code, shown = team.stage.on_terminal("backup", str(tmp_path / "team.db"), "--data", str(team.server.data))

    assert code == 0
    assert "\rCopying: 100 %" in shown
    assert "\r\x1b[KBacked up " in shown


# ---------------------------------------------------------------- who talked to whom


def test_traffic_is_a_table_that_fits_a_terminal_and_the_answer_itself_as_json(team: Team) -> None:
    channel = team.channel("talk")
    for number in range(2):
        team.post(channel, "--field", f"n:={number}")

    ran = team.run("traffic", "--since", "1h")
    counted = team.said("traffic", "--by", "org")

    assert ran.code == 0
    assert ran.out.split()[:3] == ["FROM", "TO", "DELIVERED"]
    assert max(map(len, ran.out.splitlines())) <= 80
    assert counted["by"] == "org_unit"
    assert sum(pair["delivered"] for pair in counted["pairs"]) > 1
