"""`parley.Mailbox` under rules: asked for in Python, held, decided, and seen from both sides."""

from __future__ import annotations

import pytest

import parley
from tests.surface.stage import Stage

ASKS = {"exchange_type": "information_query"}


@pytest.fixture
def key(stage: Stage) -> str:
    """The key of the person whom everybody acts for."""
    stage.run("governance", "init")
    path = stage.project / ".parley" / "governance.yaml"
    path.write_text(path.read_text().replace("unassigned", "ann"))
    return str(stage.run("governance", "add-human", "ann", "--json").json["key"])


def test_a_message_under_rules_says_so_and_an_answer_goes_on_with_it(stage: Stage) -> None:
    with stage.mailbox("claude") as claude, stage.mailbox("codex") as codex:
        claude.send(
            "codex", "question", "Status?", "How far?", rules={**ASKS, "classification": "public", "max_rounds": 2}
        )
        asked = codex.next()
        assert asked is not None
        answer = codex.reply(asked, "All of it.")

        (mine,), (theirs,) = claude.exchanges(), codex.exchanges()
        assert (mine.id, mine.max_rounds, mine.current_round) == (theirs.id, 2, 1)
        assert theirs.current_round == 2
        assert "ocip" in asked.extras
        assert answer.conversation_id == asked.conversation_id


def test_a_commitment_is_held_until_a_person_decides(stage: Stage, key: str) -> None:
    with stage.mailbox("claude") as claude, stage.mailbox("codex") as codex:
        with pytest.raises(parley.MessageHeld) as held:
            claude.send("codex", "question", "Friday", "I promise it.", rules=ASKS)
        (approval,) = claude.approvals()
        assert held.value.facts["approval"] == approval.id
        assert codex.next() is None

        claude.decide(approval, "approve", key=key, note="fine")

        got = codex.next()
        assert got is not None
        assert got.body == "I promise it."
        assert claude.approvals() == []
        assert [one.status for one in claude.approvals("")] == ["approved"]


def test_a_person_answers_in_its_agents_place(stage: Stage, key: str) -> None:
    with stage.mailbox("claude") as claude, stage.mailbox("codex") as codex:
        with pytest.raises(parley.MessageHeld):
            claude.send("codex", "question", "Friday", "I promise it.", rules=ASKS)
        (approval,) = claude.approvals()

        claude.decide(approval, "answer", key=key, answer="No.")

        got = codex.next()
        assert got is not None
        assert got.body == "No."


def test_what_the_rules_refuse_is_an_exception_with_a_code(stage: Stage) -> None:
    with stage.mailbox("claude") as claude:
        with pytest.raises(parley.Denied) as denied:
            claude.send("codex", "question", "Secret", "x", rules={"classification": "restricted"})
        with pytest.raises(parley.Denied) as blocked:
            claude.send("codex@globex", "question", "Hello", "x")

    assert (denied.value.code, blocked.value.code) == ("classification_exceeded", "cross_enterprise_blocked")
    assert stage.files("codex") == []


@pytest.mark.parametrize(
    "rules", [{"exchange_type": "chat"}, {"max_rounds": True}, {"max_rounds": 0}, {"data": "crm"}, {"urgent": True}]
)
def test_rules_that_are_none_are_refused(stage: Stage, rules: dict[str, object]) -> None:
    with stage.mailbox("claude") as claude, pytest.raises(parley.Invalid):
        claude.send("codex", "question", "Status?", "How far?", rules=rules)

    assert stage.files("codex") == []
