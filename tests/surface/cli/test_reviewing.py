"""review status, gate, findings and close: a code review on the command line."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.surface.stage import Ran, Stage

REQUEST = ["--type", "review_request", "--set", "pr=#55", "--set", "branch=x", "--set", "diff_summary=A limiter."]
PASS = ("quality_gate_result=pass", "merge_ready=true")
FAIL = ("quality_gate_result=fail", "merge_ready=false")


def ask(stage: Stage, *more: str, to: str = "codex") -> Any:  # noqa: ANN401  # whatever the command says
    return stage.send(*REQUEST, *more, to=to, subject="Review #55")


def say(stage: Stage, to_id: str, agent: str, kind: str, *fields: str) -> Ran:
    words = [word for field in fields for word in ("--set", field)]
    return stage.run("reply", to_id, "-a", agent, "--type", kind, *words)


def gate(stage: Stage, asked: Any) -> tuple[int, str]:  # noqa: ANN401
    ran = stage.run("review", "gate", asked["id"], "-a", "claude")
    return ran.code, ran.out.strip().removeprefix(f"{asked['conversation_id']}: ")


def test_the_status_of_a_review_tells_round_findings_and_whose_turn_it_is(stage: Stage) -> None:
    asked = ask(stage)
    (stage.project / "packets" / "findings" / "one.yaml").write_text(
        "findings:\n- {id: f1, severity: P1, summary: A race}\n- {id: f2, severity: P3, summary: A name}\n"
    )
    stage.run(
        "reply", asked["id"], "-a", "codex", "--set", "findings_packet=packets/findings/one.yaml",
        "--set", "round=1", "--set", "blocking_count=1",
    )  # fmt: skip

    lines = stage.run("review", "status", asked["conversation_id"], "-a", "claude").out.splitlines()
    as_json = stage.run("review", "status", asked["id"], "-a", "claude", "--json").json

    assert lines[:3] == [
        f"{asked['conversation_id']}: feedback",
        "round 1 of 3, claude asks, codex reviews",
        "quality gate: fails",
    ]
    assert [line.split() for line in lines[3:6]] == [
        ["FINDING", "SEVERITY", "BLOCKS", "STATE", "SUMMARY"],
        ["f1", "P1", "blocks", "open", "A", "race"],
        ["f2", "P3", "open", "A", "name"],
    ]
    assert lines[6:] == ["nits: A name", "expected: review_addressed from claude"]
    assert (as_json["state"], as_json["open_findings"], as_json["waiting_for"]) == ("feedback", ["f1", "f2"], "claude")
    assert as_json["expected"] == ["review_addressed"]


def test_a_review_past_its_rounds_waits_for_a_human(stage: Stage) -> None:
    first = ask(stage, "--set", "max_turns_reviewer=1")
    ask(stage, "--reply-to", first["id"])

    shown = stage.run("review", "status", first["conversation_id"], "-a", "claude").out

    assert ": escalated\n" in shown
    assert "past round 1 of 1, claude asks, codex reviews\n" in shown
    assert "expected: a decision from a human (parley review close)\n" in shown


def test_a_conversation_without_a_review_is_an_error(stage: Stage) -> None:
    sent = stage.send()

    ran = stage.run("review", "status", sent["id"], "-a", "codex")

    assert (ran.code, ran.error) == (3, "not_found")


@pytest.mark.requirement("S3-REVIEW-GATE-CI")
@pytest.mark.requirement("D-REVIEW-GATE-EXIT")
def test_the_gate_is_open_only_for_an_approved_change(stage: Stage) -> None:
    asked = ask(stage)
    assert gate(stage, asked) == (1, "not approved: codex has not approved")

    say(stage, asked["id"], "codex", "review_lgtm", *PASS)

    assert gate(stage, asked) == (0, "approved by codex")
    as_json = stage.run("review", "gate", asked["id"], "-a", "claude", "--json").json
    assert (as_json["approved"], as_json["state"], as_json["reasons"]) == (True, "approved", [])


@pytest.mark.parametrize("fields", [FAIL, ("quality_gate_result=fail", "merge_ready=true"), (PASS[0], FAIL[1])])
@pytest.mark.requirement("D-REVIEW-LGTM")
def test_an_lgtm_that_says_fail_or_not_ready_is_no_approval(stage: Stage, fields: tuple[str, str]) -> None:
    asked = ask(stage)

    assert say(stage, asked["id"], "codex", "review_lgtm", *fields).code == 0

    assert gate(stage, asked)[0] == 1
    status = stage.run("review", "status", asked["id"], "-a", "claude")
    assert "approved" not in status.out.splitlines()[0]
    as_json = stage.run("review", "status", asked["id"], "-a", "claude", "--json").json
    said = dict(field.split("=") for field in fields)
    assert as_json["quality_gate_result"] == said["quality_gate_result"]
    assert as_json["merge_ready"] is (said["merge_ready"] == "true")


@pytest.mark.parametrize("agent", ["claude", "gemini"])
@pytest.mark.requirement("D-REVIEW-ASKED")
def test_who_was_not_asked_approves_nothing(stage: Stage, agent: str) -> None:
    asked = ask(stage)
    stage.send(
        "--type", "review_lgtm", "--set", PASS[0], "--set", PASS[1], "--conversation", asked["conversation_id"],
        sender=agent, to="claude" if agent != "claude" else "codex",
    )  # fmt: skip

    assert gate(stage, asked)[0] == 1
    assert "note: " in stage.run("review", "status", asked["id"], "-a", "claude").out


@pytest.mark.requirement("D-REVIEW-ASKED")
def test_several_reviewers_are_listed_and_all_have_to_approve(stage: Stage) -> None:
    asked = ask(stage, to="codex,gemini")
    say(stage, asked["id"], "codex", "review_lgtm", *PASS)

    lines = stage.run("review", "status", asked["id"], "-a", "claude").out.splitlines()

    assert lines[1] == "round 1 of 3, claude asks, codex and gemini review"
    assert lines[3:5] == ["codex: approved, gate pass, ready to merge", "gemini: requested"]
    assert gate(stage, asked) == (1, "not approved: gemini has not approved")


@pytest.mark.requirement("D-REVIEW-FINDINGS")
def test_a_packet_is_written_counted_and_sent(stage: Stage) -> None:
    asked = ask(stage)
    words = ["--finding", "critical: A race", "--finding", "nit: A name"]

    written = stage.run("review", "findings", asked["id"], "-a", "codex", *words)

    path = f"packets/findings/{asked['conversation_id']}-codex-round-1.yaml"
    fields = f"--set findings_packet={path} --set round=1 --set blocking_count=1"
    assert written.out.splitlines() == [
        f"Wrote {path}: 2 findings, 1 blocking",
        f"send it with: parley reply {asked['id']} --type review_feedback {fields}",
    ]
    packet = yaml.safe_load((stage.project / path).read_text())
    assert [(one["id"], one["severity"], one["blocking"]) for one in packet["findings"]] == [
        ("finding-001", "P0", True),
        ("finding-002", "P3", False),
    ]
    assert packet["summary"] == {"blocking_count": 1, "non_blocking_count": 1}
    sent = stage.run(*written.out.splitlines()[1].removeprefix("send it with: parley ").split(), "-a", "codex")
    assert (sent.code, sent.err) == (0, "")
    assert stage.run("review", "status", asked["id"], "-a", "claude", "--json").json["remarks"] == []
    again = stage.run("review", "findings", asked["id"], "-a", "codex", *words)
    assert (again.code, again.error) == (4, "name_exists")


@pytest.mark.parametrize(
    "text",
    [
        "- {severity: P1, summary: A race}\n",
        "findings:\n  - severity: major\n    file: a.py\n    line: 3\n    expected: |\n      two\n      lines\n",
        '[{"severity": "P1", "summary": "A race"}]',
        '{"findings": [{"severity": "P1", "summary": "A \\"race\\": #1"}]}',
    ],
)
def test_findings_come_from_a_file_in_yaml_or_json(stage: Stage, text: str) -> None:
    asked = ask(stage)
    (stage.here / "found").write_text(text)

    written = stage.run("review", "findings", asked["id"], "found", "-a", "codex", "--json").json

    assert (written["blocking_count"], written["round"], written["reply_to"]) == (1, 1, asked["id"])


def test_a_later_packet_says_what_is_still_open(stage: Stage) -> None:
    asked = ask(stage)
    first = stage.run("review", "findings", asked["id"], "-a", "codex", "--finding", "P1: A race").out.splitlines()[1]
    stage.run(*first.removeprefix("send it with: parley ").split(), "-a", "codex")
    status = stage.run("review", "status", asked["id"], "-a", "claude", "--json").json
    fixed = ("commit_sha=a1b2", "changes_summary=s", "round=1", "touched_files=a.py", "addressed_finding_ids=none")
    say(stage, status["last_id"], "claude", "review_addressed", *fixed)

    second = stage.run("review", "findings", asked["id"], "-a", "codex", "--finding", "nit: A name", "--json").json

    assert (second["round"], second["carried"]) == (2, ["finding-001"])
    assert second["findings"][0]["id"] == "finding-002"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no findings given"),
        (["--finding", "no severity"], "is not 'SEVERITY: TEXT'"),
        (["--finding", "urgent: now"], "findings[1].severity"),
        (["x.yaml", "--finding", "P1: now"], "given twice"),
        (["none.yaml"], "none.yaml: No such file"),
    ],
)
def test_findings_that_cannot_be_used_are_named(stage: Stage, words: list[str], said: str) -> None:
    asked = ask(stage)

    ran = stage.run("review", "findings", asked["id"], *words, "-a", "codex")

    assert (ran.code in (2, 3), said in ran.err) == (True, True)
    assert list((stage.project / "packets" / "findings").glob("*.yaml")) == []


def test_only_a_reviewer_writes_findings(stage: Stage) -> None:
    ran = stage.run("review", "findings", ask(stage)["id"], "--finding", "P1: x", "-a", "claude")

    assert (ran.code, "claude was not asked for this review" in ran.err) == (2, True)


def test_reply_warns_of_a_packet_that_does_not_exist(stage: Stage) -> None:
    ran = say(
        stage, ask(stage)["id"], "codex", "review_feedback", "findings_packet=p.yaml", "round=1", "blocking_count=0"
    )

    assert ran.code == 0
    assert "warning: body.findings_packet: the findings packet 'p.yaml' does not exist in the project\n" in ran.err


def test_more_rounds_than_are_honoured_are_told_at_sending(stage: Stage) -> None:
    words = ["-a", "claude", "--to", "codex", "--subject", "s", *REQUEST]

    assert "at most 20 rounds" in stage.run("send", *words, "--set", "max_turns_reviewer=21").err
    assert stage.run("send", *words, "--set", "max_turns_reviewer=20").err == ""


def test_a_person_closes_an_escalated_review(stage: Stage) -> None:
    asked = ask(stage, "--set", "max_turns_reviewer=1")
    ask(stage, "--reply-to", asked["id"])
    say(stage, asked["id"], "codex", "review_lgtm", *PASS)
    assert gate(stage, asked)[1].startswith("not approved: escalated (max_rounds_exceeded): a human decides")

    ran = stage.run(
        "review", "close", asked["id"], "--by", "ann", "--outcome", "approved", "--reason", "read it", "-a", "claude"
    )

    assert ran.out == f"Closed {asked['conversation_id']}: approved by ann.\n"
    assert gate(stage, asked) == (0, "approved by ann: read it")
    assert "closed by ann: read it\n" in stage.run("review", "status", asked["id"], "-a", "claude").out


def test_an_agent_does_not_close_a_review(stage: Stage) -> None:
    words = ["--by", "codex", "--outcome", "approved", "--reason", "mine", "-a", "claude"]

    ran = stage.run("review", "close", ask(stage)["id"], *words)

    assert (ran.code, "codex is an agent" in ran.err) == (2, True)


def test_a_review_without_a_conversation_is_named_by_its_request(stage: Stage) -> None:
    stage.plant("codex", type="review_request", body='{pr: "1", branch: "b", diff_summary: "d"}')

    ran = stage.run("review", "status", "a8f3", "-a", "codex")

    assert ran.out.splitlines()[0] == "msg-20260313T1430Z-claude-a8f3: requested"
