"""Two departments, a policy, an approval, and the auditor's question, typed by three people without copying an id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.terminal import Person, wrapped_lines
from tests.e2e.test_a_planner_a_researcher_and_a_writer import free_port

# Two departments, a policy that lets them talk, and the message.
COMMANDS_UNTIL_THE_FIRST_MESSAGE = 5
# From the held message to the delivered one.
COMMANDS_TO_APPROVE = 1
# "Who told whom what, and why was it allowed?"
COMMANDS_OF_THE_AUDITOR = 1


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with (person := Person(tmp_path, PARLEY_PORT=str(free_port()))).typing("parley up", until="Parley is up"):
        yield person


def departments(person: Person) -> None:
    person.type("parley agent register ann-bot --user ann --org-unit sales")
    person.type("parley agent register bob-bot --user bob --org-unit engineering")


def test_the_first_message_between_departments(person: Person) -> None:
    departments(person)
    person.type("parley policy set enterprise/default cross_org=true", answer="y")
    sent = person.type("parley post bob-bot 'How is ENG-1234?' --agent ann-bot")

    assert len(person.typed) == COMMANDS_UNTIL_THE_FIRST_MESSAGE
    assert wrapped_lines(sent) == []


def test_a_refusal_names_the_rule_and_the_command_that_explains_it(person: Person) -> None:
    departments(person)
    refused = person.type("parley post bob-bot 'How is ENG-1234?' --agent ann-bot", code=6)
    explained = person.type("parley policy explain --from ann-bot --to bob-bot")

    said = " ".join(refused.split())
    assert "the policy allows nothing from sales to engineering" in said
    assert "cross_org: false in enterprise/default; see: parley policy explain --from ann-bot --to bob-bot" in said
    assert "enterprise/default" in explained


def test_an_approval_and_the_auditors_question(person: Person) -> None:
    # Given two departments that may talk, and Ann with a key of her own
    departments(person)
    person.type("parley policy set enterprise/default cross_org=true", answer="y")
    person.type("parley key create --user ann --save")
    person.type("parley post bob-bot 'How is ENG-1234?' --agent ann-bot")

    # When her agent promises something, and she approves what she sees
    person.type("parley post bob-bot 'We promise ten seats.' --agent ann-bot", code=9)
    before = len(person.typed)
    approved = person.type("parley approvals approve --context ann --note 'as planned'", answer="y")
    assert len(person.typed) - before == COMMANDS_TO_APPROVE

    # Then one command says who told whom what, and why it was allowed
    before = len(person.typed)
    report = person.type("parley audit report 1h..")  # a day may have just begun
    assert len(person.typed) - before == COMMANDS_OF_THE_AUDITOR
    assert "We promise ten seats." in approved
    said = [" ".join(line.split()) for line in report.splitlines()]
    for text in ("How is ENG-1234?", "We promise ten seats."):
        where = said.index(f'"{text}"')
        assert said[where - 1].endswith("ann-bot (ann, sales) -> bob-bot (engineering) delivered"), report
        assert said[where + 1] == "allowed by cross_org: true in enterprise/default", report
    assert "approved by ann (as planned), held for commitment" in said
    assert said[-1] == "2 messages: 2 delivered"
    assert wrapped_lines(report) == []
