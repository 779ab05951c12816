"""`parley policy explain` and `test` without a server: for whoever writes policies, and for their repository's CI."""

from __future__ import annotations

import json

import pytest

from tests.surface.stage import Stage

POLICY = """\
agent-to-agent:
  cross_org: approval
  max_rounds: 3
  patterns:
    - {name: customer number, pattern: "KD-######", classification: confidential}
"""
SALES = "agent-to-agent:\n  commitment_words: [discount]\n"
EXCEEDED = "deny (classification_exceeded):"
CASES = """\
# What our policy must make of these messages. In the policy's repository: parley policy test policy-tests.yaml
policies: policies

agents:
  alice: {org_unit: engineering, user_id: ann}
  bob: {org_unit: engineering, user_id: ben}
  mia: {org_unit: sales, user_id: max, max_classification: public}

cases:
  - name: colleagues ask each other
    from: alice
    to: bob
    purpose: information_query
    text: What is the status of the release?
    expect: allow

  - name: nobody but a person promises anything
    from: alice
    to: bob
    purpose: information_query
    text: We promise it for Friday.
    expect: hold
    code: commitment

  - name: a person may promise
    from: alice
    to: bob
    purpose: information_query
    text: We promise it for Friday.
    human: true
    expect: allow

  - name: sales is asked only when a person agrees
    from: alice
    to: mia
    classification: public
    text: Which price is published?
    expect: hold
    code: cross_org

  - name: sales hears nothing internal
    from: alice
    to: mia
    classification: internal
    expect: deny
    code: classification_exceeded

  - name: customer numbers are confidential
    from: alice
    to: bob
    text: It is about KD-104711.
    classification: internal
    expect: deny
    code: classification_exceeded

  - name: the third round is the last
    from: bob
    to: alice
    reply: true
    round: 4
    expect: hold
    code: round_limit

  - name: what a guest may know is said here
    from: bob
    to: {agent: guest, org_unit: engineering, max_classification: public, can_receive_queries: false}
    purpose: information_query
    classification: public
    expect: deny
    code: receiver_refuses
"""


def written(stage: Stage, name: str, text: str) -> str:
    path = stage.here / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return name


def repository(stage: Stage) -> str:
    """A repository with policies and their tests."""
    written(stage, "repo/policies/enterprise/default.yaml", POLICY)
    written(stage, "repo/policies/org/sales.yaml", SALES)
    return written(stage, "repo/cases.yaml", CASES)


def test_the_cases_of_a_repository_hold_one_line_each(stage: Stage) -> None:
    ran = stage.run("policy", "test", repository(stage))

    lines = ran.out.splitlines()
    assert (ran.code, ran.err) == (0, "")
    assert lines[0] == "ok    colleagues ask each other"
    assert (len(lines), lines[-1]) == (9, "8 cases, all passed")
    assert stage.run("policy", "test", "--quiet", "repo/cases.yaml").out == "8 cases, all passed\n"


def test_a_case_that_does_not_hold_is_named_by_its_line_and_the_exit_code_is_1(stage: Stage) -> None:
    repository(stage)
    written(stage, "repo/policies/enterprise/default.yaml", "agent-to-agent:\n  commitments: report\n")

    ran = stage.run("policy", "test", "--quiet", "repo/cases.yaml")

    walled = "got deny (policy_denied): the policy allows nothing from engineering to sales"
    exceeded = "expected deny (classification_exceeded)"
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.splitlines() == [
        "FAIL  repo/cases.yaml:17: nobody but a person promises anything: expected hold (commitment), got allow",
        f"FAIL  repo/cases.yaml:33: sales is asked only when a person agrees: expected hold (cross_org), {walled}",
        f"FAIL  repo/cases.yaml:41: sales hears nothing internal: {exceeded}, {walled}",
        f"FAIL  repo/cases.yaml:48: customer numbers are confidential: {exceeded}, got allow",
        "8 cases, 4 failed",
    ]


def test_without_policies_of_its_own_a_file_tests_the_one_that_comes_along(stage: Stage) -> None:
    alone = (
        "cases:\n- {from: {agent: a, org_unit: x}, to: {agent: b, org_unit: y}, expect: deny, code: policy_denied}\n"
    )

    ran = stage.run("policy", "test", written(stage, "alone.yaml", alone), "--json")

    assert ran.code == 0
    assert ran.json == {
        "cases": [
            {
                "file": "alone.yaml",
                "line": 2,
                "name": "case 1",
                "passed": True,
                "expected": "deny",
                "verdict": "deny",
                "code": "policy_denied",
                "reason": "the policy allows nothing from x to y",
            }
        ],
        "failed": 0,
    }


