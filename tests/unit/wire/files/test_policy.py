"""A policy document is read strictly, and everything that is wrong with it is named at once."""

from __future__ import annotations

from contextlib import suppress
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.content.classification import Classification, ContentPattern
from parley.domain.content.commitment import Match
from parley.domain.content.envelope import Purpose
from parley.domain.errors.rules import PolicyInvalid
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.rules.policy import KEYS, AppliesTo, CrossOrg, Fragment, Policy, Scope
from parley.wire.files.policy import DOMAIN, encode_value, read_policy
from tests.samples.messages import PROPERTY, texts
from tests.samples.policies import document_text, fragments, policy_of


def under(*lines: str) -> str:
    return "\n".join([f"{DOMAIN}:", *(f"  {line}" for line in lines), ""])


def flaws(text: str, scope: Scope | None = None) -> list[tuple[int, str, str]]:
    """Line, key and code of each flaw."""
    with pytest.raises(PolicyInvalid) as caught:
        read_policy(text, "sales.yaml", scope=scope)
    assert caught.value.code == "policy_invalid"
    found = caught.value.facts["flaws"]
    assert isinstance(found, list)
    assert [one.code for one in caught.value.problems] == [one["code"] for one in found]
    assert all(f"sales.yaml:{one['line']}: " in caught.value.message for one in found)
    return [(one["line"], one["key"], one["code"]) for one in found]


def test_a_document_says_what_its_keys_say() -> None:
    text = under(
        "enabled: false",
        "exchange_types: [meeting_scheduling, information_query]",
        "max_rounds: 2",
        "max_classification: internal",
        "cross_org: approval",
        "commitment_words: [ship it, 'no']",
        "match: substring",
        "applies_to: all",
        "approvers:",
        "  - ana@example.com",
        "patterns:",
        "  - {name: customer, pattern: KD-####, classification: confidential}",
        'disclosure: "An agent wrote this."',
    )

    assert read_policy(text, "x.yaml") == Fragment(
        enabled=False,
        exchange_types=(Purpose.MEETING_SCHEDULING, Purpose.INFORMATION_QUERY),
        max_rounds=2,
        max_classification=Classification.INTERNAL,
        cross_org=CrossOrg.APPROVAL,
        commitment_words=("ship it", "no"),
        match=Match.SUBSTRING,
        applies_to=AppliesTo.ALL,
        approvers=("ana@example.com",),
        patterns=(ContentPattern("customer", "KD-####", Classification.CONFIDENTIAL),),
        disclosure="An agent wrote this.",
    )


@pytest.mark.parametrize(
    ("said", "meant"), [("false", CrossOrg.DENY), ("true", CrossOrg.ALLOW), ("approval", CrossOrg.APPROVAL)]
)
def test_cross_org_is_spelled_as_the_specification_does(said: str, meant: CrossOrg) -> None:
    fragment = read_policy(under(f"cross_org: {said}"), "x.yaml")

    assert fragment.cross_org is meant
    assert f"cross_org: {said}" in document_text(fragment).replace('"', "")


@given(fragments.filter(lambda one: one != Fragment()))
@PROPERTY
def test_what_is_written_is_read_again(fragment: Fragment) -> None:
    assert read_policy(document_text(fragment), "x.yaml") == fragment


def test_every_value_has_a_spelling_that_is_plain_data() -> None:
    said = {key: encode_value(getattr(Policy(patterns=(PATTERN,), approvers=("ana",)), key)) for key in KEYS}

    assert said["cross_org"] is False
    assert said["exchange_types"] == ["information_query", "commitment_request", "meeting_scheduling"]
    assert said["patterns"] == [{"name": "customer", "pattern": "KD-####", "classification": "confidential"}]
    assert all(type(value) in (bool, int, str, list) for value in said.values())
    assert encode_value(None) is None


PATTERN = ContentPattern("customer", "KD-####", Classification.CONFIDENTIAL)
RANGES = {name: (key.least, key.most) for name, key in KEYS.items() if type(key.default) is int}


def test_all_that_is_wrong_is_named_with_its_line_and_key() -> None:
    text = under(
        "enabld: true",  # 2
        "max_rounds: 0",
        "cross_org: sometimes",
        "exchange_types:",
        "  - information_query",
        "  - chat",  # 7
        "patterns:",
        "  - name: card",
        "    pattern: '####'",
        "  - {name: x, pattern: y, classification: secret, weight: 3}",  # 11
        "  - nothing",
        "approvers: ana",
        "hop_limit:",
        "pair_budget: 5",
        "pair_budget: 6",  # 16
    )

    assert flaws(text + "other: 1\n") == [
        (2, "enabld", "unknown_key"),
        (3, "max_rounds", "wrong_value"),
        (4, "cross_org", "wrong_value"),
        (7, "exchange_types[1]", "wrong_value"),
        (9, "patterns[0].classification", "missing"),
        (11, "patterns[1].weight", "unknown_key"),
        (11, "patterns[1].classification", "wrong_value"),
        (12, "patterns[2]", "wrong_type"),
        (13, "approvers", "wrong_type"),
        (14, "hop_limit", "wrong_type"),
        (16, "pair_budget", "duplicate_key"),
        (17, "other", "unknown_key"),
    ]


def test_a_slip_of_the_pen_is_told_what_was_meant() -> None:
    with pytest.raises(PolicyInvalid, match=r"^sales.yaml:2: max_round: is not known \(did you mean max_rounds\?\)$"):
        read_policy(under("max_round: 3"), "sales.yaml")


