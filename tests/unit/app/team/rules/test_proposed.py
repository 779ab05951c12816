from __future__ import annotations

from parley.app.team.rules.proposed import Governed


def test_what_the_rules_say_nothing_about_adds_nothing_to_a_commit() -> None:
    assert Governed(None)[1:] == ((), (), (), None, None)
