"""Mailboxes under rules from the command line: set up, send, hold, decide, prove; and nothing slower without them."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from parley.cli.exits import FOUND_PROBLEMS, HELD
from tests.surface.stage import PROJECT, Ran, Stage

ASK = ("send", "--from", "claude", "--to", "codex", "--type", "question", "--subject", "Ship?")
UNDER_RULES = ("--purpose", "information_query")


@pytest.fixture
def keys(stage: Stage) -> dict[str, str]:
    """A project under rules: claude acts for ann, codex for ben, both in engineering; gemini sells."""
    assert stage.run("governance", "init", "--tenant", "acme").code == 0
    path = stage.project / ".parley" / "governance.yaml"
    said = yaml.safe_load(path.read_text())
    for agent, user, unit in (("claude", "ann", "eng"), ("codex", "ben", "eng"), ("gemini", "gil", "sales")):
        said["agents"][agent] = {"user_id": user, "org_unit": unit, "max_classification": "internal"}
    path.write_text(yaml.safe_dump(said))
    return {user: stage.run("governance", "add-human", user, "--json").json["key"] for user in ("ann", "ben")}


def ask(stage: Stage, body: str = "How far is it?", *more: str) -> Ran:
    return stage.run(*ASK, "--body", body, *(more or UNDER_RULES))


def decide(stage: Stage, key: str, *words: str) -> Ran:
    with stage.patch.context() as patch:
        patch.setenv("PARLEY_HUMAN_KEY", key)
        return stage.run("approvals", *words)


def waiting(stage: Stage, agent: str) -> list[str]:
    return [one["id"] for one in stage.run("approvals", "list", "--agent", agent, "--json").json]


# ---------------------------------------------------------------- setting up


def test_a_project_is_set_up_once_with_a_file_that_people_can_read(stage: Stage) -> None:
    made = stage.run("governance", "init", "--tenant", "acme")
    again = stage.run("governance", "init")

    text = (stage.project / ".parley" / "governance.yaml").read_text()
    assert (made.code, again.code, again.error) == (0, 4, "name_exists")
    assert "tenant: acme" in text
    assert list(yaml.safe_load(text)["agents"]) == ["claude", "codex", "gemini"]


def test_a_persons_key_is_shown_once_and_only_its_public_half_is_kept(stage: Stage) -> None:
    stage.run("governance", "init")

    said = stage.run("governance", "add-human", "ann")

    key = said.out.removesuffix("\n")
    assert re.fullmatch(r"pk_[A-Za-z0-9_-]{43}", key)
    assert said.err == "Key of ann. Save it; it is not shown again:\n"
    text = (stage.project / ".parley" / "governance.yaml").read_text()
    assert key not in text
    assert re.search(r"^  ann: ed25519:[0-9a-f]{64}$", text, re.MULTILINE)


def test_who_is_who_is_shown(stage: Stage, keys: dict[str, str]) -> None:
    shown = stage.run("governance", "show")
    told = stage.run("governance", "show", "--json").json

    assert "codex   ben       eng" in shown.out
    assert (told["tenant"], told["humans"], told["agents"]["gemini"]["org_unit"]) == ("acme", sorted(keys), "sales")


def test_the_help_says_what_one_operating_system_user_means(stage: Stage) -> None:
    for command in ("init", "add-human"):
        assert "can write as each other" in " ".join(stage.run("governance", command, "--help").out.split())


def test_a_broken_governance_file_refuses_every_command_that_would_need_it(stage: Stage, keys: dict[str, str]) -> None:
    path = stage.project / ".parley" / "governance.yaml"
    path.write_text(path.read_text().replace("max_classification: internal", "max_classification: cosmic", 1))

    for words in ([*ASK, "--body", "x"], ["governance", "show"]):
        ran = stage.run(*words)
        assert (ran.code, ran.error) == (2, "policy_invalid")
        assert re.search(r"\.parley/governance\.yaml:\d+: agents\.claude\.max_classification", ran.err)
    assert stage.files("codex") == []


# ---------------------------------------------------------------- sending


def test_a_message_under_rules_is_delivered_with_its_envelope(stage: Stage, keys: dict[str, str]) -> None:
    sent = ask(stage, "How far is it?", *UNDER_RULES, "--classification", "public", "--max-rounds", "2", "--json")

    (file,) = stage.files("codex")
    fields = yaml.safe_load((stage.inbox("codex") / file).read_text())
    assert sent.json["ocip"] == fields["ocip"]
    assert (fields["ocip"]["classification"], fields["ocip"]["max_rounds"]) == ("public", 2)
    assert stage.run("validate", str(stage.inbox("codex") / file)).code == 0


def test_an_envelope_that_is_not_exact_is_named_by_validate(stage: Stage, keys: dict[str, str]) -> None:
    ask(stage)
    (file,) = stage.files("codex")
    path = stage.inbox("codex") / file
    path.write_text(path.read_text().replace('"exchange_round": 1', '"exchange_round": "1"'))

    ran = stage.run("validate", str(path), "--json")

    assert ran.code == FOUND_PROBLEMS
    assert [(one["code"], one["field"]) for one in ran.json[0]["errors"]] == [
        ("envelope_invalid", "ocip.exchange_round")
    ]


def test_an_envelope_is_one_line_for_a_person_and_whole_for_a_program(stage: Stage, keys: dict[str, str]) -> None:
    ask(stage)

    shown = stage.run("read", stage.files("codex")[0], "--agent", "codex")
    told = stage.run("next", "--agent", "codex", "--json").json

    assert "policies: internal, round 1 of 3, agent-generated, agent-ok, until " in shown.out
    assert (told["ocip"]["exchange_round"], told["ocip"]["capabilities"]["can_commit"]) == (1, False)


def test_a_reply_is_under_the_rules_of_what_it_answers(stage: Stage, keys: dict[str, str]) -> None:
    ask(stage)
    asked = stage.run("next", "--agent", "codex", "--json").json

    answered = stage.run("reply", asked["id"], "--agent", "codex", "--body", "All of it.", "--json").json

    assert (answered["ocip"]["exchange_round"], answered["ocip"]["conversation_id"]) == (2, asked["conversation_id"])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--classification", "restricted"), "classification_exceeded"),
        (("--max-rounds", "0"), "invalid"),
        (("--purpose", "chat"), "invalid"),
        (("--data", "missing.yaml"), "not_found"),
    ],
)
def test_what_the_rules_refuse_is_one_line_with_its_code(
    stage: Stage, keys: dict[str, str], words: tuple[str, ...], code: str
) -> None:
    ran = ask(stage, "x", *words)

    assert ran.code != 0
    assert ran.error == code
    assert stage.files("codex") == stage.files("claude", "outbox") == []


def test_between_org_units_nothing_goes_though_nobody_asked_for_rules(stage: Stage, keys: dict[str, str]) -> None:
    ran = stage.run(*ASK[:3], "--to", "gemini", *ASK[5:], "--body", "x")

    assert (ran.code, ran.error) == (6, "policy_denied")
    assert stage.files("gemini") == []


def test_another_tenant_is_out_of_reach(stage: Stage, keys: dict[str, str]) -> None:
    answers = {
        stage.run(*ASK[:3], "--to", name, *ASK[5:], "--body", "x").err for name in ("codex@globex", "nobody@globex")
    }

    assert answers == {"error: nothing crosses from one tenant to another [cross_enterprise_blocked]\n"}


def test_declared_data_is_read_from_a_file(stage: Stage, keys: dict[str, str]) -> None:
    (stage.here / "items.yaml").write_text("- source: crm\n  fields: [amount]\n  classification: internal\n")

    assert ask(stage, "x", "--data", "items.yaml").code == 0

    export = stage.run("audit", "export", "claude").out.splitlines()
    assert json.loads(export[1])["document"]["dataShared"] == [{"source": "crm", "fields": ["amount"]}]


# ---------------------------------------------------------------- trying it out


def test_a_dry_run_shows_the_envelope_that_would_be_stamped_and_writes_nothing(
    stage: Stage, keys: dict[str, str], tmp_path: Path
) -> None:
    shown = ask(stage, "How far is it?", *UNDER_RULES, "--dry-run")
    sent = ask(stage, "How far is it?", *UNDER_RULES, "--json")

    would = yaml.safe_load(shown.out)
    assert (shown.code, shown.err) == (0, "")
    for name in ("source_agent", "classification", "exchange_round", "max_rounds"):
        assert would["ocip"][name] == sent.json["ocip"][name]
    assert would["ocip"]["conversation_id"] == would["conversation_id"]
    # A conversation has the day in its name, and a day may end between the two.
    assert any_day(would["conversation_id"]) == any_day(sent.json["ocip"]["conversation_id"]) == "conv-DAY-claude-001"
    assert would["disclosure"] == sent.json["disclosure"]
    path = tmp_path / "would.yaml"
    path.write_text(shown.out)
    assert stage.run("validate", str(path)).code == 0
    assert len(stage.files("codex")) == len(stage.run("audit", "export", "claude").out.splitlines()) - 2 == 1


def any_day(conversation: str) -> str:
    return re.sub(r"-\d{8}-", "-DAY-", conversation)


def test_a_dry_run_says_what_would_be_held_or_refused_and_leaves_no_trace(stage: Stage, keys: dict[str, str]) -> None:
    held = ask(stage, "I promise it.", *UNDER_RULES, "--dry-run")
    told = ask(stage, "I promise it.", *UNDER_RULES, "--dry-run", "--json")
    refused = ask(stage, "Look.", "--classification", "restricted", "--dry-run")

    assert held.code == told.code == HELD
    assert (
        held.out
        == "Would be held for approval by ann: Commitment keywords detected: promise. Human approval required.\n"
    )
    assert (told.json["status"], told.json["deciders"], "approval" in told.json) == ("would_be_held", ["ann"], False)
    assert (refused.code, refused.error, refused.out) == (6, "classification_exceeded", "")
    assert waiting(stage, "claude") == []
    assert not ledger(stage, "claude").exists() or stage.run("audit", "export", "claude").out.count("\n") == 2


def test_a_dry_run_of_an_answer_in_an_exchange_is_its_next_round(stage: Stage, keys: dict[str, str]) -> None:
    asked = ask(stage, "How far is it?", *UNDER_RULES, "--json").json

    shown = stage.run("reply", asked["id"], "--agent", "codex", "--body", "Far.", "--dry-run")

    would = yaml.safe_load(shown.out)
    assert (would["ocip"]["exchange_round"], would["ocip"]["conversation_id"]) == (2, asked["conversation_id"])
    assert would["ocip_ext"]["exchange_id"] == asked["ocip_ext"]["exchange_id"]
    assert stage.run("audit", "verify", "codex", "--json").json["audit"][0]["entries"] == 0


# ---------------------------------------------------------------- holding and deciding


def test_what_is_held_is_one_line_with_an_exit_code_of_its_own(stage: Stage, keys: dict[str, str]) -> None:
    ran = ask(stage, "I promise it.")
    told = ask(stage, "I promise it.", *UNDER_RULES, "--json")

    assert ran.code == told.code == HELD
    assert re.fullmatch(
        r"Held for approval by ann: Commitment keywords detected: promise\. .* \(approval appr_\w+\)\n", ran.out
    )
    assert (told.json["status"], told.json["detectedKeywords"], told.json["deciders"]) == ("held", ["promise"], ["ann"])
    assert stage.files("codex") == stage.files("claude", "outbox") == []


def test_a_person_looks_approves_and_it_is_sent(stage: Stage, keys: dict[str, str]) -> None:
    ask(stage, "I promise it.")
    (approval,) = waiting(stage, "claude")

    shown = stage.run("approvals", "show", approval, "--agent", "claude")
    done = decide(stage, keys["ann"], "approve", approval, "--agent", "claude", "--yes", "--json")

    assert '"body": "I promise it."' in shown.out
    assert (done.code, done.json["status"], done.json["decided_by"]) == (0, "approved", "ann")
    assert len(stage.files("codex")) == 1
    assert waiting(stage, "claude") == []


def test_a_key_that_may_not_decide_is_refused_before_anything_is_shown(stage: Stage, keys: dict[str, str]) -> None:
    ask(stage, "I promise it.")
    (approval,) = waiting(stage, "claude")

    others = decide(stage, keys["ben"], "approve", approval, "--agent", "claude", "--yes")
    unknown = decide(stage, "pk_unknown", "approve", approval, "--agent", "claude", "--yes")

    assert (others.code, others.error, others.out) == (6, "not_approver", "")
    assert "only ann can decide this" in others.err
    assert (unknown.code, unknown.error, unknown.out) == (6, "human_required", "")
    assert waiting(stage, "claude") == [approval]


def test_who_may_decide_is_whom_the_policy_names(stage: Stage, keys: dict[str, str]) -> None:
    folder = stage.project / ".parley" / "policies" / "enterprise"
    folder.mkdir(parents=True)
    said = "agent-to-agent:\n  self_approval: false\n  approvers: [ben, gil]\n"
    (folder / "default.yaml").write_text(said)

    ran = ask(stage, "I promise it.")

    (approval,) = waiting(stage, "claude")
    assert ran.out.startswith("Held for approval by ben or gil: ")
    assert "deciders: ben or gil\n" in stage.run("approvals", "show", approval, "--agent", "claude").out
    assert " ben or gil  claude " in stage.run("approvals", "list", "--agent", "claude").out
    own = decide(stage, keys["ann"], "approve", approval, "--agent", "claude", "--yes")
    assert (own.code, own.error, own.out) == (6, "self_approval", "")
    assert decide(stage, keys["ben"], "approve", approval, "--agent", "claude", "--yes").code == 0


@pytest.mark.parametrize(("whose", "code"), [("ben", "not_approver"), ("", "human_required")])
def test_nobody_else_decides(stage: Stage, keys: dict[str, str], whose: str, code: str) -> None:
    ask(stage, "I promise it.")
    (approval,) = waiting(stage, "claude")

    ran = decide(stage, keys.get(whose, ""), "reject", approval, "--agent", "claude")

    assert (ran.code, ran.error) == (6, code)
    assert waiting(stage, "claude") == [approval]


def test_a_person_rejects_or_answers(stage: Stage, keys: dict[str, str]) -> None:
    ask(stage, "I promise it.")
    ask(stage, "I guarantee it.")
    first, second = waiting(stage, "claude")

    rejected = decide(stage, keys["ann"], "reject", first, "--agent", "claude", "--json").json
    answered = decide(stage, keys["ann"], "answer", second, "No, we cannot.", "--agent", "claude", "--json").json

    assert (rejected["status"], answered["status"]) == ("rejected", "answered")
    got = stage.run("next", "--agent", "codex", "--json").json
    assert (got["body"], got["ocip"]["message_type"]) == ("No, we cannot.", "human")
    for side in ("claude", "codex"):
        shown = stage.run("exchange", "show", answered["exchange_id"][-6:], "--agent", side).out
        assert "\n  1  ann (instead of claude): No, we cannot.\n" in shown


def test_a_foreign_commitment_is_listed_as_held_until_my_person_says_so(stage: Stage, keys: dict[str, str]) -> None:
    ask(stage)
    (file,) = stage.files("codex")
    path = stage.inbox("codex") / file
    path.write_text(path.read_text().replace("How far is it?", "I promise it."))

    assert stage.run("next", "--agent", "codex", "--json").json is None
    (listed,) = stage.run("inbox", "--agent", "codex", "--json").json
    (approval,) = waiting(stage, "codex")
    decide(stage, keys["ben"], "approve", approval, "--agent", "codex", "--yes")

    assert listed["status"] == "held"
    assert stage.run("next", "--agent", "codex", "--json").json["body"] == "I promise it."


def test_exchanges_are_listed_shown_and_closed(stage: Stage, keys: dict[str, str]) -> None:
    ask(stage)

    (listed,) = stage.run("exchange", "list", "--agent", "claude", "--json").json
    shown = stage.run("exchange", "show", listed["exchangeId"], "--agent", "claude")
    closed = stage.run("exchange", "close", listed["exchangeId"], "--agent", "claude", "--reason", "by phone", "--json")

    assert "claude to codex: information_query, in_progress, round 1 of 3" in shown.out
    assert (closed.json["outcome"], closed.json["reason"]) == ("resolved", "by phone")
    assert stage.run("exchange", "list", "--agent", "claude", "--outcome", "in_progress", "--json").json == []


def test_a_server_is_asked_when_one_is_configured(stage: Stage, keys: dict[str, str]) -> None:
    with stage.patch.context() as patch:
        patch.setenv("PARLEY_URL", "http://127.0.0.1:9")
        ran = stage.run("approvals", "list", "--agent", "claude")
        named = stage.run("approvals", "list", "--agent", "claude", "--project", PROJECT)

    assert ran.code != 0
    assert "127.0.0.1:9" in ran.err
    assert (named.code, named.out) == (0, "No messages held for approval.\n")


# ---------------------------------------------------------------- proving


def talk(stage: Stage, rounds: int = 2) -> None:
    """claude asks, codex answers."""
    for _ in range(rounds):
        ask(stage)
        asked = stage.run("next", "--agent", "codex", "--json").json
        assert stage.run("reply", asked["id"], "--agent", "codex", "--body", "All of it.").code == 0
        assert stage.run("next", "--agent", "claude").code == 0


def ledger(stage: Stage, agent: str) -> Path:
    return stage.agent(agent) / ".parley" / "ledger.db"


def test_both_sides_tell_the_same(stage: Stage, keys: dict[str, str]) -> None:
    talk(stage)

    ran = stage.run("audit", "reconcile", "claude", "codex", "--json")

    assert (ran.code, ran.json) == (0, {"equal": True, "paired": 4, "differences": []})
    for agent in ("claude", "codex"):
        assert stage.run("audit", "verify", agent).code == 0


def test_a_mailbox_elsewhere_is_named_by_its_home_and_project(stage: Stage, keys: dict[str, str]) -> None:
    talk(stage)
    where = ("--home", str(stage.home), "--project", PROJECT)
    stage.patch.delenv("OACP_HOME", raising=False)
    stage.patch.chdir("/")

    assert stage.run("audit", "verify", "claude", *where).code == 0
    assert stage.run("audit", "export", "claude", *where).out.startswith('{"parley_audit"')
    assert stage.run("audit", "reconcile", "claude", "codex", *where).code == 0
    assert stage.run("audit", "verify", "cluade", *where).error == "unknown_agent"


def test_a_name_that_is_nobodys_is_said_with_both_that_it_could_be(stage: Stage) -> None:
    for words in (("verify", "nobody"), ("export", "nobody")):
        ran = stage.run("audit", *words, "--url", "http://127.0.0.1:1")
        assert ran.error == "not_found"
        assert "no mailbox of agent 'nobody' and no intent 'nobody'" in ran.err
    ran = stage.run("audit", "reconcile", "nobody")
    assert ran.error == "not_found"
    assert "no file 'nobody' and no mailbox of agent 'nobody'" in ran.err


def test_a_ledger_that_is_not_there_yet_is_said(stage: Stage) -> None:
    for words in (("verify", "gemini"), ("export", "gemini"), ("reconcile", "gemini")):
        ran = stage.run("audit", *words)
        assert (ran.code, ran.error) == (3, "not_found")
        assert "gemini has no ledger yet" in ran.err


def test_that_nobody_signs_a_mailboxs_log_is_said_with_what_to_do(stage: Stage, keys: dict[str, str]) -> None:
    talk(stage)
    file = stage.here / "claude.jsonl"
    file.write_text(stage.run("audit", "export", "claude").out)

    for what in ("claude", str(file)):
        said = stage.run("audit", "verify", what).out
        assert "acme: a mailbox has no signed checkpoints" in said
        assert "parley audit reconcile" in said
        assert "checkpoint yet" not in said


@pytest.mark.parametrize("agent", ["claude", "codex"])
@pytest.mark.parametrize("gone", [1, 2, 3, 4])
def test_every_entry_that_one_side_lacks_is_found(stage: Stage, keys: dict[str, str], agent: str, gone: int) -> None:
    talk(stage)
    db = sqlite3.connect(ledger(stage, agent))
    # Somebody who owns the ledger takes an entry out and computes the chain again.
    rewritten = rewrite([json.loads(row[0]) for row in db.execute("SELECT document FROM audit ORDER BY seq")], gone)
    db.executescript("DROP TRIGGER audit_is_final_delete; DROP TRIGGER audit_is_next; DELETE FROM audit")
    db.executemany("INSERT INTO audit VALUES (?, ?, ?, 'acme', '', '', ?, ?)", rewritten)
    db.commit()
    db.close()

    whole = stage.run("audit", "verify", agent)
    ran = stage.run("audit", "reconcile", "claude", "codex", "--json")

    assert whole.code == 0
    assert ran.code == FOUND_PROBLEMS
    assert [(one["kind"], one["why"].endswith("lacks it")) for one in ran.json["differences"]] == [("missing", True)]
    assert ran.json["paired"] == 3


def rewrite(documents: list[dict[str, object]], gone: int) -> list[tuple[int, str, str, str, bytes]]:
    from hashlib import sha256

    rows = []
    previous = "0" * 64
    kept = [one for seq, one in enumerate(documents, 1) if seq != gone]
    for seq, one in enumerate(kept, 1):
        document = json.dumps(
            {**one, "seq": seq, "prev_hash": previous}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        ).encode()
        previous = sha256(b"\x00" + document).hexdigest()
        rows.append((seq, str(one["id"]), str(one["side"]), previous, document))
    return rows


def test_an_entry_that_was_changed_or_taken_out_is_named(stage: Stage, keys: dict[str, str]) -> None:
    talk(stage)
    db = sqlite3.connect(ledger(stage, "codex"))
    db.executescript(
        "DROP TRIGGER audit_is_final_update; UPDATE audit SET document = replace(document, 'ben', 'bob') WHERE seq = 2"
    )
    db.close()

    verified = stage.run("audit", "verify", "codex")
    compared = stage.run("audit", "reconcile", "claude", "codex")

    assert verified.code == compared.code == 13
    assert "number 2" in verified.err


def test_a_ledger_is_taken_along_as_a_file(stage: Stage, keys: dict[str, str]) -> None:
    talk(stage)
    files = []
    for agent in ("claude", "codex"):
        files.append(stage.here / f"{agent}.jsonl")
        files[-1].write_text(stage.run("audit", "export", agent).out)

    assert stage.run("audit", "verify", str(files[0])).code == 0
    assert stage.run("audit", "reconcile", *map(str, files)).code == 0
    lines = files[0].read_text().splitlines(keepends=True)
    for broken in (
        lines[:-1],
        [*lines[:2], *lines[3:]],
        [*lines, lines[-1]],
        [lines[0], lines[2], lines[1], *lines[3:]],
    ):
        files[0].write_text("".join(broken))
        assert stage.run("audit", "verify", str(files[0])).code == 13


# ---------------------------------------------------------------- the price


SLOW = (
    "msgspec",
    "asyncio",
    "cryptography",
    "http.client",
    "yaml",
    "parley.domain.rules.ruling",
    "parley.domain.rules.policy",
)


@pytest.mark.parametrize(
    "words",
    [
        ["send", "--from", "claude", "--to", "codex", "--type", "question", "--subject", "s", "--body", "b"],
        ["inbox", "--agent", "codex"],
        ["next", "--agent", "codex"],
    ],
)
def test_a_project_without_rules_loads_nothing_of_them(stage: Stage, words: list[str]) -> None:
    stage.send()
    code = (
        "import sys; from parley.cli.main import main; code = main(sys.argv[1:]); print(*sys.modules); sys.exit(code)"
    )

    ran = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, cwd=stage.here
    )

    assert set(SLOW) & set(ran.stdout.splitlines()[-1].split()) == set()


def test_signatures_are_loaded_only_where_a_person_decided(stage: Stage, keys: dict[str, str]) -> None:
    ask(stage)
    code = "import sys; from parley.cli.main import main; main(sys.argv[1:]); print('cryptography' in sys.modules)"

    words = [sys.executable, "-c", code, "next", "--agent", "codex", "--json"]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, cwd=stage.here)

    assert "agent-generated" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "False"