@pytest.mark.parametrize(
    ("text", "line", "key", "code"),
    [
        ("", 1, "", "not_a_mapping"),
        ("# nothing\n", 1, "", "not_a_mapping"),
        ("enabled: true\n", 1, "enabled", "unknown_key"),
        (f"{DOMAIN}:\n", 1, DOMAIN, "wrong_type"),
        (f"{DOMAIN}: {{}}\n", 1, DOMAIN, "wrong_type"),
        (f"\n{DOMAIN}: []\n", 2, DOMAIN, "wrong_type"),
        (f"{DOMAIN}: true\n", 1, DOMAIN, "wrong_type"),
        (f"- {DOMAIN}\n", 1, "", "not_a_mapping"),
        (under("enabled: &x true"), 2, "enabled", "alias_forbidden"),
        (under("max_rounds: !!int 3"), 2, "max_rounds", "tag_forbidden"),
        (under("enabled: true", "<<: {max_rounds: 3}"), 3, "<<.max_rounds", "alias_forbidden"),
        (under("enabled: true") + "---\na: b\n", 3, "", "multi_document"),
        (under("enabled: true", "max_rounds: [3"), 4, "", "not_yaml"),
        (under("enabled: true", "max_rounds: \x07"), 1, "", "not_yaml"),
    ],
)
def test_a_document_that_is_none_is_refused_where_it_goes_wrong(text: str, line: int, key: str, code: str) -> None:
    assert (line, key, code) in flaws(text)


@pytest.mark.parametrize(
    "said",
    [
        "enabled: 'true'",
        "enabled: yes",
        "enabled: True",
        "enabled: 1",
        "enabled: [true]",
        "self_approval: ~",
        "max_rounds: '3'",
        "max_rounds: 3.0",
        "max_rounds: 03",
        "max_rounds: 1_0",
        "max_rounds: -1",
        "max_rounds: 0x3",
        "max_rounds: 99999999999999999999",
        "max_rounds: {a: b}",
        "max_classification: secret",
        "max_classification: Internal",
        "cross_org: 'true'",
        "cross_org: deny",
        "commitments: off",
        "exchange_types: information_query",
        "exchange_types: [information_query, information_query]",
        "exchange_types: {information_query: true}",
        "exchange_types: [~]",
        "commitment_words: ['']",
        "commitment_words: ['---']",
        "commitment_words: [[a]]",
        "commitment_words: ['" + "a" * 65 + "']",
        "approvers: ['two words']",
        "approvers: [../x]",
        "patterns: [{name: '', pattern: x, classification: public}]",
        "patterns: [{name: x, pattern: [x], classification: public}]",
        "disclosure: ''",
        'disclosure: "a\\nb"',
        'disclosure: "\\u202egent"',
        "disclosure: [a]",
        *(f"{key}: {least - 1}" for key, (least, _) in RANGES.items()),
        *(f"{key}: {most + 1}" for key, (_, most) in RANGES.items()),
    ],
)
def test_a_wrong_value_is_refused_never_guessed(said: str) -> None:
    found = flaws(under(said))

    assert [line for line, _, _ in found] == [2]
    assert found[0][1].startswith(said.partition(":")[0])


@pytest.mark.parametrize("key", RANGES)
def test_a_number_may_be_the_least_and_the_most(key: str) -> None:
    for number in RANGES[key]:
        assert getattr(read_policy(under(f"{key}: {number}"), "x.yaml"), key) == number


def test_a_document_may_be_as_large_as_the_limit_and_no_larger() -> None:
    head = under("enabled: true")
    full = head + "#" * (DEFAULT_LIMITS.file_bytes - len(head))

    assert read_policy(full, "x.yaml") == Fragment(enabled=True)
    assert flaws(full + "#") == [(1, "", "too_large")]


def test_only_the_enterprise_says_what_is_disclosed() -> None:
    text = under("enabled: true", "disclosure: An agent wrote this.")

    assert flaws(text, Scope.ORG) == [(3, "disclosure", "misplaced")]
    assert read_policy(text, "x.yaml", scope=Scope.ENTERPRISE).disclosure == "An agent wrote this."


@given(st.one_of(texts, texts.map(lambda text: under(*text.split("\n")))))
@PROPERTY
def test_no_text_makes_it_fail_otherwise(text: str) -> None:
    with suppress(PolicyInvalid):
        assert read_policy(text, "x.yaml") != Fragment()


def test_the_policy_of_a_fresh_install_says_the_built_in_values() -> None:
    text = files("parley").joinpath("policies", "enterprise.yaml").read_text(encoding="utf-8")

    fragment = read_policy(text, "enterprise.yaml")

    assert policy_of(fragment) == Policy(version="0-")
    silent = {key for key in KEYS if getattr(fragment, key) is None}
    assert silent == {"approvers"}  # so that org units may name their own


def test_the_policy_of_a_fresh_install_explains_every_key() -> None:
    text = files("parley").joinpath("policies", "enterprise.yaml").read_text(encoding="utf-8")
    paragraphs = text.split("\n\n")[1:]

    for key in KEYS:
        explained = [one for one in paragraphs if f"\n  {key}:" in one or f"\n  # {key}:" in one]
        assert len(explained) == 1, key
        assert explained[0].removeprefix(f"{DOMAIN}:\n").startswith("  # ")
