"""Who is who in a project: parties, people and the wall between tenants."""

from __future__ import annotations

import pytest

from parley.domain.agents.party import UNKNOWN_ATTRIBUTES, Attributes
from parley.domain.content.classification import Classification
from parley.domain.errors.rules import CrossEnterpriseBlocked, HumanRequired
from parley.domain.rules.policy import Document, Fragment
from parley.domain.rules.project import Directory, Governance, local, person, rulebook

BUILT_IN = Document("built in", Fragment(enabled=True, max_rounds=3))
ANN = Attributes(user_id="ann", org_unit="engineering", max_classification=Classification.RESTRICTED)
DIRECTORY = Directory("acme", {"claude": ANN}, {"ann": "ed25519:aa"})


def test_an_agent_that_nobody_described_has_what_everybody_has() -> None:
    governance = Governance(DIRECTORY, rulebook("acme", BUILT_IN, ()))

    assert governance.party("claude").attributes == ANN
    assert governance.party("codex").attributes == UNKNOWN_ATTRIBUTES
    assert governance.tenant == "acme"


def test_policy_files_stand_beside_the_built_in_one_or_in_its_place() -> None:
    beside = rulebook("acme", BUILT_IN, [("org/engineering", Document("org", Fragment(max_rounds=2)))])
    instead = rulebook("acme", BUILT_IN, [("enterprise/default", Document("mine", Fragment(max_rounds=1)))])

    assert [book.of(ANN).max_rounds for book in (beside, instead)] == [2, 1]  # type: ignore[union-attr]


def test_the_order_of_the_files_is_no_matter() -> None:
    files = [(f"user/u{number}", Document(str(number), Fragment(max_rounds=number))) for number in range(1, 5)]

    assert rulebook("a", BUILT_IN, files).label == rulebook("a", BUILT_IN, reversed(files)).label


def test_a_person_is_known_by_its_key_alone() -> None:
    assert person(DIRECTORY, "ed25519:aa") == "ann"
    for key in ("", "ed25519:bb", "ann"):
        with pytest.raises(HumanRequired):
            person(DIRECTORY, key)


@pytest.mark.parametrize(
    ("name", "there"), [("bob", "bob"), ("bob@acme", "bob"), ("@acme", "@acme"), ("b@b@b", "b@b@b")]
)
def test_an_agent_here_is_called_by_its_name(name: str, there: str) -> None:
    assert local(name, "acme") == there


def test_another_tenants_agent_is_behind_the_wall() -> None:
    with pytest.raises(CrossEnterpriseBlocked):
        local("bob@globex", "acme")