def test_one_policy_file_is_the_enterprises(stage: Stage) -> None:
    written(stage, "one.yaml", "agent-to-agent:\n  enabled: false\n")
    case = (
        "policies: one.yaml\ncases:\n- {from: {agent: a}, to: {agent: b}, purpose: information_query, expect: deny}\n"
    )

    assert stage.run("policy", "test", written(stage, "cases.yaml", case)).code == 0


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("cases:\n- {from: x, to: y, expects: deny}\n", 2, "bad.yaml:2: cases[0].expects: is not known"),
        ("policies: nowhere\ncases:\n- {from: {agent: a}, to: {agent: b}, expect: deny}\n", 3, "nowhere: No such file"),
        (
            "policies: wrong.yaml\ncases:\n- {from: {agent: a}, to: {agent: b}, expect: deny}\n",
            2,
            "wrong.yaml:2: max_round",
        ),
    ],
)
def test_a_file_that_cannot_be_used_says_where(stage: Stage, text: str, code: int, said: str) -> None:
    written(stage, "wrong.yaml", "agent-to-agent:\n  max_round: 2\n")

    ran = stage.run("policy", "test", written(stage, "bad.yaml", text))

    assert ran.code == code
    assert said in ran.err


def explain(stage: Stage, *words: str) -> list[str]:
    repository(stage)
    ran = stage.run(
        *("policy", "explain", "--from", "alice", "--to", "mia", "--policies", "repo/policies"),
        *("--from-org", "engineering", "--to-org", "sales", *words),
    )
    assert (ran.code, ran.err) == (0, ""), ran
    return ran.out.splitlines()


def test_a_message_is_explained_with_everything_that_was_looked_at(stage: Stage) -> None:
    lines = explain(stage, "--text", "A discount?")

    assert lines[0].split() == ["CHECK", "VALUE", "SOURCE", "RESULT"]
    assert "cross_org approval enterprise/default engineering to sales" in [" ".join(one.split()) for one in lines]
    assert "commitments enforce built in discount" in [" ".join(one.split()) for one in lines]
    assert lines[-1] == "hold (cross_org): The policy asks for approval from engineering to sales."


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ("--classification restricted", f"{EXCEEDED} the message is restricted; alice may"),
        ("--classification restricted --from-max restricted", f"{EXCEEDED} the message is restricted; mia may"),
        ("--from-max public --to-max public --classification public", "hold (cross_org)"),
        ("--to-org engineering", "allow: the policies do not apply; the message is sent unchanged"),
        ("--to-org engineering --purpose information_query", "allow: no policy forbids it"),
        ("--to-org engineering --purpose information_query --text promise", "hold (commitment): Commitment keywords"),
        ("--to-org engineering --purpose information_query --text promise --human", "allow: no policy"),
        ("--to-org engineering --reply --round 4", "hold (round_limit)"),
        ("--to-org engineering --round 2 --max-rounds 1", "hold (round_limit)"),
        ("--to-org engineering --data restricted", f"{EXCEEDED} it holds data"),
    ],
)
def test_the_verdict_is_the_last_line(stage: Stage, words: str, verdict: str) -> None:
    assert explain(stage, *words.split())[-1].startswith(verdict)


def test_an_explanation_is_json_too(stage: Stage) -> None:
    found = json.loads("\n".join(explain(stage, "--json")))

    assert (found["verdict"], found["code"], found["governed"]) == ("hold", "cross_org", True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from-org", "sales"], "--from-org needs --policies"),
        (["--round", "0"], "is not a whole number"),
        (["--purpose", "chat"], '--purpose cannot be "chat"'),
    ],
)
def test_a_wrong_option_is_refused(stage: Stage, words: list[str], said: str) -> None:
    ran = stage.run("policy", "explain", "--from", "a", "--to", "b", *words)

    assert ran.code == 2
    assert said in ran.err


def test_a_folder_has_no_cases_of_its_own(stage: Stage) -> None:
    (stage.here / "cases").mkdir()

    ran = stage.run("policy", "test", "cases")

    assert (ran.code, ran.error) == (2, "invalid")
    assert "cases is a folder, not a file with test cases" in ran.err
