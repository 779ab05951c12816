"""Repeated facts: an entry made of a template is the very entry that its facts would make."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.audit.entry import AuditDraft, EntryTemplate, SideHead, entry_at
from parley.domain.audit.repeated import FactsTemplate, RepeatedFacts
from parley.wire.rows import encode_audit_entry
from tests.samples.messages import PROPERTY

VARYING = ("exchange_id", "conversation_id", "round")
FIXED: dict[str, Any] = {
    "annotated": True,
    "classification": "internal",
    "keywords": [],
    "evaluations": [{"action": "agent_exchange_cross_org", "sourceOrgUnit": "a", "targetOrgUnit": "b"}],
    "max_rounds": 3,
    "sender": '100% \u00e9 "quoted" \\ \n',
    "zz": "last",
}
# Whatever has to be escaped in JSON, and what a template could take for its own.
TEXTS = st.text(max_size=8) | st.sampled_from(
    ["", "conv_1", '"', "\\", "%s", "%", "{0}", "\x7f", "\n", "\u2028", "\ud7ff"]
)


def facts_of(template: FactsTemplate | None, exchange_id: str, conversation: str, number: int) -> Any:  # noqa: ANN401
    values: dict[str, str | int] = {"exchange_id": exchange_id, "conversation_id": conversation, "round": number}
    return {**FIXED, **values} if template is None else RepeatedFacts(template, values)


@PROPERTY
@given(st.lists(st.tuples(TEXTS, TEXTS, st.integers(0, 9)), min_size=1, max_size=4), TEXTS)
def test_an_entry_of_a_template_is_the_entry_of_its_facts(messages: list[tuple[str, str, int]], side: str) -> None:
    template = FactsTemplate(facts_of(None, "exch_0", "conv_0", 1), VARYING)

    for message in messages:
        plain, repeated = [
            entry_at(
                7,
                AuditDraft(
                    "aud_1", side, "2026-03-13T14:30:00.000000+00:00", "agent_exchange", side, facts, message[0]
                ),
                "default",
                SideHead(4, "ab" * 32),
                encode_audit_entry,
            )
            for facts in (facts_of(None, *message), facts_of(template, *message))
        ]
        assert repeated == plain


def test_repeated_facts_read_like_any_others() -> None:
    template = FactsTemplate(facts_of(None, "exch_0", "conv_0", 1), VARYING)

    facts = facts_of(template, "exch_1", "conv_1", 2)

    assert dict(facts) == facts_of(None, "exch_1", "conv_1", 2)
    assert len(facts) == len(FIXED) + len(VARYING)
    assert (facts["round"], facts["max_rounds"], "nothing" in facts) == (2, 3, False)


@PROPERTY
@given(st.tuples(*[st.text("0123456789ABCDEFabcdef_:.+-", max_size=8)] * 4), st.sampled_from(["bob", "a-b", "*"]))
def test_an_entry_that_is_filled_in_is_the_entry_of_its_facts(values: tuple[str, str, str, str], side: str) -> None:
    entry_id, at, exchange_id, conversation = values
    varying = ("exchange_id", "conversation_id")
    first = {**facts_of(None, "exch_0", "conv_0", 1)}
    template = EntryTemplate("default", side, "agent_exchange", "alice", first, varying)
    assert template.is_written_as_it_is
    own = {"exchange_id": exchange_id, "conversation_id": conversation}
    plain = AuditDraft(entry_id, side, at, "agent_exchange", "alice", {**first, **own}, exchange_id)

    # The first of them is encoded, and leaves the texts of the others.
    for seq in (4, 5, 6):
        head = SideHead(seq, "ab" * 32)
        draft = template.draft(entry_id, at, {**own, "message_id": "msg_1"}, exchange_id)
        assert (draft.texts is None) == (seq == 4)
        assert dict(draft.facts) == plain.facts
        for _ in range(2):  # a commit that failed is tried again
            assert entry_at(7, draft, "default", head, encode_audit_entry) == entry_at(
                7, plain, "default", head, encode_audit_entry
            )


@pytest.mark.parametrize("actor", ['ann "the boss"', "ann\\bob", "\u00e4nn", "a\nb"])
def test_an_actor_that_has_to_be_escaped_is_not_filled_in(actor: str) -> None:
    template = EntryTemplate("default", "bob", "agent_exchange", actor, {}, ())

    assert not template.is_written_as_it_is
