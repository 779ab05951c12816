"""Every error has one exit code, and a class before its base has its own."""

from __future__ import annotations

import pytest

from parley.domain.errors import errors, rules, team
from parley.domain.errors.errors import ParleyError
from parley.domain.errors.exits import INTERNAL, exit_code, exit_codes


def test_no_line_of_the_table_is_hidden_by_an_earlier_one() -> None:
    kinds = [kind for kind, _, _ in exit_codes()]

    assert [later for place, later in enumerate(kinds) if issubclass(later, tuple(kinds[:place]))] == []


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.BadConfig, 78),
        (errors.BadName, 2),
        (errors.UnknownProject, 3),
        (errors.Stale, 4),
        (team.WrongSender, 6),
        (team.Unauthorized, 6),
        (errors.DiskFull, 7),
        (rules.MessageHeld, 9),
        (ParleyError, INTERNAL),
    ],
)
def test_an_error_has_the_code_of_its_nearest_class(kind: type[ParleyError], code: int) -> None:
    assert exit_code(kind("x")) == code
