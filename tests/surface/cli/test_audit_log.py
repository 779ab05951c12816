"""`parley audit list|export|verify|prove|reconcile|erase`: the audit log from the command line."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from parley.cli.audit.subjects import subject_of
from parley.domain.audit.entry import AuditDraft
from parley.domain.exchange.notice import APPROVAL_TOLD
from tests.postgres.cluster import until
from tests.samples.audit import a_draft, a_log, checkpoints_of, export_of, log_of, signer
from tests.surface.cli.team_stage import Server, Team, typed_on_terminal
from tests.surface.cli.test_team_audit import tampered
from tests.surface.stage import Stage


@pytest.fixture
def team(ruled_team: Team) -> Team:
    """These tests change the rules: those of other tests stay as they were."""
    return ruled_team


def erased(team: Team, count: int = 1) -> list[str]:
    """Entries of erasures; their ids."""
    channel = team.channel("told")
    for n in range(count):
        team.post(channel, "--field", "text=x", sender=f"nobody{n}")
    return [team.said("audit", "erase", "--sender", f"nobody{n}", "--yes")["entry_id"] for n in range(count)]


def exported(team: Team, path: Path, *words: str) -> Path:
    ran = team.run("audit", "export", *words)
    assert (ran.code, ran.err) == (0, "")
    path.write_text(ran.out, encoding="utf-8")
    return path


def rows_of(team: Team) -> list[dict[str, str]]:
    """The log as CSV, but for what the server does in its own time: it tells people what waits for them."""
    rows = csv.DictReader(io.StringIO(team.run("audit", "export", "--format", "csv").out))
    return [row for row in rows if row["action"] != APPROVAL_TOLD]


# ---------------------------------------------------------------- on a server


def test_entries_are_listed_with_who_did_what(team: Team) -> None:
    (entry_id,) = erased(team)

    found = team.said("audit", "list", "--action", "content_erased", "--all")
    ran = team.run("audit", "list", "--side", "@tenant", "--limit", "1")

    assert found[-1]["id"] == entry_id
    assert found[-1]["document"]["actor"].startswith("admin:")
    assert ran.out.splitlines()[0].split()[:4] == ["NUMBER", "TIME", "SIDE", "ACTION"]
    assert team.run("audit", "list", "--side", "@tenant", "--until", "2020-01-01").out == "No entries.\n"
    assert team.run("audit", "list", "--side", "nobody").code == 3
    assert team.run("audit", "list", "--limit", "0").code == 2
    assert team.run("audit", "list", "--before", "0").code == 2
    assert team.run("audit", "list", "--all", "--limit", "5").code == 2


def test_a_duration_is_how_long_ago(team: Team) -> None:
    (entry_id,) = erased(team)

    def last(*words: str) -> list[str]:
        return [one["id"] for one in team.said("audit", "list", "--action", "content_erased", *words)][-1:]

    assert last("--since", "1h") == [entry_id]
    assert last("--until", "30d") == []  # the server is older than this test
    for option in ("--since", "--until"):
        refused = team.run("audit", "list", option, "someday")
        assert refused.code == 2
        assert "30m, 2h, 7d: so long ago" in refused.err


@pytest.mark.both_stores
def test_the_newest_entries_are_shown_and_a_note_says_that_there_are_older_ones(team: Team) -> None:
    erased(team, 3)
    of = ("audit", "list", "--action", "content_erased")
    numbers = [one["number"] for one in team.said(*of, "--all")]

    newest = team.run(*of, "--limit", "2", "--json")
    older = team.run(*of, "--limit", "1", "--before", str(numbers[-2]), "--json")
    following = team.run(*of, "--limit", "1", "--after", str(numbers[-3]), "--json")
    table = team.run(*of, "--limit", "2")
    rest = team.run(*of, "--after", str(numbers[-3]), "--json")

    assert [one["number"] for one in newest.json] == numbers[-2:]
    assert [one["number"] for one in older.json] == [numbers[-3]]
    assert [one["number"] for one in following.json] == [numbers[-2]]
    assert f"--before {numbers[-2]}" in newest.err if len(numbers) > 2 else not newest.err
    assert f"--before {numbers[-2]}" in table.err
    assert f"--after {numbers[-2]}" in following.err
    assert ([one["number"] for one in rest.json], rest.err) == (numbers[-2:], "")


def test_what_those_who_rule_did_is_told_with_whom_it_concerns(team: Team) -> None:
    team.said("suspend", "pair", "romeo", "juliet", "--reason", "families")
    team.said("resume", "pair", "romeo", "juliet")
    team.said("key", "create", "--user", "paris")
    team.said("agent", "register", "romeo", "--user", "montague", "--org-unit", "verona")

    shown = team.run("audit", "list", "--side", "@tenant", "--limit", "4").out
    rows = rows_of(team)

    assert "pair juliet and romeo" in shown
    assert "key of paris" in shown
    assert "agent romeo: for montague, in verona, up to internal" in shown
    assert [row["what"] for row in rows][-4:-2] == ["pair juliet and romeo"] * 2


def test_an_auditors_key_is_enough_for_the_commands_of_an_auditor_and_for_no_other(team: Team) -> None:
    erased(team)
    key = ["--key", team.said("key", "create", "--kind", "auditor", "--user", "dora")["key"]]
    channel = team.channel()

    assert team.said("whoami", *key)["kind"] == "auditor"
    for words in (
        ["audit", "list"],
        ["audit", "report", "today"],
        ["audit", "export"],
        ["audit", "verify"],
        ["policy", "list"],
        ["policy", "list", "--history"],
        ["policy", "show", "enterprise/default"],
        ["policy", "explain", "--from", "alice", "--to", "bob"],
        ["exchange", "list"],
        ["suspensions"],
        ["agent", "list", "--server"],
    ):
        assert team.run(*words, *key).code == 0, words
    for words in (
        ["post", channel, "hello"],
        ["audit", "erase", "--conversation", "conv-1", "--yes"],
        ["policy", "remove", "enterprise/default", "--yes"],
        ["suspend", "agent", "alice"],
        ["key", "create", "--agent", "alice"],
        ["approvals", "list"],
        ["messages", channel],
    ):
        assert team.run(*words, *key).code == 6, words


def test_at_80_columns_a_log_says_when_what_about_whom_and_how_it_ended(team: Team) -> None:
    team.said("suspend", "pair", "romeo", "juliet", "--reason", "families")
    team.said("resume", "pair", "romeo", "juliet")
    team.stage.patch.setenv("COLUMNS", "80")

    heading, *lines = team.run("audit", "list", "--side", "@tenant", "--limit", "2").out.splitlines()

    assert heading.split()[:4] == ["NUMBER", "TIME", "ACTION", "SUBJECT"]
    assert max(map(len, (heading, *lines))) <= 80
    for line, action in zip(lines, ("suspended", "suspension_lifted"), strict=True):
        number, day, time, *words = line.split()
        assert (number.isdigit(), len(day), len(time), time[-1]) == (True, 10, 6, "Z")
        assert words[:5] == [action, "pair", "juliet", "and", "romeo"]


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"action": "policy_changed", "document": "org/sales", "new": "2-ab"}, "org/sales: now 2-ab"),
        ({"action": "policy_changed", "document": "", "new": "2-ab"}, "all documents: now 2-ab"),
        ({"action": "suspended", "what": "tenant", "name": ""}, "tenant"),
        ({"action": "suspension_lifted", "what": "org_unit", "name": "sales"}, "org unit sales"),
        ({"action": "content_erased", "conversation_id": "c1"}, "conversation c1"),
        ({"action": "content_erased", "agent_id": "ann"}, "by ann"),
        ({"action": "audit_let_go", "through": 7}, "entries up to 7"),
        ({"action": "approval_link_created", "approval": "appr_1", "user_id": "ann"}, "approval appr_1"),
        ({"action": "login_link_created", "key": "key_1", "user_id": "ann"}, "sign-in of ann"),
        ({"action": "login_link_created", "key": "key_1"}, "sign-in of key key_1"),
        ({"action": "session_ended", "of_key": "key_2", "key": "key_1"}, "sign-in of key key_2"),
        ({"action": "agent_exchange", "sender": "ann"}, ""),
    ],
)
def test_an_entry_says_in_a_few_words_what_it_is_about(document: dict[str, object], told: str) -> None:
    assert subject_of(document) == told


def test_an_export_is_checked_without_the_server(team: Team, tmp_path: Path) -> None:
    erased(team, 3)
    file = exported(team, tmp_path / "audit.jsonl")
    team.stage.patch.setenv("PARLEY_URL", "http://127.0.0.1:1")

    ran = team.run("audit", "verify", str(file))
    said = team.said("audit", "verify", str(file), "--public-key", str(team.server.data / "audit.pub"))

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1].endswith("verified: intact.")
    assert "compare the key with the server's audit.pub" in ran.out
    (report,) = said["audit"]
    assert (said["valid"], report["tenant"], report["bad"]) == (True, "default", None)
    assert report["entries"] == report["covered"] >= 3


def test_an_export_is_read_from_standard_input_too(team: Team) -> None:
    erased(team)
    content = team.run("audit", "export").out.encode()

    assert team.run("audit", "verify", "-", stdin=content).code == 0
    assert team.run("audit", "verify", "-", stdin=content[:-20]).code == 13


def test_the_server_is_asked_for_its_audit_log_too(team: Team) -> None:
    erased(team)

    said = team.said("audit", "verify")

    assert {one["kind"] for one in said["chains"]} == {"events", "audit"}
    assert said["audit"][0]["bad"] is None


def test_an_audit_log_as_csv_is_for_people_and_no_cell_is_a_formula(team: Team) -> None:
    team.said("suspend", "agent", "mallory", "--reason", "=1+1")

    rows = rows_of(team)
    team.said("resume", "agent", "mallory")

    assert rows[-1]["action"] == "suspended"
    assert rows[-1]["reason"] == "'=1+1"
    assert rows[-1]["side"] == "'@tenant"


def test_which_log_is_exported_is_never_a_guess(team: Team) -> None:
    erased(team)

    audit = team.run("audit", "export").out.splitlines()
    events = team.run("audit", "export", "--log", "events").out.splitlines()
    intent = team.run("audit", "export", team.intent).out.splitlines()

    assert "parley_audit" in audit[0]
    assert all("event_type" in json.loads(line) for line in [*events, *intent])
    assert len(intent) <= len(events)
    assert team.run("audit", "export", team.intent, "--log", "audit").code == 2
    assert team.run("audit", "export", "--log", "events", "--side", "x").code == 2


def test_one_sides_export_is_checked_like_the_whole(team: Team, tmp_path: Path) -> None:
    erased(team)

    file = exported(team, tmp_path / "part.jsonl", "--side", "@tenant")
    ran = team.run("audit", "verify", str(file))

    assert (ran.code, ran.err) == (0, "")


def test_an_entry_is_proved_and_the_proof_needs_no_server(team: Team, tmp_path: Path) -> None:
    (entry_id,) = erased(team)
    file = tmp_path / "proof.json"
    ran = team.run("audit", "prove", entry_id)
    file.write_text(ran.out, encoding="utf-8")
    key = str(team.server.data / "audit.pub")
    team.stage.patch.setenv("PARLEY_URL", "http://127.0.0.1:1")

    good = team.run("audit", "verify", "--proof", str(file), "--public-key", key)
    said = team.said("audit", "verify", "--proof", str(file))
    unsure = team.run("audit", "verify", "--proof", str(file))
    file.write_text(ran.out.replace("content_erased", "content_kept!!"), encoding="utf-8")
    changed = team.run("audit", "verify", "--proof", str(file))

    assert (good.code, good.err) == (0, "")
    assert good.out.startswith("Proof valid: entry ")
    assert ("--public-key" in unsure.out, "--public-key" in good.out) == (True, False)
    assert (said["valid"], said["side"]) == (True, "@tenant")
    assert (changed.code, changed.error) == (13, "log_changed")
    assert "does not match its content" in changed.err


def test_an_entry_that_is_not_there_is_said(team: Team) -> None:
    assert team.run("audit", "prove", "aud_nothing").error == "not_found"


def test_erasing_says_what_of(team: Team) -> None:
    channel = team.channel()
    team.post(channel, "--field", "text=a secret", sender="chatty")

    done = team.said("audit", "erase", "--sender", "chatty", "--yes")

    assert done["messages"] == 1
    assert [one["payload"] for one in team.said("messages", channel)] == [{}]
    assert team.run("audit", "erase").code == 2
    assert team.run("audit", "erase", "--sender", "a", "--conversation", "b").code == 2


def test_where_nothing_is_there_to_erase_nothing_is_recorded(team: Team) -> None:
    before = rows_of(team)

    for words in (("--sender", "never-there"), ("--conversation", "never-held")):
        ran = team.run("audit", "erase", *words, "--yes")
        assert (ran.code, ran.error) == (3, "not_found")
        assert ran.err.count("\n") == 1

    assert rows_of(team) == before


def test_somebody_has_to_say_that_erasing_is_meant(team: Team) -> None:
    channel = team.channel()
    team.post(channel, "--field", "text=kept", sender="careful")

    nowhere = team.run("audit", "erase", "--sender", "careful")
    refused = typed_on_terminal("n\n", "audit", "erase", "--sender", "careful")
    kept = [one["payload"] for one in team.said("messages", channel)]
    meant = typed_on_terminal("y\n", "audit", "erase", "--sender", "careful")

    assert nowhere.code == 2
    assert "--yes" in nowhere.err
    assert (refused[0], kept) == (1, [{"text": "kept"}])
    assert "Nothing was erased." in refused[1]
    assert meant[0] == 0
    assert [one["payload"] for one in team.said("messages", channel)] == [{}]


# ---------------------------------------------------------------- files that somebody changed


LOG = a_log(20)
MARKS = checkpoints_of(LOG, 8, 20)
LINES = export_of(LOG, MARKS)


def written(path: Path, lines: list[bytes]) -> str:
    path.write_bytes(b"".join(lines))
    return str(path)


def test_the_first_bad_entry_is_named_with_its_side(stage: Stage, tmp_path: Path) -> None:
    file = written(tmp_path / "x", [*LINES[:5], LINES[5].replace(b"internal", b"public!!"), *LINES[6:]])

    ran = stage.run("audit", "verify", file)
    said = stage.run("audit", "verify", file, "--json")

    assert (ran.code, ran.error) == (13, "log_changed")
    assert "audit log of acme: number 5: alice 3: hash does not match content" in ran.err
    assert "broken at 5" in ran.out
    (report,) = said.json["audit"]
    assert (said.json["valid"], report["bad"]["number"], report["bad"]["side"], report["bad"]["seq"]) == (
        False,
        5,
        "alice",
        3,
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (LINES[:11], "10 of 20 entries"),
        ([*LINES[:11], LINES[11][:30]], "10 of 20 entries"),
        (LINES[:-1], "20 of 20 entries, and no end"),
    ],
)
def test_an_export_that_was_cut_off_says_so(stage: Stage, tmp_path: Path, lines: list[bytes], said: str) -> None:
    ran = stage.run("audit", "verify", written(tmp_path / "x", lines))

    assert (ran.code, ran.error) == (13, "log_changed")
    assert f"the export is cut off: {said}" in ran.err


def test_checkpoints_that_lie_elsewhere_find_what_the_file_alone_hides(stage: Stage, tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(b"".join(line[len(b'{"checkpoint":') : -2] + b"\n" for line in LINES[21:23]))
    shorter = written(tmp_path / "shorter", export_of(LOG[:8], MARKS[:1]))

    alone = stage.run("audit", "verify", shorter)
    compared = stage.run("audit", "verify", shorter, "--checkpoints", str(outside))

    assert alone.code == 0
    assert compared.code == 13
    assert "number 9: missing" in compared.err


def test_a_log_signed_by_somebody_else_is_found_by_the_key(stage: Stage, tmp_path: Path) -> None:
    forged = written(tmp_path / "forged", export_of(LOG, checkpoints_of(LOG, 20, by=signer(2))))

    assert stage.run("audit", "verify", forged).code == 0
    assert stage.run("audit", "verify", forged, "--public-key", signer().public_key.hex()).code == 13
    assert stage.run("audit", "verify", forged, "--public-key", signer(2).public_key.hex()).code == 0


def test_files_that_are_none_of_ours_are_said_in_one_line(stage: Stage, tmp_path: Path) -> None:
    file = written(tmp_path / "x", [b"garbage"])

    assert stage.run("audit", "verify", file).error == "invalid"
    assert stage.run("audit", "verify", str(tmp_path / "no.jsonl")).error == "not_found"
    assert stage.run("audit", "verify", str(tmp_path)).error == "not_found"
    assert stage.run("audit", "verify", "--proof", file).error == "invalid"
    assert stage.run("audit", "verify", file, "--public-key", file).error == "invalid"
    assert stage.run("audit", "verify", file, "--checkpoints", written(tmp_path / "y", [b"{}\n"])).error == "invalid"


@pytest.mark.sqlite_only
@pytest.mark.slow
def test_files_that_were_changed_under_a_server_are_found_in_its_data(lone_team: Team) -> None:
    team = lone_team
    erased(team, 4)
    team.run("audit", "export")  # makes a checkpoint
    team.server.stop()
    data = str(team.server.data)
    assert team.run("audit", "verify", "--data", data).code == 0

    tampered(team.server.data, "UPDATE audit SET document = replace(document, 'nobody2', 'nobody9') WHERE number = 3")
    edited = team.run("audit", "verify", "--data", data)
    tampered(
        team.server.data,
        "UPDATE audit SET document = replace(document, 'nobody9', 'nobody2') WHERE number = 3",
        "DELETE FROM audit WHERE number > 2",
        "DELETE FROM record WHERE kind IN ('audit_checkpoint', 'audit_mark')",
    )
    cut = team.run("audit", "verify", "--data", data)

    assert (edited.code, cut.code) == (13, 13)
    assert "audit log of default: number 3: @tenant 3: hash does not match content" in edited.err
    assert "audit log of default: number 3: missing" in cut.err


@pytest.mark.slow
def test_checkpoints_lie_outside_of_the_store_where_the_setting_says(stage: Stage, tmp_path: Path) -> None:
    elsewhere, config = tmp_path / "elsewhere", tmp_path / "config" / "parley"
    config.mkdir(parents=True)
    (config / "parley.toml").write_text(f'checkpoints = "{elsewhere}"\n')
    stage.patch.setenv("XDG_CONFIG_HOME", str(config.parent))
    server = Server(tmp_path / "data").start()
    try:
        stage.patch.setenv("PARLEY_URL", server.url)
        stage.patch.setenv("PARLEY_KEY", server.key)
        stage.run("suspend", "agent", "nobody")
        stage.run("audit", "export")
        # The server may just be about to sign it by itself: then it is exported a moment before it lies outside.
        until(lambda: kept(elsewhere / "default.jsonl") != [])
        lines = kept(elsewhere / "default.jsonl")
    finally:
        server.stop()

    assert json.loads(lines[-1])["tenant"] == "default"
    assert not (tmp_path / "data" / "checkpoints").exists()
    with closing(sqlite3.connect(tmp_path / "data" / "parley.db")) as db:
        assert db.execute("SELECT COUNT(*) FROM record WHERE kind = 'audit_checkpoint'").fetchone() == (len(lines),)


def kept(path: Path) -> list[str]:
    """The checkpoints in a file, those that are written to their end."""
    return path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []


# ---------------------------------------------------------------- two sides


def pair(number: int) -> list[AuditDraft]:
    told = {"sender": "alice", "receivers": ["bob"], "message_id": f"msg_{number}", "round": number}
    sent = a_draft(number, "alice", **told, role="sender", content_digest=f"{number:064x}")
    got = a_draft(number, "bob", **told, role="receiver", content_digest=f"{number:064x}")
    return [sent._replace(id=f"aud_s{number}"), got._replace(id=f"aud_r{number}")]


def log_file(path: Path, drafts: list[AuditDraft], *sides: str) -> str:
    log = log_of(drafts)
    return written(path, export_of(log, checkpoints_of(log, len(log)), sides=sides or None))


def test_two_sides_that_tell_the_same_are_equal(stage: Stage, tmp_path: Path) -> None:
    drafts = [one for n in range(1, 4) for one in pair(n)]
    alice, bob = log_file(tmp_path / "a", drafts, "alice"), log_file(tmp_path / "b", drafts, "bob")
    both = log_file(tmp_path / "both", drafts)

    ran = stage.run("audit", "reconcile", alice, bob)

    assert (ran.code, ran.out) == (0, "3 messages on both sides, 0 missing or different.\n")
    assert stage.run("audit", "reconcile", both, "--json").json == {"equal": True, "paired": 3, "differences": []}


def test_what_one_side_lacks_is_listed_and_is_exit_code_1(stage: Stage, tmp_path: Path) -> None:
    drafts = [one for n in range(1, 4) for one in pair(n)]
    without = [one for one in drafts if one.id != "aud_r2"]
    alice, bob = log_file(tmp_path / "a", drafts, "alice"), log_file(tmp_path / "b", without, "bob")

    ran = stage.run("audit", "reconcile", alice, bob)
    said = stage.run("audit", "reconcile", alice, bob, "--json").json

    assert ran.code == 1
    assert "b lacks it" in ran.out
    assert (said["equal"], said["paired"]) == (False, 2)
    assert [(one["message_id"], one["round"]) for one in said["differences"]] == [("msg_2", 2)]


def test_a_log_that_was_changed_is_not_compared(stage: Stage, tmp_path: Path) -> None:
    file = written(tmp_path / "x", [*LINES[:5], *LINES[6:]])

    ran = stage.run("audit", "reconcile", file)

    assert (ran.code, ran.error) == (13, "log_changed")
    assert "was changed: entry 5" in ran.err
