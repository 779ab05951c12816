"""The label of everything that an agent wrote."""

from __future__ import annotations

import json

from parley.domain.content.commitment import Match, keywords_in
from parley.domain.content.detectors import findings
from parley.domain.content.disclosure import DISCLOSURE
from parley.domain.content.envelope import Origin, disclosure_of
from parley.domain.rules.policy import Policy


def test_the_label_is_in_our_own_words_and_the_policys_unless_it_has_others() -> None:
    assert DISCLOSURE == Policy().disclosure == "Sent by an AI agent"
    assert disclosure_of(Origin.AGENT, DISCLOSURE) == disclosure_of(Origin.ASSISTED, DISCLOSURE) == DISCLOSURE
    assert disclosure_of(Origin.HUMAN, DISCLOSURE) == ""


def test_the_label_is_no_finding_of_any_kind_and_needs_no_escape() -> None:
    assert keywords_in([DISCLOSURE], match=Match.SUBSTRING) == ()
    assert findings([DISCLOSURE]) == ()
    assert json.dumps(DISCLOSURE) == f'"{DISCLOSURE}"'
