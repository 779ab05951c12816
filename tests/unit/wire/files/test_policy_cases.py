"""Files of policy tests: read strictly, everything that is wrong is named by its line."""

from __future__ import annotations

import pytest

from parley.domain.agents.party import Attributes, Party
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Origin, Purpose
from parley.domain.errors.errors import Invalid
from parley.domain.rules.trial import Trial
from parley.wire.files.policy_cases import PolicyCase, PolicyCases, read_cases

WHOLE = """\
policies: rules
agents:
  alice: {org_unit: engineering, user_id: ann, team: core}
  bob:
cases:
  - name: everything
    from: alice
    to: {agent: mia, org_unit: sales, max_classification: public, can_receive_queries: false, can_auto_respond: true,
         supported_exchange_types: [meeting_scheduling], max_rounds_accepted: 2}
    purpose: meeting_scheduling
    classification: confidential
    text: When?
    round: 2
    max_rounds: 4
    reply: true
    human: true
    data: [public, restricted]
    expect: deny
    code: receiver_refuses
  - {from: alice, to: bob, expect: allow}
"""


def test_a_file_is_read_with_everything_that_it_can_say() -> None:
    alice = Party("alice", Attributes(org_unit="engineering", user_id="ann", team="core"))
    mia = Attributes(
        org_unit="sales",
        max_classification=Classification.PUBLIC,
        can_receive_queries=False,
        supported_exchange_types=(Purpose.MEETING_SCHEDULING,),
        max_rounds_accepted=2,
    )
    whole = Trial(
        alice,
        Party("mia", mia),
        Purpose.MEETING_SCHEDULING,
        classification=Classification.CONFIDENTIAL,
        texts=("When?",),
        origin=Origin.HUMAN,
        round=2,
        max_rounds=4,
        initiates=False,
        data=(Classification.PUBLIC, Classification.RESTRICTED),
    )

    assert read_cases(WHOLE, "cases.yaml") == PolicyCases(
        "rules",
        (
            PolicyCase("everything", 6, whole, "deny", "receiver_refuses"),
            PolicyCase("case 2", 20, Trial(alice, Party("bob")), "allow", ""),
        ),
    )


def flaws(text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(Invalid) as caught:
        read_cases(text, "cases.yaml")
    found = caught.value.facts["flaws"]
    assert isinstance(found, list)
    assert all(f"cases.yaml:{one['line']}" in caught.value.message for one in found)
    return [(one["line"], one["key"], one["detail"]) for one in found]


PURPOSES = "must be information_query or commitment_request or meeting_scheduling"
LEVELS = "must be public or internal or confidential or restricted"
CASE = "agents: {a: {}}\ncases:\n  - {from: a, to: a, expect: allow, %s}\n"


@pytest.mark.parametrize(
    ("said", "key", "detail"),
    [
        ("expects: deny", "expects", "is not known (did you mean expect?)"),
        (
            "purpose: chat",
            "purpose",
            'must be information_query or commitment_request or meeting_scheduling, not "chat"',
        ),
        ("classification: secret", "classification", f'{LEVELS}, not "secret"'),
        ("text: [a]", "text", "must be text with at most 65536 characters"),
        ("round: 0", "round", 'must be a whole number from 1 to 999999, not "0"'),
        ('round: "2"', "round", 'must be a whole number from 1 to 999999, not "2"'),
        ("max_rounds: many", "max_rounds", 'must be a whole number from 1 to 999999, not "many"'),
        ("reply: yes", "reply", 'must be true or false, not "yes"'),
        ("human: null", "human", "has no value"),
        ("data: public", "data", 'must be a list, not "public"'),
        ("data: [low]", "data[0]", f'{LEVELS}, not "low"'),
        ("name: []", "name", "must be one line of text with at most 500 characters"),
        ("code: 7", "code", 'must be the code of a refusal, or why it is held, not "7"'),
        ("code: commitment", "code", "an allowed message has no code"),
    ],
)
def test_what_is_wrong_with_a_case_is_named_by_line_and_key(said: str, key: str, detail: str) -> None:
    assert flaws(CASE % said) == [(3, f"cases[0].{key}", detail)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [(1, "", "the file is empty")]),
        ("cases: []\n", [(1, "cases", "must be a list with at least one case")]),
        ("agents: {}\n", [(1, "cases", "is not there")]),
        ("cases: [x]\n", [(1, "cases[0]", 'must hold keys and their values, not "x"')]),
        (
            "cases:\n- name: x\n",
            [(2, f"cases[0].{key}", "is not there") for key in ("from", "to", "expect")],
        ),
        ("policy: x\n" + CASE % "round: 1", [(1, "policy", "is not known (did you mean policies?)")]),
        ("policies: [x]\n" + CASE % "round: 1", [(1, "policies", "must name a folder or a file")]),
        (
            "agents: x\ncases:\n- {from: , to: {agent: b}, expect: deny}\n",
            [(1, "agents", "must hold"), (3, "cases[0].from", "has no value")],
        ),
        (
            "agents: {alice: }\ncases:\n- {from: alcie, to: alice, expect: deny}\n",
            [(3, "cases[0].from", 'must be one of agents, or describe one, not "alcie" (did you mean alice?)')],
        ),
        (
            "cases:\n- {from: {agent: a/b}, to: [], expect: deny}\n",
            [(2, "cases[0].from.agent", 'must be a name, not "a/b"'), (2, "cases[0].to", "must be one of agents")],
        ),
        (
            "cases: []\nagents:\n  a: {org: x}\n  b: [x]\n  c: {team: }\n",
            [(3, "agents.a.org", "is not known"), (4, "agents.b", "must hold"), (5, "agents.c.team", "has no value")],
        ),
        ("cases:\n- {from: a, to: a\n", [(3, "", "")]),
        ("cases: &x\n- {from: a}\n", [(1, "cases", "anchors and aliases are not allowed")]),
        ("x" * 600_000, [(1, "", "larger than")]),
    ],
)
def test_what_is_wrong_with_a_file_is_named_all_at_once(text: str, found: list[tuple[int, str, str]]) -> None:
    told = flaws(text)

    for line, key, detail in found:
        assert any(one[:2] == (line, key) and detail in one[2] for one in told), told


def test_a_case_may_expect_something_without_saying_why() -> None:
    read = read_cases("cases:\n- {from: {agent: a}, to: {agent: b}, expect: hold}\n", "x")

    assert (read.policies, read.cases[0].code) == ("", "")
