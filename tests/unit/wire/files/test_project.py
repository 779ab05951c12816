"""The governance file: everything wrong with it is named at once, with its line; changes touch nothing else."""

from __future__ import annotations

import pytest

from parley.domain.agents.party import Attributes
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Purpose
from parley.domain.errors.rules import PolicyInvalid
from parley.domain.rules.suspension import Stopped
from parley.wire.files.project import new_governance, read_governance, with_human

PUBLIC_KEY = "ed25519:5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"
OTHER_KEY = "ed25519:" + "f" * 64
NAME = "governance.yaml"
FULL = f"""\
tenant: acme
agents:
  alice:
    user_id: ann@acme.example
    org_unit: engineering
    team: core
    max_classification: confidential
    can_receive_queries: false
    can_auto_respond: true
    supported_exchange_types: [information_query]
    max_rounds_accepted: 2
  bob:
humans:
  ann@acme.example: {PUBLIC_KEY}
suspended:
  - agent bob
  - pair bob,alice
  - org_unit sales
  - tenant
"""


def test_a_full_file_says_who_is_who() -> None:
    directory = read_governance(FULL, NAME)

    assert directory.tenant == "acme"
    assert directory.agents["alice"] == Attributes(
        user_id="ann@acme.example",
        org_unit="engineering",
        team="core",
        max_classification=Classification.CONFIDENTIAL,
        can_receive_queries=False,
        can_auto_respond=True,
        supported_exchange_types=(Purpose.INFORMATION_QUERY,),
        max_rounds_accepted=2,
    )
    assert directory.agents["bob"] == Attributes()
    assert directory.humans == {"ann@acme.example": PUBLIC_KEY}
    assert directory.stopped is not None
    assert [one.key for one in directory.stopped.stopped] == [
        (Stopped.AGENT, "bob"),
        (Stopped.PAIR, "alice,bob"),
        (Stopped.ORG_UNIT, "sales"),
        (Stopped.TENANT, ""),
    ]


@pytest.mark.parametrize("agents", [(), ("alice",), ("alice", "bob.b")])
def test_a_new_file_is_one_that_can_be_read(agents: tuple[str, ...]) -> None:
    directory = read_governance(new_governance("acme", agents), NAME)

    assert (directory.tenant, tuple(directory.agents), directory.humans) == ("acme", agents, {})


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("tenant: acme", "tenant: a b", "governance.yaml:1: tenant"),
        ("tenant: acme\n", "", "governance.yaml:1: tenant"),
        ("team: core", "taem: core", "governance.yaml:6: agents.alice.taem"),
        ("max_classification: confidential", "max_classification: secret", ":7: agents.alice.max_classification"),
        ("can_receive_queries: false", 'can_receive_queries: "false"', ":8: agents.alice.can_receive_queries"),
        ("can_auto_respond: true", "can_auto_respond: yes", ":9: agents.alice.can_auto_respond"),
        ("[information_query]", "information_query", ":10: agents.alice.supported_exchange_types"),
        ("[information_query]", "[chat]", ":10: agents.alice.supported_exchange_types[0]"),
        ("max_rounds_accepted: 2", "max_rounds_accepted: 0", ":11: agents.alice.max_rounds_accepted"),
        ("user_id: ann@acme.example", "user_id: two words", ":4: agents.alice.user_id"),
        ("  bob:\n", "  bob: sales\n", ":12: agents.bob"),
        ("  bob:\n", "  ../bob:\n", ":12: agents.../bob"),
        (PUBLIC_KEY, "pk_the_key_itself", ":14: humans.ann@acme.example"),
        (PUBLIC_KEY, PUBLIC_KEY[:-2], ":14: humans.ann@acme.example"),
        (PUBLIC_KEY, PUBLIC_KEY.removeprefix("ed25519:"), ":14: humans.ann@acme.example"),
        ("- agent bob", "- bob", ":16: suspended[0]"),
        ("- pair bob,alice", "- pair bob", ":17: suspended[1]"),
        ("- tenant", "- tenant acme", ":19: suspended[3]"),
        ("humans:", "people:", ":13: people"),
        ("  bob:\n", "  alice:\n", ":12: "),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, where: str) -> None:
    assert old in FULL

    with pytest.raises(PolicyInvalid) as refused:
        read_governance(FULL.replace(old, new, 1), NAME)

    assert where in refused.value.message


def test_everything_wrong_is_named_at_once() -> None:
    text = FULL.replace("tenant: acme", "tenant: a b").replace("team: core", "taem: core")

    with pytest.raises(PolicyInvalid) as refused:
        read_governance(text, NAME)

    assert len(refused.value.problems) == 2


@pytest.mark.parametrize("text", ["", "just words", "a: [", "tenant: &a acme", "tenant: acme\ntenant: b\n"])
def test_what_is_no_such_file_is_refused(text: str) -> None:
    with pytest.raises(PolicyInvalid):
        read_governance(text, NAME)


@pytest.mark.parametrize(
    "text",
    [
        FULL,
        new_governance("acme", ["alice"]),
        "tenant: acme",
        "tenant: acme\nhumans:\n",
        f"tenant: acme\nhumans:\n  'ann@acme.example': ed25519:{'0' * 64} # old\n",
    ],
)
@pytest.mark.parametrize("user", ["ann@acme.example", "zoe"])
def test_a_person_is_added_and_the_rest_stays_word_by_word(text: str, user: str) -> None:
    before = read_governance(text, NAME)

    after = with_human(text, NAME, user, OTHER_KEY)

    assert read_governance(after, NAME) == before._replace(humans={**before.humans, user: OTHER_KEY})
    kept = [line for line in text.splitlines() if line.strip() and user not in line and not line.startswith("humans:")]
    assert [line for line in kept if line not in after.splitlines()] == []


def test_a_file_that_cannot_be_changed_line_by_line_is_left_alone() -> None:
    text = f"tenant: acme\nhumans: {{ann: {PUBLIC_KEY}}}\n"

    with pytest.raises(PolicyInvalid):
        with_human(text, NAME, "zoe", OTHER_KEY)


@pytest.mark.parametrize("user", ["", "two words", "unassigned"])
def test_a_person_needs_a_name(user: str) -> None:
    with pytest.raises(PolicyInvalid):
        with_human(FULL, NAME, user, OTHER_KEY)
