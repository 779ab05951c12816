from __future__ import annotations

import inspect

import pytest

from parley.domain.errors import errors
from parley.domain.errors import rules as governance_errors
from parley.domain.errors import team as team_errors
from parley.domain.errors.errors import Conflict, Forbidden, Invalid, ParleyError, Unavailable
from parley.domain.errors.rules import ExchangeClosed, ExchangeExpired, LogChanged, MessageHeld
from parley.domain.errors.team import RateLimited

IMPORTED = [*vars(errors).values(), *vars(team_errors).values()]
ALL = [
    one
    for one in vars(governance_errors).values()
    if inspect.isclass(one) and issubclass(one, ParleyError) and one not in IMPORTED
]


def test_every_refusal_has_a_code_of_its_own() -> None:
    codes = [one.code for one in ALL]

    assert len(set(codes)) == len(codes)
    assert {"cross_enterprise_blocked", "policy_denied", "classification_exceeded", "message_type_forbidden"} <= {
        *codes
    }
    assert {"exchange_closed", "no_reply_needed", "round_mismatch", "approval_stale", "envelope_invalid"} <= {*codes}


@pytest.mark.parametrize("kind", ALL)
def test_every_refusal_is_of_a_class_that_a_caller_knows_and_is_drawn_in_the_tree(kind: type[ParleyError]) -> None:
    # What is held is neither refused nor wrong, and a changed log is no request.
    assert issubclass(kind, (MessageHeld, LogChanged, Invalid, Forbidden, Conflict, RateLimited, Unavailable))
    drawn = inspect.getdoc(governance_errors) or ""
    assert kind.__name__ in drawn
    assert kind is governance_errors.Denied or kind.code in drawn


def test_what_expired_is_closed() -> None:
    assert issubclass(ExchangeExpired, ExchangeClosed)
