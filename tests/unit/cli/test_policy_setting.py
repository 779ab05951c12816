"""A setting of a policy is changed in its text, and nothing else is."""

from __future__ import annotations

import pytest

from parley.cli.rules.setting import with_setting
from parley.domain.errors.errors import Invalid
from parley.wire.files.policy import read_policy

TEXT = """\
# the rules
agent-to-agent:
    # who
    cross_org: false  # not yet
    commitment_words:
    - commit
    - promise

    # rounds
    max_rounds: 3
"""


@pytest.mark.parametrize(
    ("key", "value", "old", "new"),
    [
        ("cross_org", "true", "cross_org: false  # not yet", "cross_org: true  # not yet"),
        (
            "commitment_words",
            "[sign]",
            "commitment_words:\n    - commit\n    - promise\n",
            "commitment_words: [sign]\n",
        ),
        ("max_rounds", "5", "max_rounds: 3", "max_rounds: 5"),
        ("hop_limit", "2", "max_rounds: 3\n", "max_rounds: 3\n    hop_limit: 2\n"),
    ],
)
def test_a_setting_is_replaced_or_added_and_the_rest_stays(key: str, value: str, old: str, new: str) -> None:
    changed = with_setting(TEXT, key, value)

    assert changed == TEXT.replace(old, new)
    assert changed != TEXT
    assert getattr(read_policy(changed, "x.yaml"), key) is not None


def test_a_new_policy_begins_with_its_first_setting() -> None:
    assert with_setting("", "max_rounds", "2") == "agent-to-agent:\n  max_rounds: 2\n"


@pytest.mark.parametrize("value", ["[a", "a: b: c", "'"])
def test_a_value_that_is_no_yaml_is_refused(value: str) -> None:
    with pytest.raises(Invalid, match="the value is not YAML"):
        with_setting(TEXT, "max_rounds", value)
