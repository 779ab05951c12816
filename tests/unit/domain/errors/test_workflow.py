from __future__ import annotations

import re

from parley.domain.errors import errors
from parley.domain.errors import rules as governance_errors
from parley.domain.errors import team as team_errors
from parley.domain.errors import workflow as workflow_errors
from parley.domain.errors.errors import ParleyError


def of(module: object) -> dict[str, type[ParleyError]]:
    found = vars(module).items()
    return {
        name: one
        for name, one in found
        if isinstance(one, type) and issubclass(one, ParleyError) and one.__module__ == getattr(module, "__name__", "")
    }


def test_every_error_has_a_code_of_its_own() -> None:
    modules = (errors, team_errors, governance_errors, workflow_errors)
    codes = [one.code for module in modules for one in of(module).values()]

    assert len(codes) == len(set(codes))


def test_every_error_says_something_by_itself() -> None:
    for one in of(workflow_errors).values():
        assert str(one()) == (one.__doc__ or "").strip().rstrip(".") != ""


def test_the_tree_is_drawn_as_it_is() -> None:
    drawn = re.findall(r"^[│├└─ ]*([A-Z]\w+) +([a-z_]+)", workflow_errors.__doc__ or "", re.MULTILINE)

    missing = {name: one.code for name, one in of(workflow_errors).items()}.items() - dict(drawn).items()
    assert dict(missing) == {}
