"""The attributes of an agent are read from a file; a key that is left out has its default."""

from __future__ import annotations

import pytest

from parley.domain.agents.party import Attributes
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Purpose
from parley.domain.limits import DEFAULT_LIMITS
from parley.wire.files.attributes import AttributesReading


def read(text: str) -> tuple[Attributes, list[str]]:
    reading = AttributesReading(f"a: {text}\n", "x.yaml", DEFAULT_LIMITS)
    attributes = reading.attributes(("a",), reading.document["a"])
    return attributes, [str(flaw) for flaw in reading.flaws]


def test_an_agent_without_keys_has_the_defaults() -> None:
    assert read("") == read("{}") == (Attributes(), [])


def test_every_key_is_read() -> None:
    attributes, flaws = read(
        "{user_id: ann@acme.example, org_unit: sales, team: north, max_classification: public, can_auto_respond: false,"
        " can_receive_queries: false, supported_exchange_types: [meeting_scheduling], max_rounds_accepted: 2}"
    )

    assert flaws == []
    assert attributes == Attributes(
        user_id="ann@acme.example",
        org_unit="sales",
        team="north",
        max_classification=Classification.PUBLIC,
        can_auto_respond=False,
        can_receive_queries=False,
        supported_exchange_types=(Purpose.MEETING_SCHEDULING,),
        max_rounds_accepted=2,
    )


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("sales", 'a: must hold keys and their values, not "sales"'),
        ("{orgunit: x}", "a.orgunit: is not known (did you mean org_unit?)"),
        ("{org_unit: a b}", 'a.org_unit: must be a name, not "a b"'),
        ("{user_id: a b}", 'a.user_id: must be a person\'s name or address, not "a b"'),
        ("{can_auto_respond: 'true'}", "a.can_auto_respond: must be true or false without quotes"),
        ("{max_rounds_accepted: 0}", 'a.max_rounds_accepted: must be a whole number from 1 to 999999999, not "0"'),
        ("{supported_exchange_types: [chat]}", "a.supported_exchange_types[0]: must be information_query or "),
        ("{team: }", "a.team: has no value"),
    ],
)
def test_a_flaw_is_named_with_its_key(text: str, flaw: str) -> None:
    _, flaws = read(text)

    assert len(flaws) == 1
    assert flaws[0].startswith(f"x.yaml:1: {flaw}")
