from __future__ import annotations

import re

from parley.domain.errors import errors
from parley.domain.errors import team as team_errors
from parley.domain.errors.errors import ParleyError


def of(module: object) -> dict[str, type[ParleyError]]:
    found = vars(module).items()
    return {
        name: one
        for name, one in found
        if isinstance(one, type) and issubclass(one, ParleyError) and one.__module__ == getattr(module, "__name__", "")
    }


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [one.code for module in (errors, team_errors) for one in of(module).values()]

    assert len(codes) == len(set(codes))
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)


def test_every_error_says_something_by_itself() -> None:
    for one in of(team_errors).values():
        assert str(one()) == (one.__doc__ or "").strip().rstrip(".") != ""


def test_no_default_message_of_a_conflict_spells_the_word_that_the_sdk_misreads() -> None:
    misread = [one.__name__ for one in of(team_errors).values() if "lease" in f"{one.__doc__} {one.code}".lower()]

    assert misread == []


def test_the_tree_is_drawn_as_it_is() -> None:
    drawn = re.findall(r"^[│├└─ ]*([A-Z]\w+) +([a-z_]+)", team_errors.__doc__ or "", re.MULTILINE)

    missing = {name: one.code for name, one in of(team_errors).items()}.items() - dict(drawn).items()
    assert dict(missing) == {}
